#!/bin/bash
# Ranks on two to four nodes do to a file, one after the other, what a model of one file does, or fail with EIO
# (progs/model.py); also with clocks of the nodes that are 10 ms apart, and an hour.
# DYAD_TEST_LEVEL=long: 5,000 operations; soak: 100,000. MODEL_SEED=N: the first.
. "$(dirname "$0")/../cluster/lib.sh"
[ -n "$PYTHON" ] || skip "needs python3"
cluster_up 4
count=2000
case $LEVEL in soak) count=100000 ;; long) count=5000 ;; esac
JOB_ENV+=("W=$WORK" "SSD=$SSD" DYAD_TIMEOUT=20 "AUDIT=$PROGS/libshift_clock.so")
seed=${MODEL_SEED:-$RANDOM}
for shift in 0 10 3600000; do
    for where in 2@n0,n1 3@n0,n1,n2 5@n0,n1,n2,n3; do
        rm -f "$WORK/model"
        # Each node's clock: rank's, for ranks are dealt out to the nodes in turn.
        job_begin $((count / 9 + 60)) "$where" sh -c 'SHIFT_MS=$((PMIX_RANK % $1 * $2)) LD_AUDIT=$AUDIT exec "$3" "$4" rank' sh \
            "$(tr -cd , <<<"$where" | wc -c | awk '{print $1 + 1}')" "$shift" "$PYTHON" "$TEST_DIR/integration/progs/model.py"
        W=$WORK SSD=$SSD "$PYTHON" "$TEST_DIR/integration/progs/model.py" drive "${where%%@*}" "$seed" \
            $((count / 9)) >"$WORK/drive" 2>&1 || fail "MODEL_SEED=$seed, $where, $shift ms: $(tail -n 70 "$WORK/drive")"
        job_end_ok $((count / 9 + 60))
        say "seed $seed, $where, $shift ms: $(tail -n 1 "$WORK/drive")"
        clean_ssd
        seed=$((seed + 1))
    done
done
