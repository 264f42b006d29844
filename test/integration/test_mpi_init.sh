#!/bin/bash
# Programs that call MPI_Init themselves: directly, and as children of a preloaded bash; under mpirun and srun.
. "$(dirname "$0")/../cluster/lib.sh"
. "$(dirname "$0")/../cluster/slurm.sh"
[ -x "$PROGS/mpi_pair" ] || skip "needs mpi_pair, which was not built: no Open MPI headers"
cluster_up 3

run() {
    local how=$1
    shift
    clean_ssd
    "$@"
    grep -q ' ranks, 0 bad' "$OUT" || fail "$how: $(cat "$OUT")"
    [ "$how" = slurm ] && nothing_left_but_slurm || nothing_left
}
nothing_left_but_slurm() {
    for node in "${NODES[@]}"; do
        [ -z "$(strays "$node" | grep mpi_pair)" ] || fail "mpi_pair left on $node"
    done
}

run mpirun job_ok 60 6@n0,n1,n2 "$PROGS/mpi_pair" "$SSD" first
run mpirun job_ok 60 6@n0,n1,n2 bash -c '"$0" "$1"; exit $?' "$PROGS/mpi_pair" "$SSD"
# Longer than a PMIx session of ours lasts elsewhere: were it ended while MPI is on, the launcher's server would remove what
# MPI has below /dev/shm.
run mpirun job_ok 60 4@n0,n1 "$PROGS/mpi_pair" "$SSD" first 13
! grep 'System call: unlink' "$ERR" || fail "something of MPI's was removed"
START=dyad-run run mpirun job_ok 60 3@n0,n1,n2 "$PROGS/mpi_pair" "$SSD" first

# MPI over UCX, as on InfiniBand, here over TCP: the program's UCX beside ours. In Python, MPI comes late.
over_ucx=(OMPI_MCA_pml=ucx OMPI_MCA_btl=^tcp OMPI_MCA_opal_common_ucx_tls=any OMPI_MCA_opal_common_ucx_devices=any UCX_TLS=tcp,self,sm)
plain=("${JOB_ENV[@]}")
JOB_ENV+=("${over_ucx[@]}")
run mpirun job_ok 60 6@n0,n1,n2 "$PROGS/mpi_pair" "$SSD" first
run mpirun job_ok 60 6@n0,n1,n2 "$PYTHON" "$TEST_DIR/integration/progs/mpi_late.py" "$SSD" 6
JOB_ENV=("${plain[@]}")
run mpirun job_ok 60 6@n0,n1,n2 "$PYTHON" "$TEST_DIR/integration/progs/mpi_late.py" "$SSD" 6

# A program that asks PMIx itself, while its member waits for the address of a rank that is not there yet.
clean_ssd
job_ok 30 1@n0 "$PROGS/pmix_ask" "$SSD/late" -- \
    1@n1 env -u LD_PRELOAD bash -c 'sleep 2; LD_PRELOAD=$1 exec bash -c "echo late >\"\$0/late\"" "$0"' "$SSD" "$PRELOAD"
grep -q ' answers$' "$OUT" || fail "no answers: $(cat "$OUT")"

slurm_up
run slurm slurm_job_ok 60 -N3 --ntasks-per-node=2 "$PROGS/mpi_pair" "$SSD" first
JOB_ENV+=("${over_ucx[@]}")
run slurm slurm_job_ok 60 -N3 --ntasks-per-node=2 "$PROGS/mpi_pair" "$SSD" first
JOB_ENV=("${plain[@]}")
run slurm slurm_job_ok 60 -N3 --ntasks-per-node=1 bash -c '"$0" "$1"; exit $?' "$PROGS/mpi_pair" "$SSD"
