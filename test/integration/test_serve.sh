#!/bin/bash
# dyad-run --serve: steps of a session that end at once, and whose files stay.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
cluster_up 2
SESSION=$WORK/session

# in_node NODE PROGRAM ARG...
in_node() {
    local node=$1
    shift
    node_exec "$node" env DYAD_LOG=info "DYAD_LOG_FILE=$LOG" "SSD=$SSD" "W=$WORK" timeout -k 2 40 "$@" </dev/null
}

# run NODE OPTION... PROGRAM ARG...: dyad-run in the session, on that node.
RUN=("$BIN/dyad-run" --dmd "$SSD" --session-dir "$SESSION")
run() {
    in_node "$1" "${RUN[@]}" "${@:2}"
}

# serve NODE NAME OPTION...: a server in the background, $!; it has joined when $WORK/NAME is not empty. Its number on
# the node: $WORK/NAME.pid.
serve() {
    in_node "$1" sh -c 'echo $$ >"$0"; exec "$@"' "$WORK/$2.pid" "${RUN[@]}" --serve "${@:3}" >"$WORK/$2" &
}

part() {
    say "$*"
    rm -rf "$SESSION" "$WORK"/flag.* "$WORK"/server.*
    clean_ssd
}

joined() { until_true 10 "$1 has joined" test -s "$WORK/$1"; }
flag() { until_true 20 "$1" test -e "$WORK/flag.$1"; }
over() { : >"$WORK/flag.over"; }
UNTIL_OVER='until [ -e "$W/flag.over" ]; do sleep 0.02; done'
ends() { # WHAT PID
    local status=0
    wait "$2" || status=$?
    [ $status -eq 0 ] || fail "$1: status $status"
}

part 'a step ends at once, whoever runs elsewhere, and its files are served'
run n1 bash -c "$UNTIL_OVER"'; for i in 1 2 3 late; do cat "$SSD/f$i"; done' >"$WORK/got" &
other=$!
serve n0 server.0
server=$!
joined server.0
until_true 10 "the other has joined" grep -q 'joined as rank .* on node n1' "$LOG"
for i in 1 2 3; do
    run n0 bash -c 'echo '"$i"' >"$SSD/f'"$i"'"' # it would wait for the other, which waits for us
done
[ "$(grep -c 'leaving: what is here is served by another process of this node' "$LOG")" = 3 ] || fail "not three have handed over"
# Nor is a server waited for: this one's node has none, and the other is told to end only behind it.
run n1 bash -c 'until [ -e "$W/flag.over" ]; do sleep 0.02; done; read -r x <"$SSD/f1" && echo late >"$SSD/flate"' &
late=$!
over
ends "the late writer" $late
ends "the reader" $other
[ "$(tr '\n' ' ' <"$WORK/got")" = "1 2 3 late " ] || fail "read: $(cat "$WORK/got")"
run n1 true # alone with a server
node_exec n0 kill "$(cat "$WORK/server.0.pid")"
ends "the server, by SIGTERM" $server
nothing_left

part 'what a step publishes is there for others at any moment around its end'
for n in 0 1; do # a process of the node, as a job script would be
    node_exec n$n sh -c 'echo $$ >"$0.new"; mv "$0.new" "$0"; exec sleep 60' "$WORK/flag.script$n" </dev/null &
    SCRIPT[n]=$!
    flag script$n
    serve n$n server.$n --while "$(cat "$WORK/flag.script$n")"
    SERVER[n]=$!
done
joined server.0
joined server.1
# Reads each file when it comes, and never says that there is none.
run n1 --wait none python3 -c 'import os, sys
d, w = os.environ["SSD"], os.environ["W"]
for i in range(12):
    name = "%s/s%d" % (d, i)
    seen = False
    while not seen:
        seen = os.path.exists(name)
    while not os.path.exists("%s/flag.read%d" % (w, i)):   # until a step that ends now has ended
        if not os.path.exists(name):
            sys.exit("s%d is gone" % i)
        if i % 2 == 0:
            break
    if open(name).read() != "%d\n" % i:
        sys.exit("s%d is not what was written" % i)
' &
reader=$!
for ((i = 0; i < 12; i++)); do
    run n0 sh -c 'echo $0 >"$SSD/s$0"' $i
    : >"$WORK/flag.read$i"
done
ends "the reader" $reader
# A chain over both nodes.
run n0 sh -c 'echo 0 >"$SSD/c0"'
for ((i = 1; i <= 8; i++)); do
    run n$((i % 2)) bash -c 'read -r x <"$SSD/c$(($0 - 1))" && echo $((x + 1)) >"$SSD/c$0"' $i
done
[ "$(run n1 cat "$SSD/c8")" = 8 ] || fail "the chain ended with $(node_exec n0 cat "$SSD/c8")"
for n in 0 1; do
    node_exec n$n kill "$(cat "$WORK/flag.script$n")"
    ends "the server of n$n, by the end of its process" ${SERVER[n]}
    wait ${SCRIPT[n]} 2>/dev/null || true
done
nothing_left

part 'steps that were before the server: one that has ended, and one that lingers'
run n0 --linger 0 sh -c 'echo ended >"$SSD/ended"'
run n1 bash -c "$UNTIL_OVER" &
other=$!
until_true 10 "the other has joined" grep -q 'joined as rank .* on node n1' "$LOG"
run n0 sh -c 'echo lingers >"$SSD/lingers"; : >"$W/flag.written"' &
lingers=$!
flag written
serve n0 server.0
server=$!
joined server.0
ends "who lingered" $lingers
[ "$(run n1 --linger 0 cat "$SSD/ended" "$SSD/lingers" | tr '\n' ' ')" = "ended lingers " ] || fail "they are not served"
over
ends "the other" $other
rm -r "$SESSION"
ends "the server, by the end of the session directory" $server
nothing_left

part 'a server is a launch of its own, wherever it was started; a script waits for its line'
run n0 bash -c 'read -r line < <("$0" --serve --while $$) && [[ $line == *serving* ]] && echo >"$SSD/f"' "$BIN/dyad-run"
[ "$(grep -c 'joined as rank' "$LOG")" = 2 ] || fail "not two have joined: $(grep 'joined as' "$LOG")"
until_true 10 "the server ends with its script" nobody_on n0
nothing_left

part 'what is wrong is said'
wrong() { # WHAT OPTION...
    local what=$1 status=0
    shift
    "$BIN/dyad-run" --dmd "$WORK" "$@" >"$WORK/out" 2>&1 || status=$?
    [ $status -eq 125 ] && grep -q -- "$what" "$WORK/out" || fail "$*: status $status: $(cat "$WORK/out")"
}
wrong 'no session directory' --serve
wrong 'runs no program' --session-dir "$SESSION" --serve ls
wrong 'is for --serve' --while 1 ls
wrong 'not the number of a process' --session-dir "$SESSION" --serve --while x
wrong 'No such process' --session-dir "$SESSION" --serve --while 2147483647
