#!/usr/bin/env python3
"""Ranks on several nodes do to one file, one after the other, what a model of one file says.

model.py rank                  a rank: does what it is told by way of the socket W/model, below SSD
model.py drive RANKS SEED N    tells the ranks N operations at random, each when the one before has returned; each must do
                               what the model of one file does, or fail with EIO. Ends with a line of figures.

All ranks have the file open as they like, but who has emptied it (O_TRUNC) is alone. It is read by its name when none has
it open for writing, for such a read waits until then. A failure ends the file: the next one has another name. Who joins
when it was mapped waits, so nobody does.
"""
import errno, fcntl, json, mmap, os, random, socket, sys

W, SSD = os.environ["W"], os.environ["SSD"]
OPENS = {"make": os.O_RDWR | os.O_CREAT, "change": os.O_RDWR, "append": os.O_RDWR | os.O_CREAT | os.O_APPEND,
         "empty": os.O_RDWR | os.O_CREAT | os.O_TRUNC}


def rank():
    fds = {}

    def stream(fd, at, data):
        with os.fdopen(os.dup(fd), "r+b") as f:
            f.seek(at)
            f.write(data)

    def locked(fd, at, data):
        fcntl.lockf(fd, fcntl.LOCK_EX, len(data), at)
        os.pwrite(fd, data, at)
        fcntl.lockf(fd, fcntl.LOCK_UN, len(data), at)

    def mapped(fd, at, data):
        with mmap.mmap(fd, 0) as m:
            m[at:at + len(data)] = data
            return m[:]

    def by_name(path):
        with open(path, "rb") as f:
            return f.read()

    def do(op, fd=None, path=None, how=None, at=0, data="", length=0):
        data, fd = data.encode(), fds.get(fd) if op != "open" else fd
        if op == "open":
            number = os.open(path, OPENS[how], 0o644)
            fds[fd] = number
        elif op == "close":
            for key in [k for k, v in fds.items() if v == fd]:
                del fds[key]
            os.close(fd)
        else:
            return {"write": lambda: os.pwrite(fd, data, at), "add": lambda: os.write(fd, data),
                    "stream": lambda: stream(fd, at, data), "locked": lambda: locked(fd, at, data),
                    "cut": lambda: os.ftruncate(fd, length), "sync": lambda: os.fsync(fd),
                    "read": lambda: os.pread(fd, length, at), "size": lambda: os.fstat(fd).st_size,
                    "end": lambda: os.lseek(fd, 0, os.SEEK_END), "map": lambda: mapped(fd, at, data),
                    "cat": lambda: by_name(path), "stat": lambda: os.stat(path).st_size,
                    "remove": lambda: os.remove(path), "rename": lambda: os.rename(path, how)}[op]()

    with socket.socket(socket.AF_UNIX) as s:
        s.connect(f"{W}/model")
        with s.makefile("rw") as f:
            f.write(os.environ["PMIX_RANK"] + "\n")
            f.flush()
            for line in f:
                try:
                    what = do(**json.loads(line))
                    reply = [0, what.decode() if isinstance(what, bytes) else what]
                except OSError as e:
                    reply = [e.errno, None]
                f.write(json.dumps(reply) + "\n")
                f.flush()


class Failed(Exception):
    pass


class Driver:
    def __init__(self, ranks, seed):
        self.rng, self.ranks = random.Random(seed), {}
        self.done, self.failed, self.files, self.judged = 0, 0, 0, 0
        self.log = []
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(f"{W}/model")
            s.listen(ranks)
            s.settimeout(60)
            for _ in range(ranks):
                by, _ = s.accept()
                by.settimeout(40)
                f = by.makefile("rw")
                self.ranks[int(f.readline())] = f
        self.begin()

    def begin(self):
        self.files += 1
        self.content, self.open = None, {}  # (rank, number): how
        self.mapped = False
        self.path = f"{SSD}/f{self.files}"

    def ask(self, rank, **op):
        f = self.ranks[rank]
        f.write(json.dumps(op) + "\n")
        f.flush()
        status, what = json.loads(f.readline())
        self.done += 1
        self.log.append((rank, op if len(op.get("data", "")) < 30 else {**op, "data": op["data"][:10] + "..."}, status))
        if status == errno.EIO:
            raise Failed
        return status, what

    def must(self, want, rank, **op):
        "What it returns; want: that, or None."
        status, what = self.ask(rank, **op)
        if status or (want is not None and what != want):
            history = "\n".join(map(str, self.log[-60:]))
            if isinstance(want, str) and isinstance(what, str):
                at = next((i for i, (a, b) in enumerate(zip(want, what)) if a != b), min(len(want), len(what)))
                want, what = f"{len(want)} bytes, {want[at:at + 20]!r} at {at}", f"{len(what)} bytes, {what[at:at + 20]!r}"
            sys.exit(f"{history}\nWRONG: rank {rank} {op}: {os.strerror(status)}, {what}; not {want}")
        self.judged += want is not None

    def put(self, at, data):
        if len(self.content) < at:
            self.content += "\0" * (at - len(self.content))
        self.content = self.content[:at] + data + self.content[at + len(data):]

    def step(self):
        rng, rank = self.rng, self.rng.choice(sorted(self.ranks))
        mine = [n for r, n in self.open if r == rank]
        if not self.open:
            op = rng.choice(["open"] * 6 + ["cat", "cat", "stat", "remove", "remove", "rename"])
            if self.content is None:
                op = "open"
        elif not mine:
            op = "open"
            if "empty" in self.open.values():
                return
        elif len(mine) == 2 or "empty" in self.open.values():
            op = rng.choice("write write stream locked add read read read size end cut sync close close".split())
        else:
            op = rng.choice("write write stream locked add read read read size end cut sync close close open".split())
        if op == "sync" and rng.random() < 0.1:
            op = "map"  # after which the file is not on record
        if op == "open":
            hows = ["make"] * 3 + ["append"] + ["change"] * (4 * (self.content is not None))
            how = rng.choice(hows + ["empty"] * (not self.open))
            if self.open and self.mapped:
                return  # not put together (docs/semantics.md)
            number = min({0, 1} - {n % 2 for n in mine}) + 2 * rank
            self.must(None, rank, op="open", fd=number, path=self.path, how=how)
            self.open[rank, number] = how
            if self.content is None or how == "empty":
                self.content = ""
        elif op in ("cat", "stat"):
            self.must(self.content if op == "cat" else len(self.content), rank, op=op, path=self.path)
        elif op == "remove":
            self.must(None, rank, op=op, path=self.path)
            if rng.random() < 0.5:
                self.begin()
            else:  # the name is made anew at once, by whoever comes next
                self.content, self.mapped = None, False
        elif op == "rename":
            self.must(None, rank, op=op, path=self.path, how=self.path + "n")
            self.path += "n"
        else:
            self.descriptor(op, rank, rng.choice(mine))

    def descriptor(self, op, rank, fd):
        rng, n = self.rng, len(self.content)
        at, appends = rng.randrange(n + 200), self.open[rank, fd] == "append"
        data = rng.choice("abcdefghijklmnopqrstuvwxyz") * rng.choice([1, 7, 100, 5000])
        if op == "add" and not appends or op in ("write", "stream", "locked") and appends:
            op = "read"
        if op in ("write", "stream", "locked"):
            self.must(None, rank, op=op, fd=fd, at=at, data=data)
            self.put(at, data)
        elif op == "add":
            self.must(len(data), rank, op=op, fd=fd, data=data)
            self.put(n, data)
        elif op == "cut":
            length = rng.choice([0, rng.randrange(n + 1), rng.randrange(n + 200)])
            self.must(None, rank, op=op, fd=fd, length=length)
            self.content = self.content[:length] + "\0" * (length - n)
        elif op == "read":
            length = rng.choice([10, 6000, 100000])
            self.must(self.content[at:at + length], rank, op=op, fd=fd, at=at, length=length)
        elif op == "map":
            data = data[:n] * rng.randrange(2)
            at = rng.randrange(n + 1 - len(data))
            if n:
                self.put(at, data)
                self.must(self.content, rank, op=op, fd=fd, at=at, data=data)
                self.mapped = True
        elif op in ("size", "end"):
            self.must(n, rank, op=op, fd=fd)
        else:
            if op == "close":
                del self.open[rank, fd]
                self.mapped = self.mapped and bool(self.open)
            self.must(None, rank, op=op, fd=fd)

    def close_all(self):
        for rank, fd in list(self.open):
            del self.open[rank, fd]
            self.must(None, rank, op="close", fd=fd)

    def give_up(self):
        "What may be in it is not known: it goes on with another one."
        self.failed += 1
        for rank, fd in list(self.open):
            try:
                self.ask(rank, op="close", fd=fd)
            except Failed:
                pass
        self.begin()

    def run(self, count):
        left = 0
        while self.done < count:
            try:
                if left == 0:
                    self.close_all()
                    for rank in self.ranks if self.content is not None else ():
                        self.must(self.content, rank, op="cat", path=self.path)
                    self.begin()
                    left = self.rng.randrange(20, 100)
                self.step()
                left -= 1
            except Failed:
                self.give_up()
        if self.failed * 3 > self.files * 2:
            sys.exit(f"{self.failed} of {self.files} files failed: that is no model of one file")
        print(f"{self.done} operations on {self.files} files: {self.judged} judged, 0 wrong, {self.failed} failed (EIO)")


if sys.argv[1] == "rank":
    rank()
else:
    Driver(int(sys.argv[2]), int(sys.argv[3])).run(int(sys.argv[4]))
