#!/bin/bash
# Random faults over a random workload, all from one seed: ranks killed and stopped, links cut, disks full, writes that fail. What is
# right and what is wrong stands at the top of test/cluster/faults.py, docs/reliability.md says how to repeat a run.
#
# FAULTS_SEED (default 2; or "random"; with ":kill,stop,cut,full,limit,writer" or some of these behind it: only such faults),
# FAULTS_COUNT (60; with --long 200, with --soak 5000), FAULTS_LAUNCH (only that launch), FAULTS_JOBS (launches at the same time: 3; 4
# with --soak), FAULTS_ENV (variables for all ranks, such as DYAD_PREFETCH=auto), FAULTS_KEEP (keep the logs of all launches in
# DYAD_TEST_LOGS, not only of those that failed).
#
# A launch is a process of its own, this script with "launch NUMBER DIRECTORY", with a cluster of its own. Most of its time it
# sleeps, so several go on at once. What it says is shown when it is over, in the order of the numbers. It ends with this script: a
# signal that can be caught is passed on, and it cleans up; SIGKILL ends it and its cluster, too.
seed=${FAULTS_SEED:-2} wanted=${FAULTS_COUNT:-} only=${FAULTS_LAUNCH:-} at_once=${FAULTS_JOBS:-}
. "$(dirname "$0")/../cluster/lib.sh"
FAULTS=$TEST_DIR/cluster/faults.py
WORKER=$TEST_DIR/integration/progs/fault_worker.py

# --- one launch -------------------------------------------------------------------------

# All ranks have ended. mpirun 4.1.4 does not notice if one of another node was killed. Its orteds end with it, as a rule: one
# whose node had been cut off was there 5 s later.
end_launcher() {
    local node
    for node in head "${NODES[@]}"; do
        node_exec "$node" sh -c 'for p in /proc/[0-9]*; do
            read -r name 2>/dev/null <"$p/comm" && case $name in mpirun|orted) kill -9 "${p#/proc/}" ;; esac
        done; true'
    done
    job_wait 2>/dev/null || true
}

# In the background, so that a signal to this script counts at once.
inject() {
    setpriv --pdeathsig KILL "$PYTHON" "$FAULTS" inject "$@" &
    BACKGROUND+=("$!")
    wait "$!"
}

launch() { # NUMBER DIRECTORY: leaves results.NUMBER and faults.NUMBER there
    local i count nodes hosts deserted scans=() wrong='' logs=$WORK/logs.$1
    TEST_NAME=faults.${seed//[:,]/-}.$1
    cluster_up 4 32m
    local disk=$SSD
    SSD=$disk/dmd
    mkdir "$logs"
    read -r nodes _ count _ <<<"$("$PYTHON" "$TEST_DIR/cluster/fault_plan.py" "$seed" "$1")"
    NODES=("${NODES[@]:0:nodes}")
    hosts=$(IFS=, && echo "${NODES[*]}")
    for ((i = 0; i < nodes; i++)); do
        node_exec "n$i" mkdir "$SSD"
    done
    # Small, so that the run is short; small chunks, so that a fetch is many messages, in every second launch one at a time, so
    # that readers pass on what is larger. faults.py knows the first three.
    JOB_ENV=("DYAD_LOG_FILE=$LOG" DYAD_TIMEOUT=4 DYAD_PEER_TIMEOUT=1 DYAD_JOIN_TIMEOUT=2 DYAD_CHUNK_SIZE=64K DYAD_CHUNKS=$((4 - 3 * ($1 % 2)))
        ${FAULTS_ENV:+$FAULTS_ENV} "DYAD_LOG=${FAULTS_LOG:-info}" PMIX_MCA_gds=hash PYTHONDONTWRITEBYTECODE=1)
    MPIRUN_ARGS=(--enable-recovery)
    job_begin 600 "$count@$hosts" "$PYTHON" "$WORKER" run "$seed" "$1" "$logs"
    inject "$seed" "$1" "$logs" "$LOG" "$disk" "$WORK/events"
    end_launcher
    sanitizers_silent
    for ((i = 0; i < nodes; i++)); do
        scans+=("$WORK/scan.n$i")
        node_exec "n$i" "$PYTHON" "$WORKER" scan "$SSD" "$seed" >"${scans[-1]}"
    done
    "$PYTHON" "$FAULTS" check "$seed" "$1" "$logs" "$WORK/events" "$2/results.$1" "${scans[@]}" >"$WORK/judged" || wrong=1
    read -r count deserted <"$WORK/judged"
    # Where no rank was left alive, it is the next member to come that removes what a killed one was fetching.
    MPIRUN_ARGS=()
    [ -z "$deserted" ] || job_ok 30 "$nodes@$hosts" ls "$SSD" >/dev/null
    echo "$count" >"$2/faults.$1"
    nothing_left
    if [ -z "$wrong" ] && [ -n "${FAULTS_KEEP:-}" ]; then
        keep_logs
    fi
    [ -z "$wrong" ] || fail "launch $1 of seed $seed, $count faults, $SECONDS s: wrong, see above; FAULTS_LAUNCH=$1 repeats it"
    say "launch $1: $count faults, $SECONDS s"
}

if [ "${1:-}" = launch ]; then
    # Kept logs need not be shown.
    [ -z "${DYAD_TEST_LOGS:-}" ] || show_logs() { :; }
    launch "$2" "$3"
    exit 0
fi

# --- all of them ------------------------------------------------------------------------

[ "$seed" != random ] || seed=$RANDOM$RANDOM
case $LEVEL in
short) : "${wanted:=60}" ;;
long) : "${wanted:=200}" ;;
soak) : "${wanted:=5000}" ;;
esac
[ -n "$at_once" ] || at_once=$([ $LEVEL = soak ] && echo 4 || echo 3)
[[ $wanted =~ ^[0-9]+$ && $at_once =~ ^[1-9][0-9]*$ ]] || fail "FAULTS_COUNT and FAULTS_JOBS are numbers"
if [ -n "$only" ]; then
    say "seed $seed, launch $only"
else
    say "seed $seed, $wanted faults, $at_once launches at once"
fi

declare -A pids=()  # of the launches under way
next=${only:-0}     # to be begun
shown=$next         # the first whose output has not been shown
faults=0 over=0     # of the launches that are over, and how many these are
failed=() broken='' # broken: a launch ended without a result, no more are begun

begin() { # NUMBER
    TMPDIR=$WORK DYAD_BUILD_DIR=$BUILD_DIR DYAD_TEST_LOGS=${DYAD_TEST_LOGS:-} DYAD_TEST_NO_SKIP=${DYAD_TEST_NO_SKIP:-} \
        FAULTS_SEED=$seed setpriv --pdeathsig KILL bash "$0" launch "$1" "$WORK" >"$WORK/out.$1" 2>&1 &
    pids[$1]=$!
}

# The signal makes them clean up, which lib.sh's finish() would not give them the time for.
end_launches() {
    local status=$?
    set +e
    trap '' HUP INT TERM
    [ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null
    wait
    return $status
}
trap 'end_launches; finish' EXIT

# Those that have ended, and what they said, as far as it is its turn.
collect() {
    local number status
    for number in "${!pids[@]}"; do
        ! kill -0 "${pids[$number]}" 2>/dev/null || continue
        status=0
        wait "${pids[$number]}" || status=$?
        unset "pids[$number]"
        [ $status -ne 77 ] || { cat "$WORK/out.$number"; exit 77; }
        [ $status -eq 0 ] || failed+=("$number")
        if [ -e "$WORK/faults.$number" ]; then
            faults=$((faults + $(cat "$WORK/faults.$number"))) over=$((over + 1))
        else
            broken=1
        fi
    done
    while [ "$shown" -lt "$next" ] && [ -z "${pids[$shown]:-}" ]; do
        cat "$WORK/out.$shown"
        shown=$((shown + 1))
    done
}

# Whether one more is needed: those under way will have as many faults as the others had (some 30, before one is over).
needed() {
    local each=30
    [ -z "$broken" ] || return 1
    [ -z "$only" ] || { [ "$next" -eq "$only" ]; return; }
    [ $over -eq 0 ] || each=$((faults / over))
    [ $((faults + ${#pids[@]} * each)) -lt "$wanted" ]
}

# What hangs is found by each launch itself, in bounded time; so this is only for a machine that is far too slow.
bound=$([ $LEVEL = soak ] && echo 5000 || echo 600)
while :; do
    [ $SECONDS -lt "$bound" ] || fail "only $faults faults within $bound s: launches ${!pids[*]} are under way"
    while [ ${#pids[@]} -lt "$at_once" ] && needed; do
        begin "$next"
        next=$((next + 1))
    done
    [ ${#pids[@]} -gt 0 ] || break
    wait -n || true
    collect
done
if compgen -G "$WORK/results.*" >/dev/null; then
    "$PYTHON" "$FAULTS" table "$WORK"/results.* >"$WORK/faults.md"
    cat "$WORK/faults.md"
    if [ -n "${DYAD_TEST_LOGS:-}" ]; then
        mkdir -p "$DYAD_TEST_LOGS"
        cp "$WORK/faults.md" "$DYAD_TEST_LOGS/faults.md"
    fi
fi
say "$faults faults in $over launches, $SECONDS s"
[ ${#failed[@]} -eq 0 ] || fail "seed $seed: wrong in launches ${failed[*]} (see above)"
