# shellcheck shell=bash disable=SC2034
# lib.sh - for test scripts: a cluster, jobs on it, and what must not be left of them
#
# Sourced by bash. Reads DYAD_BUILD_DIR (the build tree; default build/dev) and DYAD_TEST_LEVEL. Gives:
#   $WORK           a directory that all nodes see, removed at the end
#   $SSD            the managed directory: the same path on each node, private to it
#   $LIB $BIN $PROGS
# and the functions below. A test ends by falling off its end (0), by fail (1) or by skip (77).

set -eu -o pipefail

TEST_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
SOURCE_DIR=$(dirname "$TEST_DIR")
BUILD_DIR=${DYAD_BUILD_DIR:-$SOURCE_DIR/build/dev}
LIB=$BUILD_DIR/lib
BIN=$BUILD_DIR/bin
PROGS=$BUILD_DIR/test/integration/progs
CLUSTER_SH=$TEST_DIR/cluster/cluster.sh
TEST_NAME=$(basename "$0" .sh)
# The system's own python3: a shim that is a script itself (pyenv) would be another test.
PYTHON=$(PATH=/usr/bin:/bin:$PATH command -v python3 || true)

# Nothing of the caller's own session gets into a job.
for variable in $(compgen -e); do
    case $variable in DYAD_BUILD_DIR | DYAD_TEST_*) ;;
    DYAD_* | PMIX_* | OMPI_* | SLURM_* | PRTE_* | LD_PRELOAD) unset "$variable" ;;
    esac
done
# Ours stay out of it, too: dyad-run warns of DYAD_ variables that it does not know.
export -n DYAD_BUILD_DIR DYAD_TEST_LEVEL DYAD_TEST_KEEP DYAD_TEST_LOGS DYAD_TEST_NO_SKIP
LEVEL=${DYAD_TEST_LEVEL:-short} # or long, or soak
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export LC_ALL=C.UTF-8

WORK=$(mktemp -d "${TMPDIR:-/tmp}/dyad-test.XXXXXX")
chmod 755 "$WORK"
LOG=$WORK/dyad.log
JOBS=0
NODES=()
BACKGROUND=()

say() {
    printf '%s: %s\n' "$TEST_NAME" "$*"
}

# Under DYAD_TEST_NO_SKIP (CI) what a test needs must be there.
skip() {
    [ -z "${DYAD_TEST_NO_SKIP:-}" ] || fail "DYAD_TEST_NO_SKIP is set, but this test $*"
    say "skipped: $*"
    exit 77
}

# Say why, show what the jobs wrote and logged, end the test.
fail() {
    say "FAILED: $*" >&2
    exit 1
}

show_logs() {
    local file
    for file in "$WORK"/sanitizer.* "$WORK"/job.*.out "$WORK"/job.*.err "$WORK"/slurm/slurm*.log; do
        [ -s "$file" ] || continue
        printf -- '--- %s (end)\n' "${file##*/}"
        tail -n 25 "$file"
    done
    [ ! -s "$LOG" ] || { echo "--- dyad.log (end)"; tail -n 150 "$LOG"; }
}

# The whole of the logs, in a directory of its own below DYAD_TEST_LOGS.
keep_logs() {
    local to
    mkdir -p "$DYAD_TEST_LOGS" && to=$(mktemp -d "$DYAD_TEST_LOGS/$TEST_NAME.XXXXXX") || return
    find "$WORK" -maxdepth 1 \( -type f -size -32M -o -name 'logs.*' \) -exec cp -r -t "$to" {} +
    say "logs: $to"
}

finish() {
    local status=$? pid
    trap - EXIT INT TERM HUP
    set +e
    if [ $status -ne 0 ] && [ $status -ne 77 ]; then
        show_logs >&2
        [ -z "${DYAD_TEST_LOGS:-}" ] || keep_logs >&2
        [ -z "${DYAD_TEST_KEEP:-}" ] || say "kept: $WORK and CLUSTER_DIR=${CLUSTER_DIR:-}; any key ends it" >&2
        [ -z "${DYAD_TEST_KEEP:-}" ] || read -r -n 1 </dev/tty
    fi
    [ -z "${CLUSTER_DIR:-}" ] || CLUSTER_DIR=$CLUSTER_DIR "$CLUSTER_SH" down
    for pid in "${BACKGROUND[@]}"; do
        kill -9 "$pid" 2>/dev/null
    done
    wait 2>/dev/null
    rm -rf "$WORK"
    exit $status
}
trap finish EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# need COMMAND...: skip the test if one is missing.
need() {
    local command
    for command in "$@"; do
        command -v "$command" >/dev/null 2>&1 || skip "needs $command (packaging/install-deps.sh installs it)"
    done
}

# until_true SECONDS WHAT CMD...: until CMD succeeds; else the test fails.
until_true() {
    local end=$((SECONDS + $1)) what=$2
    shift 2
    until "$@"; do
        [ $SECONDS -lt "$end" ] || fail "not within the time allowed: $what"
        sleep 0.05
    done
}

# cluster_up N [SIZE]: a cluster that ends with this script, whatever ends it.
cluster_up() {
    need mpirun ip unshare nsenter setpriv
    local user=
    [ "$(id -u)" -eq 0 ] || user='--user --map-root-user'
    # shellcheck disable=SC2086
    unshare $user --net --mount --pid --fork --propagation private mount -t tmpfs tmpfs /mnt 2>/dev/null ||
        skip "needs a cluster made of namespaces, and may not make them here: $(unshare $user --net --mount --pid --fork --propagation private mount -t tmpfs tmpfs /mnt 2>&1)"
    CLUSTER_DIR=$(mktemp -d "${TMPDIR:-/tmp}/dyad-cluster.XXXXXX")
    export CLUSTER_DIR
    SSD=$CLUSTER_DIR/ssd
    mkfifo "$CLUSTER_DIR/up"
    setpriv --pdeathsig KILL "$CLUSTER_SH" tied "$CLUSTER_DIR" "$1" "${2:-1g}" </dev/null 2>"$WORK/cluster.err" &
    local holder=$! line= fd
    BACKGROUND+=("$holder")
    exec {fd}<>"$CLUSTER_DIR/up"
    until read -r -t 1 -u "$fd" line; do
        kill -0 "$holder" 2>/dev/null || { cat "$WORK/cluster.err" >&2; fail "the cluster did not come up"; }
    done
    exec {fd}<&-
    NODES=()
    local i
    for ((i = 0; i < $1; i++)); do
        NODES+=("n$i")
    done
}

# node_exec NODE CMD...: without the preload. As cluster.sh exec, but for a bash: tests do little else.
node_exec() {
    local node=$1 enter
    shift
    read -r -a enter <"$CLUSTER_DIR/$node.enter" || return 1
    TMPDIR=$CLUSTER_DIR/tmp CLUSTER_NODE=$node nsenter "${enter[@]}" --wdns="$PWD" "$@"
}

# What each process of a job finds in its environment; a test may add to it. Each "node" thinks that the cores of the machine
# are its own, so Open MPI's ranks would spin on them while they wait for each other.
JOB_ENV=(DYAD_LOG=info "DYAD_LOG_FILE=$LOG" PMIX_MCA_gds=hash OMPI_MCA_mpi_yield_when_idle=1)

SANITIZE=
[ ! -e "$BUILD_DIR/CMakeCache.txt" ] ||
    SANITIZE=$(sed -n 's/^DYAD_SANITIZE:[^=]*=//p' "$BUILD_DIR/CMakeCache.txt")
PRELOAD=$LIB/libdyad_wrapper.so
case $SANITIZE in
*address*)
    # The runtime must come first, and what UCX and PMIx keep is not ours to report.
    PRELOAD=$(gcc -print-file-name=libasan.so):$PRELOAD
    JOB_ENV+=("ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0:log_path=$WORK/sanitizer"
        "UBSAN_OPTIONS=print_stacktrace=1")
    ;;
*thread*)
    PRELOAD=$(gcc -print-file-name=libtsan.so):$PRELOAD
    # UCX is shared with the program, and its hooks would run in threads that the runtime has already taken down. The
    # runtime has a thread that polls, so that no rank is ever quiet: what waits for "nobody is left" does not end.
    JOB_ENV+=("TSAN_OPTIONS=log_path=$WORK/sanitizer:ignore_noninstrumented_modules=1:die_after_fork=0:suppressions=$TEST_DIR/tsan.supp"
        UCX_MEM_EVENTS=n)
    ;;
esac

# job SECONDS NP@NODE[,NODE...] PROGRAM ARG... [-- NP@NODE... PROGRAM ARG...]...
#   One mpirun from the head over the cluster. $? is mpirun's; 124 or 137: not within SECONDS.
#   stdout and stderr: $WORK/job.N.out and .err of the job just run: $OUT and $ERR.
# START=x (default): the preload comes with mpirun -x; START=dyad-run: the programs are started with it.
job() {
    job_begin "$@"
    job_wait
}

# mpirun's arguments for the words of a job, in ARGS. CONTEXT NP WHERE adds what goes ahead of a program.
job_args() { # CONTEXT WORD...
    local context=$1 begun='' word
    shift
    ARGS=()
    for word in "$@"; do
        if [ -z "$begun" ]; then
            begun=1
            "$context" "${word%%@*}" "${word#*@}"
        elif [ "$word" = -- ]; then
            ARGS+=(:)
            begun=''
        else
            ARGS+=("$word")
        fi
    done
}

# pass NAME=VALUE...: what the processes find in their environment.
pass() {
    local variable
    for variable in "$@"; do
        ARGS+=(-x "$variable")
    done
}

# own_tmpdir DIR: what has mpirun keep its session below DIR, which it makes. In one directory two of one user do not bear
# each other: each makes ompi.NODE.UID if it is not there, and who ends removes it, so that one that begins then fails (Open
# MPI 4.1.4: orte_session_dir failed).
own_tmpdir() {
    OWN_TMPDIR=(--mca orte_tmpdir_base "$1")
}

cluster_context() { # NP NODE[,NODE...]
    local count per node hosts=
    count=$(tr ',' '\n' <<<"$2" | wc -l)
    per=$((($1 + count - 1) / count))
    for node in ${2//,/ }; do
        hosts=$hosts,$node:$per
    done
    ARGS+=(-np "$1" -host "${hosts#,}" --map-by node)
    pass "${JOB_ENV[@]}"
    case ${START:-x} in
    x) pass "LD_PRELOAD=$PRELOAD" "DYAD_PATH=$SSD" ;;
    dyad-run) ARGS+=("$BIN/dyad-run" --dmd "$SSD" --) ;;
    none) ;;
    esac
}

# The same in the background; then job_wait.
job_begin() {
    local seconds=$1
    shift
    job_args cluster_context "$@"
    JOBS=$((JOBS + 1))
    OUT=$WORK/job.$JOBS.out ERR=$WORK/job.$JOBS.err
    own_tmpdir "$CLUSTER_DIR/tmp/ompi.$JOBS"
    node_exec head timeout -k 2 "$seconds" mpirun --oversubscribe --bind-to none "${OWN_TMPDIR[@]}" \
        --mca plm_rsh_agent "$TEST_DIR/cluster/rsh-agent" --mca plm_rsh_no_tree_spawn 1 \
        "${MPIRUN_ARGS[@]}" "${ARGS[@]}" </dev/null >"$OUT" 2>"$ERR" &
    JOB_PID=$!
}
MPIRUN_ARGS=()

job_wait() {
    local status=0
    wait "$JOB_PID" || status=$?
    return $status
}

# The same; anything but success is the end of the test. Tells how long it took.
job_ok() {
    local begin=$EPOCHREALTIME seconds=$1
    job_begin "$@"
    job_end_ok "$seconds"
    say "job $JOBS: $(awk "BEGIN {printf \"%.2f\", $EPOCHREALTIME - $begin}") s"
}

# After job_begin: wait for the end, which must be a success and leave nothing.
job_end_ok() {
    local status=0
    job_wait || status=$?
    [ $status -ne 124 ] && [ $status -ne 137 ] || fail "job $JOBS did not end within $1 s"
    [ $status -eq 0 ] || fail "job $JOBS ended with status $status"
    sanitizers_silent
    nothing_left
}

# launch SECONDS ...: as job_begin, beside others. launch_ends N: the Nth of those that have not been waited for, from 0,
# ends well; launches_ok: all do, and leave nothing.
LAUNCHED=() LAUNCHED_JOB=()
launch() {
    job_begin "$@"
    LAUNCHED+=("$JOB_PID") LAUNCHED_JOB+=("$JOBS")
}

# alone NODE PROGRAM ARG...: a process that no launcher starts; as launch.
alone() {
    local node=$1
    shift
    JOBS=$((JOBS + 1))
    OUT=$WORK/job.$JOBS.out ERR=$WORK/job.$JOBS.err
    node_exec "$node" env "${JOB_ENV[@]}" timeout -k 2 60 "$BIN/dyad-run" --dmd "$SSD" -- "$@" </dev/null >"$OUT" 2>"$ERR" &
    LAUNCHED+=("$!") LAUNCHED_JOB+=("$JOBS")
}

launch_ends() {
    local status=0 number=${LAUNCHED_JOB[$1]}
    wait "${LAUNCHED[$1]}" || status=$?
    unset "LAUNCHED[$1]" "LAUNCHED_JOB[$1]"
    [ $status -ne 124 ] && [ $status -ne 137 ] || fail "job $number did not end in time"
    [ $status -eq 0 ] || fail "job $number ended with status $status"
}

launches_ok() {
    local i
    for i in "${!LAUNCHED[@]}"; do
        launch_ends "$i"
    done
    sanitizers_silent
    nothing_left
}

# signal_rank RANK SIGNAL: the shell of that rank, on the node of that number, which is its member, and all below it.
signal_rank() { node_exec "n$1" sh -c 'for p in /proc/[0-9]*; do
    [ -r $p/environ ] && tr "\0" "\n" 2>/dev/null <$p/environ | grep -qx PMIX_RANK='"$1"' && kill -'"$2"' ${p#/proc/}; done; true'; }

# The undefined-behaviour sanitizer writes to stderr, the others to files of their own.
sanitizers_silent() {
    ! compgen -G "$WORK/sanitizer.*" >/dev/null || fail "a sanitizer complained"
    ! grep -q 'runtime error:' "$ERR" || fail "undefined behaviour: $(grep 'runtime error:' "$ERR")"
}

# local_job SECONDS NP@NODE PROGRAM ARG... [-- NP@NODE PROGRAM ARG...]...
#   One mpirun on this machine, no namespaces: a node is a name and a directory of its own, dmd_of NODE. Cheaper than a
#   cluster, for tests of what processes do; what depends on one path on all nodes needs job. $? as job's.
local_job() {
    local seconds=$1 status=0
    shift
    job_args local_context "$@"
    JOBS=$((JOBS + 1))
    OUT=$WORK/job.$JOBS.out ERR=$WORK/job.$JOBS.err
    own_tmpdir "$WORK/mpi"
    timeout -k 2 "$seconds" mpirun --oversubscribe --bind-to none "${OWN_TMPDIR[@]}" "${ARGS[@]}" </dev/null >"$OUT" 2>"$ERR" &
    JOB_PID=$!
    job_wait || status=$?
    return $status
}

local_context() { # NP NODE
    mkdir -p "$(dmd_of "$2")"
    ARGS+=(-np "$1")
    pass "${JOB_ENV[@]}"
    case ${START:-x} in
    x) pass "LD_PRELOAD=$PRELOAD" "DYAD_PATH=$(dmd_of "$2")" "DYAD_NODE=$2" ;;
    dyad-run) ARGS+=("$BIN/dyad-run" --dmd "$(dmd_of "$2")" --node "$2" --) ;;
    esac
}

# The managed directory of a local job's node.
dmd_of() {
    echo "$WORK/dmd.$1"
}

# The same; anything but success is the end of the test, and no temporary file may be left.
local_job_ok() {
    local begin=$EPOCHREALTIME status=0 dmd
    local_job "$@" || status=$?
    [ $status -ne 124 ] && [ $status -ne 137 ] || fail "job $JOBS did not end within $1 s"
    [ $status -eq 0 ] || fail "job $JOBS ended with status $status"
    sanitizers_silent
    for dmd in "$WORK"/dmd.*; do
        [ -z "$(ls -A "$dmd/.dyad/tmp" 2>/dev/null)" ] || fail "left in $dmd: $(ls -A "$dmd/.dyad/tmp")"
    done
    say "job $JOBS: $(awk "BEGIN {printf \"%.2f\", $EPOCHREALTIME - $begin}") s"
}

# --- what a job must leave --------------------------------------------------------------

# Processes of a node that are neither its init nor this question.
strays() {
    node_exec "$1" ps -e -ww -o pid= -o ppid= -o stat= -o args= | while read -r pid parent state args; do
        case $pid,$parent,$state,$args in
        1,* | *,*,Z* | *,*,*,\[*\] | *,1,*,sleep\ infinity | *,*,*,ps\ -e\ -ww\ *) ;;
        *) echo "$pid $args" ;;
        esac
    done
}

nobody_on() {
    [ -z "$(strays "$1")" ]
}

# No process, shared memory segment, temporary file or session directory on any node.
nothing_left() {
    local node end found
    for node in "${NODES[@]}"; do
        end=$((SECONDS + 5)) # orted ends a moment after mpirun
        until nobody_on "$node"; do
            [ $SECONDS -lt $end ] || fail "processes left on $node: $(strays "$node")"
            sleep 0.05
        done
        # shellcheck disable=SC2016
        found=$(node_exec "$node" bash -c 'shopt -s nullglob dotglob
            for file in /dev/shm/* "$1"/.dyad/tmp/* "$TMPDIR"/*; do [[ $file == "$TMPDIR"/ompi.* ]] || echo "$file"; done
            { read -r line; while read -r line; do echo "$line"; done; } </proc/sysvipc/shm' _ "$SSD")
        [ -z "$found" ] || fail "left on $node: $found"
    done
}

# --- comparing --------------------------------------------------------------------------

# Sums of all files of the managed directory of a node, taken without the preload.
sums_on() {
    node_exec "$1" sh -c 'cd "$1" && find . -path ./.dyad -prune -o -type f -print0 | sort -z | xargs -0r sha256sum -z | tr "\0\n" "\n\1"' _ "${2:-$SSD}"
}

# same_sums NODE NODE...: all have the same files with the same bytes, and there are COUNT of them.
same_sums() {
    local count=$1 first=$2 node
    shift
    for node in "$@"; do
        sums_on "$node" >"$WORK/sums.$node"
        [ "$(wc -l <"$WORK/sums.$node")" -eq "$count" ] ||
            fail "$node has $(wc -l <"$WORK/sums.$node") files, not $count"
        cmp "$WORK/sums.$first" "$WORK/sums.$node" ||
            fail "$first and $node differ: $(diff "$WORK/sums.$first" "$WORK/sums.$node" | head)"
    done
}

# Empty the managed directories: they are left as before the first job.
clean_ssd() {
    local node
    for node in "${NODES[@]}"; do
        node_exec "$node" find "$SSD" -mindepth 1 -delete
    done
    [ ! -e "$LOG" ] || : >"$LOG"
}
