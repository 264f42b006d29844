#!/bin/bash
# Ranks on two and three nodes write one file, and read what the others have written while all have it open
# (progs/joint.py): after a barrier each has the bytes and the length that all have written, however it reads.
# DYAD_TEST_LEVEL=long: 4 seeds; soak: 60. JOINT_SEED=N: the first.
. "$(dirname "$0")/../cluster/lib.sh"
[ -n "$PYTHON" ] || skip "needs python3"
cluster_up 3
rounds=200
case $LEVEL in soak) runs=60 rounds=2000 ;; long) runs=4 ;; *) runs=1 rounds=40 ;; esac
JOB_ENV+=("W=$WORK" "SSD=$SSD" "PYTHONPATH=$TEST_DIR/integration/progs" DYAD_TIMEOUT=20 "ROUNDS=$rounds")
begin=${JOINT_SEED:-$RANDOM}
for ((seed = begin; seed < begin + runs; seed++)); do
    for how in creat first late found again; do
        for where in 2@n0,n1 5@n0,n1,n2; do
            rm -f "$WORK"/at.*
            : >"$LOG"
            job 60 "$where" "$PYTHON" "$TEST_DIR/integration/progs/joint.py" "${where%%@*}" "$seed" 8 $how ||
                fail "JOINT_SEED=$seed, $how, $where: status $?: $(cat "$OUT")"
            clean_ssd
        done
    done
done

# A process that is killed: what it had written when it was is read, as on one node.
cat >"$WORK/killed.py" <<'EOT'
import os, signal
from ranks import barrier
SSD, me = os.environ["SSD"], int(os.environ["PMIX_RANK"])
path = f"{SSD}/killed"

sync = barrier("killed", 2)
if me == 0:
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    os.pwrite(fd, b"a" * 100, 0)
sync()
if me == 1:
    pid = os.fork()
    if pid == 0:
        os.pwrite(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), b"b" * 100, 100)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
sync()
if me == 0:
    have = os.pread(fd, 300, 0)
    assert have == b"a" * 100 + b"b" * 100, have
    os.close(fd)
sync()
EOT
: >"$LOG"
job_ok 60 2@n0,n1 "$PYTHON" "$WORK/killed.py"

# Who opens what another node is making, closes it, and opens it again, is one of its writers again. A file that was mapped
# by a descriptor that can write is not on record: a read there fails if other nodes have written since; elsewhere, when the
# one who has mapped and written it has closed it, too.
cat >"$WORK/again.py" <<'EOT'
import errno, mmap, os
from ranks import barrier
SSD, me = os.environ["SSD"], int(os.environ["PMIX_RANK"])
sync = barrier("again", 3)
path = f"{SSD}/again"

def read(at, want):
    try:
        have = os.pread(fd, 200, at)
        assert have == want, have
    except OSError as e:
        assert e.errno == errno.EIO, e

if me == 0:
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
sync()
if me == 1:
    os.close(os.open(path, os.O_RDWR))
    fd = os.open(path, os.O_RDWR)
sync()
if me == 2:
    fd = os.open(path, os.O_RDWR)
sync()
if me == 0:
    os.pwrite(fd, b"a" * 100, 0)
sync()
assert os.fstat(fd).st_size == 100 and os.pread(fd, 200, 0) == b"a" * 100
sync()
if me == 1:
    m = mmap.mmap(fd, 0)
    assert os.pread(fd, 200, 0) == b"a" * 100
sync()
if me == 0:
    os.pwrite(fd, b"b" * 10, 50)
sync()
if me == 1:
    read(50, b"b" * 10 + b"a" * 40)
    m[0] = ord("c")
    m.close()
    os.close(fd)
sync()
if me != 1:
    read(0, b"c" + b"a" * 49 + b"b" * 10 + b"a" * 40)
    try: # a conflict, of which the later close is told
        os.close(fd)
    except OSError as e:
        assert e.errno == errno.EIO, e
EOT
: >"$LOG"
job_ok 60 3@n0,n1,n2 "$PYTHON" "$WORK/again.py"

# Who opens a published file late, into which another node has written since, and which nobody has closed since, has that.
cat >"$WORK/late.py" <<'EOT'
import os
from ranks import barrier
SSD, me = os.environ["SSD"], int(os.environ["PMIX_RANK"])
sync = barrier("late", 2)

for n, behind in enumerate((0, 50, 200)):
    path, want = f"{SSD}/late.{n}", bytearray(b"a" * 20000)
    if me == 0:
        with open(path, "wb") as f:
            f.write(want)
        fd = os.open(path, os.O_RDWR)
    want[20:30] = b"b" * 10
    want += b"d" * behind
    if me == 0:
        os.pwrite(fd, b"b" * 10, 20)
        os.pwrite(fd, b"d" * behind, 20000)
    sync()
    if me == 1:
        if n:  # and changes nothing
            os.close(os.open(path, os.O_RDWR))
        fd = os.open(path, os.O_RDWR)
        assert os.pread(fd, 30000, 0) == want
        os.pwrite(fd, b"c" * 10, 25)
    want[25:35] = b"c" * 10
    sync()
    assert os.pread(fd, 30000, 0) == want
    sync()
    if me == n % 2:
        os.close(fd)
    sync()
    if me != n % 2:
        os.close(fd)
    sync()
    assert open(path, "rb").read() == want
EOT
: >"$LOG"
job_ok 60 2@n0,n1 "$PYTHON" "$WORK/late.py"

# Bytes that one node was given by another's close, and read anew from it since, are those of the later write:
# a third node, which has the earlier ones by way of its other rank, is told so.
cat >"$WORK/passed_on.py" <<'EOT'
import os
from ranks import barrier
SSD, me = os.environ["SSD"], int(os.environ["PMIX_RANK"])
sync = barrier("passed", 4)

for n in range(12):
    path = f"{SSD}/passed.{n}"
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    sync()
    other = os.open(path, os.O_RDWR) if me in (1, 2) else -1
    if me == 2:
        os.pwrite(other, b"2" * 8, 100)
        os.close(other)  # the first to publish it: the other nodes' closes give theirs to this one
    sync()
    if me == 1:
        os.pwrite(other, b"a" * 8, 0)
    sync()
    assert me != 0 or os.pread(fd, 8, 0) == b"a" * 8
    sync()
    if me == 1:
        os.close(other)
        os.pwrite(fd, b"b" * 8, 0)
    sync()
    assert me != 2 or os.pread(fd, 8, 0) == b"b" * 8
    sync()
    assert me != 3 or os.pread(fd, 8, 0) == b"b" * 8
    sync()
    os.close(fd)
    assert open(path, "rb").read(8) == b"b" * 8
EOT
: >"$LOG"
job_ok 60 4@n0,n1,n2 "$PYTHON" "$WORK/passed_on.py"

# What one node was given by another's close, and has cut off since, is not what the other one wrote: the zeros that lie
# there now, since the file became longer again, are no piece of it. A third node has what was written from its writer.
cat >"$WORK/cut_off.py" <<'EOT'
import os
from ranks import barrier
SSD, me = os.environ["SSD"], int(os.environ["PMIX_RANK"])
sync = barrier("cut_off", 3)
path = f"{SSD}/cut_off"

def read():
    return os.pread(fd, 100000, 0)

if me == 0:
    with open(path, "wb") as f:
        f.write(b"0" * 2000)
sync()
fd = os.open(path, os.O_RDWR)
sync()
if me == 1:
    os.pwrite(fd, b"1" * 1000, 1000)
    os.close(fd)
    fd = os.open(path, os.O_RDWR)
sync()
if me == 2:
    os.pwrite(fd, b"2" * 500, 51000)
sync()
want = b"0" * 1000 + b"1" * 1000 + bytes(49000) + b"2" * 500
if me == 0:
    assert read() == want
sync()
if me == 2:
    os.close(fd)
sync()
if me == 1:
    assert read() == want
    os.ftruncate(fd, 47000)
    os.pwrite(fd, b"1" * 100, 59000)
sync()
want = want[:47000] + bytes(12000) + b"1" * 100
if me != 2:
    assert read() == want
    sync()
    os.close(fd)
else:
    sync()
with open(path, "rb") as f:
    assert f.read() == want
sync()
EOT
: >"$LOG"
job_ok 60 3@n0,n1,n2 "$PYTHON" "$WORK/cut_off.py"

# One reads what another node has written before, while another process of its node writes over it, or changes the file's
# length: nothing of that is a conflict.
cat >"$WORK/beside.py" <<'EOT'
import os, random
from ranks import barrier
SSD, me = os.environ["SSD"], int(os.environ["PMIX_RANK"])
sync = barrier("beside", 3)
path = f"{SSD}/beside"
draw = random.Random(3)
size = 20000

if me == 0:
    open(path, "wb").close()
sync()
fd = os.open(path, os.O_RDWR)
sync()
for turn in range(300):
    byte, how, late = bytes([1 + turn % 250]), draw.randrange(3), draw.random()
    if me == 1:
        os.pwrite(fd, byte * size, 0)
    sync()
    if me == 2:
        for _ in range(int(late * 2000)):
            pass
        if how == 0:
            os.pwrite(fd, b"x" * 100, 5000)
        elif how == 1:
            os.ftruncate(fd, size + turn)
        else:
            os.ftruncate(fd, 5000)
    if me == 0:
        have = os.pread(fd, size, 0)
        assert have[:5000] == byte * 5000 and not have[5000:5100].strip(byte + b"x"), (turn, how)
    sync()
    want = byte * 5000 + (b"" if how == 2 else (b"x" * 100 if how == 0 else byte * 100) + byte * (size - 5100))
    have = os.pread(fd, size, 0)
    assert have == want, (turn, how, len(have))
    sync()
os.close(fd)
sync()
EOT
: >"$LOG"
job_ok 120 3@n0,n1 "$PYTHON" "$WORK/beside.py"

# By libc's own streams, which read and write past any preloaded function; and by dprintf.
cat >"$WORK/streams.py" <<'EOT'
import ctypes, os
from ranks import barrier
SSD, me = os.environ["SSD"], int(os.environ["PMIX_RANK"])
sync = barrier("streams", 3)
libc = ctypes.CDLL(None, use_errno=True)
libc.fdopen.restype = ctypes.c_void_p
for name in ("fwrite", "fread"):
    getattr(libc, name).argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p]
libc.fseek.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_int]
libc.ftell.argtypes = libc.fflush.argtypes = libc.fclose.argtypes = [ctypes.c_void_p]
SIZE = 10000

for n in range(4):
    path = f"{SSD}/streams.{n}"
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    stream = libc.fdopen(fd, b"r+")
    assert stream
    sync()
    for part in range(3):  # more than its buffer holds
        data = bytes([65 + me + 3 * part]) * SIZE
        assert libc.fseek(stream, (3 * part + me) * SIZE, os.SEEK_SET) == 0
        assert libc.fwrite(data, 1, SIZE, stream) == SIZE
    assert libc.fflush(stream) == 0
    sync()
    into = ctypes.create_string_buffer(SIZE)
    for part in range(3):
        assert libc.fseek(stream, (3 * part + (me + 1) % 3) * SIZE, os.SEEK_SET) == 0
        assert libc.fread(into, 1, SIZE, stream) == SIZE
        assert into.raw == bytes([65 + (me + 1) % 3 + 3 * part]) * SIZE, (n, part)
    assert libc.fseek(stream, 0, os.SEEK_END) == 0 and libc.ftell(stream) == 9 * SIZE
    sync()
    if me == n % 3:
        assert os.lseek(fd, 0, os.SEEK_SET) == 0
        assert libc.dprintf(fd, b"by %s", b"dprintf") == 10
    sync()
    assert libc.fclose(stream) == 0
    sync()
    want = b"".join(bytes([65 + i]) * SIZE for i in range(9))
    assert open(path, "rb").read() == b"by dprintf" + want[10:], n
    sync()
EOT
: >"$LOG"
job_ok 60 3@n0,n1,n2 "$PYTHON" "$WORK/streams.py"
! grep "error:" "$LOG" || fail "that is no mishap"

# Two write their part and close the file at once; what they have written comes to who has it open still, and reads all the
# time: also if it is asked for when its writer has closed it, and the homes do not know that yet.
cat >"$WORK/closed.py" <<'EOT'
import os, time
from ranks import barrier
SSD, me = os.environ["SSD"], int(os.environ["PMIX_RANK"])
sync = barrier("closed", 3)
want = [bytes([65 + rank]) * 64 for rank in range(3)]
for n in range(int(os.environ["ROUNDS"])):
    path = f"{SSD}/closed.{n}"
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    sync()
    assert os.pwrite(fd, want[me], 64 * me) == 64
    until = time.monotonic() + 20
    while me == 0 and os.pread(fd, 192, 0) != b"".join(want):
        assert time.monotonic() < until, (n, os.pread(fd, 192, 0))
    os.close(fd)
    sync()
    assert open(path, "rb").read() == b"".join(want), n
EOT
: >"$LOG"
job_ok 60 3@n0,n1,n2 "$PYTHON" "$WORK/closed.py"
! grep "error:" "$LOG" || fail "that is no mishap"

# Another node comes while a process of this one is about to open the file, as it does all the time, and one has it open: that one
# has what the other node writes, too.
cat >"$WORK/opening.py" <<'EOT'
import os
from ranks import barrier
SSD, W, me = os.environ["SSD"], os.environ["W"], int(os.environ["PMIX_RANK"])  # 0 and 2 are on one node
sync = barrier("opening", 3)
for n in range(int(os.environ["ROUNDS"])):
    path, over = f"{SSD}/opening.{n}", f"{W}/opening.over.{n}"
    if me == 2:  # so that its next mark is found first
        fd = os.open(f"{SSD}/first.{n}", os.O_RDWR | os.O_CREAT, 0o644)
    sync()
    if me == 0:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    elif me == 2:
        os.close(fd)
    sync()
    if me == 2:
        while not os.path.exists(over):
            os.close(os.open(path, os.O_RDWR))
    elif me == 1:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        assert os.pwrite(fd, b"there", 5) == 5
        open(over, "x").close()
    sync()
    if me == 0:
        assert os.pread(fd, 10, 0) == b"\0" * 5 + b"there", (n, os.pread(fd, 10, 0))
        assert os.pwrite(fd, b"here!", 0) == 5
    sync()
    if me == 1:
        assert os.pread(fd, 10, 0) == b"here!there", (n, os.pread(fd, 10, 0))
    if me != 2:
        os.close(fd)
    sync()
    assert open(path, "rb").read() == b"here!there", n
EOT
: >"$LOG"
job_ok 60 3@n0,n1 "$PYTHON" "$WORK/opening.py"
! grep "error:" "$LOG" || fail "that is no mishap"

# One of those that write it closes and removes it, before the others close it: no close fails, and the name is free on all nodes.
cat >"$WORK/removed.py" <<'EOT'
import os
from ranks import barrier
SSD, me = os.environ["SSD"], int(os.environ["PMIX_RANK"])
sync = barrier("removed", 5)

for n in range(12):
    path = f"{SSD}/removed.{n}"
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    sync()
    os.pwrite(fd, b"%d" % me, me)
    sync()
    if me == n % 5:
        os.close(fd)
        os.unlink(path)
    sync()
    if me != n % 5:
        os.close(fd)
    sync()
    assert not os.path.exists(path), path
    sync()
    if me == (n + 1) % 5:
        with open(path, "x") as f:
            f.write("anew")
    sync()
    assert open(path).read() == "anew", path
EOT
: >"$LOG"
job_ok 60 5@n0,n1,n2 "$PYTHON" "$WORK/removed.py"

# Many descriptions of a node: all that a rank, and its children, have of a file which it has made, when another node opens it.
cat >"$WORK/many.py" <<'EOT'
import os
from ranks import barrier
SSD, me = os.environ["SSD"], int(os.environ["PMIX_RANK"])
path = f"{SSD}/many"

sync = barrier("many", 2)
if me == 0:
    fds = [os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)] + [os.open(path, os.O_RDWR) for _ in range(40)]
    sync()
else:
    sync()
    fds = [os.open(path, os.O_RDWR)]
sync()
for i, fd in enumerate(fds):
    os.pwrite(fd, b"%d" % me * 10, 10 * (2 * i + me))
sync()
if me == 1:
    have = os.pread(fds[0], 1000, 0)
    want = b"0" * 10 + b"1" * 10 + (b"0" * 10 + b"\0" * 10) * 40
    assert have == want[:-10], have
for fd in fds:
    os.close(fd)
sync()
with open(path, "rb") as f:
    assert f.read() == (b"0" * 10 + b"1" * 10 + (b"0" * 10 + b"\0" * 10) * 40)[:-10]
sync()
EOT
job_ok 60 2@n0,n1 "$PYTHON" "$WORK/many.py"

! grep "error:" "$LOG" || fail "that is no mishap"
say "seeds $begin to $((seed - 1)): each rank has read what all have written"
