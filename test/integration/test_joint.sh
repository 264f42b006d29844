#!/bin/bash
# Ranks on two and three nodes write one file, and read what the others have written while all have it open
# (progs/joint.py): after a barrier each has the bytes and the length that all have written, however it reads.
# DYAD_TEST_LEVEL=long: 4 seeds; soak: 60. JOINT_SEED=N: the first.
. "$(dirname "$0")/../cluster/lib.sh"
[ -n "$PYTHON" ] || skip "needs python3"
cluster_up 3
case $LEVEL in soak) runs=60 ;; long) runs=4 ;; *) runs=1 ;; esac
JOB_ENV+=("W=$WORK" "SSD=$SSD" DYAD_TIMEOUT=20)
begin=${JOINT_SEED:-$RANDOM}
for ((seed = begin; seed < begin + runs; seed++)); do
    for how in creat first late; do
        for where in 2@n0,n1 5@n0,n1,n2; do
            rm -f "$WORK"/at.*
            : >"$LOG"
            job 60 "$where" "$PYTHON" "$TEST_DIR/integration/progs/joint.py" "${where%%@*}" "$seed" 8 $how ||
                fail "JOINT_SEED=$seed, $how, $where: status $?: $(cat "$OUT")"
            clean_ssd
        done
    done
done
say "seeds $begin to $((seed - 1)): each rank has read what all have written"
