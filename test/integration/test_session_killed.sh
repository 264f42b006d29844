#!/bin/bash
# A process of a session, which no launcher started, is killed at each step of what it does to files, and one other of its
# node lives: soon all say the same of each name. It can be read on every node, whole, or nobody sees it and nobody waits
# for a process that never serves it.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
. "$TEST_DIR/cluster/killed.sh"
. "$TEST_DIR/cluster/steps.sh"
crash_build
cluster_up 2
SESSION=$WORK/session
JOB_ENV+=("W=$WORK" "SSD=$SSD" DYAD_JOIN_TIMEOUT=3 DYAD_LINGER=0)

# of_session NODE POINT PROGRAM ARG...
of_session() {
    local node=$1 point=$2
    shift 2
    node_exec "$node" env "${JOB_ENV[@]}" "DYAD_CRASH=/$point" timeout -k 2 60 "$CRASH/bin/dyad-run" --dmd "$SSD" \
        --session-dir "$SESSION" -- "$@" </dev/null 2>>"$WORK/err"
}

joined() { [ "$(grep -c ' joined as rank ' "$LOG")" -ge "$1" ]; }
begin() {
    rm -rf "$WORK"/flag.* "$SESSION"
    : >"$LOG"
    clean_ssd
    of_session n0 none bash -c "$RANK"'wait_for flag.over' &
    one=$!
    of_session n1 none bash -c "$RANK"'wait_for flag.over' &
    two=$!
    until_true 20 "two have joined" joined 2
}

# Nothing is wrong, as far as the living can say (status 2: the dead do not answer).
checked() {
    node_exec n1 env "DYAD_PATH=$SSD" timeout -k 2 20 "$BIN/dyad-dht-dump" --check >"$WORK/check" 2>"$WORK/check.err" || true
    grep -q ' 0 are wrong$' "$WORK/check"
}

end() {
    local pid
    : >"$WORK/flag.over"
    for pid in $one $two; do
        wait "$pid" || fail "$CASE: who stayed: status $?"
    done
    nothing_left
}

# What can be seen on a node can be read there, in one of the versions that were written. `gone`: not seen on any but n0.
READS='for f; do
    [ -e "$SSD/$f" ] || continue
    got=$(DYAD_TIMEOUT=4 cat "$SSD/$f") || { echo "$f is seen, and cannot be read" >&2; exit 1; }
    [ ${#got} -eq 9000 ] && [ -z "${got//${got:0:1}/}" ] || { echo "$f is not whole" >&2; exit 1; }
    echo "$f ${got:0:1}"
done
'
# is NAME VERSION: it must be there, on both.
is() {
    local node
    for node in n0 n1; do
        grep -qx "$1 $2" "$WORK/read.$node" || fail "$CASE: $1 on $node is not $2: $(cat "$WORK/read.$node")"
    done
}
nowhere() { ! grep -q "^$1 " "$WORK/read.n1" || fail "$CASE: $1 is seen"; }

look() {
    local node
    until_true 6 "$CASE: all say the same" checked
    for node in n1 ${1-n0}; do
        of_session "$node" none bash -c "$RANK$READS" - .t0 .t1 x0 x1 >"$WORK/read.$node" ||
            fail "$CASE: on $node: $(tail -n 3 "$WORK/err")"
    done
    checked || fail "$CASE: after it was read: $(cat "$WORK/check")"
}

# Versions 1 to 9, each written and renamed; the last .t0 is removed.
WRITER='import os, sys
d = os.environ["SSD"]
for k in range(1, 10):
    t, x = "%s/.t%d" % (d, k % 2), "%s/x%d" % (d, k % 2)
    with open(t, "w") as f: f.write(str(k) * 9000)
    os.rename(t, x)
with open(d + "/.t0", "w") as f: f.write("0" * 9000)
os.unlink(d + "/.t0")
'
before_look=:
writer() {
    local status=0
    CASE=$1
    begin
    of_session n0 "$1" python3 -c "$WRITER" || status=$?
    [ $status -eq 137 ] || fail "$CASE: it was not killed: status $status: $(tail -n 50 "$WORK/err")"
    "$before_look"
    look
    "${@:2}"
    say "$CASE: $(tr '\n' ' ' <"$WORK/read.n1")"
    end
}

# The second publish of each version is that of the rename.
writer produce-published:3 is .t0 2
writer produce-published:7 is .t0 4
writer produce-published:4 is x0 2
writer produce-recorded:3 is .t0 2
writer produce-recorded:4 is x0 2
writer produce-cleared:3 is .t0 2
writer withdraw-begin:2 is x0 2
writer withdraw-published:2 is x0 2
writer rename-moved:2 is x0 2
writer unlink-done nowhere .t0

# It is removed before anybody has looked, by a program that says nothing; or a moment after the death was seen: then who
# asks first finds that out.
removed() {
    until_true 10 "$CASE: it is removed" [ -e "$WORK/flag.removed" ]
    of_session n1 none bash -c "$RANK$READS" - .t0 >"$WORK/read.first" || :
}
REMOVER='import os, subprocess
env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
subprocess.Popen(["sh", "-c", "while kill -0 %d 2>/dev/null; do sleep 0.01; done; rm $SSD/.t0; : >$W/flag.removed" % os.getpid()], env=env)
'
SAVED=$WRITER
WRITER=$REMOVER$WRITER
before_look=removed
writer produce-published:3 nowhere .t0
before_look=:
WRITER=$SAVED

# Not so of what was being written, over what was published: nobody sees it any more but its own node, where it waits.
CASE='killed in the midst of writing'
begin
status=0
of_session n0 none python3 -c 'import os, signal
d = os.environ["SSD"]
for n in "x0", "x1":
    with open(d + "/" + n, "w") as f: f.write("1" * 9000)
f = os.open(d + "/x1", os.O_WRONLY)
os.write(f, b"2" * 4000)
os.kill(os.getpid(), signal.SIGKILL)' || status=$?
[ $status -eq 137 ] || fail "$CASE: status $status"
look ''
grep -qx 'x0 1' "$WORK/read.n1" || fail "$CASE: x0: $(cat "$WORK/read.n1")"
nowhere x1
of_session n1 none bash -c "$RANK"'printf %09000d 0 | tr 0 3 >"$SSD/x1"'
look
is x1 3
end
