#!/bin/bash
# A member is killed at each step of what it does to files and to the journal: what a close had returned for is there
# afterwards, whole, on every node; what it had not is whole or an error; a copy is never older than a later publish.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
. "$TEST_DIR/cluster/killed.sh"
. "$TEST_DIR/cluster/steps.sh"
crash_build
cluster_up 2
COMMON=("W=$WORK" "SSD=$SSD" DYAD_LOG=info "DYAD_LOG_FILE=$LOG" PMIX_MCA_gds=hash DYAD_JOIN_TIMEOUT=3)
RANK+='hello() { echo $$ >"$W/flag.pid.$1.new" && mv "$W/flag.pid.$1.new" "$W/flag.pid.$1"; }
# The one whose end is to be waited for, by a rank of its node.
gone() { wait_for "flag.pid.$1"; while kill -0 "$(cat "$W/flag.pid.$1")" 2>/dev/null; do sleep 0.05; done; made "flag.gone.$1"; }
text() { local i; for i in 1 2 3 4 5 6 7 8; do echo "$1: this is line $i of what was written there, and all of it must come"; done; }
right() { [ "$(cat "$SSD/$1")" = "$(text "$2")" ]; }
'
IDLE=$RANK'hello idle; wait_for flag.over'

# beside NODE SCRIPT: a process that is no rank (one that never joins costs each job 3 s), until it is done or the job is over.
beside() {
    node_exec "$1" env "${COMMON[@]}" bash -c "$RANK$2" </dev/null >>"$WORK/beside" 2>&1 &
}

# case_begin DYAD_CRASH
case_begin() {
    rm -f "$WORK"/flag.* "$WORK"/acked
    clean_ssd
    JOB_ENV=("${COMMON[@]}" "DYAD_CRASH=$1")
    CASE=$1
}

# died RANK...: these were killed, and no other.
died() {
    local rank
    for rank in "$@"; do
        [ -e "$WORK/flag.gone.$rank" ] || fail "$CASE: rank $rank was not killed"
    done
    say "$CASE: $(grep -c 'this one serves' "$LOG" || true) taken over"
}

# What the writer had been told is so.
CHECK='check() {
    local name what content; declare -A last
    while read -r name what; do last[$name]=$what; done <"$W/acked"
    for name in "${!last[@]}"; do
        case ${last[$name]} in
        -) # between two versions: one of them whole, or an error
            if content=$(DYAD_WAIT=none cat "$SSD/$name" 2>/dev/null) && [ "$PMIX_RANK" = 2 ]; then
                [ "$content" = "$(text "$name")" ] || [ "$content" = "$(text "again${name#f}")" ]
            fi ;;
        gone) ! [ -e "$SSD/$name" ] ;;
        *) right "$name" "${last[$name]}" ;;
        esac
    done
}
'
# Rank 0 writes 12 files and writes them anew, then would remove one. Rank 1 is its neighbour, rank 2 on another node.
writer() {
    case_begin "0/$1"
    beside n0 'gone 0'
    job_killed 40 "near far" \
        1@n0 bash -c "$RANK"'hello 0
            for i in 1 2 3 4 5 6 7 8 9 10 11 12; do text "f$i" >"$SSD/f$i"; echo "f$i f$i" >>"$W/acked"; done
            for round in 1 2 3 4 5; do
                for i in 1 2 3 4 5; do echo "f$i -" >>"$W/acked"; text "again$i" >"$SSD/f$i"; echo "f$i again$i" >>"$W/acked"; done
            done
            echo "f12 -" >>"$W/acked"; rm "$SSD/f12"; echo "f12 gone" >>"$W/acked"; wait_for flag.over' -- \
        1@n0 bash -c "$RANK$CHECK"'wait_for flag.gone.0; check; made ok.near; wait_for flag.over' -- \
        1@n1 bash -c "$RANK$CHECK"'wait_for flag.gone.0; check; made ok.far; wait_for ok.near; made flag.over'
    died 0
}

LONG=$([ $LEVEL != soak ] || echo 1)
for point in produce-begin:5 produce-published:15 produce-recorded:15 produce-cleared:5 withdraw-begin withdraw-published \
    journal-written:2 journal-renamed:2 \
    ${LONG:+produce-begin:15 produce-published:5 produce-recorded:5 produce-cleared:15 produce-published:30 produce-recorded:30}; do
    writer "$point"
done

# Rank 0 is killed in the close of its only file, when its journal has it: it is whole, on its own node and elsewhere, for who
# waits for it already and for who comes later.
closer() {
    case_begin "0/$1"
    beside n0 'gone 0'
    job_killed 40 "near far late" \
        1@n0 bash -c "$RANK"'hello 0; text new >"$SSD/new"; wait_for flag.over' -- \
        1@n0 bash -c "$RANK"'hello 1; right new new; made ok.near; wait_for flag.over' -- \
        1@n1 bash -c "$RANK"'right new new; made ok.far; wait_for flag.over' -- \
        1@n1 bash -c "$RANK"'wait_for ok.near; wait_for ok.far; right new new; made ok.late; made flag.over'
    died 0
}

for point in produce-recorded produce-published; do
    closer "$point"
done

# Rank 1 reads what rank 0 wrote, and is killed over it. Rank 2, its neighbour, reads some of it, and all of it after it
# was written anew.
reader() {
    case_begin "1/$1"
    beside n1 'gone 1'
    job_killed 40 "first second" \
        1@n0 bash -c "$RANK"'for i in 1 2 3 4; do text "r$i" >"$SSD/r$i"; done; made flag.written; wait_for ok.first
            for i in 1 2 3 4; do text "again$i" >"$SSD/r$i"; done; made flag.rewritten; wait_for flag.over' -- \
        1@n1 bash -c "$RANK"'hello 1; wait_for flag.written; for i in 1 2 3 4; do right "r$i" "r$i"; done; wait_for flag.over' -- \
        1@n1 bash -c "$RANK"'wait_for flag.gone.1; for i in 2 4; do right "r$i" "r$i"; done; made ok.first
            wait_for flag.rewritten; for i in 1 2 3 4; do right "r$i" "again$i"; done; made ok.second; made flag.over'
    died 1
}

for point in fetch-complete:2 fetch-committed fetch-committed:4; do
    reader "$point"
done

# Rank 1 is killed before or after it has removed a copy that is out of date: its neighbour, rank 2, does not open that.
holder() {
    case_begin "1/$1"
    beside n1 'gone 1'
    job_killed 40 near \
        1@n0 bash -c "$RANK"'for i in 1 2 3 4; do text "r$i" >"$SSD/r$i"; done; made flag.written; wait_for flag.read
            for i in 1 2 3 4; do text "again$i" >"$SSD/r$i"; done; made flag.rewritten; wait_for flag.over' -- \
        1@n1 bash -c "$RANK"'hello 1; wait_for flag.written; for i in 1 2 3 4; do right "r$i" "r$i"; done; made flag.read; wait_for flag.over' -- \
        1@n1 bash -c "$RANK"'wait_for flag.gone.1; wait_for flag.rewritten; for i in 1 2 3 4; do right "r$i" "again$i"; done
            made ok.near; made flag.over'
    died 1
}

for point in invalidate-begin invalidate-begin:3 invalidate-removed invalidate-removed:4; do
    holder "$point"
done

# The same of files that rank 1 has made: they keep their names, and come again in their newer version, whether somebody opens
# them on their node ($2: these) or not. $3: also if another process of rank 1 takes its place, and is killed over the same.
maker() {
    case_begin "1/$1"
    beside n1 'gone 1'
    beside n1 'wait_for flag.written; until [ -e "$W/flag.read" ]; do for i in 1 2 3 4; do [ -s "$SSD/m$i" ]; done; done
        for i in 1 2 3 4; do until right "m$i" "again$i"; do sleep 0.02; done; done; made flag.seen'
    job_killed 40 near \
        1@n0 bash -c "$RANK"'wait_for flag.written; for i in 1 2 3 4; do text "again$i" >"$SSD/m$i"; done; made flag.rewritten; wait_for flag.over' -- \
        1@n1 bash -c "$RANK"'hello 1; for i in 1 2 3 4; do text "m$i" >"$SSD/m$i"; done
            '"${3:-}"'made flag.written; wait_for flag.over' -- \
        1@n1 bash -c "$RANK"'wait_for flag.gone.1; wait_for flag.rewritten; for i in '"$2"'; do right "m$i" "again$i"; done; made flag.read
            wait_for flag.seen; made ok.near; made flag.over'
    died 1
}

for point in outdated-marked:2 invalidate-removed:4 fetch-exchanged; do
    maker "$point" "1 2 3"
done
# Its record is that of a copy already, the file is not there.
maker fetch-complete ""
maker fetch-complete "" '(wait_for flag.gone.1; wait_for flag.rewritten; cat "$SSD"/m[1-4]; cat "$SSD"/m[1-4]) & '

# Rank 0 has written files, has copies, and is killed. Rank 1 begins to take them over and is killed over it; rank 2, which is
# stopped meanwhile so that it is not the first, takes over what both have left.
successor() {
    case_begin "1/$1"
    beside n0 'wait_for flag.written; wait_for flag.pid.1; wait_for flag.pid.2
        kill -STOP "$(cat "$W/flag.pid.2")"; made flag.die; gone 0; gone 1; kill -CONT "$(cat "$W/flag.pid.2")"'
    job_killed 40 "far near" \
        1@n0 bash -c "$RANK"'hello 0; for i in 1 2 3 4 5 6; do text "a$i" >"$SSD/a$i"; text x >"$SSD/gone$i"; done
            for i in 1 2 3; do right "c$i" "c$i"; done; made flag.written; wait_for flag.die; for i in 1 2 3 4 5 6; do env -u LD_PRELOAD rm "$SSD/gone$i"; done; kill -KILL $$' -- \
        1@n0 bash -c "$RANK"'hello 1; wait_for flag.over' -- \
        1@n0 bash -c "$RANK"'hello 2; wait_for flag.rewritten; right c1 again1; right c2 c2; ! [ -e "$SSD/c3" ]
            for i in 1 2 3 4 5 6; do right "a$i" "a$i"; done; made ok.near; wait_for flag.over' -- \
        1@n1 bash -c "$RANK"'for i in 1 2 3; do text "c$i" >"$SSD/c$i"; done; wait_for flag.gone.1
            for i in 1 2 3 4 5 6; do right "a$i" "a$i"; while [ -e "$SSD/gone$i" ]; do sleep 0.05; done; done
            text again1 >"$SSD/c1"; rm "$SSD/c3"; made flag.rewritten; made ok.far; wait_for ok.near; made flag.over'
    died 0 1
}

for point in takeover-begin takeover-gone takeover-gone:4 takeover-put:5 takeover-put:9 takeover-taken journal-written:2 takeover-emptied \
    ${LONG:+takeover-put takeover-put:2 takeover-put:7 journal-renamed:2}; do
    successor "$point"
done

# A process is killed between its rename, link or removal and the news of it: the new name is published, whole, the old
# one is not any more. By the member itself (rank 1 is its neighbour), by a child whose member lives, by one whose member is
# killed with it, and the successor, too.
NAMES='import os, sys
d = os.environ["SSD"] + "/"
def text(name, what):
    with open(d + name, "w") as f:
        for i in range(1, 9):
            f.write("%s: this is line %d of what was written there, and all of it must come\n" % (what, i))
def prepare():
    text("a", "a"); text("b", "b"); text("over", "old"); text("c", "c"); os.mkdir(d + "t"); text("t/x", "x"); text("t/y", "y")
def change(what):
    if what == "rename": os.rename(d + "a", d + "new")
    if what == "replace": os.rename(d + "b", d + "over")
    if what == "link": os.link(d + "c", d + "second")
    if what == "unlink": os.unlink(d + "c")
    if what == "rmdir": os.unlink(d + "t/x"); os.unlink(d + "t/y"); os.rmdir(d + "t")
    if what == "tree": os.rename(d + "t", d + "u")
'
CHANGED='changed() {
    case $1 in
    rename) right new a; ! [ -e "$SSD/a" ] ;;
    replace) until right over b; do sleep 0.05; done; ! [ -e "$SSD/b" ] ;;
    link) right second c; right c c ;;
    unlink) while [ -e "$SSD/c" ]; do sleep 0.05; done ;;
    rmdir) while [ -e "$SSD/t" ]; do sleep 0.05; done ;;
    tree) right u/x x; right u/y y; ! [ -e "$SSD/t/x" ]; ! [ -e "$SSD/t" ] ;;
    esac
}
'
export NAMES
# renamer WHAT POINT: by the member.
renamer() {
    case_begin "0/$2,1/${3:-none}"
    beside n0 'gone 0'"${3:+; gone 1}"
    job_killed 40 far \
        1@n0 env "NAMES=$NAMES" python3 -c "$NAMES"'
open(os.environ["W"] + "/flag.pid.0", "w").write("%d\n" % os.getpid()); prepare(); change("'"$1"'")' -- \
        1@n0 bash -c "$RANK"'hello 1; wait_for flag.over' -- \
        1@n0 bash -c "$IDLE" -- \
        1@n1 bash -c "$RANK$CHANGED"'right over old || [ '"$1"' = replace ]; wait_for flag.gone.0; changed '"$1"'; made ok.far; made flag.over'
    died 0 ${3:+1}
}

# guest WHAT: by a child of rank 0, which lives.
guest() {
    case_begin none
    job_killed 40 far \
        1@n0 env "NAMES=$NAMES" bash -c "$RANK"'hello 0; python3 -c "${NAMES}prepare()"
            DYAD_CRASH=0/'"$2"' python3 -c "${NAMES}change(\"'"$1"'\")" || made flag.killed; wait_for flag.over' -- \
        1@n1 bash -c "$RANK$CHANGED"'wait_for flag.killed; changed '"$1"'; made ok.far; made flag.over'
    [ -e "$WORK/flag.killed" ] || fail "$1 by a child: it was not killed"
}

for what in rename replace link tree unlink rmdir; do
    point=rename-moved
    case $what in link) point=link-made ;; unlink) point=unlink-done ;; rmdir) point=unlink-done:3 ;; esac
    guest $what $point
    renamer $what $point
done
# The successor is killed before it has done anything about it.
for point in takeover-begin takeover-taken produce-begin; do
    renamer rename rename-moved $point
done

# Ranks 0 and 1 write one file. Rank 0, whose close has returned, is killed over the pieces of rank 1, or rank 1 in its close: the
# other one has both pieces, or an error; what rank 1's close says is so. Of a writer that was killed before its pieces were given
# readers wait, as of one on their own node, until somebody writes the file anew, or nobody could. If another rank of rank 0's node lives it takes them.
PIECES='
import errno, os, sys, time
W, SSD, me, killed = os.environ["W"], os.environ["SSD"], int(sys.argv[1]), int(sys.argv[2])

def made(name):
    open(f"{W}/{name}", "x").close()

def wait_for(name):
    while not os.path.exists(f"{W}/{name}"):
        time.sleep(0.01)

with open(f"{W}/flag.new.{me}", "w") as f:
    f.write(str(os.getpid()))
os.rename(f"{W}/flag.new.{me}", f"{W}/flag.pid.{me}")
fd = os.open(f"{SSD}/pieces", os.O_RDWR | os.O_CREAT, 0o644)
os.pwrite(fd, (b"zero", b"one!")[me], 4 * me)
made(f"flag.open.{me}")
wait_for(f"flag.open.{1 - me}")
if me == 1:
    wait_for("flag.closed")
status = 0
try:
    os.close(fd)
except OSError as e:
    status = e.errno
assert status == 0 or (me == 1 and status == errno.EIO and "ALONE" in os.environ), status
if me == 0:
    made("flag.closed")
wait_for(f"flag.gone.{killed}")
try:
    with open(f"{SSD}/pieces", "rb") as f:
        have = f.read()
except OSError as e:
    assert (killed == 1 and e.errno in (errno.ETIMEDOUT, errno.ENOENT)) if me == 0 else (
        "ALONE" in os.environ and e.errno in (errno.EIO, errno.EHOSTUNREACH)), e
else:
    assert have == b"zeroone!" if me == 1 else have in (b"zero", b"zeroone!"), have
made("ok.other")
made("flag.over")
'
if [ -n "$PYTHON" ]; then
    for point in 0/pieces-apply 0/pieces-applied 1/pieces-send; do
        case_begin "$point"
        JOB_ENV+=(ALONE=1 DYAD_TIMEOUT=5)
        beside "n${point%%/*}" "gone ${point%%/*}"
        job_killed 40 other 1@n0 "$PYTHON" -c "$PIECES" 0 "${point%%/*}" -- 1@n1 "$PYTHON" -c "$PIECES" 1 "${point%%/*}"
        died "${point%%/*}"
    done
    for point in 0/pieces-apply 0/pieces-applied; do
        case_begin "$point"
        job_killed 40 other 1@n0 "$PYTHON" -c "$PIECES" 0 0 -- 1@n1 "$PYTHON" -c "$PIECES" 1 0 -- \
            1@n0 bash -c "$RANK"'gone 0; wait_for flag.over'
        died 0
    done
fi
