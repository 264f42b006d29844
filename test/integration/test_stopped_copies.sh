#!/bin/bash
# What a stopped rank has on its node, fetched or published, is not read there by others once it is out of date:
# while it is stopped, when it has been given up, when it goes on, when it is killed. What it has open for writing stays, and
# is in conflict with what another node has written since.
# Nor is a copy when a home of it is stopped.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
. "$TEST_DIR/cluster/killed.sh"
. "$TEST_DIR/cluster/steps.sh"
cluster_up 3
export X=$PROGS/xfer
JOB_ENV+=("X=$X" "W=$WORK" "SSD=$SSD" "LOG=$LOG")
RANK+='cd "$SSD"
stop() { echo $$ >"$W/pid.$1.new"; mv "$W/pid.$1.new" "$W/pid.$1"; kill -STOP $$; }
# Of ranks on the same node.
await_stopped() { for name; do wait_for "pid.$name"; until grep -q "^State:.T" "/proc/$(<"$W/pid.$name")/status"; do sleep 0.02; done; done; }
go_on() { local name; for name; do kill -CONT "$(<"$W/pid.$name")"; done; }
wrong() { echo "$PMIX_RANK: $1"; exit 9; }
is() { [ "$(cat "$1")" = "$2" ] || wrong "$1 is: $(cat "$1")"; }
all_are() { is copy "$1"; is "d/copy" "$1"; is own "$1"; [ "$(readlink link)" = "$1" ] || wrong "link is: $(readlink link)"; }
conflict() { ! cat "$1" 2>"$W/err.$PMIX_RANK" || wrong "$1 was read"; grep -q "Input/output error" "$W/err.$PMIX_RANK"; }
none() { [ ! -e gone ] || wrong "gone is there"; }
took() { echo "$(bc <<<"$EPOCHREALTIME - $begin")" >"$W/took.$1"; }
: >"joined.$PMIX_RANK"
'
# What the writer does on its node, before and after.
OLD='mkdir d; for f in copy d/copy gone; do echo old >$f; done; ln -s old link; made flag.old; '
NEW='begin=$EPOCHREALTIME; for f in copy d/copy own held; do (echo new >$f; took ${f#*/}) & done; rm gone & ln -sfn new link & wait; made flag.new; '
HAVE='wait_for flag.old; for f in copy d/copy gone; do is $f old; done; [ "$(readlink link)" = old ]; echo old >own; echo old >held; exec 7>>held; '
GO_ON='all_are new; none; echo more >&7; exec 7>&-; made flag.over; conflict held'

begin_case() {
    rm -f "$WORK"/{flag,pid,ok,took}.*
    clean_ssd
}
# between NAME LEAST MOST: what it took.
between() {
    local seconds
    seconds=$(cat "$WORK/took.$1")
    say "$1: $seconds s"
    awk "BEGIN {exit !($seconds >= $2 && $seconds <= $3)}" || fail "$1 took $seconds s, not $2 to $3 s"
}
# A line of the neighbour for each that it removed.
removed() {
    local file
    for file; do
        [ "$(grep -c "\"$file\" below .* is out of date: removed" "$LOG")" = 1 ] || fail "$file was not removed by a neighbour, once"
    done
    ! grep -q '"held" below .* removed' "$LOG" || fail "what a stopped rank writes was removed"
    ! grep 'did not confirm in time' "$LOG" || fail "nobody looked in its place"
    mv "$LOG" "$WORK/log.removed"
}

# What that rank had made keeps its name until it is replaced.
not_used() {
    local file
    for file; do
        grep -q "\"$file\" below .* is out of date: not used any more" "$WORK/log.removed" || fail "$file was not taken care of by a neighbour"
    done
}

# A home of some of the copies is stopped after they were fetched, before it is given up: the other one knows of them.
begin_case
JOB_ENV+=(DYAD_PEER_TIMEOUT=2 DYAD_JOIN_TIMEOUT=3)
FILES='files=$(echo file.{0..39}); are() { for f in $files; do is "$f" "$1"; done; }; '
job_begin 60 \
    1@n0 bash -c "$RANK$FILES"'for f in $files; do echo old >$f; done; made flag.old; wait_for flag.stopped
        begin=$EPOCHREALTIME; for f in $files; do echo new >$f & done; wait; took all; made flag.new; wait_for flag.over' -- \
    1@n1 bash -c "$RANK"'wait_for flag.have; stop home; wait_for flag.over' -- \
    1@n1 bash -c "$RANK"'await_stopped home; made flag.stopped; wait_for flag.read; go_on home; made flag.gone_on; wait_for flag.over' -- \
    1@n2 bash -c "$RANK$FILES"'wait_for flag.old; are old; made flag.have; wait_for flag.new; are new; made flag.read; wait_for flag.gone_on
        are new; made flag.over'
job_end_ok 60
between all 0 8
! grep 'did not confirm in time' "$LOG" || fail "a holder was not told"
: >"$LOG"

# The first of its neighbours is stopped, too.
begin_case
job_begin 60 \
    1@n0 bash -c "$RANK$OLD"'wait_for flag.stopped; '"$NEW"'wait_for flag.over; all_are new; none; conflict held' -- \
    3@n1 bash -c "$RANK"'wait_for flag.over' -- \
    1@n2 bash -c "$RANK"'stop idle; wait_for flag.over' -- \
    1@n2 bash -c "$RANK$HAVE"'stop holder; '"$GO_ON" -- \
    1@n2 bash -c "$RANK"'await_stopped idle holder; made flag.stopped; wait_for flag.new; all_are new; none
        go_on idle holder; wait_for flag.over; all_are new; none; conflict held'
job_end_ok 60
# Two ranks are stopped, which may be its homes one after the other: 1.5 times the bound for each, and a holder.
for name in copy own held; do between $name 0 8; done
removed copy d/copy gone link
not_used own

# It has been given up by all when the new versions come.
begin_case
JOB_ENV+=(DYAD_PEER_TIMEOUT=1)
job_begin 60 \
    1@n0 bash -c "$RANK$OLD"'wait_for flag.stopped; for i in {0..19}; do echo >probe.$i; done
        until [ "$(grep -c "rank [02]\]: warning: rank 1 on .*: going on without it" "$LOG")" = 2 ]; do echo >probe.$((i++ % 20)); sleep 0.1; done
        '"$NEW"'wait_for flag.over; all_are new; none; conflict held' -- \
    1@n2 bash -c "$RANK$HAVE"'stop holder; '"$GO_ON" -- \
    1@n2 bash -c "$RANK"'await_stopped holder; made flag.stopped; for i in {0..19}; do echo >try.$i; done
        wait_for flag.new; all_are new; none; go_on holder; wait_for flag.over; all_are new; none; conflict held'
job_end_ok 60
for name in copy own held; do between $name 0 1; done
removed copy d/copy gone link
not_used own

# It is killed before it goes on: who takes over its journal does not withdraw what is newer.
begin_case
job_killed 60 "read late" \
    1@n0 bash -c "$RANK$OLD"'wait_for flag.stopped; '"$NEW"'wait_for flag.killed; all_are new; none; is held new; made ok.late' -- \
    1@n2 bash -c "$RANK$HAVE"'exec 7>&-; ulimit -c 0; stop holder' -- \
    1@n2 bash -c "$RANK"'await_stopped holder; made flag.stopped; wait_for flag.new; all_are new; none
        kill -KILL "$(<"$W/pid.holder")"; until grep -q "a rank of this node is dead" "$LOG"; do sleep 0.05; done
        all_are new; none; is held new; made flag.killed; made ok.read'

# It leaves while all others are stopped, one of them on its node: what it had made that one serves, and what it had
# fetched is not read when it is out of date.
begin_case
: >"$LOG"
job_begin 60 \
    1@n0 bash -c "$RANK"'echo old >copy; made flag.old; wait_for flag.go; echo new >copy; made flag.new
        wait_for flag.read; is mine mine; made flag.over' -- \
    1@n1 bash -c "$RANK"'wait_for flag.new; is copy new; made flag.read; wait_for flag.over' -- \
    1@n1 bash -c "$RANK"'wait_for flag.old; is copy old; echo mine >mine; made flag.have; wait_for flag.stopped'
until_true 30 "rank 2 has its copy" test -e "$WORK/flag.have"
for rank in 0 1; do signal_rank $rank STOP; done
: >"$WORK/flag.stopped"
until_true 30 "rank 2 leaves without the others" grep -q 'rank 2\]: info: statistics:' "$LOG"
for rank in 0 1; do signal_rank $rank CONT; done
: >"$WORK/flag.go"
job_end_ok 60
