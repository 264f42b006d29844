"""Ranks on several nodes have one file open, write to it in rounds, and read after each what all have written.

joint.py RANKS SEED ROUNDS HOW: every rank draws the same numbers, so each knows what all are to write, and what the
file is then. HOW is how it is opened: creat (by all at once, O_CREAT), first (rank 0 makes it anew, the others open it
after that), late (as creat, but the last rank comes when the others have written), found (it was there before, on one node or on
all), again (as found; and now and then one closes it, and comes again, or comes late). W, SSD, PMIX_RANK as in the other
tests. A read whose open was not the last to begin is one that began after a barrier, so its bytes are certain."""
import mmap, os, random, sys, time

W, SSD, me = os.environ["W"], os.environ["SSD"], int(os.environ["PMIX_RANK"])
RANKS, SEED, ROUNDS, HOW = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
PATH = f"{SSD}/joint"
draw = random.Random(f"{SEED}/{HOW}")
steps = 0


def barrier(ranks=range(RANKS)):
    """All of these ranks have come here."""
    global steps
    steps += 1
    open(f"{W}/at.{steps}.{me}", "x").close()
    while not all(os.path.exists(f"{W}/at.{steps}.{r}") for r in ranks):
        time.sleep(0.001)


def opened(flags):
    return os.open(PATH, flags, 0o644)


def write(fd, data, offset, how):
    if how == 0:
        os.pwrite(fd, data, offset)
    elif how == 1:
        os.lseek(fd, offset, os.SEEK_SET)
        os.write(fd, data)
    else:
        os.pwritev(fd, [data[:1], data[1:]], offset)


def read(fd, offset, length, how, size):
    """What is at that place, one of several ways; size: of the file."""
    if how == 0:
        return os.pread(fd, length, offset)
    if how == 1:
        os.lseek(fd, offset, os.SEEK_SET)
        return os.read(fd, length)
    if how == 2:
        into = bytearray(length)
        n = os.preadv(fd, [into], offset)
        return bytes(into[:n])
    if how == 3 and size:
        with mmap.mmap(fd, size, mmap.MAP_PRIVATE, mmap.PROT_READ) as view:
            return view[offset:offset + length]
    return os.pread(fd, length, offset)


def check(fd, want):
    """The file is what all have written; some of it first, so that not only the first read brings it."""
    own = random.Random(f"{SEED}/{HOW}/{me}/{steps}")
    for _ in range(3):
        offset = own.randrange(len(want) + 10)
        length = own.randrange(1, 5000)
        have = read(fd, offset, length, own.randrange(4), len(want))
        if have != bytes(want[offset:offset + length]):
            wrong(f"read of {length} at {offset}", have, want[offset:offset + length])
    size = os.fstat(fd).st_size if own.randrange(2) else os.lseek(fd, 0, os.SEEK_END)
    if size != len(want):
        wrong("size", size, len(want))
    have = os.pread(fd, len(want) + 1, 0)
    if have != bytes(want):
        wrong("all", have, want)


def wrong(what, have, want):
    if isinstance(have, bytes):
        at = next((i for i in range(min(len(have), len(want))) if have[i] != want[i]), min(len(have), len(want)))
        have, want = f"{len(have)} bytes, at {at}: {have[at:at + 8]!r}", f"{len(want)} bytes: {bytes(want[at:at + 8])!r}"
    print(f"rank {me}, {HOW}, step {steps}: {what}: {have}, not {want}", flush=True)
    os._exit(3)


late = RANKS - 1 if HOW == "late" else None
fd, want, found, away = None, bytearray(), HOW in ("found", "again"), None
if found:
    want.extend(draw.randbytes(draw.randrange(1, 40000)))
    if me == 0:
        fd = opened(os.O_RDWR | os.O_CREAT)
        os.pwrite(fd, bytes(want), 0)
        os.close(fd)
        fd = None
    barrier()
    if draw.randrange(2):
        assert open(PATH, "rb").read() == bytes(want)
        barrier()
    if HOW == "again":
        away = draw.choice([None, *range(RANKS)])
if HOW == "first" and me == 0:
    fd = opened(os.O_RDWR | os.O_CREAT | os.O_TRUNC)
if HOW == "first":
    barrier()
if fd is None and me not in (late, away):
    fd = opened(os.O_RDWR if HOW == "first" or found and random.randrange(2) else os.O_RDWR | os.O_CREAT)
barrier()
for turn in range(ROUNDS):
    if turn == 1 and me == late:
        fd = opened(os.O_RDWR | os.O_CREAT)
        check(fd, want)
    if turn == 1 and late is not None:
        barrier()
    cut = draw.randrange(8) == 0 and turn > 0
    if cut:  # by one rank, and nobody else writes
        length, by = draw.randrange(60000), draw.choice([r for r in range(RANKS) if r != away])
        if me == by:
            os.ftruncate(fd, length)
        del want[length:]
        want.extend(bytes(length - len(want)))
    else:
        # Each place is written by one rank in a round, and by any rank in the next one.
        places = draw.sample(range(60), 12)
        for place in places:
            by, how = draw.randrange(RANKS), draw.randrange(3)
            offset, length = 1000 * place + draw.randrange(400), draw.randrange(2, 600)
            data = draw.randbytes(length)
            if by == late and turn == 0 or by == away:
                continue
            if me == by:
                write(fd, data, offset, how)
            want.extend(bytes(max(0, offset + length - len(want))))
            want[offset:offset + length] = data
    barrier()
    # Not all read after each round: what is not read now comes later.
    if draw.randrange(3) and fd is not None:
        check(fd, want)
    barrier()
    if HOW == "again" and draw.randrange(2):
        if away is None:
            away = draw.randrange(RANKS)
            if me == away:
                os.close(fd)
                fd = None
        else:
            if me == away:
                fd = opened(os.O_RDWR)
                check(fd, want)
            away = None
        barrier()
    if turn == ROUNDS // 2 and draw.randrange(2):  # one that closes it and comes again
        again = draw.randrange(RANKS)
        if me == again and HOW == "creat":
            os.close(fd)
            fd = None
        barrier()
        if HOW == "creat" and me != again:
            check(fd, want)
        barrier()
        if HOW == "creat":  # it has a version now: who comes again would change that by itself
            break
for rank in draw.sample(range(RANKS), RANKS):
    if rank == me and fd is not None:
        os.close(fd)
    if draw.randrange(2):
        barrier()
with open(PATH, "rb") as f:
    have = f.read()
if have != bytes(want):
    wrong("at the end", have, want)
barrier()
