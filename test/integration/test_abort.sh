#!/bin/bash
# UCX finds a fault in itself and calls abort(): the rank's program goes on, and ends as it would, and so does the job;
# what the rank had published is served by its neighbour; what its own processes ask for fails at once, with a line.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
. "$TEST_DIR/cluster/killed.sh"
crash_build
MPIRUN_ARGS=() # no rank is lost: mpirun would end the job
cluster_up 2
RANK='wait_for() { until [ -e "$W/$1" ]; do sleep 0.02; done; }
made() { : >"$W/$1"; }
set -e
text() { local i; for i in 1 2 3 4 5 6 7 8; do echo "$1: this is line $i of what was written there, and all of it must come"; done; }
right() { [ "$(cat "$SSD/$1")" = "$(text "$2")" ]; }
all_right() { local i; for i in 1 2 3 4 5 6; do right "a$i" "a$i"; done; }
'
# abort_at POINT [NAME=VALUE...] -- PROGRAM...: rank 1 is that program, and aborts at that place, which it comes to when rank
# 2 reads, or when it publishes.
abort_at() {
    local point=$1
    shift
    rm -f "$WORK"/flag.*
    : >"$LOG"
    clean_ssd
    JOB_ENV=("W=$WORK" "SSD=$SSD" DYAD_LOG=info "DYAD_LOG_FILE=$LOG" PMIX_MCA_gds=hash DYAD_JOIN_TIMEOUT=2 "DYAD_CRASH=1/abort:$point")
    while [ "$1" != -- ]; do
        JOB_ENV+=("$1")
        shift
    done
    shift
    job_ok 40 \
        1@n0 bash -c "$RANK"'wait_for flag.read; all_right; text n0 >"$SSD/n0"' -- \
        1@n0 "$@" -- \
        1@n1 bash -c "$RANK"'wait_for flag.written; all_right; made flag.read; right n0 n0' -- \
        1@n1 bash -c "$RANK"'wait_for flag.read; all_right; right n0 n0; wait_for flag.done'
    [ -e "$WORK/flag.done" ] || fail "$point: rank 1 did not come to its end"
    [ "$(grep -c 'has found a fault in itself' "$LOG")" = 1 ] || fail "$point: not said once: $(grep fault "$LOG")"
    grep -q "of what it left .* serves [67] files" "$LOG" || fail "$point: what it had published was not taken over"
    say "$point: $(grep -c 'cannot be reached on this node\|went away before' "$LOG") requests refused"
}

WRITE='for i in 1 2 3 4 5 6; do text "a$i" >"$SSD/a$i"; done; made flag.written; '
# A process of it waits for a file meanwhile.
GO_ON='if cat "$SSD/never"; then exit 9; fi # it waits for nobody any more
    all_right # they are here
    if cat "$SSD/n0"; then exit 10; fi
    text own >"$W/flag.own"; [ "$(cat "$W/flag.own")" = "$(text own)" ]; made flag.done'
abort_at serve-asked:3 -- bash -c "$RANK$WRITE$GO_ON"
abort_at produce-published:7 -- bash -c "$RANK$WRITE"'if text last >"$SSD/last"; then :; fi; '"$GO_ON"
# At its exit, where it serves the others.
abort_at serve-asked:3 -- bash -c "$RANK$WRITE"'made flag.done'
# What it becomes by exec shares again.
abort_at serve-asked:3 -- bash -c "$RANK$WRITE"'if cat "$SSD/never"; then exit 9; fi; exec bash -c "$0"' \
    "$RANK"'right n0 n0; all_right; text new >"$SSD/new"; right new new; made flag.done'
! grep -q '"new" is complete on this node but not published' "$LOG" || fail "after exec it shares nothing"
# With libraries apart.
if [ -n "$PYTHON" ]; then
    abort_at serve-asked:3 -- "$PYTHON" -c '
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
child = os.fork() # is as good as its parent
if child == 0:
    assert refused("n0")
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
open(w + "/flag.done", "w").close()'
fi
# A session of its own directory has no launcher to be told.
mkdir -m 700 "$WORK/session"
abort_at serve-asked:3 "DYAD_SESSION_DIR=$WORK/session" -- bash -c "$RANK$WRITE$GO_ON"

# When it leaves: there is nothing left to lose.
: >"$LOG"
clean_ssd
JOB_ENV=("SSD=$SSD" DYAD_LOG=info "DYAD_LOG_FILE=$LOG" PMIX_MCA_gds=hash DYAD_CRASH=0/abort:worker-end,1/abort:worker-end)
job_ok 40 1@n0 bash -c "$RANK"'text b0 >"$SSD/b0"; right b1 b1' -- \
    1@n1 bash -c "$RANK"'text b1 >"$SSD/b1"; right b0 b0; exec bash -c "$0"' "$RANK"'right b0 b0; text b2 >"$SSD/b2"' -- \
    1@n0 bash -c "$RANK"'right b0 b0; right b1 b1; right b2 b2'
[ "$(grep -c 'fault in itself while this rank left' "$LOG")" = 3 ] || fail "not at two exits and an exec: $(grep fault "$LOG")"

# In promoted guests, over what they fetch: each is a guest again, and nothing is missing.
if [ -n "$PYTHON" ]; then
    : >"$LOG"
    clean_ssd
    POOL=$SOURCE_DIR/test/integration/progs/pool.py
    JOB_ENV=("SSD=$SSD" DYAD_LOG=info "DYAD_LOG_FILE=$LOG" PMIX_MCA_gds=hash DYAD_PROMOTE=5 "DYAD_CRASH=1/abort:peer-received:10")
    job_ok 60 1@n0 "$PYTHON" "$POOL" make "$SSD" 400 -- 1@n1 "$PYTHON" "$POOL" work "$SSD" 400 -- 1@n0 "$PYTHON" "$POOL" take "$SSD" 400
    grep -q 'take: 400 results are right' "$OUT" || fail "not all results were read"
    [ "$(grep -c 'is a guest of its member again' "$LOG")" = 4 ] || fail "not four promoted guests: $(grep -c 'guest of its member' "$LOG")"
fi
