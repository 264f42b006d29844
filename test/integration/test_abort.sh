#!/bin/bash
# UCX finds a fault in itself and calls abort(). The rank's member comes back, in the same process, with another copy of
# UCX: nothing that its processes or the others ask for fails. After the third time it does not: the rank's program goes on,
# and ends as it would, and so does the job; what the rank had published is served by its neighbour; what its own processes
# ask for fails at once, with a line.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
. "$TEST_DIR/cluster/killed.sh"
. "$TEST_DIR/cluster/steps.sh"
crash_build
MPIRUN_ARGS=() # no rank is lost: mpirun would end the job
cluster_up 2
RANK+='text() { local i; for i in 1 2 3 4 5 6 7 8; do echo "$1: this is line $i of what was written there, and all of it must come"; done; }
right() { [ "$(cat "$SSD/$1")" = "$(text "$2")" ]; }
all_right() { local i; for i in 1 2 3 4 5 6; do right "${1:-a}$i" "${1:-a}$i"; done; }
write() { local i; for i in 1 2 3 4 5 6; do text "$1$i" >"$SSD/$1$i"; done; }
'
begin() { # NAME=VALUE...
    rm -f "$WORK"/flag.*
    : >"$LOG"
    clean_ssd
    JOB_ENV=("W=$WORK" "SSD=$SSD" DYAD_LOG=info "DYAD_LOG_FILE=$LOG" PMIX_MCA_gds=hash DYAD_INLINE_MAX=0 DYAD_JOIN_TIMEOUT=2 "$@")
}
# Of rank 1: where connections break so often UCX may find one of its own in any rank, which then comes back, too.
faults() { grep -c 'rank 1[] ].*has found a fault in itself' "$LOG" || true; }

# --- it comes back ----------------------------------------------------------------------

# comes_back NAME FAULTS RANK1 [NAME=VALUE...]: rank 1 is that program, and aborts at the next file that it is asked for
# whenever there is a flag.once. Rank 2 makes it, twice.
comes_back() {
    local name=$1 times=$2 program=$3 last
    shift 3
    begin DYAD_CRASH=1/abort:serve-asked:1 "DYAD_CRASH_ONCE=$WORK/flag.once" "$@"
    job_ok 60 \
        1@n0 bash -c "$RANK"'wait_for flag.a; wait_for flag.second; all_right; all_right b; write n' -- \
        1@n0 "${RUN1[@]}" "$program" -- \
        1@n1 bash -c "$RANK"'wait_for flag.a; made flag.once; all_right; [ ! -e "$W/flag.once" ]; made flag.first
            wait_for flag.b; made flag.once; all_right b; [ ! -e "$W/flag.once" ]; made flag.second; write f
            right child child; all_right n; right c1 c1' -- \
        1@n1 bash -c "$RANK"'wait_for flag.second; all_right; all_right b; all_right n; all_right c; right child child; right c1 c1'
    [ "$(faults)" -ge "$times" ] || fail "$name: not $times faults: $(grep fault "$LOG")"
    ! grep 'cannot be reached on this node\|went away before\|is not shared\|are not shared' "$LOG" || fail "$name: something was refused"
    # Or a later one: an exec may come while it joins.
    last=$(sed -n 's/.* joined as .*, incarnation \([0-9]*\),.*/\1/p' "$LOG" | sort -n | tail -n 1)
    [ "${last:-0}" -ge "$times" ] || fail "$name: no incarnation $times: $(grep 'joined as' "$LOG")"
    [ -e "$WORK/flag.done" ] || fail "$name: rank 1 did not come to its end"
}
# Two children wait all the time, one for what another rank will write, one for what nobody will: that ends, and at its time.
RUN1=(bash -c)
comes_back bash 2 "$RANK"'cat "$SSD/f6" >"$W/flag.f6" & child=$!; { ! cat "$SSD/never"; } & never=$!
    write a; made flag.a; wait_for flag.first; write b; made flag.b; wait_for flag.second
    write c; (text child >"$SSD/child"); all_right f; all_right n
    wait $child; [ "$(cat "$W/flag.f6")" = "$(text f6)" ]; made flag.done; wait $never'
# What it becomes by exec is the next incarnation.
comes_back exec 2 "$RANK"'write a; made flag.a; wait_for flag.first; write b; made flag.b; wait_for flag.second
    exec bash -c "$NEXT"' "NEXT=$RANK"'write c; (text child >"$SSD/child"); all_right f; all_right n; all_right b; made flag.done'
# In a session of a directory nobody has told the launcher, and a slot has to be found again. The member that has ended does
# not look at the directory any more.
mkdir -m 700 "$WORK/session"
comes_back session 2 "$RANK"'write a; made flag.a; wait_for flag.first; write b; made flag.b; wait_for flag.second
    write c; (text child >"$SSD/child"); all_right f; all_right n
    [ "$(grep -l dyad-session /proc/$$/task/*/comm | wc -l)" = 1 ]; made flag.done' "DYAD_SESSION_DIR=$WORK/session"
# With libraries apart from the first; and a child of fork, which is as good as its parent.
if [ -n "$PYTHON" ]; then
    RUN1=("$PYTHON" -c)
    comes_back python 2 '
import os, time
ssd, w = os.environ["SSD"], os.environ["W"]
def text(name):
    return "".join("%s: this is line %d of what was written there, and all of it must come\n" % (name, i) for i in range(1, 9))
def write(name):
    with open(ssd + "/" + name, "w") as f:
        f.write(text(name))
def right(name):
    with open(ssd + "/" + name) as f:
        assert f.read() == text(name), name
def write_all(name):
    for i in range(1, 7):
        write(name + str(i))
def made(name):
    open(w + "/" + name, "w").close()
def wait_for(name):
    while not os.path.exists(w + "/" + name):
        time.sleep(0.02)
def child(fn, arg):
    pid = os.fork()
    if pid == 0:
        fn(arg)
        os._exit(0)
    return pid
waiting = child(right, "f6")
write_all("a"); made("flag.a"); wait_for("flag.first")
write_all("b"); made("flag.b"); wait_for("flag.second")
write_all("c")
assert os.waitpid(child(write, "child"), 0)[1] == 0
for i in range(1, 7):
    right("f%d" % i); right("n%d" % i)
assert os.waitpid(waiting, 0)[1] == 0
made("flag.done")'
    RUN1=(bash -c)
fi

# The table of who comes back is empty, and here it is the only home of some names: while the others have not told it of what
# they have, it does not say that there is nothing.
begin DYAD_REPLICAS=1 DYAD_CRASH=1/abort:serve-asked:1 "DYAD_CRASH_ONCE=$WORK/flag.once"
job_ok 60 \
    1@n0 bash -c "$RANK"'for i in {1..20}; do echo there >"$SSD/n$i"; done; made flag.n; wait_for flag.looking
        made flag.once; read -r got <"$SSD/a"; [ "$got" = here ]; [ ! -e "$W/flag.once" ]; made flag.over' -- \
    1@n1 bash -c "$RANK"'wait_for flag.n; echo here >"$SSD/a"
        look() { until [ -e "$W/flag.over" ]; do [ -e "$SSD/n$1" ] || { made "flag.missed.$1"; echo "n$1 is not there" >&2; }; done; }
        for i in {1..20}; do look $i & done; made flag.looking; wait'
[ "$(faults)" -ge 1 ] || fail "the only home: no fault"
! compgen -G "$WORK/flag.missed.*" || fail "what is published was said not to be, by who came back"

# once POINT NP@NODE...: rank 1 aborts there, once.
ENVIRONMENT=()
once() {
    local point=$1
    shift
    begin "DYAD_CRASH=1/abort:$point" "DYAD_CRASH_ONCE=$WORK/flag.once" "${ENVIRONMENT[@]}"
    : >"$WORK/flag.once"
    job_ok 60 "$@"
    [ "$(faults)" -ge 1 ] || fail "$point: no fault: $(grep fault "$LOG")"
    ! grep 'cannot be reached on this node\|went away before' "$LOG" || fail "$point: something was refused"
}
# A close that is under way, and a removal, are done all the same.
once produce-published:3 1@n0 bash -c "$RANK"'all_right' -- 1@n0 bash -c "$RANK"'write a' -- 1@n1 bash -c "$RANK"'all_right'
once withdraw-published 1@n0 bash -c "$RANK"'wait_for flag.gone; ! right a1 a1; all_right b' -- \
    1@n0 bash -c "$RANK"'write a; wait_for flag.read; rm "$SSD/a1"; write b; made flag.gone' -- \
    1@n1 bash -c "$RANK"'all_right; made flag.read; wait_for flag.gone; all_right b; right a2 a2; ! right a1 a1'
# At its exit, where it serves the others.
once serve-asked 1@n0 bash -c "$RANK"'wait_for flag.a; all_right' -- 1@n0 bash -c "$RANK"'write a; made flag.a' -- \
    1@n1 bash -c "$RANK"'wait_for flag.a; all_right'

# Where the program calls the library itself, without and with the wrapper.
for preload in "" "$PRELOAD"; do
    ENVIRONMENT=("DYAD_PATH=$SSD" "LD_LIBRARY_PATH=$CRASH/lib" "LD_PRELOAD=$preload")
    START=none once serve-asked:20 1@n1 "$PROGS/api_pair" consume "$SSD" 100 -- 1@n0 "$PROGS/api_pair" produce "$SSD" 100
    grep -q 'produce done' "$OUT" && grep -q 'consume done' "$OUT" || fail "not both reported"
done

# --- it does not any more ---------------------------------------------------------------

# abort_at POINT [NAME=VALUE...] -- PROGRAM...: rank 1 is that program, and aborts at that place, which it comes to when rank
# 2 reads, each time that it has come back. (While it is away its neighbour serves what it has published.)
# In a session directory others may see that it has left before it is back, and say nothing then; but it has not joined until
# all have answered.
RANK+='came_back() {
    local line="rank 2[] ].*: rank 1 .*is back after"
    [ -z "${DYAD_SESSION_DIR:-}" ] || line="rank 1[] ].*: joined as .* incarnation [2-9],"
    until [ "$(grep -c "$line" "$DYAD_LOG_FILE")" -ge "$1" ]; do sleep 0.05; done
}
one_by_one() { local i; for i in 1 2 3 4 5 6; do right "a$i" "a$i"; [ $i -gt 3 ] || came_back $i; done; }
'
abort_at() {
    local point=$1 env=()
    shift
    while [ "$1" != -- ]; do
        env+=("$1")
        shift
    done
    shift
    begin "DYAD_CRASH=1/abort:$point" "${env[@]}"
    job_ok 40 \
        1@n0 bash -c "$RANK"'wait_for flag.read; all_right; text n0 >"$SSD/n0"' -- \
        1@n0 "$@" -- \
        1@n1 bash -c "$RANK"'wait_for flag.written; one_by_one; made flag.read; right n0 n0' -- \
        1@n1 bash -c "$RANK"'wait_for flag.read; all_right; right n0 n0; wait_for flag.done'
    [ -e "$WORK/flag.done" ] || fail "$point: rank 1 did not come to its end"
    [ "$(faults)" = 4 ] || fail "$point: not four faults: $(grep fault "$LOG")"
    [ "$(grep -c 'rank 1[] ].*are no longer shared by its processes' "$LOG")" = 1 ] || fail "$point: the end is not said once"
    grep -q "of what it left .* serves [67] files" "$LOG" || fail "$point: what it had published was not taken over"
    say "$point: $(grep -c 'cannot be reached on this node\|went away before' "$LOG") requests refused"
}

WRITE='write a; made flag.written; '
# A process of it waits for a file meanwhile.
GO_ON='if cat "$SSD/never"; then exit 9; fi # it waits for nobody any more
    all_right # they are here
    if cat "$SSD/other"; then exit 10; fi # nor for what it asks for now (n0 may be here by now, and is a plain file then)
    text own >"$W/flag.own"; [ "$(cat "$W/flag.own")" = "$(text own)" ]; made flag.done'
abort_at serve-asked:1 -- bash -c "$RANK$WRITE$GO_ON"
# At its exit, where it serves the others.
abort_at serve-asked:1 -- bash -c "$RANK$WRITE"'made flag.done'
# What it becomes by exec shares again. Not before its neighbour has taken over what it had published: an image that comes
# sooner serves that itself, and would end as this one did when it is asked.
abort_at serve-asked:1 -- bash -c "$RANK$WRITE"'if cat "$SSD/never"; then exit 9; fi; wait_for flag.read; exec bash -c "$0"' \
    "$RANK"'right n0 n0; all_right; text new >"$SSD/new"; right new new; made flag.done'
! grep -q '"new" is complete on this node but not published' "$LOG" || fail "after exec it shares nothing"
# With libraries apart.
if [ -n "$PYTHON" ]; then
    abort_at serve-asked:1 -- "$PYTHON" -c '
import errno, os, time
ssd, w = os.environ["SSD"], os.environ["W"]
def text(name):
    return "".join("%s: this is line %d of what was written there, and all of it must come\n" % (name, i) for i in range(1, 9))
def refused(name):
    try:
        open(ssd + "/" + name).close()
    except OSError as e:
        return e.errno == errno.EHOSTUNREACH
for i in range(1, 7):
    with open(ssd + "/a%d" % i, "w") as f:
        f.write(text("a%d" % i))
open(w + "/flag.written", "w").close()
assert refused("never")
assert open(ssd + "/a1").read() == text("a1")
def unknown(name): # nobody says that it is not published
    try:
        os.stat(ssd + "/" + name)
    except OSError as e:
        return e.errno == errno.EIO
assert unknown("n0") and os.stat(ssd + "/a1").st_size == len(text("a1"))
child = os.fork() # is as good as its parent
if child == 0:
    assert refused("n0") and unknown("n0")
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
open(w + "/flag.done", "w").close()'
fi
abort_at serve-asked:1 "DYAD_SESSION_DIR=$WORK/session" -- bash -c "$RANK$WRITE$GO_ON"

# --- no member of a rank that goes on ---------------------------------------------------

# When it leaves: there is nothing left to lose.
: >"$LOG"
clean_ssd
JOB_ENV=("SSD=$SSD" DYAD_LOG=info "DYAD_LOG_FILE=$LOG" PMIX_MCA_gds=hash DYAD_INLINE_MAX=0 DYAD_CRASH=0/abort:worker-end,1/abort:worker-end)
job_ok 40 1@n0 bash -c "$RANK"'text b0 >"$SSD/b0"; right b1 b1' -- \
    1@n1 bash -c "$RANK"'text b1 >"$SSD/b1"; right b0 b0; exec bash -c "$0"' "$RANK"'right b0 b0; text b2 >"$SSD/b2"' -- \
    1@n0 bash -c "$RANK"'right b0 b0; right b1 b1; right b2 b2'
[ "$(grep -c 'fault in itself while this rank left' "$LOG")" = 3 ] || fail "not at two exits and an exec: $(grep fault "$LOG")"

# In promoted guests, over what they fetch: each is a guest again, and nothing is missing.
if [ -n "$PYTHON" ]; then
    : >"$LOG"
    clean_ssd
    POOL=$SOURCE_DIR/test/integration/progs/pool.py
    JOB_ENV=("SSD=$SSD" DYAD_LOG=info "DYAD_LOG_FILE=$LOG" PMIX_MCA_gds=hash DYAD_INLINE_MAX=0 DYAD_PROMOTE=5 "DYAD_CRASH=1/abort:promoted-received:10")
    job_ok 60 1@n0 "$PYTHON" "$POOL" make "$SSD" 400 -- 1@n1 "$PYTHON" "$POOL" work "$SSD" 400 -- 1@n0 "$PYTHON" "$POOL" take "$SSD" 400
    grep -q 'take: 400 results are right' "$OUT" || fail "not all results were read"
    [ "$(grep -c 'is a guest of its member again' "$LOG")" = 4 ] || fail "not four promoted guests: $(grep -c 'guest of its member' "$LOG")"
fi
