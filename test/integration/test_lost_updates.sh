#!/bin/bash
# Four ranks on three nodes change, replace, remove and read three files at random: no update is lost unless its writer, or
# who came later, is told; and nobody is told for nothing (progs/updates.py).
# DYAD_TEST_LEVEL=long: 5 seeds; soak: 50.
. "$(dirname "$0")/../cluster/lib.sh"
[ -n "$PYTHON" ] || skip "needs python3"
cluster_up 3
case $LEVEL in soak) runs=50 ;; long) runs=5 ;; *) runs=1 ;; esac
JOB_ENV+=("W=$WORK" "SSD=$SSD")
UPDATES=$TEST_DIR/integration/progs/updates.py
begin=${UPDATES_SEED:-$RANDOM}
for ((seed = begin; seed < begin + runs; seed++)); do
    rm -f "$WORK"/updates.*
    : >"$LOG"
    words=()
    for rank in 0 1 2 3; do
        words+=(-- "1@n$((rank % 3))" "$PYTHON" "$UPDATES" work $rank 4 "$seed" 1000)
    done
    job_ok 100 "${words[@]:1}"
    say "seed $seed: $(W=$WORK "$PYTHON" "$UPDATES" check 4 >"$WORK/verdict" && tail -n 1 "$WORK/verdict")"
    [[ $(tail -n 1 "$WORK/verdict") = *" 0 wrong" ]] || fail "UPDATES_SEED=$seed: $(cat "$WORK/verdict")"
    clean_ssd
done
