#!/bin/bash
# What looks like a hang says what it is, and ends: a wait for what a process of another node has open; README's example of
# an MPI program and one that is none; processes in a network namespace of their own; SIGTERM at exit; one job with two
# nodes on one machine, for dyad-dht-dump.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
cluster_up 2
DUMP=$BIN/dyad-dht-dump

say 'who waits for longer than 10 s is told who has the file open, on another node, and of whom nobody has'
launch 60 1@n0 sh -c 'exec 3>"$0/open"; until [ -e "$1" ]; do sleep 0.1; done; echo whole >&3' "$SSD" "$WORK/told" -- \
    1@n1 sh -c '[ "$(cat "$0/open")" = whole ]' "$SSD" -- \
    1@n1 env DYAD_TIMEOUT=30 sh -c '! cat "$0/optional" 2>/dev/null' "$SSD"
waiting=$ERR

say 'dyad-dht-dump: one job, though two directories stand for two nodes, and a process has written over its environment'
mkdir "$WORK/a" "$WORK/b"
local_dump() { # ARG...: status in $status
    status=0
    "$DUMP" "$@" >"$WORK/out" 2>"$WORK/err" || status=$?
}
own_tmpdir "$WORK/mpi"
timeout -k 2 60 mpirun --oversubscribe --bind-to none "${OWN_TMPDIR[@]}" \
    -n 1 "$BIN/dyad-run" --node a --dmd "$WORK/a" bash -c '
        echo joined >"$1/a/before"
        "$0" - "$$" <<"PY"
import sys
# As setproctitle does: no byte of what exec put there is left.
pid = int(sys.argv[1])
fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
start, end = int(fields[47]), int(fields[48])
with open(f"/proc/{pid}/mem", "r+b", buffering=0) as mem:
    mem.seek(start)
    mem.write(b"x" * (end - start))
PY
        : >"$1/ready"; until [ -e "$1/go" ]; do sleep 0.1; done; echo hello >"$1/a/f"' "$PYTHON" "$WORK" : \
    -n 1 "$BIN/dyad-run" --node b --dmd "$WORK/b" cat "$WORK/b/f" </dev/null >"$WORK/job.local.out" 2>"$WORK/job.local.err" &
local=$!
BACKGROUND+=("$local")
until_true 30 "the local job runs" test -e "$WORK/ready"
hash_of_job() {
    local_dump --list
    hash=$(awk -v dir="managed $WORK/b\$" '$0 ~ dir {print $1}' "$WORK/out")
    [ -n "$hash" ] && grep -q "^ *$hash  ranks [01],[01] here" "$WORK/out"
}
until_true 30 "both ranks are one session" hash_of_job
[ "$(grep -c "managed.*$WORK" "$WORK/out")" -eq 1 ] || fail "several sessions: $(cat "$WORK/out")"
f_awaited() {
    local_dump --session "$hash" --waiting
    [ $status -eq 0 ] && grep -q ' f$' "$WORK/out"
}
until_true 20 "the wait is shown" f_awaited
local_dump --key "$WORK/b/f"
[ $status -eq 0 ] && grep -q 'waited for by rank 1' "$WORK/out" || fail "--key: $status, $(cat "$WORK/out" "$WORK/err")"
: >"$WORK/go"
wait $local || fail "the local job: $?, $(cat "$WORK/job.local.err")"
grep -qx hello "$WORK/job.local.out" || fail "it read $(cat "$WORK/job.local.out")"

say 'a child in a network namespace of its own closes and opens at once, and says why it does not share'
child='echo x >"$0/child"; [ "$(cat "$0/child")" = x ] && ! cat "$0/nowhere" 2>/dev/null'
launch 40 2@n0,n1 env DYAD_WAIT=none sh -c 'mkdir "$0/$PMIX_RANK" && echo own >"$0/$PMIX_RANK/own" &&
    timeout -k 1 20 unshare -n sh -c "$1" "$0/$PMIX_RANK" && [ "$(cat "$0/$PMIX_RANK/own")" = own ]' "$SSD" "$child"
launch_ends 1
[ "$(grep -ch 'in another network namespace.*than the member of rank [01]' "$LOG")" -ge 2 ] || fail "nobody says why: $(tail -5 "$LOG")"

say 'the same in a session directory, where the member stays; and one that is moved by exec is a rank of its own'
JOB_ENV+=(DYAD_SESSION_DIR="$WORK/session" DYAD_LINGER=0)
alone n0 timeout -k 1 20 sh -c 'echo own >"$0/solo" && unshare -n sh -c "echo x >\"\$0/solo.child\"" "$0" && echo own2 >"$0/solo2"' "$SSD"
solo=$ERR
launch_ends 1
grep -q 'in another network namespace' "$LOG" || fail "nobody says why"
! grep -q '"solo2" is complete on this node but not published' "$LOG" "$solo" || fail "the member was lost"
alone n0 unshare -n sh -c 'echo x >"$0/moved" && sh -c "echo y >\"\$0/moved.child\"; cat \"\$0/moved\"" "$0"' "$SSD"
launch_ends 1
! grep -q '"moved[^"]*" is complete on this node but not published' "$LOG" "$ERR" || fail "it is not its own rank: $(grep moved "$LOG" "$ERR")"

say 'SIGTERM ends what has ended and serves on, though the program ignored it'
JOB_ENV[-1]=DYAD_LINGER=job
alone n1 sh -c 'echo there >"$0/beside"; : >"$1/beside"; until [ -e "$1/over" ]; do sleep 0.1; done' "$SSD" "$WORK"
until_true 30 "another is there" test -e "$WORK/beside"
status=0
node_exec n1 env "${JOB_ENV[@]}" timeout -k 20 3 "$BIN/dyad-run" --dmd "$SSD" sh -c 'trap "" TERM; echo x >"$0/ignores"' "$SSD" \
    </dev/null || status=$?
[ $status -eq 124 ] || fail "who ignores SIGTERM and has ended was not ended by it: $status"
: >"$WORK/over"
launch_ends 1

say "README's example of an MPI simulation and a Python analysis"
if [ -x "$PROGS/mpi_sim" ]; then
    mkdir "$WORK/readme"
    cd "$WORK/readme"
    printf '#!/bin/sh\nexec "%s/mpi_sim" "%s"\n' "$PROGS" "$SSD" >mpi_sim && chmod +x mpi_sim
    { echo 'import sys; sys.argv.append("'"$SSD"'")'; cat "$TEST_DIR/integration/progs/analysis.py"; } >analysis.py
    # The lines of the example, between the two that begin and end it.
    sed -n '/^    mpirun .*mpi_sim &$/,/^    wait$/p' "$SOURCE_DIR/README.md" |
        sed "s|/tmp/ssd|$SSD|; s|~/session.mpi|$WORK/session.mpi|" >example
    [ "$(wc -l <example)" -eq 3 ] || fail "README has no such example any more: $(cat example)"
    sed -i 's/^    wait$/wait $!/' example # the status of mpirun
    run_example() { # SCRIPT NODE: with the library's programs in PATH
        node_exec "$2" env "PATH=$BIN:$PATH" DYAD_LOG_FILE="$LOG" OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none \
            timeout -k 2 60 bash -e -c "$1" </dev/null
    }
    run_example "$(cat example)" n0 >example.out 2>&1 || fail "README's example: $?: $(cat example.out)"
    grep -qx 'analysis: 420' example.out || fail "README's example: $(cat example.out)"
    # Each on a node of its own.
    sim=$(grep mpi_sim example) analysis=$(grep analysis example)
    node_exec n0 rm -r "$SSD/parameters" "$SSD/result" "$SSD"/step.{0,1,2}
    run_example "${sim%&}" n0 >sim.out 2>&1 &
    sim=$!
    run_example "$analysis" n1 >analysis.out 2>&1 || fail "the analysis on another node: $?: $(cat analysis.out)"
    wait $sim || fail "the simulation: $?: $(cat sim.out)"
    grep -qx 'analysis: 420' analysis.out || fail "the analysis on another node: $(cat analysis.out)"
    cd /
else
    say 'no MPI headers: mpi_sim was not built'
fi

until_true 30 "it is said who has it open" grep -q \
    'still waiting for "open" after 10 s: process [0-9]* of rank 0 on node n0 has it open for writing' "$LOG" "$waiting"
until_true 30 "it is said how a name is optional" grep -q \
    'still waiting for "optional" after 10 s: nobody has published it.* open for writing; .*DYAD_PROBES' "$LOG" "$waiting"
: >"$WORK/told"
launches_ok
