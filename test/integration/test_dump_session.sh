#!/bin/bash
# dyad-dht-dump in a session directory: who has left is not missed, who has died is shown, and only who is there and
# does not answer makes it say so by its exit status.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
cluster_up 2
DUMP=$BIN/dyad-dht-dump
SESSION=$WORK/session

# solo NODE PROGRAM ARG...: in the background: $!.
solo() {
    local node=$1
    shift
    node_exec "$node" env DYAD_LOG=info "DYAD_LOG_FILE=$LOG" DYAD_LINGER=0 DYAD_JOIN_TIMEOUT=3 DYAD_PEER_TIMEOUT=2 timeout -k 2 100 \
        "$BIN/dyad-run" --dmd "$SSD" --session-dir "$SESSION" "$@" </dev/null
}
# stays NODE NAME: it is there until it is ended by its pid, in $WORK/pid.NAME, or somebody opens $WORK/over for writing.
# Without a child: one that lives when it is killed would be the rank's next member, and leave in order.
mkfifo "$WORK/over"
stays() {
    solo "$1" bash -c '[ ! -e "$0/none" ]; echo $$ >"$1"; read -r _ <"$2"; exit 0' \
        "$SSD" "$WORK/pid.$2" "$WORK/over" &
    last=$!
    until_true 20 "$2 is there" test -s "$WORK/pid.$2"
}
# dump NODE ARG...: status in $status, output in $WORK/out, $WORK/err.
dump() {
    local node=$1
    shift
    status=0
    node_exec "$node" env DYAD_PATH="$SSD" timeout -k 2 40 "$DUMP" "$@" >"$WORK/out" 2>"$WORK/err" || status=$?
}
# is STATUS WHAT: as the last dump ended.
is() {
    [ $status -eq "$1" ] || fail "$2: status $status, not $1: $(cat "$WORK/out" "$WORK/err")"
}
has() {
    grep -qx -- "$2" "$WORK/$1" || fail "$3: $(cat "$WORK/out" "$WORK/err")"
}
export DYAD_WAIT=none
stays n0 first
first=$last
stays n1 second

say 'four come and go'
for i in 1 2 3 4; do
    solo n0 sh -c 'echo $1 >"$0/f$1"' "$SSD" $i || fail "a writer: $?"
done
for node in n0 n1; do
    dump $node --check
    is 0 "those that have left"
    has out '4 names were checked, 0 are wrong' "the check"
    [ ! -s "$WORK/err" ] || fail "something is said of them: $(cat "$WORK/err")"
    dump $node
    is 0 "the table"
    has out 'left: rank 2-5' "the table does not tell who has left"
done
dump n1 --rank 3
is 2 "one that has left, asked for"
grep -q '^rank 3: has left$' "$WORK/err" || fail "it is not said why: $(cat "$WORK/err")"
dump n1 --json
is 0 "JSON"
"$PYTHON" - "$WORK/out" <<'PY' || fail "JSON: $(cat "$WORK/out")"
import json, sys
d = json.load(open(sys.argv[1]))
assert d["unreachable"] == [] and d["ended"] == [{"rank": r, "state": "left"} for r in (2, 3, 4, 5)], d
PY

say 'one is killed; its neighbour serves its file'
solo n0 sh -c 'echo killed >"$0/killed"; ulimit -c 0; kill -9 $$' "$SSD" 2>/dev/null && fail "it was not killed"
settled() {
    dump n1 --check
    [ $status -eq 0 ] && [ "$(cat "$WORK/err")" = 'dead: rank 6' ]
}
until_true 20 "the dead one is known, and its file served by another" settled
has out '5 names were checked, 0 are wrong' "the check"
dump n0
is 0 "the table"
has out 'left: rank 2-5' "who has left"
has out 'dead: rank 6' "who is dead"

say 'one that is there and silent is missed'
stays n1 third
node_exec n1 kill -STOP "$(cat "$WORK/pid.third")"
dump n0
is 2 "a stopped one"
has err 'rank 7: did not answer in time' "why"
node_exec n1 kill -CONT "$(cat "$WORK/pid.third")"
back() {
    dump n0 --check
    [ $status -eq 0 ]
}
until_true 20 "it is back" back

say 'nobody is left on its node who could say that it is dead'
for name in second third; do
    node_exec n1 kill -9 "$(cat "$WORK/pid.$name")"
done
alone() {
    dump n0 --check
    [ $status -eq 0 ] && grep -q '^dead: rank 1, 6-7$' "$WORK/err"
}
until_true 30 "they are known to be dead" alone
# Who comes now has not known them.
stays n0 fourth
dump n0 --check
is 0 "with one that has come later"

say 'two sessions on a node: what is around the tool tells which'
mkdir "$WORK/other"
node_exec n0 env DYAD_LINGER=0 timeout -k 2 60 "$BIN/dyad-run" --dmd "$WORK/other" --session-dir "$WORK/session2" \
    bash -c 'echo $$ >"$1"; read -r _ <"$2"; exit 0' - "$WORK/pid.other" "$WORK/over" </dev/null &
other=$!
until_true 20 "the other is there" test -s "$WORK/pid.other"
which() {
    local expected=$1
    shift
    status=0
    node_exec n0 env "$@" >"$WORK/out" 2>"$WORK/err" || status=$?
    is 0 "$*"
    [ "$(grep -c '^ *solo' "$WORK/out")" -eq "$expected" ] || fail "$*: $(cat "$WORK/out")"
}
which 1 "DYAD_PATH=$WORK/other" "$DUMP"
which 2 "DYAD_PATH=$SSD" "$DUMP"
which 1 "DYAD_SESSION_DIR=$WORK/session2" "$DUMP"
which 2 "DYAD_SESSION_DIR=$SESSION" "$DUMP"
which 1 "$DUMP" --session "$WORK/session2"
dump n0 --list
is 0 "the list"
grep -q "session directory $WORK/session2, managed $WORK/other\$" "$WORK/out" || fail "the list does not tell: $(cat "$WORK/out")"
status=0
node_exec n0 "$DUMP" >"$WORK/out" 2>"$WORK/err" || status=$?
is 1 "nothing tells which"
grep -q 'several sessions' "$WORK/err" || fail "nothing tells which: $(cat "$WORK/err")"

say 'a server, which nobody else is with'
node_exec n1 sh -c 'echo $$ >"$0"; exec "$@"' "$WORK/pid.serve" "$BIN/dyad-run" --dmd "$SSD" --producer "$SSD" --session-dir "$WORK/session3" --serve \
    </dev/null >"$WORK/serve" &
serve=$!
until_true 20 "it serves" grep -q serving "$WORK/serve"
dump n1 --session "$WORK/session3"
is 0 "a server alone"
[ "$(grep -c '^ *solo' "$WORK/out")" -eq 1 ] || fail "a server alone: $(cat "$WORK/out")"
node_exec n1 kill "$(cat "$WORK/pid.serve")"
wait $serve || fail "the server: $?"
: >"$WORK/over"
wait $first || fail "the first: $?"
wait $last || fail "the last: $?"
wait $other || fail "the other: $?"
nothing_left
