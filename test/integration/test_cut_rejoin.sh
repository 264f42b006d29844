#!/bin/bash
# A rank joins anew on a node that is cut off: as the next image of one that executes a program, and after a fault that UCX
# has found in itself. It cannot ask the launcher for the others then; but they were there, so nothing is absent because of
# that, and "nobody is left" is not said. When the link is back all is found again. A rank that never joins stays one.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
. "$TEST_DIR/cluster/killed.sh"
. "$TEST_DIR/cluster/steps.sh"
[ "$PYTHON" ] || skip "needs python3"
crash_build
cluster_up 3
JOB_ENV+=("W=$WORK" "SSD=$SSD" "PYTHON=$PYTHON" DYAD_JOIN_TIMEOUT=3 DYAD_PEER_TIMEOUT=1)

# ask NAME WHAT:PATH...: all at once; a line for each in $W/NAME.RANK: the errno or the contents, and how long that took.
cat >"$WORK/ask.py" <<'END'
import errno, os, sys, threading, time
lines = []
def ask(what, name):
    path, begin = os.path.join(os.environ['SSD'], name), time.monotonic()
    try:
        if what == 'stat':
            answer = os.stat(path) and 'there'
        elif what == 'list':
            answer = os.listdir(path) and 'listed'
        else:
            with open(path) as f:
                answer = f.read().strip()
    except OSError as e:
        answer = errno.errorcode[e.errno]
    lines.append('%s %s %s %.1f\n' % (what, name, answer, time.monotonic() - begin))
threads = [threading.Thread(target=ask, args=arg.split(':')) for arg in sys.argv[2:]]
for t in threads:
    t.start()
for t in threads:
    t.join()
to = '%s/%s.%s' % (os.environ['W'], sys.argv[1], os.environ['PMIX_RANK'])
with open(to + '.new', 'w') as f:
    f.writelines(sorted(lines))
os.rename(to + '.new', to)
END
RANK+='ask() { "$PYTHON" "$W/ask.py" "$@"; }
write() { local i; for i in {0..9}; do echo "$1" >"$SSD/$1.$PMIX_RANK.$i"; done; made "$1.$PMIX_RANK"; }
end() { wait_for go.last; ask last open:none; made "ok.$PMIX_RANK"; }
'
OTHERS=$RANK'write old; wait_for go.cut; write new; wait_for go.healed; write late
    ask healed open:new.2.{0..9} open:old.2.{0,1}; end'
CUT='ask cut stat:old.0.{0..9} stat:never open:old.1.{0,1} open:never list:.
    write new; wait_for go.healed; ask healed open:old.{0,1}.{2..9} open:late.0.{0,1} open:new.0.{0,1}
    ask copied open:old.{0,1}.{2..9}; end'

# answers NAME.RANK MOST REGEX: all of them are that, within that time.
answers() {
    local file=$WORK/$1 most=$2
    say "$1: $(awk '{a = $1 " " $3; n[a]++; if ($NF > t[a]) t[a] = $NF}
        END {for (a in n) printf "%d %s within %.1f s; ", n[a], a, t[a]}' "$file")"
    ! grep -Ev "^[^ ]+ [^ ]+ ($3) [0-9.]+$" "$file" || fail "$1: an answer is wrong"
    awk -v most="$most" '$NF > most {print; bad = 1} END {exit bad}' "$file" || fail "$1: an answer took more than $most s"
}

each() { # NAME: every rank has written it
    local rank
    for rank in 0 1 2; do
        until_true 60 "rank $rank writes $1" test -e "$WORK/$1.$rank"
    done
}

logged() { # TIMES REGEX
    until_true 60 "$1 times in the log: $2" sh -c '[ "$(grep -c "$2" "$3")" -ge "$1" ]' _ "$1" "$2" "$LOG"
}

# rejoins WHAT RANK2 [NP@NODE PROGRAM...]: that is rank 2; the rest is one that never joins.
rejoins() {
    local what=$1 program=$2 rank
    shift 2
    say "$what"
    rm -f "$WORK"/go.* "$WORK"/[a-z]*.[0-9]
    : >"$LOG"
    clean_ssd
    job_begin 150 2@n0,n1 bash -c "$OTHERS" -- 1@n2 bash -c "$program" _ "$RANK$CUT" "$@"
    each old
    [ $# = 0 ] || logged 3 'rank 3 has not joined'
    "$CLUSTER_SH" cut n2
    : >"$WORK/go.cut"
    until_true 60 "all is answered beyond the cut" test -e "$WORK/cut.2"
    grep -q 'joined as rank 2 .* incarnation 1' "$LOG" || fail "rank 2 has not joined anew"
    answers cut.2 12 'EIO|EHOSTUNREACH'
    ! grep 'rank 2[] ].*rank [01] has not joined' "$LOG" || fail "ranks that were there are taken for such as never join"
    "$CLUSTER_SH" heal n2
    logged 2 'rank 2[] ].* is back after'
    logged 1 'rank 0[] ].* is back after'
    logged 1 'rank 1[] ].* is back after'
    : >"$WORK/go.healed"
    each healed
    for rank in 0 1 2; do
        answers "healed.$rank" 30 'old|new|late'
    done
    until_true 60 "rank 2 opens its copies" test -e "$WORK/copied.2"
    answers copied.2 30 old
    [ $# = 0 ] || logged 4 'rank 3 has not joined'
    : >"$WORK/go.last" # and now there is nobody left, for certain
    each last
    for rank in 0 1 2; do
        answers "last.$rank" 20 ENOENT
    done
    : >"$WORK/go.end"
    job_over 60 0 1 2
}

BEFORE=$RANK'write old; wait_for go.cut
'
rejoins 'the next image of a rank' "$BEFORE"'exec bash -c "$1"'
rejoins 'the same, and one rank never joins' "$BEFORE"'exec bash -c "$1"' -- \
    1@n0 env -u LD_PRELOAD bash -c 'until [ -e "$W/go.end" ]; do sleep 0.1; done'
# It aborts where it begins to publish the first file beyond the cut.
JOB_ENV+=(DYAD_CRASH=2/abort:produce-begin:11)
rejoins 'a fault in UCX' "$BEFORE"'echo x >"$SSD/x"; eval "$1"'
grep -q 'rank 2[] ].*found a fault in itself' "$LOG" || fail "there was no fault"
