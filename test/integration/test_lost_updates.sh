#!/bin/bash
# Four ranks on three nodes change, replace, remove and read three files at random: no update is lost unless its writer, or
# who came later, is told; and nobody is told for nothing (progs/updates.py). Likewise where a tenth of the changes is made by
# processes that are killed, most of them in the midst, and where nodes are cut off for up to two seconds: what others have
# closed is not lost.
# DYAD_TEST_LEVEL=long: 5 seeds, one with cuts and one with kills; soak: 100, 20 with cuts and 50 with kills.
. "$(dirname "$0")/../cluster/lib.sh"
[ -n "$PYTHON" ] || skip "needs python3"
cluster_up 3
case $LEVEL in soak) runs=100 cuts=20 kills=50 ;; long) runs=5 cuts=1 kills=1 ;; *) runs=1 cuts=0 kills=0 ;; esac
JOB_ENV+=("W=$WORK" "SSD=$SSD")
PLAIN=("${JOB_ENV[@]}")
UPDATES=$TEST_DIR/integration/progs/updates.py
begin=${UPDATES_SEED:-$RANDOM}
# A node is cut off, and is back, until the first rank has done all.
cut_and_heal() {
    local node n=0
    until [ -s "$LOG" ]; do sleep 0.05; done
    while kill -0 "$JOB_PID" 2>/dev/null && ! compgen -G "$WORK/ok.*" >/dev/null; do
        node=n$((RANDOM % 3))
        sleep 0.$((RANDOM % 90 + 10))
        "$CLUSTER_SH" cut $node
        sleep $((RANDOM % 2)).$((RANDOM % 90 + 10))
        "$CLUSTER_SH" heal $node
        n=$((n + 1))
    done
    say "$n cuts"
    [ $n -gt 0 ] || fail "the job was too fast to cut anything off"
}

for ((seed = begin; seed < begin + runs; seed++)); do
    rm -f "$WORK"/updates.* "$WORK"/ok.*
    how=(1000) with= JOB_ENV=("${PLAIN[@]}")
    if [ $((seed - begin)) -ge $((runs - kills)) ]; then
        how=(500 0.1) JOB_ENV+=(DYAD_TIMEOUT=1)
    elif [ $((seed - begin)) -ge $((runs - kills - cuts)) ]; then
        how=(250) with=cuts JOB_ENV+=(DYAD_TIMEOUT=5 DYAD_PEER_TIMEOUT=1 DYAD_JOIN_TIMEOUT=5)
    fi
    : >"$LOG"
    words=()
    for rank in 0 1 2 3; do
        words+=(-- "1@n$((rank % 3))" "$PYTHON" "$UPDATES" work $rank 4 "$seed" "${how[@]}")
    done
    job_begin 150 "${words[@]:1}"
    [ -z "$with" ] || cut_and_heal
    job_end_ok 150
    # shellcheck disable=SC2086
    say "seed $seed: $(W=$WORK "$PYTHON" "$UPDATES" check 4 $with >"$WORK/verdict" && tail -n 1 "$WORK/verdict")"
    [[ $(tail -n 1 "$WORK/verdict") = *" 0 wrong" ]] || fail "UPDATES_SEED=$seed: $(cat "$WORK/verdict")"
    clean_ssd
done
