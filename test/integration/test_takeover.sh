#!/bin/bash
# A rank is killed and the job goes on: what it had published is served by another rank of its node, what it had
# fetched is not read when it is out of date. What nobody can serve any more ends in an error, in bounded time.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
. "$TEST_DIR/cluster/killed.sh"
. "$TEST_DIR/cluster/steps.sh"
cluster_up 3
JOB_ENV+=(DYAD_INLINE_MAX=0) # small files, too, are where their owner is
export X=$PROGS/xfer
EHOSTUNREACH=113
# For so long a rank that was killed may be on its way through exec.
JOB_ENV+=("X=$X" "W=$WORK" "SSD=$SSD" "PYTHON=$PYTHON" DYAD_JOIN_TIMEOUT=3)
# At the end of a rank's shell that is to die (it is the rank's member).
RANK+='die() { ulimit -c 0; made flag.killed; kill -"$1" $$; }
'
IDLE=$RANK'wait_for flag.over'

begin_case() {
    rm -f "$WORK"/flag.*
    clean_ssd
}

taken_over() {
    [ "$(grep -c "this one serves $1 files and keeps $2 copies" "$LOG")" -eq 1 ] ||
        fail "not one rank took over $1 files and $2 copies: $(grep 'this one serves' "$LOG")"
}

# 50 small files and a large one, read when their owner is dead, by another node; and the next owner dies, too.
begin_case
job_killed 40 "read read2" \
    1@n0 bash -c "$RANK"'"$X" write -d "$SSD" -p a -n 50 -s 5000; mkdir "$SSD/sub"; "$X" write -d "$SSD/sub" -p b -s 20M; die KILL' -- \
    1@n0 bash -c "$RANK"'wait_for flag.again; die SEGV' -- \
    1@n0 bash -c "$IDLE" -- \
    1@n1 bash -c "$RANK"'wait_for flag.killed; "$X" read -d "$SSD" -p a -n 50 -s 5000; "$X" read -d "$SSD/sub" -p b -s 20M
        rm "$W/flag.killed"; made ok.read; made flag.again; wait_for flag.over' -- \
    1@n2 bash -c "$RANK"'wait_for flag.again; wait_for flag.killed; "$X" read -d "$SSD" -p a -n 50 -s 5000
        "$X" read -d "$SSD/sub" -p b -s 20M; made ok.read2; made flag.over'
same_sums 51 n0 n1 n2

# Who consumes was there before: the fetch begins at the owner, which is killed in its midst.
begin_case
job_killed 40 read \
    1@n0 bash -c "$RANK"'"$X" write -d "$SSD" -p large -s 512M; wait_for flag.fetching; die KILL' -- \
    1@n0 bash -c "$IDLE" -- \
    1@n1 bash -c "$RANK"'"$X" read -d "$SSD" -p large -s 512M; made ok.read; made flag.over' -- \
    1@n1 bash -c 'until size=$(stat -c "%b" "$SSD"/.dyad/tmp/* 2>/dev/null) && [ "$size" -gt 2000 ]; do :; done
        : >"$W/flag.fetching"'"; $IDLE"
taken_over 1 0
grep -q 'the fetch of "large.000000" broke off' "$LOG" || fail "the owner was not killed in the midst of the fetch"
same_sums 1 n0 n1

# A directory on the disk of this node, which another of its ranks has used, too: it is that one's now, not nobody's.
begin_case
job_killed 40 used \
    1@n0 bash -c "$RANK"'mkdir "$SSD/dir"; echo a >"$SSD/dir/a"; made flag.written; wait_for flag.used; die KILL' -- \
    1@n0 bash -c "$RANK"'wait_for flag.written; echo b >"$SSD/dir/b"; made flag.used; wait_for flag.over' -- \
    1@n1 bash -c "$RANK"'wait_for flag.killed; [ "$(cat "$SSD/dir/a" "$SSD/dir/b")" = "a
b" ]; made ok.used; made flag.over'
taken_over 2 0

# What a killed rank had fetched is outdated: another of its node gets the new version, whatever it does and when.
begin_case
job_killed 40 "read late" \
    1@n0 bash -c "$RANK"'echo one >"$SSD/f"; echo one >"$SSD/g"; wait_for flag.killed; echo two >"$SSD/f"; rm "$SSD/g"; made flag.rewritten; wait_for flag.over' -- \
    1@n1 bash -c "$RANK"'[ "$(cat "$SSD/f" "$SSD/g")" = "one
one" ]; die KILL' -- \
    1@n1 bash -c "$RANK"'wait_for flag.rewritten; [ "$(cat "$SSD/f")" = two ]; ! [ -e "$SSD/g" ]; made ok.read; wait_for flag.over' -- \
    1@n2 bash -c "$RANK"'wait_for ok.read; [ "$(cat "$SSD/f")" = two ]; made ok.late; made flag.over'

# The same where the killed rank was the owner, and the file was written anew elsewhere.
begin_case
job_killed 40 "read" \
    1@n0 bash -c "$RANK"'[ "$(cat "$SSD/f")" = one ]; wait_for flag.killed; echo two >>"$SSD/f"; made flag.rewritten; wait_for flag.over' -- \
    1@n1 bash -c "$RANK"'echo one >"$SSD/f"; until [ -e "$W/flag.here" ]; do sleep 0.02; done; die KILL' -- \
    1@n1 bash -c "$RANK"'made flag.here; wait_for flag.rewritten; [ "$(cat "$SSD/f")" = "one
two" ]; made ok.read; made flag.over'

# What a node has made another one has written anew, which is killed at once. The first keeps the name, and no rank of it reads
# what is out of date: the new bytes, once somebody serves them, or an error, in bounded time.
cat >"$WORK/newest.py" <<'END'
import errno, os, sys, time
path, must = os.environ["SSD"] + "/f", sys.argv[1] == "must"
for i in range(40):
    assert os.listdir(os.environ["SSD"]) == ["f"]
    begin = time.monotonic()
    try:
        what = open(path, "r+" if i % 2 else "r").read()
    except OSError as e:
        assert not must and e.errno == errno.EHOSTUNREACH, e
        what = None
    assert what in (None, "one\ntwo\n") and time.monotonic() - begin < 12, (what, time.monotonic() - begin)
    if os.stat(path).st_size != 8:
        sys.exit("stat tells of what is out of date")
    if what is None and i > 2:
        break
print("newest:", what)
END
for heir in '' heir; do
    begin_case
    job_killed 60 "read neighbour" \
        1@n0 bash -c "$RANK"'echo one >"$SSD/f"; made flag.one; wait_for flag.killed; "$PYTHON" "$W/newest.py" "$1"; made ok.read; wait_for flag.over' _ "${heir:+must}" -- \
        1@n0 bash -c "$RANK"'echo x >/dev/null; wait_for flag.killed; "$PYTHON" "$W/newest.py" "$1"; made ok.neighbour; wait_for flag.over' _ "${heir:+must}" -- \
        1@n1 bash -c "$RANK"'wait_for flag.one; echo two >>"$SSD/f"; die KILL' -- \
        1@"$([ -n "$heir" ] && echo n1 || echo n2)" bash -c "$RANK"'wait_for ok.read; wait_for ok.neighbour; made flag.over'
    [ -z "$heir" ] || same_sums 1 n0 n1
    node_exec n0 test -e "$SSD/f" || fail "node n0 has lost what it made"
done

# Removed by a process whose member died before it could say so.
begin_case
job_killed 40 "gone kept" \
    1@n0 bash -c "$RANK"'echo x >"$SSD/f"; echo x >"$SSD/kept"; wait_for flag.seen; env -u LD_PRELOAD rm "$SSD/f"; die KILL' -- \
    1@n0 bash -c "$IDLE" -- \
    1@n1 bash -c "$RANK"'until [ -e "$SSD/f" ]; do sleep 0.02; done; made flag.seen; wait_for flag.killed
        while [ -e "$SSD/f" ]; do sleep 0.05; done; made ok.gone; [ "$(cat "$SSD/kept")" = x ]; made ok.kept; made flag.over'

# The same, and when it dies nobody knows any more that it had published the file: its only home was killed while it was
# stopped. Another node has published that name anew, with a lower version.
begin_case
JOB_ENV+=(DYAD_REPLICAS=1 "DUMP=$BIN/dyad-dht-dump")
job_killed 60 "new read" \
    1@n1 bash -c "$RANK"'wait_for flag.killed; echo new >"$SSD/$(cat "$W/flag.name")"; made ok.new; made flag.written; wait_for flag.over' -- \
    1@n0 bash -c "$RANK"'echo x >"$SSD/first"; wait_for flag.all; echo x >"$SSD/kept"
        for i in $(seq 200); do
            echo old >"$SSD/f.$i"; "$DUMP" --json --key "$SSD/f.$i" | tr -d " \n" >"$W/flag.key"
            ! grep -q "\"homes\":\[3\]" "$W/flag.key" || break
        done
        env -u LD_PRELOAD rm "$SSD/f.$i"; echo "f.$i" >"$W/flag.name"; echo $$ >"$W/flag.pid.new"; mv "$W/flag.pid.new" "$W/flag.pid"; kill -STOP $$' -- \
    1@n0 bash -c "$RANK"'wait_for flag.pid; pid=$(cat "$W/flag.pid"); until grep -q "^State:.T" "/proc/$pid/status"; do sleep 0.02; done
        made flag.stopped; wait_for flag.written; kill -KILL "$pid"; wait_for flag.over' -- \
    1@n2 bash -c "$RANK"'[ "$(cat "$SSD/first")" = x ]; made flag.all; wait_for flag.stopped; die KILL' -- \
    1@n2 bash -c "$RANK"'wait_for flag.written; [ "$(cat "$SSD/kept")" = x ]; sleep 1
        [ "$(cat "$SSD/$(cat "$W/flag.name")")" = new ]; made ok.read; made flag.over'
[ "$(grep -c "; 1 had been removed" "$LOG")" -eq 1 ] || fail "not one rank found one file removed"
JOB_ENV=("${JOB_ENV[@]:0:${#JOB_ENV[@]}-2}")

# A child of the killed member lives on, and has a file open. It cannot be a member (PMIx and UCX do not survive a
# fork): it says so and goes on, and what it executes then can.
begin_case
mkfifo "$WORK/flag.pipe"
job_killed 40 "child after" \
    1@n0 bash -c "$RANK"'echo x >"$SSD/before"
        ( exec 3>"$SSD/late"; echo first >&3; made flag.open
            until [ -e "$W/flag.taken_over" ]; do read -rt 0.02 <>"$W/flag.pipe" || :; done
            echo second >&3; exec 3>&-; made ok.child; exec bash -c "echo third >$SSD/after; exit" ) &
        wait_for flag.open; die KILL' -- \
    1@n0 bash -c "$IDLE" -- \
    1@n1 bash -c "$RANK"'wait_for flag.killed; [ "$(cat "$SSD/before")" = x ]; made flag.taken_over; [ "$(cat "$SSD/after")" = third ]; made ok.after; made flag.over'
grep -q 'forked off it .* cannot take its place' "$LOG" || fail "the child did not say that its rank has no member"

# A rank that execs again and again is not dead: nobody takes its files from it.
begin_case
job_killed 60 "read idle" \
    1@n0 bash -c 'i=${1:-0}; echo "$i" >"$SSD/exec.$i"; [ "$i" -lt 15 ] || { : >"$W/flag.last"; until [ -e "$W/flag.over" ]; do sleep 0.02; done; exit; }
        exec bash -c "$0" "$0" $((i + 1))' \
        'i=${1:-0}; echo "$i" >"$SSD/exec.$i"; [ "$i" -lt 15 ] || { : >"$W/flag.last"; until [ -e "$W/flag.over" ]; do sleep 0.02; done; exit; }
        exec bash -c "$0" "$0" $((i + 1))' -- \
    1@n0 bash -c "$IDLE; made ok.idle" -- \
    1@n1 bash -c "$RANK"'for i in $(seq 0 15); do [ "$(cat "$SSD/exec.$i")" = "$i" ]; done; made ok.read; made flag.over'
! grep 'this one serves' "$LOG" || fail "the files of a rank in exec were taken over"

# The only rank of its node: each open fails, in bounded time, with file, owner and node in the log.
begin_case
begin=$SECONDS
job_killed 30 read \
    1@n0 bash -c "$RANK"'"$X" write -d "$SSD" -p lost -n 3; die KILL' -- \
    1@n1 bash -c "$RANK"'wait_for flag.killed; "$X" read -d "$SSD" -p lost -n 3 -t 3 -E '$EHOSTUNREACH'; made ok.read'
[ $((SECONDS - begin)) -lt 15 ] || fail "an open of what is lost took $((SECONDS - begin)) s"
for i in 0 1 2; do
    grep -q "\"lost.00000$i\" cannot be fetched: its owner, rank 0 on node n0" "$LOG" || fail "no word of lost.00000$i, its owner and its node"
done
