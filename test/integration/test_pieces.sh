#!/bin/bash
# Several nodes write one file at once, each other bytes: it has them all, whoever closes first, and on every node.
# What both have written, or what nobody has a record of, is a conflict, as where nothing is put together.
# shellcheck disable=SC2016
. "$(dirname "$0")/../cluster/lib.sh"
. "$TEST_DIR/cluster/steps.sh"
[ -n "$PYTHON" ] || skip "needs python3"
cluster_up 3
cat >"$WORK/steps.py" <<'EOT'
import errno, mmap, os, sys, time
W, SSD, me = os.environ["W"], os.environ["SSD"], int(sys.argv[1])

def sync(name):
    """All three are there."""
    open(f"{W}/flag.{name}.{me}", "x").close()
    while not all(os.path.exists(f"{W}/flag.{name}.{r}") for r in range(3)):
        time.sleep(0.001)

def path(name):
    return f"{SSD}/{name}"

def pattern(rank, length, seed=0):
    return bytes((rank + 1) * 16 + (i + seed) % 13 for i in range(length))

def close(fd):
    try:
        os.close(fd)
    except OSError as e:
        return e.errno
    return 0

def check(name, want):
    with open(path(name), "rb") as f:
        have = f.read()
    if have != want:
        bad = next((i for i in range(min(len(have), len(want))) if have[i] != want[i]), None)
        raise AssertionError((name, len(have), len(want), bad))

def shared(name, ranges, order=None, write=os.pwrite):
    """ranges: {rank: [(offset, bytes)]}. All have it open at once; they close in that order, or at once."""
    fd, result, want = None, None, bytearray()
    for r in sorted(ranges):
        for offset, data in ranges[r]:
            want.extend(bytes(max(0, offset + len(data) - len(want))))
            want[offset:offset + len(data)] = data
    if me in ranges:
        fd = os.open(path(name), os.O_RDWR | os.O_CREAT, 0o644)
    sync(f"{name}.open")
    for offset, data in ranges.get(me, []):
        assert write(fd, data, offset) == len(data)
    sync(f"{name}.written")
    for turn in order or [None]:
        if fd is not None and turn in (me, None):
            result = close(fd)
        if order:
            sync(f"{name}.closed.{turn}")
    if not order:
        sync(f"{name}.closed")
    assert not result, (name, result)
    check(name, bytes(want))
    sync(f"{name}.read")

def seek_write(fd, data, offset):
    os.lseek(fd, offset, os.SEEK_SET)
    return os.write(fd, data)

def vector_write(fd, data, offset):
    return os.pwritev(fd, [data[:3], data[3:]], offset)

import ctypes
libc = ctypes.CDLL(None, use_errno=True)

class Aiocb(ctypes.Structure):
    """glibc's, of 64 bits."""
    _fields_ = [("fd", ctypes.c_int), ("opcode", ctypes.c_int), ("reqprio", ctypes.c_int), ("buf", ctypes.c_char_p),
                ("nbytes", ctypes.c_size_t), ("sigevent", ctypes.c_char * 64), ("inner", ctypes.c_char * 32),
                ("offset", ctypes.c_long), ("reserved", ctypes.c_char * 32)]

assert ctypes.sizeof(Aiocb) == 168
libc.aio_return.restype = ctypes.c_ssize_t

def aio(list_of_one):
    def write(fd, data, offset):
        cb = Aiocb(fd=fd, opcode=1, buf=data, nbytes=len(data), offset=offset)  # LIO_WRITE
        cb.sigevent = bytes(12) + b"\1"  # SIGEV_NONE
        each = (ctypes.POINTER(Aiocb) * 1)(ctypes.pointer(cb))
        if list_of_one:
            assert libc.lio_listio(0, each, 1, None) == 0  # LIO_WAIT
        else:
            assert libc.aio_write(each[0]) == 0
            while libc.aio_error(each[0]) == errno.EINPROGRESS:
                libc.aio_suspend(each, 1, None)
        return libc.aio_return(each[0])
    return write

# Halves that no block divides; each order of the closes; all at once.
for i, order in enumerate(([0, 1], [1, 0], None, None, None)):
    shared(f"halves.{i}", {0: [(0, pattern(0, 1234))], 1: [(1234, pattern(1, 777))]}, order)
for i, order in enumerate(([2, 0, 1], [1, 2, 0], None, None, None)):
    shared(f"thirds.{i}", {r: [(r * 1001, pattern(r, 1001))] for r in range(3)}, order)
# Records in turn, as a strided view; by every way to write.
for i, write in enumerate((os.pwrite, seek_write, vector_write, aio(False), aio(True))):
    shared(f"strided.{i}", {r: [((3 * k + r) * 100, pattern(r, 100, k)) for k in range(300)] for r in range(3)}, None,
           write=write)
# A hole in the midst, which nobody writes; more than one chunk.
shared("holes", {0: [(0, b"first")], 1: [(100000, b"second")], 2: [(50000, b"third")]}, [1, 0, 2])
shared("large", {r: [(r * 3000000, pattern(r, 64) * 46875)] for r in range(3)})
# What was written twice by its node.
shared("twice", {0: [(0, b"....."), (2, b"zz")], 1: [(5, b"xxxxx"), (5, b"yy")]}, [0, 1])
# Zeros are bytes, too.
shared("zeros", {0: [(0, b"a" * 100)], 1: [(100, bytes(100))]}, [1, 0])

# One goes on writing while the other's are put in, and closes later.
fd = os.open(path("later"), os.O_RDWR | os.O_CREAT, 0o644) if me < 2 else None
more = os.open(path("later"), os.O_RDWR | os.O_CREAT, 0o644) if me == 0 else None
sync("later.open")
if me == 0:
    os.pwrite(fd, b"00", 0)
    assert close(fd) == 0
sync("later.first")
if me == 1:
    os.pwrite(fd, b"11", 2)
    assert close(fd) == 0
sync("later.second")
if me == 0:
    assert os.pread(more, 4, 0) == b"0011"
    os.pwrite(more, b"44", 4)
    assert close(more) == 0
sync("later.third")
check("later", b"001144")
sync("later.read")

# What a node has written and given away it writes again, by another description.
fds = [os.open(path("again"), os.O_RDWR | os.O_CREAT, 0o644) for _ in range(2)] if me < 2 else []
sync("again.open")
if me == 0:
    os.pwrite(fds[0], b"00", 0)
    assert close(fds[0]) == 0
sync("again.first")
for fd, data in zip(fds if me == 1 else [], (b"11", b"2222")):
    os.pwrite(fd, data, 2)
    assert close(fd) == 0
sync("again.second")
if me == 0:
    os.pwrite(fds[1], b"3", 1)
    assert close(fds[1]) == 0
sync("again.third")
check("again", b"032222")
sync("again.last")

# Children write by the description that they inherit.
if me < 2:
    fd = os.open(path("forked"), os.O_RDWR | os.O_CREAT, 0o644)
sync("forked.open")
if me < 2:
    for k in range(4):
        pid = os.fork()
        if pid == 0:
            os.pwrite(fd, bytes([65 + k]) * 10, 20 * k + 10 * me)
            os._exit(0)
        os.waitpid(pid, 0)
    assert close(fd) == 0
sync("forked.closed")
check("forked", b"".join(bytes([65 + k]) * 20 for k in range(4)))
sync("forked.read")

# The same bytes, one after the other: the last one counts, whoever closes first.
steps = [(0, 0, 100), (1, 50, 100), (2, 75, 5), (0, 70, 8), (2, 140, 20), (1, 0, 1)]
for i, order in enumerate(([0, 1, 2], [2, 1, 0], [1, 0, 2], None, None)):
    name, want = f"order.{i}", bytearray(160)
    fd = os.open(path(name), os.O_RDWR | os.O_CREAT, 0o644)
    sync(f"{name}.open")
    for k, (rank, offset, length) in enumerate(steps):
        want[offset:offset + length] = pattern(rank, length, k)
        if me == rank:
            os.pwrite(fd, pattern(rank, length, k), offset)
        sync(f"{name}.{k}")
    for turn in order or [me]:
        if turn == me:
            assert close(fd) == 0, name
        if order:
            sync(f"{name}.closed.{turn}")
    sync(f"{name}.closed")
    check(name, bytes(want))
    sync(f"{name}.read")

# A cut that is no end for the other's bytes; one that is, and was made after they were written.
for name, length in ("set", 1000), ("cut", 30):
    fd = os.open(path(name), os.O_RDWR | os.O_CREAT, 0o644) if me < 2 else None
    sync(f"{name}.open")
    if me == 0:
        os.pwrite(fd, b"a" * 50, 0)
        assert close(fd) == 0
    sync(f"{name}.first")
    if me == 1:
        os.pwrite(fd, b"b" * 50, 50)
        os.ftruncate(fd, length)
        assert close(fd) == 0, name
    sync(f"{name}.closed")
    check(name, (b"a" * 50 + b"b" * 50 + bytes(900))[:length])
    sync(f"{name}.read")

# A program's standard output, which has a stream.
fd = os.open(path("stdout"), os.O_RDWR | os.O_CREAT, 0o644) if me < 2 else None
sync("stdout.open")
if me == 0:
    os.pwrite(fd, b"zero", 0)
    assert close(fd) == 0
sync("stdout.first")
if me == 1:
    os.pwrite(fd, b"recorded", 4096)
    for shell in "sh", "bash":
        pid = os.fork()
        if pid == 0:
            os.dup2(fd, 1)
            os.lseek(1, 0, os.SEEK_END)
            os.execvp(shell, [shell, "-c", f"echo by {shell}"])
        os.waitpid(pid, 0)
    assert close(fd) == 0
sync("stdout.closed")
check("stdout", b"zero".ljust(4096, b"\0") + b"recordedby sh\nby bash\n")
sync("stdout.read")

# In conflict: the same bytes; bytes that nobody has a record of.
def by_map(fd):
    os.ftruncate(fd, 8192)
    with mmap.mmap(fd, 8192) as m:
        m[4096:4100] = b"mmap"

def by_sendfile(fd):
    with open(__file__, "rb") as f:
        os.lseek(fd, 4096, os.SEEK_SET)
        os.sendfile(fd, f.fileno(), 0, 4)

def by_protect(fd):
    import ctypes
    os.ftruncate(fd, 8192)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
    at = libc.mmap(None, 8192, 1, 1, fd, 0)
    assert libc.mprotect(ctypes.c_void_p(at), 8192, 3) == 0
    ctypes.memmove(at + 4096, b"prot", 4)
    libc.munmap(ctypes.c_void_p(at), 8192)

cases = {"protect": by_protect, "map": by_map, "sendfile": by_sendfile}
for name, write in cases.items():
    fd = os.open(path(name), os.O_RDWR | os.O_CREAT, 0o644) if me < 2 else None
    sync(f"{name}.open")
    failed = 0
    if me == 0:
        os.pwrite(fd, b"zero", 0)
        failed = close(fd)
    sync(f"{name}.first")
    if me == 1:
        try:
            write(fd)
        except OSError as e:
            failed = e.errno
        failed = close(fd) or failed
        assert failed == errno.EIO, (name, failed)
    sync(f"{name}.closed")
    try:
        open(path(name))
    except OSError as e:
        assert e.errno == errno.EIO, e
    else:
        raise AssertionError(name)
    sync(f"{name}.read")

# The same bytes at the same time, as far as the clocks tell: a conflict that names them. Where a rank was kept from
# writing at once one of the two is the later one, and it is tried once more.
open(f"{W}/spin", "ab").truncate(2) if me == 0 else None
sync("spin.made")
with open(f"{W}/spin", "r+b") as f:
    spin = mmap.mmap(f.fileno(), 2)
for k in range(200):
    name, failed = f"both.{k}", 0
    if me < 2:
        fd = os.open(path(name), os.O_RDWR | os.O_CREAT, 0o644)
    sync(f"{name}.open")
    if me < 2:
        spin[me] = k + 1
        while spin[1 - me] != k + 1:
            pass
        os.pwrite(fd, bytes([65 + me]) * 10, 100)
        failed = close(fd)
    open(f"{W}/failed.{k}.{me}.{failed}", "x").close()
    sync(f"{name}.closed")
    if any(os.path.exists(f"{W}/failed.{k}.{r}.{errno.EIO}") for r in (0, 1)):
        break
    with open(path(name), "rb") as f:
        assert f.read() in [bytes(100) + c * 10 for c in (b"A", b"B")], name
    sync(f"{name}.read")
else:
    raise AssertionError("never at once")
open(f"{W}/ok.{me}", "x").close()
EOT
case $LEVEL in short) rounds=60 ;; long) rounds=300 ;; *) rounds=5000 ;; esac
JOB_ENV+=("W=$WORK" "SSD=$SSD" "PIECES_SEED=${PIECES_SEED:-$RANDOM}" "PIECES_ROUNDS=$rounds")
job_ok 100 1@n0 "$PYTHON" "$WORK/steps.py" 0 -- 1@n1 "$PYTHON" "$WORK/steps.py" 1 -- 1@n2 "$PYTHON" "$WORK/steps.py" 2
for name in map sendfile protect; do
    grep -q "\"$name\" was written here and by rank .* at once" "$LOG" || fail "nobody says why $name cannot be read"
done
grep -q 'bytes 100 to 109 of "both.[0-9]*" were written here and by rank' "$LOG" || fail "the bytes that both have written are not named"
! grep -E '"(halves|thirds|strided|holes|large|twice|zeros|later|again|forked|order|set)[.0-9]*" was written here' "$LOG" ||
    fail "a conflict where there is none"

# Random pieces, by one rank and by several ranks a node; the seed is printed. The last with closes that do not wait for
# what the homes say: who reads the file does.
say "seed ${JOB_ENV[*]: -2:1}"
for nodes in "0 1 2" "0 0 1 1" "0 1 1" "0 0 1 1 2 2" "0 1 1 2"; do
    clean_ssd
    : >"$LOG"
    rm -f "$WORK"/flag.*
    ranks=()
    for node in $nodes; do
        ranks+=(-- "1@n$node" "$PYTHON" "$TEST_DIR/integration/progs/pieces.py" $((${#ranks[@]} / 6)) $(((${#nodes} + 1) / 2)))
    done
    [ "$nodes" != "0 1 1 2" ] || JOB_ENV+=(DYAD_ASYNC_PUBLISH=1)
    job_ok $((60 + rounds)) "${ranks[@]:1}"
    ! grep 'was written here and by' "$LOG" || fail "a conflict where there is none: nodes $nodes"
done

# With such closes: a name that is given right after one, the last included, is the whole file's.
clean_ssd
job_ok 60 1@n0 "$PYTHON" -c '
import os
for k in range(200):
    with open(os.environ["SSD"] + f"/t{k}", "w") as f:
        f.write(f"{k} " * 1000)
    os.rename(f.name, os.environ["SSD"] + f"/n{k}")' -- 1@n1 "$PYTHON" -c '
import os
for k in range(200):
    with open(os.environ["SSD"] + f"/n{k}") as f:
        assert f.read() == f"{k} " * 1000, k'
