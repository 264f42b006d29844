#!/bin/bash
# A node's cable taken out for less and for more than the timeouts, and put back: waits are bounded, no answer is
# wrong, and everything is found again without a restart.
. "$(dirname "$0")/../cluster/lib.sh"
cluster_up 3
JOB_ENV+=(DYAD_PEER_TIMEOUT=1 DYAD_JOIN_TIMEOUT=3)

# What the ranks of a job do, step by step: they wait for files that the test makes, and the other way round.
cat >"$WORK/rank.sh" <<'END'
reached() { : >"$WORK/$1.$PMIX_RANK"; }
await() { until [ -e "$WORK/$1" ]; do sleep 0.05; done; }
# The contents, or the errno, and how long that took.
try() {
    "$PYTHON" - "$1" "${2:-}" <<'PY'
import os, sys, time
begin = time.monotonic()
try:
    if sys.argv[2] == 'stat':
        os.stat(sys.argv[1])
        what = 'there'
    else:
        with open(sys.argv[1]) as f:
            what = f.read().strip().replace(' ', '_')
except OSError as e:
    what = __import__('errno').errorcode[e.errno]
sys.stdout.write('%s %.1f\n' % (what, time.monotonic() - begin))
PY
}
answer() { # NAME PATH [stat]: the answer into $WORK/NAME.RANK
    try "$2" "${3:-}" >"$WORK/$1.$PMIX_RANK.new"
    mv "$WORK/$1.$PMIX_RANK.new" "$WORK/$1.$PMIX_RANK"
}
END
export WORK SSD PYTHON
JOB_ENV+=("WORK=$WORK" "SSD=$SSD" "PYTHON=$PYTHON")

# all NAME: every rank of the job has reached it. is NAME.RANK WHAT: that rank's answer.
all() {
    local rank
    for rank in 0 1 2; do
        until_true "${2:-30}" "rank $rank reaches $1" test -e "$WORK/$1.$rank"
    done
}
is() {
    local what took
    read -r what took <"$WORK/$1"
    say "$1: $what after $took s"
    [ "$what" = "$2" ] || fail "$1 is $what, not $2"
    awk "BEGIN {exit !($took <= ${3:-7})}" || fail "$1 took $took s, more than ${3:-7} s"
}
go() { : >"$WORK/$1"; }
next() { rm -f "$WORK"/[a-z]*.[0-9] "$WORK"/go.*; [ ! -e "$LOG" ] || : >"$LOG"; }

# Longer than the timeouts. Rank 2 is cut off with files of its own, and copies of others'.
job_begin 120 3@n0,n1,n2 bash -c '. "$WORK/rank.sh"
    r=$PMIX_RANK
    for i in 0 1 2 3 4 5 6 7; do echo "old $r" >"$SSD/own.$r.$i"; done
    reached written
    await go.copy
    for q in 0 1 2; do for i in 0 1 2 3; do cat "$SSD/own.$q.$i" >/dev/null || exit 3; done; done
    reached copied
    await go.cut
    case $r in
    0) # a published file of the cut-off rank, names that nobody has published, and new versions
        answer far "$SSD/own.2.5"
        answer none "$SSD/none" stat
        for i in 0 1 2 3; do echo "new 0" >"$SSD/own.0.$i"; done
        echo "same name from 0" >"$SSD/both" ;;
    1) answer near "$SSD/own.0.6"
        answer far "$SSD/own.2.6" ;;
    2) answer own "$SSD/own.2.7"
        answer far "$SSD/own.0.7"
        for i in 0 1 2 3 4 5 6 7; do answer "look$i" "$SSD/own.1.$i" stat; done
        echo "new 2" >"$SSD/own.2.0"
        echo "same name from 2" >"$SSD/both"
        echo "made beyond the cut" >"$SSD/beyond" ;;
    esac
    reached split
    await go.healed
    answer beyond "$SSD/beyond"
    answer left "$SSD/own.2.5"
    answer new2 "$SSD/own.2.0"
    answer new0 "$SSD/own.0.0"
    answer both "$SSD/both"
    answer none "$SSD/none" stat
    reached healed
    await go.end'
all written
go go.copy
all copied
"$CLUSTER_SH" cut n2
go go.cut
all split 60
is own.2 old_2
is near.1 old_0
is far.0 EHOSTUNREACH 10
is far.1 EHOSTUNREACH 10
is far.2 EHOSTUNREACH 10
is none.0 ENOENT
for i in 0 1 2 3 4 5 6 7; do # published, wherever the homes are: never ENOENT
    read -r what took <"$WORK/look$i.2"
    say "look$i.2: $what after $took s"
    [ "$what" = there ] || [ "$what" = EIO ] || fail "a published file is $what beyond a cut"
done
begin=$EPOCHREALTIME
"$CLUSTER_SH" heal n2
until_true 30 "all find each other again" sh -c '[ "$(grep -c "is back after" "$1")" -ge 4 ]' _ "$LOG"
say "found again after $(awk "BEGIN {printf \"%.1f\", $EPOCHREALTIME - $begin}") s"
sleep 3 # copies are looked at again a second after that
go go.healed
all healed 60
for rank in 0 1 2; do
    is beyond.$rank made_beyond_the_cut
    is left.$rank old_2
    is new2.$rank new_2
    is new0.$rank new_0
    is none.$rank ENOENT
done
[ "$(cut -d' ' -f1 "$WORK"/both.? | sort -u | wc -l)" = 1 ] || fail "three ranks see: $(cat "$WORK"/both.?)"
go go.end
job_end_ok 120

# Shorter than the timeouts, while all of them write and read: nobody need notice more than a delay.
next
job_begin 120 3@n0,n1,n2 bash -c '. "$WORK/rank.sh"
    for i in {0..59}; do
        echo "$PMIX_RANK $i" >"$SSD/short.$PMIX_RANK.$i" || exit 3
        [ $i != 5 ] || reached begun
        for q in 0 1 2; do
            [ "$(cat "$SSD/short.$q.$i")" = "$q $i" ] || exit 4
        done
    done'
all begun
"$CLUSTER_SH" cut n1
sleep 0.7
"$CLUSTER_SH" heal n1
begin=$EPOCHREALTIME
job_end_ok 120
say "a cut of 0.7 s: the job ended $(awk "BEGIN {printf \"%.1f\", $EPOCHREALTIME - $begin}") s later"

# Cut off when all are at exit: nobody stays for longer than DYAD_JOIN_TIMEOUT and the barrier's next question.
next
job_begin 120 3@n0,n1,n2 bash -c '. "$WORK/rank.sh"
    echo "$PMIX_RANK" >"$SSD/end.$PMIX_RANK"
    for q in 0 1 2; do cat "$SSD/end.$q" || exit 3; done
    reached over
    await go.end'
all over
"$CLUSTER_SH" cut n2
begin=$EPOCHREALTIME
go go.end
until_true 20 "members leave on both sides of a cut" sh -c '[ "$(grep -c "statistics:" "$1")" = 3 ]' _ "$LOG"
say "left after $(awk "BEGIN {printf \"%.1f\", $EPOCHREALTIME - $begin}") s"
"$CLUSTER_SH" heal n2
job_end_ok 120
