#!/bin/bash
# Ranks of MPI on several nodes write one file, by both of Open MPI's implementations of MPI-IO, and each rank reads it; then
# they write over it, twice. A rank that reads beside them has what one round has left, and never of two.
. "$(dirname "$0")/../cluster/lib.sh"
[ -x "$PROGS/mpi_file" ] || skip "needs mpi_file, which was not built: no Open MPI headers"
cluster_up 3
plain=("${JOB_ENV[@]}")
runs=0
for io in romio321 ompio; do
    # OMPIO reads, changes and writes what lies between the records of a rank, without a lock: wrong on one node, too.
    JOB_ENV=("${plain[@]}" "OMPI_MCA_io=$io" OMPI_MCA_fbtl_posix_write_datasieving=0)
    for where in 3@n0,n1,n2 4@n0,n1 2@n0,n1 6@n0,n1,n2; do
        for how in "at 1000 37" "all 100000 9" "view 4096 20" "ahead 3000 20"; do
            [ "$where" = 3@n0,n1,n2 ] || [ "$where" = 4@n0,n1 ] || [[ $LEVEL != short && $how != ahead* ]] || continue
            clean_ssd
            # shellcheck disable=SC2086
            job_ok 60 "$where" "$PROGS/mpi_file" "$SSD/f" $how 0 3
            grep -q ' ranks, 0 bad' "$OUT" || fail "$io $where $how: $(cat "$OUT")"
            runs=$((runs + 1))
        done
    done
done
for io in romio321 ompio; do
    JOB_ENV=("${plain[@]}" "OMPI_MCA_io=$io" OMPI_MCA_fbtl_posix_write_datasieving=0)
    for where in 3@n0,n1,n2 4@n0,n1; do
        [ "$LEVEL" != short ] || [ $where = 4@n0,n1 ] || continue
        clean_ssd
        job_ok 60 "$where" "$PROGS/mpi_file" "$SSD/f" update 20000 20 0 6
        grep -q ' ranks, 0 bad' "$OUT" || fail "$io $where update: $(cat "$OUT")"
        runs=$((runs + 1))
    done
    for where in 4@n0,n1,n2 5@n0,n1,n2; do
        [ "$LEVEL" != short ] || [ $io$where != romio3214@n0,n1,n2 ] || continue
        clean_ssd
        job_ok 60 "$where" "$PROGS/mpi_file" "$SSD/f" at 4096 20 1 $([ "$LEVEL" = short ] && echo 5 || echo 10)
        grep -q ' ranks, 0 bad' "$OUT" || fail "$io $where beside a reader: $(cat "$OUT")"
        runs=$((runs + 1))
    done
done
# Rank 0 makes the file by O_TRUNC, stays in, and the others open it after a barrier, without O_CREAT.
JOB_ENV=("${plain[@]}")
for where in 3@n0,n1,n2 4@n0,n1 2@n0,n1; do
    clean_ssd
    job_ok 60 "$where" "$PROGS/mpi_shared" posix "$SSD/posix"
    runs=$((runs + 1))
done
# One that opens it when another node has published it already, and a third one writes it still.
if [ -n "$PYTHON" ]; then
    JOB_ENV=("${plain[@]}" OMPI_MCA_fbtl_posix_write_datasieving=0 "W=$WORK" "SSD=$SSD")
    for io in romio321 ompio; do
        clean_ssd
        rm -f "$WORK"/late.*
        JOB_ENV+=("OMPI_MCA_io=$io")
        job_ok 60 3@n0,n1,n2 "$PYTHON" "$TEST_DIR/integration/progs/mpi_opens_late.py"
        runs=$((runs + 1))
    done
fi
! grep 'was written here and by' "$LOG" || fail "a conflict"
say "$runs runs"
