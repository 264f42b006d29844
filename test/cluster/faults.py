"""faults.py inject SEED LAUNCH LOGS SSD EVENTS   - the faults of one launch, while its ranks run; ends when they have ended
faults.py check SEED LAUNCH LOGS EVENTS RESULTS SCAN... - judge what the ranks told; 1 if something was wrong
faults.py table RESULTS...                       - all of it, as a table for docs/reliability.md

A launch's ranks are fault_worker.py, its plan is fault_plan.py's. LOGS has a file of each rank; EVENTS is what was
done to them, RESULTS what came of it (JSON). CLUSTER_DIR is the cluster; SSD its nodes' small local disk, the managed directory below it.

What is right and what is wrong. An operation has a begin and an end, taken before and after the call by one clock. It *precedes*
another if its end is before the other's begin. A name's state is changed by writes (to a version, which its uid names), removals and
renames, and is absent at first.

1. A read that gets bytes gets one whole version, whose write did not begin after the read's end, and which is not out of date: no
   completed change of the name came after that version's change and before the read. Exceptions: the file was being
   rewritten in place on the reader's own node while it was read (there it is one inode, as POSIX has it); or its writer's write() had failed and
   the writer has closed what it got so far (it says so, and removes it).
   A version that is out of date may still be read where and when the news could not come through: the reader's or the newer writer's
   node was cut, or the reader or that writer stopped, in GRACE before the read's end. Such reads are counted apart, as `outdated`. They are
   right in what they are, whole and once true, but not what the rule says.
2. A write whose process was killed before the end may have been published or not; after the kill it changes nothing any more.
   An operation that failed with an error may have been done or not, or half.
3. ENOENT, and ETIMEDOUT for whoever waited: the name may be absent in the sense of 1 (nothing but its initial state, or a removal, or an
   operation of 2). A wait for what never was there may end in ENOENT only if at some moment of the wait all
   ranks were waiting, dead or at their end: else somebody was left. It may end in EHOSTUNREACH if at some moment of it all ranks were
   waiting, dead, at their end, or stopped or cut off: nobody who can be reached was left, and that nothing will come is not known.
4. EHOSTUNREACH, EIO, and ETIMEDOUT: the version is out of reach. The reader's or the owner's node was cut, or the owner stopped (who
   changed the name), at a moment between the begin (less GRACE, in which what comes back is found again) and the end; ENOENT is not
   among these. Or the owner was killed (then ENOENT, too): but if its change was complete, the file not half
   rewritten on its node since, and another rank of its node alive and in reach, that one has to serve the file, GRACE after the death.
5. ENOSPC, EFBIG, EDQUOT, EIO: the disk of the node of this rank was full, or a limit on file sizes in force in a rank of that node, in that time.
6. Whatever the end, it comes in time: READ_BOUND or CHANGE_BOUND, and as long as this rank's node was itself cut or one of its ranks stopped.
7. No rank ends otherwise than planned; all have ended END_BOUND after the last one's last step.
8. What lies in a managed directory at the end is whole, but for files whose writer on this node was killed or failed within write().
"""
import errno
import heapq
import json
import os
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)
import fault_plan

CLUSTER_SH = os.path.join(HERE, "cluster.sh")
# Of the jobs; test_faults.sh sets them so. MARGIN is this machine's: two cores, ten processes.
TIMEOUT, PEER, JOIN, MARGIN = 4.0, 1.0, 2.0, 1.5
GRACE = PEER + JOIN + MARGIN
READ_BOUND = TIMEOUT + PEER + JOIN + MARGIN
CHANGE_BOUND = 2 * PEER + JOIN + MARGIN
END_BOUND = 2 * PEER + JOIN + TIMEOUT + 5
START_BOUND = 30
UNREACHABLE = (errno.EHOSTUNREACH, errno.EIO, errno.ETIMEDOUT)
NO_ROOM = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO)
OUTCOMES = ("done", "absent", "waited in vain", "out of reach", "no room", "overtaken", "torn by its writer", "cut off", "outdated")
KINDS = ("kill", "stop", "cut", "full", "limit", "writer")


class Log:
    """What a rank has told so far."""

    def __init__(self, path):
        self.path, self.seen, self.lines = path, 8, []

    def read(self):
        try:
            with open(self.path, "rb") as file:
                length, = struct.unpack("=Q", file.read(8))
                file.seek(self.seen)
                # The length is not written in one piece: what is read may be torn, and is read again the next time.
                new = file.read(max(0, length - self.seen))
                new = new[:new.rfind(b"\n") + 1]
        except FileNotFoundError:
            return self
        self.seen += len(new)
        self.lines += [json.loads(line) for line in new.splitlines()]
        return self

    def step(self):
        return self.lines[-1][1] if self.lines else -1

    def has(self, word):
        return next((line for line in reversed(self.lines) if line[2] == word), None)


def on(node, *command, check=True):
    return subprocess.run([CLUSTER_SH, "exec", node, *command], check=check, stdin=subprocess.DEVNULL,
                          stderr=None if check else subprocess.DEVNULL).returncode


class Injector:
    def __init__(self, seed, number, logs, ssd, events):
        self.plan = fault_plan.launch(seed, number)
        self.logs = [Log("%s/%d" % (logs, r)) for r in range(self.plan.ranks)]
        self.ssd, self.path, self.events = ssd, events, []
        self.ends = []  # heap of (when, number, undo, event)
        self.killed = set()

    def pid(self, rank):
        return str(self.logs[rank].lines[0][3])

    def signal(self, rank, name):
        on("n%d" % self.plan.node(rank), "kill", "-" + name, self.pid(rank), check=False)

    def dead(self, rank):
        died = self.logs[rank].has("die")
        return rank in self.killed or bool(died and died[3] == "kill")

    def over(self, rank):
        return self.dead(rank) or bool(self.logs[rank].has("finish"))

    def begin(self, kind, target, seconds):
        event = {"kind": kind, "target": target, "begin": time.monotonic(), "end": None}
        node = "n%d" % (target if kind in ("cut", "full") else self.plan.node(target))
        if kind == "kill":
            self.killed.add(target)
            self.signal(target, "KILL")
            undo = None
        elif kind == "stop":
            self.signal(target, "STOP")
            undo = lambda: self.signal(target, "CONT")
        elif kind == "cut":
            subprocess.run([CLUSTER_SH, "cut", node], check=True)
            undo = lambda: subprocess.run([CLUSTER_SH, "heal", node], check=True)
        else:
            filler = os.path.join(self.ssd, "filler")
            on(node, "sh", "-c", 'cat /dev/zero >"$1" 2>/dev/null', "sh", filler, check=False)
            undo = lambda: on(node, "rm", "-f", filler)
        now = time.monotonic()
        self.events.append(event)
        if undo:
            heapq.heappush(self.ends, (now + seconds, len(self.events), undo, event))
        else:
            event["end"] = now

    def due(self, fault):
        kind, target, step, _ = fault
        if kind in ("cut", "full"):
            ranks = [r for r in range(self.plan.ranks) if self.plan.node(r) == target and not self.over(r)]
        else:
            ranks = [] if self.over(target) else [target]
        if not ranks:
            return None  # nobody is left to suffer from it
        return max(self.logs[r].step() for r in ranks) >= step

    def busy(self, fault):
        """The same thing is being done to the same target: one after the other."""
        return any(e["kind"] == fault[0] and e["target"] == fault[1] for _, _, _, e in self.ends)

    def undo_due(self, now):
        while self.ends and self.ends[0][0] <= now:
            _, _, undo, event = heapq.heappop(self.ends)
            undo()
            event["end"] = time.monotonic()

    def run(self):
        begun = time.monotonic()
        while not all(log.read().lines for log in self.logs):
            if time.monotonic() - begun > START_BOUND:
                self.finish("not all ranks began within %d s" % START_BOUND)
                return
            time.sleep(0.02)
        faults = list(self.plan.faults)
        stuck = None
        while not all(self.over(r) for r in range(self.plan.ranks)) or self.ends:
            for log in self.logs:
                log.read()
            for fault in list(faults):
                due = self.due(fault)
                if due is None:
                    faults.remove(fault)
                elif due and not self.busy(fault):
                    faults.remove(fault)
                    self.begin(fault[0], fault[1], fault[3])
            self.undo_due(time.monotonic())
            latest = max([log.lines[-1][0] for log in self.logs] + [e["end"] or 0 for e in self.events] + [begun])
            if not self.ends and time.monotonic() - latest > 3 * READ_BOUND:
                stuck = "ranks %s told nothing for %d s" % (
                    [r for r in range(self.plan.ranks) if not self.over(r)], 3 * READ_BOUND)
                break
            time.sleep(0.01)
        self.finish(stuck or self.leave())

    def leave(self):
        """All have done their steps; they have to end now. None, or who has not. (mpirun 4.1.4 itself stays for ever after the
        death of a rank on another node; that is not what is tested.)"""
        since = time.monotonic()
        while True:
            left = [r for r in range(self.plan.ranks)
                    if on("n%d" % self.plan.node(r), "kill", "-0", self.pid(r), check=False) == 0]
            took = time.monotonic() - since
            if not left:
                self.events.append({"kind": "end", "target": None, "begin": since, "end": since + took})
                return None
            if took > END_BOUND:
                for r in left:
                    on("n%d" % self.plan.node(r), "kill", "-ABRT", self.pid(r), check=False)
                return "ranks %s have not ended %d s after the last step" % (left, END_BOUND)
            time.sleep(0.1)

    def finish(self, wrong):
        for _, _, undo, event in self.ends:
            undo()
            event["end"] = time.monotonic()
        with open(self.path, "w") as file:
            json.dump({"events": self.events, "wrong": wrong}, file)


# --- judging --------------------------------------------------------------------------------


class Change:
    """Of a name: to a version (uid), or None: absent. sure: it was done, as a whole. torn: readers may see a part."""
    __slots__ = ("begin", "end", "uid", "sure", "torn", "rank", "dead")

    def __init__(self, begin, end, uid, sure, rank, torn=False, dead=False):
        self.begin, self.end, self.uid, self.sure, self.rank = begin, end, uid, sure, rank
        self.torn, self.dead = torn, dead


class Operation:
    def __init__(self, rank, line):
        self.rank, self.begin, self.step = rank, line[0], line[1]
        self.kind, self.name, self.to, self.uid = line[3:7]
        self.opened, self.end, self.outcome = None, None, None


class Judge:
    def __init__(self, seed, number, logs, events, scans):
        self.plan = fault_plan.launch(seed, number)
        self.seed, self.number = seed, number
        self.logs = [Log("%s/%d" % (logs, r)).read() for r in range(self.plan.ranks)]
        with open(events) as file:
            told = json.load(file)
        self.faults = [e for e in told["events"] if e["kind"] != "end"]
        self.took_to_end = next((e["end"] - e["begin"] for e in told["events"] if e["kind"] == "end"), None)
        self.scans = scans
        self.wrong = [told["wrong"]] if told["wrong"] else []
        self.operations, self.died, self.changes = [], {}, {}
        self.in_place = []  # (node, name, begin, end) of rewrites
        self.finished = {}
        for rank in range(self.plan.ranks):
            self.collect(rank)

    def collect(self, rank):
        lines, open_op, limited = self.logs[rank].lines, None, None
        for event in self.faults:
            if event["kind"] == "kill" and event["target"] == rank:
                self.died[rank] = event["end"]
        for line in lines:
            at, _, what = line[:3]
            if what == "begin":
                open_op = Operation(rank, line)
                self.operations.append(open_op)
            elif what == "opened":
                open_op.opened = at
            elif what == "end":
                open_op.end, open_op.outcome = at, line[3:]
            elif what == "die":
                self.faults.append({"kind": line[3], "target": rank, "begin": at, "end": at})
                if line[3] == "kill":
                    self.died[rank] = at
            elif what == "child":
                if not open_op.outcome:
                    open_op.end, open_op.outcome = at, ["killed"]
                if line[3] != 9:
                    self.bad(open_op, "its child ended with status %d" % line[3])
            elif what == "limited":
                limited = {"kind": "limit", "target": rank, "begin": at, "end": float("inf")}
                self.faults.append(limited)
            elif what == "unlimited":
                limited["end"] = at
            elif what == "finish":
                self.finished[rank] = at
        if rank not in self.died and rank not in self.finished:
            self.wrong.append("rank %d ended in step %d, and nobody had killed it" % (rank, self.logs[rank].step()))
            self.died[rank] = lines[-1][0] if lines else 0  # so that what follows from it is not told, too

    def bad(self, op, why):
        self.wrong.append("rank %d (n%d) step %d, %s %s at %.3f for %.3f s: %s" % (
            op.rank, self.plan.node(op.rank), op.step, op.kind, op.name, op.begin, (op.end or op.begin) - op.begin, why))

    def change(self, name, *args, **kw):
        self.changes.setdefault(name, []).append(Change(*args, **kw))

    def note_change(self, op):
        outcome = op.outcome[0] if op.outcome else "killed"
        end = op.end or self.died.get(op.rank, float("inf"))
        dead = outcome == "killed"
        if outcome in ("absent", "unmade"):
            return
        sure = outcome == "done"
        if op.kind in ("write", "replace"):
            if op.kind == "write":
                self.in_place.append((self.plan.node(op.rank), op.name, op.begin, end))
            self.change(op.name, op.begin, end, op.uid, sure, op.rank, torn=outcome == "failed" and op.kind == "write", dead=dead)
            if not sure:
                self.change(op.name, op.begin, end, None, False, op.rank, dead=dead)
        elif op.kind == "remove":
            self.change(op.name, op.begin, end, None, sure, op.rank, dead=dead)
        elif op.kind == "rename":
            self.change(op.name, op.begin, end, None, sure, op.rank, dead=dead)
            # It is one rank's own name, so what it was is what that rank put there last.
            before = [c for c in self.changes.get(op.name, []) if c.begin < op.begin and c.uid]
            for c in before if not sure or not before else self.latest(before):
                self.change(op.to, op.begin, end, c.uid, sure, op.rank, dead=dead)

    @staticmethod
    def latest(changes):
        """The last that is sure, and what came after it."""
        sure = [c for c in changes if c.sure]
        return [c for c in changes if not sure or c.begin >= sure[-1].begin]

    def candidates(self, name, begin, end):
        """What the name may be for an operation between these times."""
        changes = [Change(float("-inf"), float("-inf"), None, True, None)] + self.changes.get(name, [])
        over = [c for c in changes if c.sure and c.end < begin]
        return [c for c in changes if c.begin <= end and not any(c.end < o.begin for o in over)]

    def hit(self, begin, end, kinds, ranks=(), nodes=()):
        return any(f["kind"] in kinds and f["begin"] <= end and f["end"] >= begin and
                   (f["target"] in nodes if f["kind"] in ("cut", "full") else f["target"] in ranks) for f in self.faults)

    def refused(self, op, error, now):
        """Rules 3 to 5: which of OUTCOMES it is, or what is wrong with it."""
        node = self.plan.node(op.rank)
        here = [r for r in range(self.plan.ranks) if self.plan.node(r) == node]
        if error in NO_ROOM and self.hit(op.begin, op.end, ("full", "limit"), here, [node]):
            return "no room"
        absent = [c for c in now if c.uid is None]
        if error == errno.ENOENT and absent:
            if op.kind == "read" and not any(c.rank is not None for c in absent) and not self.nobody_left(op):
                return "nobody is left, it was told, and that is not so"
            return "absent"
        if error == errno.ETIMEDOUT and op.kind == "read" and absent:
            return "waited in vain"
        owners = {c.rank for c in now if c.rank is not None}
        if error in UNREACHABLE + (errno.ENOENT,) and any(self.lost(c, op) for c in now if c.rank is not None):
            return "out of reach"
        if error in UNREACHABLE and self.hit(op.begin - GRACE, op.end, ("cut", "stop"), owners,
                                             [node] + [self.plan.node(r) for r in owners]):
            return "out of reach"
        if error == errno.EHOSTUNREACH and op.kind == "read" and absent and self.nobody_left(op, away=True):
            return "out of reach"
        return "%s, and it may be %s" % (errno.errorcode[error], self.shown(now))

    def lost(self, change, op):
        """Rule 4: is it right that what a killed rank had cannot be had?"""
        died, node = self.died.get(change.rank, float("inf")), self.plan.node(change.rank)
        if died > op.end:
            return False
        heirs = [r for r in range(self.plan.ranks) if self.plan.node(r) == node and self.died.get(r, float("inf")) > op.end]
        return (not change.sure or op.begin < died + GRACE or not heirs or (node, op.name) in self.broken or
                self.hit(op.begin - GRACE, op.end, ("cut", "stop"), heirs, [node]))

    def shown(self, now):
        return ", ".join("%s of rank %s%s" % (c.uid or "absent", c.rank, "" if c.sure else " (unsure)") for c in now)

    def nobody_left(self, op, away=False):
        """Was there a moment in this wait at which all ranks were waiting, dead or at their end (or away: stopped, cut off)?"""
        edges = []
        for rank in range(self.plan.ranks):
            idle = [(o.begin, o.end or float("inf")) for o in self.operations if o.rank == rank and o.kind == "read"]
            idle.append((min(self.died.get(rank, float("inf")), self.finished.get(rank, float("inf"))), float("inf")))
            if away:
                idle += [(f["begin"], f["end"]) for f in self.faults if f["kind"] == "stop" and f["target"] == rank or
                         f["kind"] == "cut" and f["target"] == self.plan.node(rank)]
            for begin, end in self.joined(idle):
                if begin <= op.end and end >= op.begin and end > begin:
                    edges += [(begin, 1), (end, -1)]
        count = 0
        for _, way in sorted(edges, key=lambda e: (e[0], -e[1])):
            count += way
            if count >= self.plan.ranks:
                return True
        return False

    @staticmethod
    def joined(spans):
        """The same times, without overlaps: a rank counts once."""
        out = []
        for begin, end in sorted(spans):
            if out and begin <= out[-1][1]:
                out[-1] = (out[-1][0], max(out[-1][1], end))
            else:
                out.append((begin, end))
        return out

    def own_fault(self, op):
        """For how long this rank's node was out of order during the operation."""
        node = self.plan.node(op.rank)
        total = 0
        for f in self.faults:
            if f["kind"] == "cut" and f["target"] == node or f["kind"] == "stop" and self.plan.node(f["target"]) == node:
                total += max(0, min(f["end"], op.end) - max(f["begin"], op.begin))
        return total

    def look_at(self, op):
        """Is this operation's end right?"""
        if op.outcome is None:
            if op.rank not in self.died:
                self.bad(op, "it never ended")
            return "cut off"
        took = op.end - op.begin
        bound = READ_BOUND if op.kind in ("read", "look") else CHANGE_BOUND
        if took > bound + self.own_fault(op):
            self.bad(op, "too long (%s)" % op.outcome)
        kind = op.outcome[0]
        if op.kind not in ("read", "look"):
            if kind == "killed":
                return "cut off"
            if kind in ("failed", "unmade"):
                return self.failed(op)
            return "done"
        now = self.candidates(op.name, op.begin, op.end)
        if kind == "refused":
            why = self.refused(op, op.outcome[1], now)
            if why in OUTCOMES:
                return why
            self.bad(op, why)
            return "wrong"
        if kind == "there":
            if not any(c.uid for c in now):
                self.bad(op, "it is absent: %s" % self.shown(now))
            return "done"
        uid = op.outcome[1]
        if kind == "read" and any(c.uid == uid for c in now):
            return "done"
        node = self.plan.node(op.rank)
        if any(n == node and name == op.name and b <= op.end and e >= op.opened for n, name, b, e in self.in_place):
            return "overtaken"
        if kind == "torn":
            if not any(c.torn for c in now):
                self.bad(op, "torn: %s, %s; it may be %s" % (uid, op.outcome[2], self.shown(now)))
            return "torn by its writer"
        known = any(c.uid == uid for c in self.changes.get(op.name, []))
        ends = {c.rank for c in now if c.rank is not None} | {op.rank}
        if known and kind == "read" and self.hit(op.begin - GRACE, op.end, ("cut", "stop"), ends, {self.plan.node(r) for r in ends}):
            return "outdated"
        self.bad(op, "%s: %s; it may be %s" % ("stale" if known else "wrong", uid, self.shown(now)))
        return "wrong"

    def failed(self, op):
        """A change that failed has to have a reason, too."""
        error, node = op.outcome[1], self.plan.node(op.rank)
        here = [r for r in range(self.plan.ranks) if self.plan.node(r) == node]
        if not (error in NO_ROOM and self.hit(op.begin, op.end, ("full", "limit"), here, [node]) or
                error in UNREACHABLE and self.hit(op.begin - GRACE, op.end, ("cut", "stop", "kill"), range(self.plan.ranks),
                                                  range(self.plan.nodes))):
            self.bad(op, "%s in %s" % (errno.errorcode[error], op.outcome[2]))
            return "wrong"
        return "no room" if error in NO_ROOM else "out of reach"

    def scan(self, node, lines):
        """Rule 8."""
        for name, uid, wrong in map(json.loads, lines):
            if wrong and not name.startswith("t/") and not any(
                    (n, na) == (node, name) for n, na in self.broken):
                self.wrong.append("on n%d %s is no whole version: %s %s" % (node, name, uid, wrong))

    def run(self):
        for op in sorted(self.operations, key=lambda o: o.begin):
            if op.kind not in ("read", "look"):
                self.note_change(op)
        self.broken = [(self.plan.node(o.rank), o.name) for o in self.operations
                       if o.kind == "write" and (not o.outcome or o.outcome[0] in ("killed", "failed"))]
        windows = {kind: [(f["begin"], min(f["end"], self.died.get(f["target"], f["end"]) if kind == "limit" else f["end"]) + GRACE)
                          for f in self.faults if f["kind"] == kind] for kind in KINDS}
        result = {"launch": self.number, "ranks": self.plan.ranks, "nodes": self.plan.nodes, "end": self.took_to_end, "kinds": {}}
        rows = {kind: {"count": len(windows[kind]), "outcomes": {}, "read": 0, "change": 0} for kind in KINDS}
        rows["all"] = {"count": len(self.faults), "outcomes": {}, "read": 0, "change": 0}
        for op in self.operations:
            outcome = self.look_at(op)
            which = "read" if op.kind in ("read", "look") else "change"
            took = max(0, (op.end or op.begin) - op.begin - self.own_fault(op)) if op.end else 0
            for kind, row in rows.items():
                if kind == "all" or any(b <= (op.end or op.begin) and e >= op.begin for b, e in windows[kind]):
                    row["outcomes"][outcome] = row["outcomes"].get(outcome, 0) + 1
                    row[which] = max(row[which], took)
        for node, path in enumerate(self.scans):
            with open(path) as file:
                self.scan(node, file)
        result["kinds"], result["wrong"] = rows, self.wrong
        result["deserted"] = ["n%d" % node for node in range(self.plan.nodes)
                              if all(r in self.died for r in range(self.plan.ranks) if self.plan.node(r) == node)]
        return result


def table(results):
    total = {}
    for result in results:
        for kind, row in result["kinds"].items():
            sums = total.setdefault(kind, {"count": 0, "outcomes": {}, "read": 0, "change": 0})
            sums["count"] += row["count"]
            for outcome, n in row["outcomes"].items():
                sums["outcomes"][outcome] = sums["outcomes"].get(outcome, 0) + n
            for which in ("read", "change"):
                sums[which] = max(sums[which], row[which])
    names = {"kill": "kill -9 of a rank", "stop": "SIGSTOP, 0.5 to 8 s", "cut": "a node's link cut, 0.5 to 8 s",
             "full": "disk full, 0.5 to 3 s", "limit": "writes fail (RLIMIT_FSIZE)", "writer": "kill -9 of a writing child",
             "all": "**all**"}
    print("| fault | how often | operations then | done | absent | waited in vain | out of reach | no room | "
          "half written | killed in it | outdated | wrong | worst open | worst change |")
    print("|---" * 14 + "|")
    for kind, row in total.items():
        if not row["count"]:
            continue
        got = [row["outcomes"].get(outcome, 0) for outcome in OUTCOMES + ("wrong",)]
        got[5:7] = [got[5] + got[6]]
        print("| %s | %d | %d | %s | %.1f s | %.1f s |" % (
            names[kind], row["count"], sum(got), " | ".join(map(str, got)), row["read"], row["change"]))
    ends = [r["end"] for r in results if r["end"] is not None]
    print("\n%d launches, %d ranks killed, all ranks gone at most %.1f s after the last step; wrong: %d" % (
        len(results), total["kill"]["count"], max(ends, default=0), sum(len(r["wrong"]) for r in results)))


def main():
    """check prints how many faults there were, and the nodes none of whose ranks lives."""
    what = sys.argv[1]
    if what == "inject":
        Injector(*sys.argv[2:7]).run()
    elif what == "check":
        seed, number, logs, log, events, results = sys.argv[2:8]
        result = Judge(seed, number, logs, events, sys.argv[8:]).run()
        with open(results, "a") as file:
            file.write(json.dumps(result) + "\n")
        print(result["kinds"]["all"]["count"], *result["deserted"])
        for wrong in result["wrong"]:
            print("launch %s: %s" % (number, wrong), file=sys.stderr)
        sys.exit(1 if result["wrong"] else 0)
    elif what == "table":
        results = []
        for path in sys.argv[2:]:
            with open(path) as file:
                results += map(json.loads, file)
        table(results)


main()
