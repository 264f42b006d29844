#!/bin/bash
# Ranks that are stopped (SIGSTOP) for less and for more than the bounds, as owners, as homes, as readers with
# copies of their own, and go on (SIGCONT): nothing is lost by it, and nothing stale is acted on.
. "$(dirname "$0")/../cluster/lib.sh"
cluster_up 3
X=$PROGS/xfer
EHOSTUNREACH=113

cat >"$WORK/rank.sh" <<'END'
await() { until [ -e "$WORK/$1" ]; do sleep 0.05; done; }
reached() { : >"$WORK/$1.$PMIX_RANK"; }
took() { echo "$(bc <<<"$EPOCHREALTIME - $begin")" >"$WORK/$1.$PMIX_RANK"; }
END
JOB_ENV+=(DYAD_INLINE_MAX=0) # small files, too, are where their owner is
JOB_ENV+=("WORK=$WORK" "SSD=$SSD" "X=$X" "EHOSTUNREACH=$EHOSTUNREACH")
reached() {
    local rank
    for rank in "${@:2}"; do
        until_true 40 "rank $rank reaches $1" test -e "$WORK/$1.$rank"
    done
}
go() { : >"$WORK/$1"; }
next() { rm -f "$WORK"/[a-z]*.[0-9] "$WORK"/go.*; clean_ssd; }
# between NAME LEAST MOST: what it took.
between() {
    local seconds
    seconds=$(cat "$WORK/$1")
    say "$1: $seconds s"
    awk "BEGIN {exit !($seconds >= $2 && $seconds <= $3)}" || fail "$1 took $seconds s, not $2 to $3 s"
}

# For 3 s, with the default bounds: the open of a file of its own waits, and so does what it is home to.
job_begin 60 2@n0,n1 bash -c '. "$WORK/rank.sh"
    await go.stopped
    begin=$EPOCHREALTIME
    ("$X" read -d "$SSD" -p own -n 3 && took own) &
    "$X" write -d "$SSD" -p "w.$PMIX_RANK" -n 20 || exit 5
    took write
    wait $! || exit 4
    reached done
    await go.end
    for r in 0 1; do "$X" read -d "$SSD" -p "w.$r" -n 20 || exit 6; done' -- \
    1@n2 bash -c '. "$WORK/rank.sh"
    "$X" write -d "$SSD" -p own -n 3
    reached written
    await go.end
    for r in 0 1; do "$X" read -d "$SSD" -p "w.$r" -n 20 || exit 6; done'
reached written 2
signal_rank 2 STOP
go go.stopped
sleep 3
signal_rank 2 CONT
reached done 0 1
between own.0 2 6
between write.0 0 9
go go.end
job_end_ok 60
! grep -q 'going on without it' "$LOG" || fail "a rank that was stopped for 3 s was given up"

# For longer than the bounds: opens of its files fail after the bound and no sooner, what it was home to moves;
# what only it knows is not said to be nothing. Then all is as before.
next
JOB_ENV+=(DYAD_PEER_TIMEOUT=1 DYAD_JOIN_TIMEOUT=3)
job_begin 90 2@n0,n1 bash -c '. "$WORK/rank.sh"
    r=$PMIX_RANK
    for i in 0 1 2 3; do echo "old $r" >"$SSD/copy.$r.$i"; done
    reached written
    await go.stopped
    begin=$EPOCHREALTIME
    "$X" read -d "$SSD" -p own -E $EHOSTUNREACH || exit 4
    took own
    begin=$EPOCHREALTIME
    "$X" write -d "$SSD" -p "w.$r" -n 20 || exit 5
    "$X" read -d "$SSD" -p "w.$((1 - r))" -n 20 || exit 6
    for i in 0 1 2 3; do echo "new $r" >"$SSD/copy.$r.$i"; done
    took work
    reached done
    await go.again
    begin=$EPOCHREALTIME
    "$X" read -d "$SSD" -p own -n 3 || exit 7
    took again
    "$X" read -d "$SSD" -p late -n 20 || exit 8' -- \
    1@n2 bash -c '. "$WORK/rank.sh"
    "$X" write -d "$SSD" -p own -n 3
    await go.copy
    for r in 0 1; do for i in 0 1 2 3; do cat "$SSD/copy.$r.$i" >/dev/null || exit 4; done; done
    [ -e "$SSD/none" ]
    reached written
    await go.again
    for r in 0 1; do for i in 0 1 2 3; do
        [ "$(cat "$SSD/copy.$r.$i")" = "new $r" ] || { echo "stale: copy.$r.$i"; exit 5; }
    done; done
    for r in 0 1; do "$X" read -d "$SSD" -p "w.$r" -n 20 || exit 6; done
    "$X" write -d "$SSD" -p late -n 20'
reached written 0 1
go go.copy
reached written 2
signal_rank 2 STOP
go go.stopped
reached done 0 1
between own.0 3 6
between work.0 0 12
sleep 1
begin=$EPOCHREALTIME
signal_rank 2 CONT
until_true 10 "all find it again" sh -c '[ "$(grep -c "rank [01]\]: info: rank 2 on node n2 is back after" "$1")" = 2 ]' _ "$LOG"
say "found again after $(awk "BEGIN {printf \"%.1f\", $EPOCHREALTIME - $begin}") s"
sleep 2 # it looks at its copies a second after it knows
go go.again
job_end_ok 90
between again.0 0 2

# Stopped while everybody else waits for what it will write: it counts as busy, so nobody is told that nobody is
# left before the bounds have passed, and then not that there is no such file.
next
job_begin 60 2@n0,n1 bash -c '. "$WORK/rank.sh"
    begin=$EPOCHREALTIME
    "$X" read -d "$SSD" -p soon || exit 4
    took soon
    reached soon
    "$X" read -d "$SSD" -p late || exit 5' -- \
    1@n2 bash -c '. "$WORK/rank.sh"
    reached ready
    await go.write
    "$X" write -d "$SSD" -p soon
    reached wrote
    await go.late
    "$X" write -d "$SSD" -p late'
reached ready 2
sleep 1
signal_rank 2 STOP
sleep 1.5
signal_rank 2 CONT
go go.write
reached soon 0 1
go go.late
job_end_ok 60

# Stopped for good, as far as the others can tell, while they wait: that ends, but not by saying that there is no such
# file. Whoever asks again when it goes on gets it.
next
job_begin 90 2@n0,n1 bash -c '. "$WORK/rank.sh"
    await go.stopped
    begin=$EPOCHREALTIME
    "$X" read -d "$SSD" -p late -E $EHOSTUNREACH || exit 4
    took given.up
    reached done
    await go.again
    "$X" read -d "$SSD" -p late || exit 5' -- \
    1@n2 bash -c '. "$WORK/rank.sh"
    echo >"$SSD/here"
    reached ready
    await go.again
    "$X" write -d "$SSD" -p late'
reached ready 2
signal_rank 2 STOP
go go.stopped
reached done 0 1
between given.up.0 3 16
signal_rank 2 CONT
until_true 10 "all find it again" sh -c '[ "$(grep -c "rank [01]\]: info: rank 2 on node n2 is back after" "$1")" = 2 ]' _ "$LOG"
go go.again
job_end_ok 90

# All homes of some of its files are stopped when a rank removes and renames them: others take the tombstones, and it is
# not told that nobody can be reached, which is true only of those that know what it knows itself.
next
job_begin 90 1@n0 bash -c '. "$WORK/rank.sh"
    for i in {9..13}; do echo $i >"$SSD/gone.$i"; echo $i >"$SSD/from.$i"; done
    reached written
    await go.stopped
    for i in {9..13}; do # ranks 1 and 2 are the homes of gone.10 and 12, and from.9, 12 and 13
        rm "$SSD/gone.$i" & rms[i]=$!
        mv "$SSD/from.$i" "$SSD/to.$i" & mvs[i]=$!
    done
    for i in {9..13}; do
        wait ${rms[i]} || exit 4
        wait ${mvs[i]} || exit 5
    done
    reached done
    await go.end' -- \
    2@n1,n2 bash -c '. "$WORK/rank.sh"
    for i in {9..13}; do [ "$(cat "$SSD/gone.$i" "$SSD/from.$i")" = "$i
$i" ] || exit 4; done
    reached ready
    await go.end
    for i in {9..13}; do
        for name in gone from; do [ ! -e "$SSD/$name.$i" ] || { echo "$name.$i is there"; exit 5; }; done
        [ "$(cat "$SSD/to.$i")" = $i ] || exit 6
    done'
reached written 0
reached ready 1 2
for rank in 1 2; do signal_rank $rank STOP; done
go go.stopped
reached done 0
for rank in 1 2; do signal_rank $rank CONT; done
until_true 20 "all find each other again" sh -c '[ "$(grep -c "rank 0\]: info: rank [12] on node n[12] is back after" "$1")" = 2 ]' _ "$LOG"
sleep 2
go go.end
job_end_ok 90
! grep -q "could not be withdrawn" "$LOG" || fail "a removal was not told"
