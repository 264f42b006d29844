#!/bin/bash
# Random faults over a random workload, all from one seed: ranks killed and stopped, links cut, disks full, writes that fail. What is
# right and what is wrong stands at the top of test/cluster/faults.py, docs/reliability.md says how to repeat a run.
#
# FAULTS_SEED (default 1; or "random"; with ":kill,stop,cut,full,limit,writer" or some of these behind it: only such faults),
# FAULTS_COUNT (200; 5000 with DYAD_TEST_LONG), FAULTS_LAUNCH (only that launch).
seed=${FAULTS_SEED:-1} wanted=${FAULTS_COUNT:-} only=${FAULTS_LAUNCH:-}
. "$(dirname "$0")/../cluster/lib.sh"
[ "$seed" != random ] || seed=$RANDOM$RANDOM
[ -n "$wanted" ] || wanted=$([ -n "${DYAD_TEST_LONG:-}" ] && echo 5000 || echo 200)
cluster_up 4 32m
DISK=$SSD
SSD=$DISK/dmd
FAULTS=$TEST_DIR/cluster/faults.py
WORKER=$TEST_DIR/integration/progs/fault_worker.py
# Small, so that the run is short; small chunks, so that a fetch is many messages. faults.py knows the first three.
ENVIRONMENT=(DYAD_TIMEOUT=4 DYAD_PEER_TIMEOUT=1 DYAD_JOIN_TIMEOUT=2 DYAD_CHUNK_SIZE=64K DYAD_LOG=info
    PMIX_MCA_gds=hash PYTHONDONTWRITEBYTECODE=1)

say "seed $seed, $wanted faults"

# All ranks have ended. mpirun 4.1.4 does not notice if one of another node was killed, and its orteds end with it.
end_launcher() {
    node_exec head sh -c 'for p in /proc/[0-9]*; do
        read -r name <"$p/comm" 2>/dev/null && [ "$name" = mpirun ] && kill -9 "${p#/proc/}"
    done; true'
    job_wait 2>/dev/null || true
}

launch() { # NUMBER: adds to `faults` and `failed`
    local i count nodes hosts judged deserted scans=() logs=$WORK/logs.$1 MPIRUN_ARGS=(--enable-recovery)
    mkdir "$logs"
    read -r nodes _ count _ <<<"$("$PYTHON" "$TEST_DIR/cluster/fault_plan.py" "$seed" "$1")"
    hosts=$(IFS=, && echo "${NODES[*]:0:nodes}")
    for ((i = 0; i < nodes; i++)); do
        node_exec "n$i" mkdir "$SSD"
    done
    LOG=$WORK/dyad.log.$1
    JOB_ENV=("DYAD_LOG_FILE=$LOG" "${ENVIRONMENT[@]}")
    job_begin 600 "$count@$hosts" "$PYTHON" "$WORKER" run "$seed" "$1" "$logs"
    "$PYTHON" "$FAULTS" inject "$seed" "$1" "$logs" "$DISK" "$WORK/events.$1"
    end_launcher
    sanitizers_silent
    for ((i = 0; i < nodes; i++)); do
        scans+=("$WORK/scan.$1.n$i")
        node_exec "n$i" "$PYTHON" "$WORKER" scan "$SSD" "$seed" >"${scans[-1]}"
    done
    judged=$WORK/judged.$1
    if "$PYTHON" "$FAULTS" check "$seed" "$1" "$logs" "$WORK/events.$1" "$WORK/results" "${scans[@]}" >"$judged"; then
        rm -rf "$logs" "$LOG"
    else
        failed+=("$1")
    fi
    read -r count deserted <"$judged"
    # Where no rank was left alive, it is the next member to come that removes what a killed one was fetching.
    MPIRUN_ARGS=()
    [ -z "$deserted" ] || job_ok 30 "$nodes@$hosts" ls "$SSD" >/dev/null
    nothing_left
    for ((i = 0; i < nodes; i++)); do
        node_exec "n$i" rm -rf "$SSD"
    done
    faults=$((faults + count))
    say "launch $1: $count faults, $faults so far"
}

failed=() faults=0
if [ -n "$only" ]; then
    launch "$only"
else
    for ((number = 0; faults < wanted; number++)); do
        launch "$number"
    done
fi
"$PYTHON" "$FAULTS" table "$WORK/results"
if [ -n "${DYAD_TEST_LOGS:-}" ]; then
    mkdir -p "$DYAD_TEST_LOGS"
    "$PYTHON" "$FAULTS" table "$WORK/results" >"$DYAD_TEST_LOGS/faults.md"
fi
[ ${#failed[@]} -eq 0 ] || fail "seed $seed: wrong in launches ${failed[*]} (see above); FAULTS_LAUNCH=N repeats one"
