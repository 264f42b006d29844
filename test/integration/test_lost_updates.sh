#!/bin/bash
# Four ranks on three nodes change, replace, remove and read three files at random: no update is lost unless its writer, or
# who came later, is told; and nobody is told for nothing (progs/updates.py). Likewise where a tenth of the changes is made by
# processes that are killed, most of them in the midst: what others have closed is not lost.
# DYAD_TEST_LEVEL=long: 5 seeds, the last with kills; soak: 100, half of them with kills.
. "$(dirname "$0")/../cluster/lib.sh"
[ -n "$PYTHON" ] || skip "needs python3"
cluster_up 3
case $LEVEL in soak) runs=100 kills=50 ;; long) runs=5 kills=1 ;; *) runs=1 kills=0 ;; esac
JOB_ENV+=("W=$WORK" "SSD=$SSD")
UPDATES=$TEST_DIR/integration/progs/updates.py
begin=${UPDATES_SEED:-$RANDOM}
for ((seed = begin; seed < begin + runs; seed++)); do
    rm -f "$WORK"/updates.*
    how=(1000)
    [ $((seed - begin)) -lt $((runs - kills)) ] || { how=(500 0.1) JOB_ENV+=(DYAD_TIMEOUT=1); }
    : >"$LOG"
    words=()
    for rank in 0 1 2 3; do
        words+=(-- "1@n$((rank % 3))" "$PYTHON" "$UPDATES" work $rank 4 "$seed" "${how[@]}")
    done
    job_ok 100 "${words[@]:1}"
    say "seed $seed: $(W=$WORK "$PYTHON" "$UPDATES" check 4 >"$WORK/verdict" && tail -n 1 "$WORK/verdict")"
    [[ $(tail -n 1 "$WORK/verdict") = *" 0 wrong" ]] || fail "UPDATES_SEED=$seed: $(cat "$WORK/verdict")"
    clean_ssd
done
