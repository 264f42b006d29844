#!/bin/bash
# Locks (fcntl, lockf) of processes on two and three nodes exclude each other in a file that all have open
# (progs/locks.py; one that was there before, too), and end as those of one node do (progs/lock_cases.py).
# DYAD_TEST_LEVEL=long: 4 seeds; soak: 30. LOCKS_SEED=N: the first.
. "$(dirname "$0")/../cluster/lib.sh"
[ -n "$PYTHON" ] || skip "needs python3"
cluster_up 3
case $LEVEL in soak) runs=30 ;; long) runs=4 ;; *) runs=1 ;; esac
JOB_ENV+=("W=$WORK" "SSD=$SSD" DYAD_TIMEOUT=20)
LOCKS=$TEST_DIR/integration/progs/locks.py
begin=${LOCKS_SEED:-$RANDOM}
for ((seed = begin; seed < begin + runs; seed++)); do
    for where in 2@n0,n1 5@n0,n1,n2; do
        for processes in 1 2; do
            rm -f "$WORK"/{open,done,found}.*
            : >"$LOG"
            found=
            [ $processes = 1 ] || found=found
            job 60 "$where" "$PYTHON" "$LOCKS" "${where%%@*}" $processes 30 "$seed" $found ||
                fail "LOCKS_SEED=$seed, $where, $processes: status $?: $(cat "$OUT")"
            clean_ssd
        done
    done
done
rm -f "$WORK"/at.*
: >"$LOG"
job_ok 60 2@n0,n1 "$PYTHON" "$TEST_DIR/integration/progs/lock_cases.py"
clean_ssd

# What MPI-IO does under locks of the file (progs/mpi_locked.c), with no hint that says not to sieve; OMPIO sieves without
# a lock, and takes no notice of atomic mode. The files of shared pointers are removed while others have them open.
runs=0 plain=("${JOB_ENV[@]}")
if [ -x "$PROGS/mpi_locked" ]; then
    JOB_ENV=("${plain[@]}" OMPI_MCA_io=romio321)
    for where in 3@n0 2@n0,n1 4@n0,n1 5@n0,n1,n2; do
        [ "$LEVEL" != short ] || [ $where = 4@n0,n1 ] || continue
        hows=(sieve atomic)
        [ $where != 4@n0,n1 ] || hows+=(shared ordered)
        [ $where != 3@n0 ] || hows=(shared ordered)
        for how in "${hows[@]}"; do
            : >"$LOG"
            job_ok 60 "$where" "$PROGS/mpi_locked" $how "$SSD/f" 5
            grep -q ' ranks, 0 bad' "$OUT" || fail "$where $how: $(cat "$OUT")"
            runs=$((runs + 1))
            clean_ssd
        done
    done
fi
say "seeds $begin to $((seed - 1)): no number is lost; $runs runs of MPI-IO"
