#!/bin/bash
# Processes that no launcher started, in a session directory: two terminals, on one machine and on two; who is
# a guest of whom; what is said where there is neither.
. "$(dirname "$0")/../cluster/lib.sh"
cluster_up 2
SESSION=$WORK/session

# solo NODE SECONDS PROGRAM ARG...: dyad-run as in a terminal of that node. In the background: $!.
solo() {
    local node=$1 seconds=$2
    shift 2
    node_exec "$node" env DYAD_LOG=info "DYAD_LOG_FILE=$LOG" timeout -k 2 "$seconds" \
        "$BIN/dyad-run" --dmd "$SSD" --session-dir "$SESSION" "$@" </dev/null
}

ok() {
    local what=$1 status=0
    shift
    wait "$1" || status=$?
    [ $status -eq 0 ] || fail "$what: status $status"
}

part() {
    say "$*"
    clean_ssd
    rm -rf "$SESSION"
}

live() {
    find "$SESSION" -name 'live.*' | wc -l
}

slots() {
    find "$SESSION" -name 'slot.*' | wc -l
}

part 'two machines: one waits, the other writes'
solo n1 30 bash -c 'cat "$0/f"; echo thanks >"$0/back"' "$SSD" >"$WORK/out.1" &
one=$!
until_true 10 "the first has joined" test -d "$SESSION/dyad"
solo n0 30 bash -c 'echo hello >"$0/f"; cat "$0/back"' "$SSD" >"$WORK/out.2" &
two=$!
ok "the reader" $one
ok "the writer" $two
[ "$(cat "$WORK/out.1") $(cat "$WORK/out.2")" = "hello thanks" ] || fail "not what was written: $(cat "$WORK"/out.?)"
[ "$(live) $(slots)" = "0 2" ] || fail "left in the directory: $(ls "$SESSION/dyad")"
nothing_left

part 'failed ranks with nothing to hand over leave at once'
# Each would take two seconds, the bound of a hand-over.
status=0
# shellcheck disable=SC2016
node_exec n0 env "DYAD_LOG_FILE=$LOG" timeout -k 2 30 bash -c 'for ((i = 0; i < 20; i++)); do "$0" --dmd "$1" --session-dir "$2" sh -c "exit 3"
    [ $? -eq 3 ] || exit 1; done' "$BIN/dyad-run" "$SSD" "$SESSION" </dev/null || status=$?
[ $status -eq 0 ] || fail "they waited: status $status"

part 'two terminals of one machine, with a directory each'
local_run() {
    local node=$1
    shift
    env "DYAD_LOG_FILE=$LOG" DYAD_LOG=info timeout -k 2 30 "$BIN/dyad-run" --mkdir --node "$node" --dmd "$(dmd_of "$node")" \
        --session-dir "$SESSION" "$@" </dev/null
}
local_run a cat "$(dmd_of a)/f" >"$WORK/out.1" &
one=$!
until_true 10 "the first has joined" test -d "$SESSION/dyad"
local_run b bash -c 'echo here >"$0/f"' "$(dmd_of b)" &
two=$!
ok "the reader" $one
ok "the writer" $two
[ "$(cat "$WORK/out.1")" = here ] || fail "not what was written: $(cat "$WORK/out.1")"

part 'descendants are guests of the first, in whatever way they are started'
cat >"$WORK/ways" <<'WAYS'
dmd=$1
[ -n "$DYAD_GUEST_OF" ] || exit 1
first=$DYAD_GUEST_OF
same() { [ "$DYAD_GUEST_OF" = "$first" ] || { echo "$1: $DYAD_GUEST_OF, not $first" >&2; exit 1; }; }
echo 1 >"$dmd/builtin"
(echo 2 >"$dmd/subshell")
bash -c 'echo 3 >"$0/child"' "$dmd"
bash -c 'echo 4 >"$0/background"' "$dmd" &
wait
env -i bash -c 'echo 5 >"$0/emptied"; env -i bash -c "echo 6 >$0/twice"' "$dmd"
python3 -c '
import os, subprocess, sys
d = sys.argv[1]
os.system("echo 7 >%s/system" % d)
os.popen("echo 8 >%s/popen" % d).close()
subprocess.run(["sh", "-c", "echo 9 >%s/clear" % d], env={})
if os.fork() == 0:
    open(d + "/forked", "w").write("10\n")
    os._exit(0)
os.wait()
' "$dmd"
setsid bash -c 'echo 11 >"$0/setsid"' "$dmd"
xargs -n1 bash -c 'echo 12 >"$0/xargs"' <<<"$dmd"
same "the first"
# The same slot, the next incarnation.
exec bash -c '[ "$DYAD_GUEST_OF" = "$1" ] && echo 13 >"$0/exec" && exec bash -c "echo 14 >$0/again"' "$dmd" "$first"
WAYS
PYTHON_OK=${PYTHON:+yes}
[ "$PYTHON_OK" ] || skip "needs python3"
WAYS='builtin subshell child background emptied twice system popen clear forked setsid xargs exec again'
solo n1 60 bash -c 'for f in $1; do cat "$0/$f" || exit 1; done' "$SSD" "$WAYS" >"$WORK/out.1" &
one=$!
until_true 10 "the reader has joined" test -d "$SESSION/dyad"
solo n0 60 bash "$WORK/ways" "$SSD" &
two=$!
ok "the writer" $two
ok "the reader" $one
[ "$(tr '\n' ' ' <"$WORK/out.1")" = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 " ] || fail "not what was written: $(cat "$WORK/out.1")"
[ "$(live) $(slots)" = "0 2" ] || fail "more than two members: $(ls "$SESSION/dyad")"
find "$SESSION" -name 'gone.*.3.*' | grep -q . || fail "not three incarnations of one slot: $(ls "$SESSION/dyad")"
nothing_left

part 'the first is killed: a descendant takes its place, and its slot'
solo n1 60 bash -c 'cat "$0/before"; cat "$0/after"; :' "$SSD" >"$WORK/out.1" &
one=$!
until_true 10 "the reader has joined" test -d "$SESSION/dyad"
cat >"$WORK/child" <<'CHILD'
echo $$ >"$2/pid.child"
until [ -e "$2/killed" ]; do sleep 0.05; done
echo after >"$1/after"
until grep -q after "$2/out.1"; do sleep 0.05; done
CHILD
solo n0 60 bash -c 'echo before >"$0/before"; setsid bash "$1/child" "$0" "$1" & echo $$ >"$1/pid.first"; wait' "$SSD" "$WORK" &
two=$!
until_true 10 "the child is there" test -s "$WORK/pid.child"
until_true 10 "the first file arrived" grep -q before "$WORK/out.1"
[ "$(slots) $(live)" = "2 2" ] || fail "not two members: $(ls "$SESSION/dyad")"
node_exec n0 kill -9 "$(cat "$WORK/pid.first")"
wait $two || true
: >"$WORK/killed"
ok "the reader" $one
[ "$(tr '\n' ' ' <"$WORK/out.1")" = "before after " ] || fail "not what was written: $(cat "$WORK/out.1")"
nothing_left
# The same slot again. The child has kept it for other descendants; whoever joins on the node sees that none is.
[ "$(slots) $(live)" = "2 1" ] || fail "the child took another slot: $(ls "$SESSION/dyad")"
solo n0 30 bash -c 'cat "$0/after"' "$SSD" >"$WORK/out.2" || fail "the next on that node: status $?"
[ "$(cat "$WORK/out.2")" = after ] || fail "not what was written: $(cat "$WORK/out.2")"
[ "$(slots) $(live)" = "3 0" ] || fail "$(ls "$SESSION/dyad")"

part 'a launch and a process without a launcher'
JOB_ENV+=("DYAD_SESSION_DIR=$SESSION")
solo n1 60 bash -c 'cat "$0/r0" "$0/r1"' "$SSD" >"$WORK/out.1" &
one=$!
until_true 10 "the reader has joined" test -d "$SESSION/dyad"
job_begin 60 2@n0 bash -c 'echo $PMIX_RANK >"$0/r$PMIX_RANK"; until [ -s "$1/out.1" ]; do sleep 0.1; done' "$SSD" "$WORK"
ok "the reader" $one
job_wait || fail "the launch: status $?"
[ "$(tr '\n' ' ' <"$WORK/out.1")" = "0 1 " ] || fail "not what was written: $(cat "$WORK/out.1")"

# What may be left of the process in which a launcher was started is not what its ranks' children are.
part 'a launch inside of a process without a launcher'
guest_of() {
    env "LD_PRELOAD=$PRELOAD" "DYAD_PATH=$(dmd_of a)" DYAD_LOG=error DYAD_GUEST_OF=0@solo.outer PMIX_NAMESPACE=inner \
        PMIX_RANK=7 bash -c "$1 | grep GUEST_OF; exit 0" 2>"$WORK/err.1"
}
for way in 'env -i env' 'env -u PMIX_NAMESPACE -u PMIX_RANK env' '(unset PMIX_NAMESPACE PMIX_RANK; env)' \
    'env -u PMIX_NAMESPACE -u DYAD_GUEST_OF env -i env'; do
    # The server of that launch cannot be reached: that is an error, and the program goes on.
    got=$(guest_of "$way") || fail "$way: status $?: $(head -n 3 "$WORK/err.1")"
    [ "$got" = DYAD_GUEST_OF=7@inner ] || fail "$way: $got"
done

part 'what is said of a wait is what is known: the owner is stopped; the file is half of one'
waits() {
    local node=$1
    shift
    node_exec "$node" env DYAD_LOG=info "DYAD_LOG_FILE=$LOG" DYAD_PEER_TIMEOUT=1 DYAD_JOIN_TIMEOUT=2 timeout -k 2 40 \
        "$BIN/dyad-run" --dmd "$SSD" --session-dir "$SESSION" --linger 0 --timeout 15 "$@" </dev/null
}
is_live() {
    [ "$(live)" -gt 0 ]
}
logged() {
    grep -q -- "$1" "$LOG"
}
waits n0 bash -c 'exec 5>"$0/half"; echo half >&5; ulimit -c 0; kill -9 $$' "$SSD" && fail "it was not killed"
waits n0 bash -c 'until [ -e "$0" ]; do sleep 0.1; done' "$WORK/over" &
home=$!
until_true 10 "a home is there" is_live
waits n1 bash -c 'echo whole >"$0/owned"; echo $$ >"$1"; until [ -e "$2" ]; do sleep 0.1; done' "$SSD" "$WORK/pid" "$WORK/over" &
one=$!
until_true 10 "the owner has published" test -s "$WORK/pid"
node_exec n1 kill -STOP "$(cat "$WORK/pid")"
waits n0 cat "$SSD/owned" >"$WORK/out.1" 2>"$WORK/err.1" &
two=$!
waits n0 cat "$SSD/half" >"$WORK/out.2" 2>"$WORK/err.2" &
three=$!
waits n0 cat "$SSD/never" >"$WORK/out.2" 2>"$WORK/err.2" &
four=$!
until_true 20 "it is said that the owner does not answer" logged 'waiting for "owned" after .* on node n1.* does not answer (it may be stopped'
until_true 20 "it is said that half a file lies here" logged 'waiting for "half" after .*lies here, left by a process that was killed while it wrote it'
until_true 20 "it is said that one who does not answer might have it" logged \
    'waiting for "never" after .*nobody who answers has published it; process .* on node n1 does not answer'
node_exec n1 kill -CONT "$(cat "$WORK/pid")"
ok "the reader of what is stopped" $two
[ "$(cat "$WORK/out.1")" = whole ] || fail "not what was written: $(cat "$WORK/out.1")"
wait $three && fail "half a file was read: $(cat "$WORK/out.2")"
wait $four && fail "what nobody wrote was read"
: >"$WORK/over"
ok "the owner" $one
ok "the home" $home

part 'what a killed fetch has left goes while others of the node live'
rm -f "$WORK/over" "$WORK/pid"
temporaries() {
    node_exec n1 find "$SSD/.dyad/tmp" -type f -size +1000k 2>/dev/null
}
begun() {
    [ -n "$(temporaries)" ]
}
cleaned() {
    [ -z "$(temporaries)" ]
}
waits n1 bash -c 'until [ -e "$0" ]; do sleep 0.1; done' "$WORK/over" &
one=$!
waits n0 bash -c 'head -c 300M /dev/zero >"$0/big"; echo $$ >"$1"; until [ -e "$2" ]; do sleep 0.1; done' "$SSD" "$WORK/pid" "$WORK/over" &
two=$!
until_true 20 "the file is published" test -s "$WORK/pid"
waits n1 bash -c 'echo $$ >"$1"; exec cat "$0/big"' "$SSD" "$WORK/reader" >/dev/null &
three=$!
until begun; do :; done
node_exec n1 kill -9 "$(cat "$WORK/reader")"
wait $three && fail "the reader was faster than the test"
until_true 10 "the temporary file is gone" cleaned
: >"$WORK/over"
ok "the neighbour" $one
ok "the owner" $two

part 'neither a launcher nor a session directory'
node_exec n0 env "LD_PRELOAD=$PRELOAD" "DYAD_PATH=$SSD" bash -c 'echo x >"$0/x" && cat "$0/x" >/dev/null && cat "$0/x"' "$SSD" \
    </dev/null >"$WORK/out.1" 2>"$WORK/err.1" || fail "the local file: $(cat "$WORK/err.1")"
[ "$(cat "$WORK/out.1")" = x ] || fail "not the local file"
grep -q 'not started by a PMIx launcher.*DYAD_SESSION_DIR.*not shared' "$WORK/err.1" || fail "no word of it: $(cat "$WORK/err.1")"
# dyad-run says it once, for all that it runs.
node_exec n0 "$BIN/dyad-run" --dmd "$SSD" sh -c 'cat "$0/x"; cat "$0/x"; echo y >"$0/y"' "$SSD" \
    </dev/null >"$WORK/out.1" 2>"$WORK/err.1" || fail "the local file: $(cat "$WORK/err.1")"
[ "$(wc -l <"$WORK/err.1")" -eq 1 ] && grep -q '^dyad-run: warning: no launcher' "$WORK/err.1" || fail "not said once: $(cat "$WORK/err.1")"
node_exec n0 env "LD_PRELOAD=$PRELOAD" "DYAD_PATH=$SSD" cat /etc/hostname </dev/null >/dev/null 2>"$WORK/err.1"
[ ! -s "$WORK/err.1" ] || fail "said to who touched nothing: $(cat "$WORK/err.1")"
