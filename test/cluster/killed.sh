# shellcheck shell=bash
# killed.sh - jobs in which ranks are killed and the others go on; sourced after lib.sh
#
# mpirun --enable-recovery keeps the other ranks, but Open MPI 4.1.4 does not end when all have, if one that was
# killed had company on its node (with no library of ours either). So such a job is over when no process of a rank
# is left, and mpirun is ended then. Its status says nothing: what must have succeeded makes a flag, $WORK/ok.NAME.

MPIRUN_ARGS=(--enable-recovery)

# crash_build: the library with places to die at (util/crash.h), for the jobs of this script: below $CRASH, in the build tree,
# where all such tests use it. Whoever comes first builds it.
crash_build() {
    need cmake ninja cc flock
    [ -z "$SANITIZE" ] || skip "has a build of its own, which is not instrumented"
    CRASH=$BUILD_DIR/crash_points
    mkdir -p "$CRASH"
    flock "$CRASH" sh -c 'cmake -G Ninja -S "$1" -B "$2" -DCMAKE_BUILD_TYPE=Debug -DBUILD_TESTING=OFF -DDYAD_CRASH_POINTS=ON &&
        cmake --build "$2" --target dyad dyad_member dyad_wrapper dyad-run' _ "$SOURCE_DIR" "$CRASH" >"$WORK/build.log" 2>&1 ||
        fail "the library with crash points cannot be built: $(tail -n 20 "$WORK/build.log")"
    PRELOAD=$CRASH/lib/libdyad_wrapper.so
}

ranks_left() {
    local node
    for node in "${NODES[@]}"; do
        strays "$node" 2>/dev/null | grep -v '^[0-9]* orted ' && return 0
    done
    return 1
}

mpirun_pids() {
    strays head 2>/dev/null | sed -n 's/^\([0-9]*\) mpirun --oversubscribe .*/\1/p'
}

# mpirun, and its daemons, which would need two seconds to notice: head sees the processes of all nodes.
end_launcher() {
    node_exec head pkill -9 -f '^(mpirun --oversubscribe|orted) ' || true
}

all_ok() {
    local name
    for name in "$@"; do
        [ -e "$WORK/ok.$name" ] || return 1
    done
}

# job_ended SECONDS NAME...: after job_begin; these flags are made, and then no process of a rank is left. job_over: nor anything
# else, as where a rank of each node has lived.
job_ended() {
    local end=$((SECONDS + $1)) bound=$1
    shift
    until all_ok "$@"; do
        [ $SECONDS -lt $end ] || fail "job $JOBS did not do its work within $bound s: $(cd "$WORK" && ls ok.* 2>/dev/null) of $*"
        kill -0 "$JOB_PID" 2>/dev/null || { all_ok "$@" || fail "job $JOBS ended early"; }
        sleep 0.05
    done
    until ! ranks_left >/dev/null; do
        [ $SECONDS -lt $end ] || fail "job $JOBS did not end within $bound s: $(ranks_left)"
        sleep 0.2
    done
    end_launcher
    { job_wait || true; } 2>/dev/null
    sanitizers_silent
}

job_over() {
    job_ended "$@"
    nothing_left
}

# job_killed SECONDS "NAME..." NP@NODE PROGRAM...: as job_ok, with these flags.
job_killed() {
    local begin=$EPOCHREALTIME seconds=$1 names=$2
    shift 2
    rm -f "$WORK"/ok.*
    job_begin "$((seconds + 5))" "$@"
    # shellcheck disable=SC2086
    job_over "$seconds" $names
    say "job $JOBS: $(awk "BEGIN {printf \"%.2f\", $EPOCHREALTIME - $begin}") s"
}
