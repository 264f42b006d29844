#!/bin/bash
# Ranks on several nodes write one file by parallel HDF5 and by PnetCDF, over both of Open MPI's implementations of MPI-IO,
# and each rank reads it; then they make it again, with other bytes and of another length, four times. Metadata and fill values are
# written over by other ranks: the last write counts.
. "$(dirname "$0")/../cluster/lib.sh"
for program in mpi_hdf5 mpi_netcdf; do
    [ -x "$PROGS/$program" ] || skip "needs $program, which was not built: no libhdf5-openmpi-dev, or no libpnetcdf-dev"
done
cluster_up 3
# Each node writes. OMPIO is not to read, change and write what lies between its records, for it does not lock that.
printf '%s\n' 'cb_config_list *:*' >"$WORK/hints"
JOB_ENV+=("ROMIO_HINTS=$WORK/hints" OMPI_MCA_fbtl_posix_write_datasieving=0)
plain=("${JOB_ENV[@]}")
runs=0 rounds=4

# writes IO WHERE PROGRAM HOW...
writes() {
    local io=$1 where=$2 program=$3
    shift 3
    JOB_ENV=("${plain[@]}" "OMPI_MCA_io=$io")
    clean_ssd
    job_ok 600 "$where" "$PROGS/$program" "$SSD/f" $rounds "$@"
    grep -q ' ranks, 0 bad' "$OUT" || fail "$io $where $program $*: $(cat "$OUT")"
    runs=$((runs + $#))
}

if [ "$LEVEL" = short ]; then
    writes romio321 4@n0,n1 mpi_hdf5 steps
    writes ompio 3@n0,n1,n2 mpi_hdf5 chunked
    writes romio321 3@n0,n1,n2 mpi_netcdf records
    writes ompio 4@n0,n1 mpi_netcdf queued
else
    [ "$LEVEL" != soak ] || rounds=30
    for io in romio321 ompio; do
        for where in 3@n0,n1,n2 4@n0,n1; do
            writes $io $where mpi_hdf5 contiguous chunked independent steps
            writes $io $where mpi_netcdf all each queued records share
        done
        writes $io 6@n0,n1,n2 mpi_hdf5 steps
        writes $io 6@n0,n1,n2 mpi_netcdf records
    done
fi
! grep 'was written here and by' "$LOG" || fail "a conflict"
say "$runs runs"
