"""fault_worker.py run SEED LAUNCH LOGS    - one rank of a fault run: does its steps, tells what became of them
fault_worker.py scan DIRECTORY SEED        - what lies in a managed directory: a line of JSON for each file

A file's bytes follow from the seed and its uid, which are in its first line; so whoever reads one knows which version
it should be, and whether it is the whole of it. What happens goes to LOGS/<rank>: a line of JSON for each begin and end, with the time
(CLOCK_MONOTONIC: one clock on all nodes of the cluster). Nothing of it passes through the managed directory. It is mapped: what is in it
outlives a kill, and no limit of file sizes applies. Its first eight bytes are how long it is.
"""
import errno
import hashlib
import json
import mmap
import os
import resource
import signal
import struct
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "../../cluster"))
import fault_plan

MARK = b"dyad-fault"
LOG_SIZE = 1 << 18


def content(seed, uid, size):
    head = b"%s %s %s %d\n" % (MARK, seed.encode(), uid.encode(), size)
    return head + hashlib.shake_128(head).digest(size - len(head))


def judge(seed, data):
    """(uid, None) of a whole version; (uid or None, why) of anything else, and whether it is the beginning of one."""
    line, newline, _ = data[:80].partition(b"\n")
    words = line.split()
    if not newline or len(words) != 4 or words[0] != MARK or words[1] != seed.encode() or not words[3].isdigit():
        head = b"%s %s " % (MARK, seed.encode())
        return None, "%d bytes without a first line: %r" % (len(data), data[:40]), not newline and data[:len(head)] == head[:len(data)]
    uid, size = words[2].decode(), int(words[3])
    whole = content(seed, uid, size)
    if len(data) < size:
        return uid, "%d bytes of %d" % (len(data), size), data == whole[:len(data)]
    return (uid, None) if data == whole else (uid, "wrong bytes, %d of %d" % (len(data), size), False)


class Worker:
    def __init__(self, seed, number, logs):
        self.seed, self.number = seed, number
        self.rank = int(os.environ["PMIX_RANK"])
        self.dmd = os.environ["DYAD_PATH"]
        with open("%s/%d.new" % (logs, self.rank), "w+b") as file:
            file.write(struct.pack("=Q", 8).ljust(LOG_SIZE, b"\0"))
            file.flush()
            self.log = mmap.mmap(file.fileno(), LOG_SIZE)
        os.rename("%s/%d.new" % (logs, self.rank), "%s/%d" % (logs, self.rank))
        self.lock = threading.Lock()
        self.steps = fault_plan.launch(seed, number).steps[self.rank]
        self.k = -1
        self.limit_end = None
        self.shy = {}  # of a rank whose file could not be had: its files are let alone until this step

    def note(self, *words):
        with self.lock:
            line = json.dumps([round(time.monotonic(), 6), self.k, *words]).encode() + b"\n"
            at, = struct.unpack_from("=Q", self.log)
            self.log[at:at + len(line)] = line
            struct.pack_into("=Q", self.log, 0, at + len(line))

    def die(self, step, point):
        if step.die and step.die[0] == point:
            self.note("die", "writer" if step.child else "kill", point)
            os.kill(os.getpid(), signal.SIGKILL)

    # Each returns what is noted as the step's end.

    def put(self, step, path):
        """The file, or who failed: ("failed", errno, where). What could not be written is removed again."""
        data, where = content(self.seed, step.uid, step.size), "open"
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            self.note("opened")
            try:
                self.die(step, "opened")
                where = "write"
                each = -(-len(data) // step.pieces)
                for i in range(0, len(data), each):
                    piece = data[i:i + each]
                    while piece:
                        piece = piece[os.write(fd, piece):]
                    if i // each == (step.pieces - 1) // 2:
                        if step.pieces > 1:
                            time.sleep(step.think)
                        self.die(step, "half")
                self.die(step, "written")
                where = "close"
            except OSError as e:
                self.note("broke", e.errno)  # before it is closed, and so published as it is
                raise
            finally:
                os.close(fd)
        except OSError as e:
            return ["failed", e.errno, where]
        return ["done"]

    def take_away(self, path):
        try:
            os.unlink(path)
            return "gone"
        except OSError as e:
            return errno.errorcode[e.errno]

    def write(self, step, path):
        end = self.put(step, path)
        if end[0] == "failed":
            end.append(self.take_away(path))
        else:
            self.die(step, "closed")
        return end

    def replace(self, step, path):
        temporary = "%s/t/%s" % (self.dmd, step.uid)
        end = self.put(step, temporary)
        if end[0] == "done":
            try:
                os.rename(temporary, path)
                self.die(step, "closed")
                return end
            except OSError as e:
                end = ["failed", e.errno, "rename"]
        self.take_away(temporary)
        # Nothing was done to the name itself, but by a rename that failed half way.
        return end if end[2] == "rename" else ["unmade", *end[1:]]

    def remove(self, _step, path):
        try:
            os.unlink(path)
            return ["done"]
        except FileNotFoundError:
            return ["absent"]
        except OSError as e:
            return ["failed", e.errno, "unlink"]

    def rename(self, step, path):
        try:
            os.rename(path, os.path.join(self.dmd, step.to))
            return ["done"]
        except FileNotFoundError:
            return ["absent"]
        except OSError as e:
            return ["failed", e.errno, "rename"]

    def read(self, _step, path):
        try:
            fd = os.open(path, os.O_RDONLY)
        except OSError as e:
            return ["refused", e.errno]
        self.note("opened")
        parts = []
        try:
            while True:
                part = os.read(fd, 65536)
                if not part:
                    break
                parts.append(part)
        finally:
            os.close(fd)
        uid, *wrong = judge(self.seed, b"".join(parts))
        return ["torn", uid, *wrong] if wrong[0] else ["read", uid]

    def look(self, _step, path):
        try:
            os.stat(path)
            return ["there"]
        except OSError as e:
            return ["refused", e.errno]

    def step(self, k):
        step = self.k = k
        step = self.steps[k]
        if self.limit_end is not None and k >= self.limit_end:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            self.note("unlimited")
            self.limit_end = None
        if step.limit:
            self.note("limited", step.limit[0])
            resource.setrlimit(resource.RLIMIT_FSIZE, (step.limit[0], resource.RLIM_INFINITY))
            self.limit_end = k + step.limit[1]
        time.sleep(step.think)
        owner = step.name.split("/")[0]
        if step.kind == "read" and k < self.shy.get(owner, 0):
            self.note("skip")
            return
        self.note("begin", step.kind, step.name, step.to, step.uid, step.child)
        if step.die and step.die[0] == "timer":
            killer = threading.Timer(step.die[1], self.die, (step, "timer"))
            killer.daemon = True
            killer.start()
        path = os.path.join(self.dmd, step.name)
        if step.child:
            pid = os.fork()
            if pid == 0:
                status = 1
                try:
                    self.note("end", *getattr(self, step.kind)(step, path))
                    status = 0
                finally:
                    os._exit(status)
            _, status = os.waitpid(pid, 0)
            if status:
                self.note("child", status)
            return
        end = getattr(self, step.kind)(step, path)
        self.note("end", *end)
        if step.die and step.die[0] == "timer":  # it is late: no other step must come
            signal.pause()
        if end[0] == "refused" and end[1] in (errno.EHOSTUNREACH, errno.EIO, errno.ETIMEDOUT):
            self.shy[owner] = k + 10

    def run(self):
        self.note("start", os.getpid())
        for name in ["t", "s"] + [p + str(self.rank) for p in "oa"]:
            os.makedirs(os.path.join(self.dmd, name), exist_ok=True)
        for k in range(len(self.steps)):
            self.step(k)
        self.k = len(self.steps)
        self.note("finish")


def scan(top, seed):
    for where, dirs, files in os.walk(top):
        dirs[:] = [d for d in dirs if d != ".dyad"]
        for name in files:
            path = os.path.join(where, name)
            with open(path, "rb") as file:
                uid, wrong = judge(seed, file.read())[:2]
            print(json.dumps([os.path.relpath(path, top), uid, wrong]))


if sys.argv[1] == "scan":
    scan(sys.argv[2], sys.argv[3])
else:
    Worker(sys.argv[2], sys.argv[3], sys.argv[4]).run()
