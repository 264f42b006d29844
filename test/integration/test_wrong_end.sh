#!/bin/bash
# A rank that ends wrongly ends as without the library: with a status, by a signal, within MPI that is not finalised. Each
# job runs natively and preloaded, in which case its two ranks are on two nodes; the launcher's status is the same, the job
# is over (a linger would last as long as the other rank, which waits for this one), and no process is left.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
. "$TEST_DIR/cluster/slurm.sh"
need mpirun mpifort
[ "$PYTHON" ] || skip "needs python3"
E=$PROGS/ends
BOUND=${DYAD_TEST_BOUND:-40} AT_ONCE=8

cat >"$WORK/stop.f90" <<'END'
program stop
    use mpi
    integer :: error, rank, size
    call MPI_Init(error)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
    call MPI_Comm_size(MPI_COMM_WORLD, size, error)
    call MPI_Barrier(MPI_COMM_WORLD, error)
    if (rank == size - 1) stop
    call MPI_Barrier(MPI_COMM_WORLD, error)
    call MPI_Finalize(error)
end program
END
(cd "$WORK" && mpifort -o stop stop.f90) || fail "mpifort cannot compile a program"
# As mpi4py: its symbols are not in the global scope.
cat >"$WORK/local.py" <<'END'
import ctypes, os, signal, sys
signal.alarm(60)
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_LOCAL)
assert mpi.MPI_Init(None, None) == 0
world = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, "ompi_mpi_comm_world")))
mpi.MPI_Barrier(world)
if os.environ["PMIX_RANK"] == "1":
    sys.exit(int(sys.argv[1]))
mpi.MPI_Barrier(world)
END

# begin MODE NUMBER PROGRAM ARG...: @ in an argument is the managed directory of that rank.
begin() {
    local mode=$1 number=$2 node dmd
    shift 2
    ARGS=()
    for node in a b; do
        dmd=$WORK/$mode.$number.$node
        mkdir "$dmd"
        [ $node = a ] || ARGS+=(:)
        ARGS+=(-np 1)
        pass "MARK=$WORK"
        [ $mode = native ] || pass "LD_PRELOAD=$PRELOAD" "DYAD_PATH=$dmd" "DYAD_NODE=$node" "${JOB_ENV[@]}"
        ARGS+=("${@//@/$dmd}")
    done
    own_tmpdir "$WORK/mpi.$mode.$number"
    (
        status=0
        timeout -k 2 $BOUND mpirun --oversubscribe --bind-to none "${OWN_TMPDIR[@]}" "${ARGS[@]}" </dev/null \
            >"$WORK/job.$mode.$number.out" 2>"$WORK/job.$mode.$number.err" || status=$?
        echo $status >"$WORK/status.$mode.$number"
    ) &
}

none_left() {
    ! grep -qzs "^MARK=$WORK\$" /proc/[0-9]*/environ
}

CASES=(
    "$E plain return:3 @/f" "$E plain _exit:3" "$E plain quick:3 @/f" "$E plain err:3" "$E plain signal:11 @/f"
    "$E mpi exit:0" "$E mpi exit:3 @/f" "$E mpi _exit:0 @/f" "$E mpi quick:0" "$E mpi atexit:3" "$E mpi thread:0"
    "$E mpi signal:6" "$E mpi abort:5 @/f" "$E mpi final:3"
    "$WORK/stop" "$PYTHON $WORK/local.py 0"
    SHELL # what has spaces itself
)
shell=(sh -c '[ "$PMIX_RANK" = 1 ] || exec sleep 60; echo >"$0/f.1"; false' @)

say "${#CASES[@]} ways to end"
for i in "${!CASES[@]}"; do
    read -r -a words <<<"${CASES[i]}"
    [ "${words[0]}" != SHELL ] || words=("${shell[@]}")
    for mode in native preloaded; do
        begin $mode "$i" "${words[@]}"
        while [ "$(jobs -rp | wc -l)" -ge $AT_ONCE ]; do
            wait -n
        done
    done
done
wait
bad=
for i in "${!CASES[@]}"; do
    native=$(cat "$WORK/status.native.$i") preloaded=$(cat "$WORK/status.preloaded.$i")
    what="$(basename "${CASES[i]%% *}") ${CASES[i]#* }"
    [ "$native" != 0 ] && [ "$native" != 124 ] && [ "$native" != 137 ] || fail "$what: status $native, natively: that shows nothing"
    [ "$native" = "$preloaded" ] || bad="$bad; $what: $native natively, $preloaded preloaded"
    # What the rank has closed is there.
    case $what in *@/f | SHELL*) [ -e "$WORK/preloaded.$i.b/f.1" ] || bad="$bad; $what: its file is not there" ;; esac
done
[ -z "$bad" ] || fail "${bad#; }"
until_true 10 "no process is left" none_left

# --- a session directory: who fails leaves, and so does who has published nothing, while another runs on
say 'a session directory'

dmd=$WORK/session.dmd
mkdir "$dmd.a" "$dmd.b"
# of NODE PROGRAM ARG...
of() {
    local node=$1
    shift
    env "MARK=$WORK" "${JOB_ENV[@]}" "DYAD_NODE=$node" timeout -k 2 $BOUND "$BIN/dyad-run" --session-dir "$WORK/session" --dmd "$dmd.$node" -- "$@"
}
of a sh -c 'echo first >"$0/f"; until [ -e "$1" ]; do sleep 0.05; done; cat "$0/g"' "$dmd.a" "$WORK/over" >"$WORK/got" &
runs=$!
status=0
of b cat "$dmd.b/f" >"$WORK/read" || status=$?
[ $status = 0 ] && [ "$(cat "$WORK/read")" = first ] || fail "who has published nothing: status $status"
grep -q 'leaving: nothing that is published' "$LOG" || fail "who has published nothing has left for another reason"
of b sh -c 'echo second >"$0/g"; exit 3' "$dmd.b" || status=$?
[ $status = 3 ] || fail "who fails in a session: status $status"
: >"$WORK/over"
of b cat "$dmd.b/f" >/dev/null & # it takes over what the other has left there
until_true $BOUND "what the failed process has left is served" grep -q 'second' "$WORK/got"
wait $runs || fail "who went on ended with $?"
wait
until_true 10 "no process is left" none_left

# --- srun -K, and srun, which goes on: what the failed rank had published another one of its node serves
say 'srun'

cluster_up 2
slurm_up
for mode in none x; do
    status=0
    START=$mode slurm_job $BOUND -K -N2 -n2 "$E" mpi exit:3 || status=$?
    [ $mode = x ] || native=$status
done
[ $status = "$native" ] && [ $status != 124 ] && [ $status != 137 ] || fail "srun -K: $native natively, $status preloaded"
cat >"$WORK/roles" <<END
0 bash -c 'until [ -e $WORK/gone ]; do sleep 0.05; done; read -r line <$SSD/f; : >$WORK/done; [ \$line = published ]'
1 bash -c 'echo published >$SSD/f; echo \$\$ >$WORK/pid; exit 3'
2 bash -c 'until [ -s $WORK/pid ]; do sleep 0.05; done; read -r pid <$WORK/pid; while [ -e /proc/\$pid ]; do sleep 0.05; done; : >$WORK/gone; until [ -e $WORK/done ]; do sleep 0.05; done'
END
status=0
slurm_job $BOUND -N2 -n3 --distribution=arbitrary --nodelist=n0,n1,n1 --multi-prog "$WORK/roles" || status=$?
[ $status = 3 ] || fail "srun that goes on: status $status"
