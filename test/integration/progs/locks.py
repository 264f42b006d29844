"""Processes on several nodes have one file open, and change it under locks (fcntl).

locks.py RANKS PROCESSES COUNT SEED [found]: found: the file is there before. This rank is that many processes; each adds one to a counter in the file COUNT times, as
read, write, under a lock of it, or of all of the file, in one of several ways, and to one of the numbers behind it, which
have locks of their own. At the end all of that is in the file. W, SSD, PMIX_RANK as in the other tests."""
import ctypes, errno, fcntl, os, random, struct, sys, time

W, SSD, me, ranks = os.environ["W"], os.environ["SSD"], int(os.environ["PMIX_RANK"]), int(sys.argv[1])
PROCESSES, COUNT, SEED = map(int, sys.argv[2:5])
PATH, NUMBERS = f"{SSD}/counters", 4
NUMBER = struct.Struct("<Q")


def barrier(name):
    open(f"{W}/{name}.{me}", "x").close()
    while not all(os.path.exists(f"{W}/{name}.{r}") for r in range(ranks)):
        time.sleep(0.001)


def locked(fd, draw, start, length):
    """Lock these bytes, one way or another."""
    how = draw.randrange(3)
    if how == 0:
        fcntl.lockf(fd, fcntl.LOCK_EX, length, start)
    elif how == 1:
        while True:
            try:
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
                return
            except OSError as e:
                if e.errno not in (errno.EAGAIN, errno.EACCES):
                    raise
    else:
        os.lseek(fd, start, os.SEEK_SET)
        os.lockf(fd, os.F_LOCK, length)


def unlocked(fd, start, length):
    fcntl.lockf(fd, fcntl.LOCK_UN, length, start)


def add(fd, at):
    number = NUMBER.unpack((os.pread(fd, 8, 8 * at) + bytes(8))[:8])[0]
    os.pwrite(fd, NUMBER.pack(number + 1), 8 * at)


def work(fd, number):
    draw = random.Random(f"{SEED}/{me}/{number}")
    done = [0] * (NUMBERS + 1)
    for _ in range(COUNT):
        start, length = (0, 0) if draw.randrange(4) == 0 else (0, 8)
        locked(fd, draw, start, length)
        add(fd, 0)
        if draw.randrange(8) == 0:
            time.sleep(0.001)
        unlocked(fd, start, length)
        at = 1 + draw.randrange(NUMBERS)
        locked(fd, draw, 8 * at, 8)
        add(fd, at)
        unlocked(fd, 8 * at, 8)
        done[0] += 1
        done[at] += 1
    with open(f"{W}/done.{me}.{number}", "w") as f:
        f.write(" ".join(map(str, done)))


found = sys.argv[5:] == ["found"]
if found:
    if me == 0:
        with open(PATH, "wb") as f:
            f.write(bytes(NUMBER.size * (NUMBERS + 1)))
    barrier("found")
fd = os.open(PATH, os.O_RDWR if found else os.O_RDWR | os.O_CREAT, 0o644)
barrier("open")
pids = []
for number in range(1, PROCESSES):
    pid = os.fork()
    if pid == 0:
        own = os.open(PATH, os.O_RDWR)
        work(own, number)
        os.close(own)
        os._exit(0)
    pids.append(pid)
work(fd, 0)
for pid in pids:
    if os.waitpid(pid, 0)[1]:
        sys.exit(f"rank {me}: a process has failed")
barrier("done")
want = [0] * (NUMBERS + 1)
for rank in range(ranks):
    for number in range(PROCESSES):
        want = [a + int(b) for a, b in zip(want, open(f"{W}/done.{rank}.{number}").read().split())]
have = [NUMBER.unpack(os.pread(fd, 8, 8 * at))[0] for at in range(NUMBERS + 1)]
if have != want:
    sys.exit(f"rank {me}: the counters are {have}, not {want}")
os.close(fd)
with open(PATH, "rb") as f:
    have = [NUMBER.unpack(f.read(8))[0] for _ in range(NUMBERS + 1)]
if have != want:
    sys.exit(f"rank {me}: the counters in the file are {have}, not {want}")
