#!/bin/bash
# A node's cable taken out for less and for more than the timeouts, and put back: waits are bounded, no answer is
# wrong, and everything is found again without a restart.
. "$(dirname "$0")/../cluster/lib.sh"
cluster_up 5
JOB_ENV+=(DYAD_INLINE_MAX=0 DYAD_PREFETCH=off) # small files, too, are where their owner is, and nowhere else
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
# makes NAME DIRECTORY...: a file in each, in one of the ways that there are: how, and what came of it, into $WORK/NAME.RANK.
makes() {
    "$PYTHON" - "${@:2}" >"$WORK/$1.$PMIX_RANK.new" <<'PY'
import errno, os, sys, tempfile
flags = (os.O_WRONLY | os.O_CREAT | os.O_TRUNC, os.O_RDONLY | os.O_CREAT, os.O_RDWR | os.O_CREAT | os.O_EXCL,
         os.O_RDONLY | os.O_CREAT | os.O_TRUNC)
for i, directory in enumerate(sys.argv[1:]):
    try:
        way = i % (len(flags) + 1)
        if way < len(flags):
            os.close(os.open(directory + '/made', flags[way], 0o644))
        else:
            os.close(tempfile.mkstemp(dir=directory)[0])
        what = 'made'
    except OSError as e:
        what = errno.errorcode[e.errno]
    print(os.path.basename(directory), 'mkstemp' if way == len(flags) else oct(flags[way]), what)
PY
    mv "$WORK/$1.$PMIX_RANK.new" "$WORK/$1.$PMIX_RANK"
}
# looks NAME PATH...: at each, in one of the ways that there are: how, and what came of it.
looks() {
    "$PYTHON" - "${@:2}" >"$WORK/$1.$PMIX_RANK.new" <<'PY'
import concurrent.futures, ctypes, errno, os, sys
access = ctypes.CDLL(None, use_errno=True).access
def accessed(path):
    if access(path.encode(), os.F_OK):
        raise OSError(ctypes.get_errno(), path)
ways = (os.stat, accessed, os.readlink, os.lstat)
def look(path, way):
    try:
        way(path)
        what = 'there'
    except OSError as e:
        what = errno.errorcode[e.errno]
    return ' '.join([os.path.basename(os.path.dirname(path)), way.__name__, what])
with concurrent.futures.ThreadPoolExecutor(60) as pool:
    for line in pool.map(look, sys.argv[1:], len(sys.argv) // len(ways) * ways + ways):
        print(line)
PY
    mv "$WORK/$1.$PMIX_RANK.new" "$WORK/$1.$PMIX_RANK"
}
answer() { # NAME PATH [stat]: the answer into $WORK/NAME.RANK
    try "$2" "${3:-}" >"$WORK/$1.$PMIX_RANK.new"
    mv "$WORK/$1.$PMIX_RANK.new" "$WORK/$1.$PMIX_RANK"
}
meet() { # NAME: all are there, and can read each other's files
    local q
    echo "$PMIX_RANK" >"$SSD/$1.$PMIX_RANK"
    for q in 0 1 2; do cat "$SSD/$1.$q" >/dev/null || exit 3; done
    reached "$1"
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
found_again() {
    until_true 30 "all find each other again" sh -c '[ "$(grep -c "is back after" "$1")" -ge 4 ]' _ "$LOG"
}
go() { : >"$WORK/$1"; }
next() { rm -f "$WORK"/[a-z]*.[0-9] "$WORK"/go.*; [ ! -e "$LOG" ] || : >"$LOG"; }

# Longer than the timeouts. Rank 2 is cut off with files of its own, and copies of others'.
job_begin 120 3@n0,n1,n2 bash -c '. "$WORK/rank.sh"
    r=$PMIX_RANK
    for i in 0 1 2 3 4 5 6 7; do echo "old $r" >"$SSD/own.$r.$i"; done
    [ $r = 2 ] || for i in 0 1 2 3 4 5 6 7 8 9; do mkdir "$SSD/dir.$r.$i" "$SSD/at.$r.$i"; done
    [ $r = 2 ] || for i in 0 1 2 3 4 5 6 7 8 9; do ln -s "at.$r.$i" "$SSD/link.$r.$i"; done
    [ $r = 2 ] || for i in 0 1 2 3 4 5 6 7 8 9; do echo "$r" >"$SSD/at.$r.$i/f"; done
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
        answer far "$SSD/own.2.6" # when that is said it is known which side this is
        makes made "$SSD"/nodir.{0,1,2,3,4}
        looks looked "$SSD"/nodir.{0,1,2,3,4,5,6,7}/f ;;
    2) answer own "$SSD/own.2.7"
        answer far "$SSD/own.0.7"
        for i in 0 1 2 3 4 5 6 7; do answer "look$i" "$SSD/own.1.$i" stat; done
        looks looked "$SSD"/link.{0,1}.{0,1,2,3,4,5,6,7,8,9}/f
        makes made "$SSD"/dir.{0,1}.{0,1,2,3,4,5,6,7,8,9}
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
# Below a directory that is not here, and of which nobody can say whether it is published; on the majority: it is not.
while read -r directory how what; do
    case $what in
    made | EIO | EHOSTUNREACH) ;;
    *) fail "a file is made in the published $directory, beyond a cut: $how, $what" ;;
    esac
done <"$WORK/made.2"
say "in directories that are not here: $(cut -d' ' -f3 "$WORK/made.2" | sort | uniq -c | tr -s ' \n' ' ')"
! grep -v ' ENOENT$' "$WORK/made.1" || fail "on the majority a file is made in a directory that there is not"
# Below a link that is not here, the same: there is a file of that name.
while read -r link how what; do
    case $how,$what in
    *,there | *,EIO | readlink,EINVAL) ;;
    *) fail "below the published $link, beyond a cut: $how, $what" ;;
    esac
done <"$WORK/looked.2"
say "below links that are not here: $(cut -d' ' -f3 "$WORK/looked.2" | sort | uniq -c | tr -s ' \n' ' ')"
! grep -v ' ENOENT$' "$WORK/looked.1" || fail "on the majority something is below a directory that there is not"
begin=$EPOCHREALTIME
"$CLUSTER_SH" heal n2
found_again
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

# Polls of names that were published beyond a cut, from within it and until it is over: whoever cannot know does not
# say that they are not there. 40 names of each rank, so that each rank is a home of some, and of some with the other side.
next
cat >"$WORK/poll.py" <<'END_OF_POLL'
import errno, os, sys, time
work, ssd, rank = os.environ['WORK'], os.environ['SSD'], int(os.environ['PMIX_RANK'])
def there(name):
    return os.path.exists(os.path.join(work, name))
names = {r: ['late.%d.%d' % (r, i) for i in range(40)] for r in range(3)}
wrong, unknown, rounds, worst, last = [], 0, 0, 0, {}
while True:
    # Who is on our side has published when it says so, the others have when all have been found again.
    found, rounds = there('go.found'), rounds + 1
    known = [r for r in range(3) if there('split.%d' % r) and (found or rank == 2 or r != 2)]
    for r in range(3):
        for name in names[r] + ['absent.%d.%d' % (r, rounds % 7)]:
            begin = time.monotonic()
            try:
                os.stat(os.path.join(ssd, name))
                last[name] = 0
            except OSError as e:
                last[name] = e.errno
                unknown += e.errno != errno.ENOENT
                if e.errno == errno.ENOENT and r in known and name.startswith('late'):
                    wrong.append((name, round(begin, 2)))
            worst = max(worst, time.monotonic() - begin)
    if rounds == 1:
        open(os.path.join(work, 'polling.%d' % rank), 'w').close()
    absent = [last[name] for name in last if name.startswith('absent')]
    if wrong or found and not any(last[n] for r in names for n in names[r]) and set(absent) == {errno.ENOENT}:
        break
    time.sleep(0.01)
with open(os.path.join(work, 'poll.%d.new' % rank), 'w') as f:
    print('%d wrong, %d unknown, %d rounds, the longest %.1f s %s' % (len(wrong), unknown, rounds, worst, wrong[:3]), file=f)
os.rename(os.path.join(work, 'poll.%d.new' % rank), os.path.join(work, 'poll.%d' % rank))
END_OF_POLL
job_begin 180 3@n0,n1,n2 bash -c '. "$WORK/rank.sh"
    r=$PMIX_RANK
    meet begun
    await go.cut
    for i in {0..39}; do echo "$r" >"$SSD/late.$r.$i"; done
    reached split
    await go.poll
    "$PYTHON" "$WORK/poll.py" || exit 4
    await go.end'
all begun
"$CLUSTER_SH" cut n2
go go.cut
all split 60
until_true 30 "a cut longer than DYAD_JOIN_TIMEOUT" sh -c '[ "$(grep -c "has not come back" "$1")" -ge 4 ]' _ "$LOG"
go go.poll
all polling 60
"$CLUSTER_SH" heal n2
begin=$EPOCHREALTIME
found_again
go go.found
found=$EPOCHREALTIME
all poll 10
say "polls are right $(awk "BEGIN {printf \"%.1f s after all were found again, %.1f s after the cut\",
    $EPOCHREALTIME - $found, $EPOCHREALTIME - $begin}")"
for rank in 0 1 2; do
    say "poll.$rank: $(cat "$WORK/poll.$rank")"
    grep -q '^0 wrong' "$WORK/poll.$rank" || fail "a published file is ENOENT for rank $rank"
done
go go.end
job_end_ok 60

# A rank that is stopped while its node is cut off, and goes on before the cut is over: it has missed what was published,
# has noticed nothing, and says of nothing that it is not there. (Its stop is longer than what the others need to go on
# without it.)
next
job_begin 120 3@n0,n1,n2 bash -c '. "$WORK/rank.sh"
    r=$PMIX_RANK
    meet awake
    await go.slept
    for i in 0 1 2 3 4 5 6 7; do
        case $r in
        0) echo "$r" >"$SSD/slept.$i" ;;
        2) answer "look$i" "$SSD/slept.$i" stat ;;
        esac
    done
    reached slept
    await go.healed
    for i in 0 1 2 3 4 5 6 7; do [ -e "$SSD/slept.$i" ] || exit 4; done'
all awake
signal_rank 2 STOP
"$CLUSTER_SH" cut n2
go go.slept
until_true 30 "rank 0 publishes" test -e "$WORK/slept.0"
signal_rank 2 CONT
all slept
for i in 0 1 2 3 4 5 6 7; do
    read -r what took <"$WORK/look$i.2"
    say "look$i.2: $what after $took s"
    [ "$what" = EIO ] || fail "a published file is $what for a rank that was stopped and is cut off"
done
"$CLUSTER_SH" heal n2
found_again
go go.healed
job_end_ok 60

# Two nodes of five are cut off: on the majority a name that is not found is not published. But a name below a link
# that is not here is not found, either; and where the link leads nobody can say if it has no home, or its owner is gone.
next
job_begin 120 5@n0,n1,n2,n3,n4 bash -c '. "$WORK/rank.sh"
    r=$PMIX_RANK
    case $r in
    0) await below.3; await below.4 ;;
    3 | 4) for i in {0..29}; do
            mkdir "$SSD/below.$r.$i" && echo "$r" >"$SSD/below.$r.$i/f" && ln -s "below.$r.$i" "$SSD/to.$r.$i" || exit 3
        done ;;
    esac
    reached below
    await go.cut
    [ $r != 0 ] || looks looked "$SSD"/to.{3,4}.{0..29}/f
    reached found
    await go.end'
all below
"$CLUSTER_SH" cut n3
"$CLUSTER_SH" cut n4
until_true 30 "a cut longer than DYAD_JOIN_TIMEOUT" sh -c '[ "$(grep -c "rank 0.*has not come back" "$1")" = 2 ]' _ "$LOG"
go go.cut
until_true 60 "rank 0 has looked" test -e "$WORK/looked.0"
while read -r link how what; do
    case $how,$what in
    *,there | *,EIO | readlink,EINVAL) ;;
    *) fail "below the published $link, whose homes are cut off: $how, $what" ;;
    esac
done <"$WORK/looked.0"
say "below links whose owners are cut off, and all homes of some: $(cut -d' ' -f3 "$WORK/looked.0" | sort | uniq -c | tr -s ' \n' ' ')"
"$CLUSTER_SH" heal n3
"$CLUSTER_SH" heal n4
go go.end
job_end_ok 60

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
    meet over
    await go.end'
all over
"$CLUSTER_SH" cut n2
begin=$EPOCHREALTIME
go go.end
until_true 20 "members leave on both sides of a cut" sh -c '[ "$(grep -c "statistics:" "$1")" = 3 ]' _ "$LOG"
say "left after $(awk "BEGIN {printf \"%.1f\", $EPOCHREALTIME - $begin}") s"
"$CLUSTER_SH" heal n2
job_end_ok 120
