#!/bin/bash
# As lost_updates, where half of the ranks are killed in whatever they are doing, homes, owners and takers of pieces among them,
# whole nodes too; and where disks are full for a time. Who lives reads what has been closed, or an error.
# Two jobs with deaths, one with full disks; DYAD_TEST_LEVEL=soak: 50 and 50.
. "$(dirname "$0")/../cluster/lib.sh"
. "$TEST_DIR/cluster/killed.sh"
[ -n "$PYTHON" ] || skip "needs python3"
cluster_up 3 16m
disk=$SSD
SSD=$disk/dmd
case $LEVEL in soak) deaths=50 full=50 count=1000 ;; *) deaths=2 full=1 count=500 ;; esac
JOB_ENV+=("W=$WORK" "SSD=$SSD" DYAD_TIMEOUT=5 DYAD_PEER_TIMEOUT=1 DYAD_JOIN_TIMEOUT=2)
UPDATES=$TEST_DIR/integration/progs/updates.py
begin=${UPDATES_SEED:-$RANDOM}

# updates RANKS SECONDS SEED: the words of a job, in `words`. Ranks of `dies` are killed SECONDS after their begin, one after the other.
updates() {
    local rank after=0 dying
    words=()
    for ((rank = 0; rank < $1; rank++)); do
        dying=0
        if [[ " $dies " == *" $rank "* ]]; then
            after=$((after + 1))
            dying=$((after * $2 / 2)).$((RANDOM % 90 + 10))
        fi
        # Who is to die does not end before.
        words+=(-- "1@n$((rank % 3))" "$PYTHON" "$UPDATES" work $rank "$1" "$3" $([ "$dying" = 0 ] && echo $count || echo 1000000) 0 $dying)
    done
    words=("${words[@]:1}")
}

judge() { # RANKS WHAT SEED
    W=$WORK "$PYTHON" "$UPDATES" check "$1" "$2" >"$WORK/verdict" || true
    say "seed $3, $2${dies:+ ($dies)}: $(tail -n 1 "$WORK/verdict")"
    [[ $(tail -n 1 "$WORK/verdict") = *" 0 wrong" ]] || fail "UPDATES_SEED=$3: $(cat "$WORK/verdict")"
}

begin_anew() {
    local node
    rm -f "$WORK"/updates.* "$WORK"/ok.*
    for node in "${NODES[@]}"; do
        node_exec "$node" mkdir -p "$SSD"
    done
    clean_ssd
    : >"$LOG"
}

for ((seed = begin; seed < begin + deaths; seed++)); do
    begin_anew
    dies=$(shuf -i 0-5 -n 3 | tr '\n' ' ')
    alive=()
    for rank in 0 1 2 3 4 5; do
        [[ " $dies " == *" $rank "* ]] || alive+=("$rank")
    done
    updates 6 3 "$seed"
    MPIRUN_ARGS=(--enable-recovery)
    job_begin 150 "${words[@]}"
    job_ended 140 "${alive[@]}"
    # Where no rank was left alive it is the next member to come that removes what a killed one was fetching.
    MPIRUN_ARGS=()
    job_ok 30 3@n0,n1,n2 ls "$SSD" >/dev/null
    judge 6 deaths=3 "$seed"
done

# A disk is full, and is not, until the first rank has done all.
fill() {
    local node n=0
    until [ "$(grep -c 'joined as' "$LOG")" -eq 4 ]; do
        kill -0 "$JOB_PID" 2>/dev/null || fail "the job ended early"
        sleep 0.05
    done
    while kill -0 "$JOB_PID" 2>/dev/null && ! compgen -G "$WORK/ok.*" >/dev/null; do
        node=n$((RANDOM % 3))
        node_exec $node sh -c "cat /dev/zero >$disk/fill 2>/dev/null; sleep 0.$((RANDOM % 90 + 10)); rm $disk/fill"
        sleep 0.$((RANDOM % 90 + 10))
        n=$((n + 1))
    done
    say "$n times full"
    [ $n -gt 0 ] || fail "the job was too fast to fill anything"
}

for ((seed = begin; seed < begin + full; seed++)); do
    begin_anew
    dies=
    updates 4 0 "$seed"
    job_begin 100 "${words[@]}"
    fill
    job_end_ok 100
    judge 4 full "$seed"
done
