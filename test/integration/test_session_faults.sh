#!/bin/bash
# A link is cut between two launches of a session, and a member of one is stopped: waits are bounded, no answer is
# wrong, and all is found again without a restart. The directory itself is seen by both sides all the time.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
cluster_up 3
SESSION=$WORK/session
JOB_ENV+=("W=$WORK" "SSD=$SSD" "PYTHON=$PYTHON" "DYAD_SESSION_DIR=$SESSION" DYAD_PEER_TIMEOUT=1 DYAD_JOIN_TIMEOUT=3)
cat >"$WORK/rank.sh" <<'END'
made() { : >"$W/flag.$1"; }
wait_for() { until [ -e "$W/flag.$1" ]; do sleep 0.02; done; }
answer() { # NAME PATH [stat]: the contents, or the errno, and the seconds that took, into $W/NAME
    "$PYTHON" - "$2" "${3:-}" >"$W/new.$1" <<'PY'
import errno, os, sys, time
begin = time.monotonic()
try:
    if sys.argv[2]:
        os.stat(sys.argv[1])
        what = 'there'
    else:
        with open(sys.argv[1]) as f:
            what = f.read().strip()
except OSError as e:
    what = errno.errorcode[e.errno]
sys.stdout.write('%s %.1f\n' % (what, time.monotonic() - begin))
PY
    mv "$W/new.$1" "$W/answer.$1"
}
END
RANK='. "$W/rank.sh"; set -e
'
flag() { until_true 40 "$1" test -e "$WORK/flag.$1"; }
go() { : >"$WORK/flag.$1"; }
# is NAME SECONDS WHAT...: the answer is one of these, after so many seconds at most.
is() {
    local what took name=$1 most=$2
    shift 2
    until_true 40 "the answer $name" test -e "$WORK/answer.$name"
    read -r what took <"$WORK/answer.$name"
    say "$name: $what after $took s"
    [[ " $* " == *" $what "* ]] || fail "$name is $what, not $*"
    awk "BEGIN {exit !($took <= $most)}" || fail "$name took $took s, more than $most s"
}
part() {
    say "$*"
    rm -rf "$WORK"/flag.* "$WORK"/answer.* "$SESSION"
    clean_ssd
}
NEAR=$RANK'for i in 0 1 2 3 4 5 6 7; do echo old >"$SSD/near.$i"; done; made near; wait_for far
    for i in 0 1 2 3; do read -r x <"$SSD/far.$i"; done; made near.copied
    wait_for away
    answer far "$SSD/far.5" stat; echo new >"$SSD/near.0"; echo new >"$SSD/near.1"; made near.wrote
    wait_for back
    answer again "$SSD/far.6"; answer new "$SSD/far.0"; made near.end; wait_for end'

part 'a link is cut between two launches that know each other; a third comes on the far side'
launch 100 1@n0 bash -c "$NEAR"
launch 100 1@n1 bash -c "$RANK"'wait_for near; for i in 0 1 2 3 4 5 6 7; do echo old >"$SSD/far.$i"; done
    for i in 0 1 2 3; do read -r x <"$SSD/near.$i"; done; made far
    wait_for away
    answer look "$SSD/near.6" stat; echo new >"$SSD/far.0"; made far.wrote
    wait_for back
    answer other "$SSD/near.0"; answer third "$SSD/third"; made far.end; wait_for end'
flag near.copied
"$CLUSTER_SH" cut n0
go away
flag near.wrote
flag far.wrote
is far 8 there EIO EHOSTUNREACH
is look 8 there EIO EHOSTUNREACH
# Who joins now has never seen the other side, whose entry it finds.
launch 100 1@n2 bash -c "$RANK"'echo third >"$SSD/third"; for i in 0 1 2 3 4 5 6 7; do answer "join.$i" "$SSD/near.$i" stat; done
    answer join.far "$SSD/far.7"; made joined; wait_for back; answer join.new "$SSD/near.1"; made third.end; wait_for end'
flag joined
for i in 0 1 2 3 4 5 6 7; do is "join.$i" 8 there EIO EHOSTUNREACH; done
is join.far 8 old
begin=$EPOCHREALTIME
"$CLUSTER_SH" heal n0
until_true 30 "the two find each other again" sh -c '[ "$(grep -c "is back after" "$1")" -ge 2 ]' _ "$LOG"
say "found again after $(awk "BEGIN {printf \"%.1f\", $EPOCHREALTIME - $begin}") s"
sleep 3 # copies are looked at again a second after that
go back
for end in near far third; do flag $end.end; done
is again 8 old
is new 8 new
is other 8 new
is third 8 third
is join.new 8 new
go end
launches_ok

# All others are beyond the cut: what they have published is not said to be nothing. (No launcher reaches it, either.)
part 'a process joins on a node that is cut off'
JOB_ENV+=(DYAD_JOIN_TIMEOUT=30)
launch 100 1@n0 bash -c "$RANK"'for i in 0 1 2 3 4 5 6 7; do echo old >"$SSD/near.$i"; done; made near; wait_for end'
flag near
"$CLUSTER_SH" cut n2
alone n2 bash -c "$RANK"'
    for i in 0 1 2 3 4 5 6 7; do answer "join.$i" "$SSD/near.$i" stat; done; made joined; wait_for back
    answer healed "$SSD/near.0"; made end'
flag joined
for i in 0 1 2 3 4 5 6 7; do is "join.$i" 8 EIO EHOSTUNREACH; done
"$CLUSTER_SH" heal n2
until_true 30 "they find each other" sh -c 'grep -q "is back after" "$1"' _ "$LOG"
go back
is healed 8 old
go end
launches_ok
unset 'JOB_ENV[-1]'

part 'a member is stopped, and goes on'
launch 100 1@n0 bash -c "$NEAR"
launch 100 1@n1 bash -c 'echo $$ >"$W/flag.pid"; '"$RANK"'wait_for near; for i in 0 1 2 3 4 5 6 7; do echo old >"$SSD/far.$i"; done
    for i in 0 1 2 3; do read -r x <"$SSD/near.$i"; done; made far
    wait_for on
    echo new >"$SSD/far.0"; made far.wrote; wait_for back
    answer other "$SSD/near.0"; made far.end; wait_for end'
flag near.copied
node_exec n1 kill -STOP "$(cat "$WORK/flag.pid")"
go away
flag near.wrote
is far 8 there EIO EHOSTUNREACH
launch 100 1@n2 bash -c "$RANK"'for i in 0 1 2 3 4 5 6 7; do answer "join.$i" "$SSD/far.$i" stat; done; made joined; wait_for back
    answer join.near "$SSD/near.7"; made third.end; wait_for end'
flag joined
for i in 0 1 2 3 4 5 6 7; do is "join.$i" 8 there EIO EHOSTUNREACH; done
begin=$EPOCHREALTIME
node_exec n1 kill -CONT "$(cat "$WORK/flag.pid")"
until_true 30 "it is found again" sh -c '[ "$(grep -c "is back after" "$1")" -ge 1 ]' _ "$LOG"
say "found again after $(awk "BEGIN {printf \"%.1f\", $EPOCHREALTIME - $begin}") s"
go on
flag far.wrote
sleep 3
go back
for end in near far third; do flag $end.end; done
is again 8 old
is new 8 new
is other 8 new
is join.near 8 old
go end
launches_ok
