#!/bin/bash
# Two components of several ranks on several nodes, with no change in either, are coupled by files: one writes a series by PnetCDF,
# and the other reads it as it comes; in one launch, and in two that meet in a session directory. Then both write over one file, in
# turns.
. "$(dirname "$0")/../cluster/lib.sh"
[ -x "$PROGS/mpi_coupled" ] || skip "needs mpi_coupled, which was not built: no libpnetcdf-dev"
cluster_up 3
C=$PROGS/mpi_coupled
[ "$LEVEL" = short ] && files=6 || files=20
printf '%s\n' 'cb_config_list *:*' 'romio_ds_write disable' >"$WORK/hints"
JOB_ENV+=("ROMIO_HINTS=$WORK/hints" OMPI_MCA_fbtl_posix_write_datasieving=0)
plain=("${JOB_ENV[@]}")
is_well() {
    [ "$(grep -cE '(write: 4|read: 3) ranks, well' "$OUT")" = 2 ] || fail "$io: $(cat "$OUT")"
}

for io in romio321 ompio; do
    [ $io = romio321 ] || [ "$LEVEL" = soak ] || [ "$files" -le 8 ] || files=8
    JOB_ENV=("${plain[@]}" "OMPI_MCA_io=$io")
    if [ $io = romio321 ] || [ "$LEVEL" != short ]; then
        clean_ssd
        job_ok 120 4@n0,n1 "$C" write "$SSD" "$files" -- 3@n2 "$C" read "$SSD" "$files"
        is_well
    fi
    if [ "$LEVEL" != short ]; then # the nodes of the writers have readers, too
        clean_ssd
        job_ok 120 4@n0,n1 "$C" write "$SSD" "$files" -- 3@n0,n1,n2 "$C" read "$SSD" "$files"
        is_well
    fi
    if [ $io = romio321 ] || [ "$LEVEL" != short ]; then
        clean_ssd
        [ $io = romio321 ] && turns=$files || turns=6
        job_ok 120 4@n0,n1 "$C" write "$SSD" $turns turns -- 3@n0,n1,n2 "$C" read "$SSD" $turns turns
        is_well
    fi
    # Without that barrier, in one launch and in two: an open for reading is for the other one's version.
    if [ $io = romio321 ] || [ "$LEVEL" != short ]; then
        clean_ssd
        JOB_ENV+=("DYAD_TURNS=out.*.nc")
        job_ok 120 4@n0,n1 env DYAD_COMPONENT=model "$C" write "$SSD" $turns alone -- \
            3@n0,n1,n2 env DYAD_COMPONENT=filter "$C" read "$SSD" $turns alone
        is_well
        clean_ssd
        JOB_ENV+=("DYAD_SESSION_DIR=$WORK/session.turns.$io")
        launch 120 3@n0,n2 "$C" read "$SSD" $turns alone
        launch 120 4@n0,n1 "$C" write "$SSD" $turns alone
        launches_ok
        JOB_ENV=("${plain[@]}" "OMPI_MCA_io=$io")
    fi
    if [ $io = ompio ] || [ "$LEVEL" != short ]; then
        clean_ssd
        JOB_ENV+=("DYAD_SESSION_DIR=$WORK/session.$io")
        launch 120 3@n2 "$C" read "$SSD" "$files"
        launch 120 4@n0,n1 "$C" write "$SSD" "$files"
        launches_ok
    fi
done
! grep 'was written here and by' "$LOG" || fail "a conflict"
