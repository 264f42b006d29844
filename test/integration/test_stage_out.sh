#!/bin/bash
# What a node has produced is found there at the end: not taken over by who only opened it for reading and writing, and
# replaced, never removed, by what another node made of it.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
. "$TEST_DIR/cluster/steps.sh"
[ -n "$PYTHON" ] || skip "needs python3"
JOB_ENV+=(DYAD_PEER_TIMEOUT=1 DYAD_JOIN_TIMEOUT=2 DYAD_STATS=1 "W=$WORK" "PYTHON=$PYTHON")
A=$(dmd_of a) B=$(dmd_of b)
FILES=24

# Opened for reading and writing in each way that changes nothing, as soon as it is published: read, in part by a child, and
# mapped by one that reads it.
cat >"$WORK/looks.py" <<'END'
import mmap, os, subprocess, sys
dmd, n = os.environ["DYAD_PATH"], int(sys.argv[1])
for i in range(n):
    path = "%s/f.%d" % (dmd, i)
    if i % 3 == 0:
        open(path).close()
    with open(path, "r+" if i % 2 else "a+") as f:
        f.seek(0)
        assert f.read().startswith("made %d\n" % i), path
        if i % 8 == 1:
            mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ).close()
        if i % 8 == 3:
            subprocess.run(["cat", "/proc/self/fd/0"], stdin=f, stdout=subprocess.DEVNULL, check=True)
    if i % 4 == 0:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND))
END
local_job 60 1@a bash -c "$RANK"'cd "$DYAD_PATH"
    for ((i = 0; i < '$FILES'; i++)); do { echo "made $i"; [ $((i % 5)) -gt 0 ] || head -c 2000000 /dev/zero; } >f.$i; done
    made written; wait_for looked' -- \
    1@b bash -c "$RANK"'wait_for written; "$PYTHON" "$W/looks.py" '$FILES'; made looked' || fail "job: status $?"
for ((i = 0; i < FILES; i++)); do
    grep -q "^made $i" "$A/f.$i" || fail "node a has lost f.$i, which it made: node b has opened it and changed nothing"
done
grep -q 'rank 1.*statistics: published 0,' "$LOG" || fail "node b has published what it did not change: $(grep statistics: "$LOG")"

# Rewritten elsewhere: its name is there at every moment, by whatever call it is used on its node it is the newer one, and at
# the end the newer one is there, asked for or not.
rm -f "$WORK"/{written,looked} && rm -rf "$A" "$B" && : >"$LOG"
cat >"$WORK/uses.py" <<'END'
import os, time
dmd = os.environ["DYAD_PATH"]
while not os.path.exists(os.environ["W"] + "/rewritten"):
    time.sleep(0.0005)
def path(name):
    return os.path.join(dmd, name)
def size(name):
    return os.stat(path(name)).st_size
for name in ("stat", "read", "copy", "chmod", "touch", "rename", "link", "again", "part"):
    assert size(name) == len("newer and longer"), (name, size(name))
    assert name in os.listdir(dmd)
assert open(path("read")).read() == "newer and longer"
os.chmod(path("chmod"), 0o600)
os.utime(path("touch"), (1, 1))
os.rename(path("rename"), path("renamed"))
os.link(path("link"), path("linked"))
assert os.stat(path("linked")).st_size == size("link") == len("newer and longer")
with open(path("part"), "r+") as f:
    f.write("N")
with open(path("again"), "a") as f:
    f.write("!")
END
# At once: the other is to use them before any of them has been brought.
cat >"$WORK/rewrites.py" <<'END'
import os, sys
files = [open(name, "r+") for name in "stat read copy chmod touch rename link again part untouched".split()]
for f in files:
    f.read()
    f.seek(0)
    f.write("newer and longer")
    f.close()
open(os.environ["W"] + "/rewritten", "w").close()
END
cat >"$WORK/watches.py" <<'END'
import os, sys
dmd, stop = sys.argv[1:3]
names = ("stat", "read", "copy", "chmod", "touch", "link", "again", "part", "untouched")
while not os.path.exists(stop):
    there = os.listdir(dmd)
    for name in names:
        assert name in there, name
        text = open(os.path.join(dmd, name)).read()
        assert text in ("old", "newer and longer", "Newer and longer", "newer and longer!"), (name, text)
END
local_job 60 1@a bash -c "$RANK"'cd "$DYAD_PATH"
    for f in stat read copy chmod touch rename link again part untouched; do printf old >$f; done
    made written; "$PYTHON" "$W/uses.py"; cp copy copied' -- \
    1@b bash -c "$RANK"'wait_for written; cd "$DYAD_PATH"; until [ -e "$W/watched" ]; do sleep 0.02; done
    "$PYTHON" "$W/rewrites.py"' &
JOB=$!
until_true 30 "all are written" test -e "$WORK/written"
"$PYTHON" "$WORK/watches.py" "$A" "$WORK/stop" &
WATCH=$!
BACKGROUND+=("$WATCH")
: >"$WORK/watched"
wait $JOB || fail "what another node has rewritten is not used: $(tail -n 5 "$WORK"/job.*.err)"
: >"$WORK/stop"
wait $WATCH || fail "node a was without what it had made, or had part of it"
for f in stat read copy copied chmod touch renamed link linked untouched; do
    [ "$(cat "$A/$f")" = 'newer and longer' ] || fail "at the end node a has \"$(cat "$A/$f")\" as $f"
done
[ "$(cat "$A/part")$(cat "$A/again")" = 'Newer and longernewer and longer!' ] || fail "$(cat "$A/part") $(cat "$A/again")"
[ "$(stat -c %a "$A/chmod") $(stat -c %Y "$A/touch")" = '600 1' ] || fail "$(stat -c '%n %a %y' "$A/chmod" "$A/touch")"
! compgen -G "$A/.dyad/old/*" || fail "links are left"

# Withdrawn after that, before it was brought: it goes. Written again and again elsewhere: the last is brought, not each.
rm -f "$WORK"/{written,rewritten,stop,watched,gone} && rm -rf "$A" "$B" && : >"$LOG"
local_job 60 1@a bash -c "$RANK"'cd "$DYAD_PATH"; for f in removed moved; do echo old >$f; done; head -c 300000 /dev/zero >often
    made written; wait_for gone; [ "$(echo *)" = "kept often" ] && [ "$(cat kept)" = new ]' -- \
    1@b bash -c "$RANK"'wait_for written; cd "$DYAD_PATH"; for f in removed moved; do echo new >$f; done; rm removed; mv moved kept
    made gone; for i in {1..40}; do echo $i >>often; done' || fail "what was withdrawn is still there"
[ "$(cd "$A" && echo *)" = 'kept often' ] || fail "node a has $(cd "$A" && echo *)"
cmp "$A/often" "$B/often" || fail "node a has not the last version"
fetched=$(sed -n "s/.*rank 0.*withdrawn [0-9]*, fetched \([0-9]*\) files.*/\1/p" "$LOG")
say "41 versions of three files: $fetched fetched"
[ "$fetched" -le 20 ] || fail "node a has fetched $fetched times"

# Open here while the newer one comes, and closed without a change as the last that the program does.
rm -f "$WORK"/{written,gone} && rm -rf "$A" "$B" && : >"$LOG"
cat >"$WORK/holds.py" <<'END'
import os, time
with open("held", "r+") as f:
    open(os.environ["W"] + "/held", "w").close()
    old = os.fstat(f.fileno()).st_ctime_ns
    while os.fstat(f.fileno()).st_ctime_ns == old: # it is marked as out of date
        time.sleep(0.001)
    time.sleep(0.3) # and cannot be replaced
END
for linger in job 0; do
    rm -f "$WORK"/{written,held,gone}
    local_job 60 1@a bash -c "$RANK"'cd "$DYAD_PATH"; export DYAD_LINGER='$linger'; echo old >held; made written; "$PYTHON" "$W/holds.py"' -- \
        1@b bash -c "$RANK"'wait_for held; cd "$DYAD_PATH"; echo "newer '$linger'" >held; [ '$linger' = job ] || wait_for gone' &
    JOB=$!
    until_true 30 "the older one is replaced at the end" grep -qsx "newer $linger" "$A/held"
    : >"$WORK/gone"
    wait $JOB || fail "job: status $?"
done
