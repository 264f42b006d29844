#!/bin/bash
# Random faults over a random workload, all from one seed: ranks killed and stopped, links cut, disks full, writes that fail. What is
# right and what is wrong stands at the top of test/cluster/faults.py.
#
# FAULTS_SEED (default 1; "random"), FAULTS_COUNT (200; 5000 with DYAD_TEST_LONG), FAULTS_LAUNCH: only that launch of the seed.
seed=${FAULTS_SEED:-1} wanted=${FAULTS_COUNT:-} only=${FAULTS_LAUNCH:-}
. "$(dirname "$0")/../cluster/lib.sh"
[ "$seed" != random ] || seed=$RANDOM$RANDOM
[ -n "$wanted" ] || wanted=$([ -n "${DYAD_TEST_LONG:-}" ] && echo 5000 || echo 200)
cluster_up 4 32m
DISK=$SSD
SSD=$DISK/dmd
FAULTS=$TEST_DIR/cluster/faults.py
WORKER=$TEST_DIR/integration/progs/fault_worker.py
RESULTS=$WORK/results
MPIRUN_ARGS=(--enable-recovery)
# Small, so that the run is short; small chunks, so that a fetch is many messages. faults.py knows the first three.
JOB_ENV+=(DYAD_TIMEOUT=4 DYAD_PEER_TIMEOUT=1 DYAD_JOIN_TIMEOUT=2 DYAD_CHUNK_SIZE=64K PYTHONDONTWRITEBYTECODE=1)

say "seed $seed, $wanted faults"

# mpirun, and with it its orteds, when all ranks have ended.
end_launcher() {
    node_exec head sh -c 'for p in /proc/[0-9]*; do
        read -r name <"$p/comm" 2>/dev/null && [ "$name" = mpirun ] && kill -9 "${p#/proc/}"
    done; true'
    job_wait 2>/dev/null || true
}

launch() { # NUMBER: adds to `done`
    local i number=$1 logs=$WORK/logs.$1 events=$WORK/events.$1 node scans=() nodes count status=0
    mkdir "$logs"
    nodes=$("$PYTHON" "$TEST_DIR/cluster/fault_plan.py" "$seed" "$number" | sed -n '1s/ nodes, / /; 1s/ ranks//p')
    read -r nodes count <<<"$nodes"
    for ((i = 0; i < nodes; i++)); do
        node_exec "n$i" mkdir "$SSD"
    done
    local hosts
    hosts=$(IFS=,; echo "${NODES[*]:0:nodes}")
    LOG=$WORK/dyad.log.$number
    JOB_ENV[1]="DYAD_LOG_FILE=$LOG"
    job_begin 600 "$count@$hosts" "$PYTHON" "$WORKER" run "$seed" "$number" "$logs"
    "$PYTHON" "$FAULTS" inject "$seed" "$number" "$logs" "$DISK" "$events"
    end_launcher
    sanitizers_silent
    for ((i = 0; i < nodes; i++)); do
        scans+=("$WORK/scan.$number.n$i")
        node_exec "n$i" "$PYTHON" "$WORKER" scan "$SSD" "$seed" >"${scans[-1]}"
    done
    count=$("$PYTHON" "$FAULTS" check "$seed" "$number" "$logs" "$events" "$RESULTS" "${scans[@]}") || status=$?
    [ $status -eq 0 ] || failed+=("$number")
    faults=$((faults + count))
    nothing_left
    for ((i = 0; i < nodes; i++)); do
        node_exec "n$i" rm -rf "$SSD"
    done
    say "launch $number: $count faults, $faults so far"
}

failed=() faults=0
if [ -n "$only" ]; then
    launch "$only"
else
    for ((number = 0; faults < wanted; number++)); do
        launch "$number"
    done
fi
"$PYTHON" "$FAULTS" table "$RESULTS"
if [ -n "${DYAD_TEST_LOGS:-}" ]; then
    mkdir -p "$DYAD_TEST_LOGS"
    "$PYTHON" "$FAULTS" table "$RESULTS" >"$DYAD_TEST_LOGS/faults.$seed.md"
fi
[ ${#failed[@]} -eq 0 ] || fail "seed $seed: wrong in launches ${failed[*]} (see above); FAULTS_LAUNCH=N repeats one"
