"""faults.py inject SEED LAUNCH LOGS LOG SSD EVENTS   - the faults of one launch, while its ranks run; ends when they have ended
faults.py check SEED LAUNCH LOGS EVENTS RESULTS SCAN... - judge what the ranks told; 1 if something was wrong
faults.py table RESULTS...                       - all of it, as a table for docs/reliability.md

A launch's ranks are fault_worker.py, its plan is fault_plan.py's. LOGS has a file of each rank; EVENTS is what was
done to them, LOG the library's own log, RESULTS what came of it (JSON). CLUSTER_DIR is the cluster; SSD its nodes' small local disk,
the managed directory below it.

What is right and what is wrong. An operation has a begin and an end, taken before and after the call by one clock. It *precedes*
another if its end is before the other's begin. A name's state is changed by writes (to a version, which its uid names), removals and
renames, and is absent at first.

1. A read that gets bytes gets one whole version, whose write did not begin after the read's end, and which is not out of date: no
   completed change of the name came after that version's change and before the read. A look that finds a file finds such a one, too, and so
   do a removal and a rename. Exceptions: a file that was rewritten in place on the reader's own node after the reader had opened it (there it
   is one inode, as POSIX has it); a file whose writer's write() had failed and that the writer has closed with what it got so far (it says
   so, and removes it): a beginning of that version; a file that two ranks of a node wrote at the same time.
   A version that is out of date may still be read if for each change that the reader missed the writer's node was cut in GRACE before the
   read's end, or both were made on the two sides of a cut, until that has been whole for GRACE. (From then on the later one stays:
   versions are in the order of times, for the nodes have one clock here.) Not because the reader's own node was cut, or it was stopped: copies have leases. What was
   made on the reader's own node has none: there, and where it is only looked at (or removed, or renamed), it is enough for each change
   that the reader's or that writer's node was cut, or itself or that writer stopped, in GRACE before the read's end. (Not a neighbour of
   the reader: what a stopped rank holds is no excuse for the others of its node. When all ranks of other nodes have left or are dead nobody
   can tell any more, nor be asked: then it is the last GRACE of these that counts. What was done on a node that was cut off then, until its
   ranks had left, nobody hears of.) In the same way ENOENT may be told of what somebody published whose
   node is cut off since before, as long as it is, and until all others who had lost that rank have found it again (they say so in the
   library's log; GRACE at most); or of what was removed on the one side of a cut and made on the other, as long. Such reads are counted
   apart, as `outdated`. They are right in what they are, whole and once true, but not
   what the rule says.
2. A write whose process was killed before the end may have been published or not; after the kill it changes nothing any more, and who has
   read it from another node, or after the kill, has seen it published. What was there before is lost if it was written in place.
   What it has left may be removed, on its node, and renamed: then nothing is what has the new name, and what had that before is no more.
   An operation that failed with an error may have been done or not, or half.
3. ENOENT, and ETIMEDOUT for whoever waited (TIMEOUT, not less): the name may be absent in the sense of 1 (its initial state, or a removal, or
   an operation of 2). A wait for what nobody took away may end in ENOENT only if at some moment of the wait all
   ranks were waiting, dead or at their end: else somebody was left. It may end in EHOSTUNREACH if at some moment of it all ranks were
   waiting, dead, at their end, or stopped or cut off (or not found again since by all, GRACE at most): nobody who can be reached was left, and
   that nothing will come is not known.
4. EHOSTUNREACH, EIO, and ETIMEDOUT: the version is out of reach. The reader's or the owner's node was cut (or all others were), or the owner stopped (who
   changed the name), at a moment between the begin (less GRACE, in which what comes back is found again) and the end; ENOENT is not
   among these. What may be absent may be "not known" (EHOSTUNREACH, EIO) to who does not wait for it, if any link was cut or any
   rank stopped in that time: its homes are anywhere. (ASK_PAUSE longer where all ranks of other nodes have ended: a lost rank is asked in
   pauses that grow to that, and until then it is not known whether it is dead or away.) So may what a rank of the reader's node had read before: whether that copy is the
   newest only the homes know (EHOSTUNREACH). A wait may end in ETIMEDOUT if both homes may have been away: two ranks stopped or cut off at one
   moment of it, or not found again yet (until the owner has noticed that, which it need not do in TIMEOUT, no other home knows the name). What
   does not wait (a look, a removal, a rename) may then end in one of the other two: nobody knows. Or
   the owner was killed (then ENOENT, too): but if its change was complete, the file not half
   rewritten on its node since, and another rank of its node alive and in reach, that one has to serve the file, GRACE after the death.
   Once one of these has taken the file over (the injector sees its log) it is the owner as the first was: what is said above of one that
   is stopped, killed or wrecked holds for it, whoever else is alive there.
   A rank in which UCX has found a fault in itself (the injector sees its log) is out of reach until it has joined anew, and what it asks for
   meanwhile may end in EHOSTUNREACH; one that does not join anew is as one that was killed.
5. ENOSPC, EDQUOT, EIO: the disk of the node of this rank was full in that time. EFBIG, EIO: a limit on file sizes in force in this rank.
6. Whatever the end, it comes in time: READ_BOUND or CHANGE_BOUND, and as long as this rank's node was itself cut, or all others were, one of its ranks stopped,
   or this rank joining anew.
7. No rank ends otherwise than planned; all have ended END_BOUND after the last one's last step; none leaves while another is at work, but
   without whom it could not reach in LEAVE before. (What it had is lost to that one, then, as if it had been killed.)
8. What lies in a managed directory at the end is whole (or such a beginning as in 1) and, where a rank of this node is alive, not out of date (as in 1); but for what
   a writer of this node left that was killed or failed within write() (all of it, perhaps, but it was not published), under the name that
   it has then, where nobody of the node has written or got another version since; and for what was made on this node, where the newer one
   could not be brought (its node's ranks have ended, it was half rewritten there since, or there was no room) and a rank has said so, or its maker was killed
   when no other of its node was left. And no temporary name is left but of a rename whose
   process was killed.
"""
import errno
import heapq
import json
import os
import re
import struct
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)
import fault_plan

CLUSTER_SH = os.path.join(HERE, "cluster.sh")
# Of the jobs; test_faults.sh sets them so. MARGIN is this machine's: two cores, ten processes.
TIMEOUT, PEER, JOIN, MARGIN = 4.0, 1.0, 2.0, 1.5
GRACE = PEER + JOIN + MARGIN
ASK_PAUSE = 16.0  # ASK_MAX of engine/membership/unreachable.c
READ_BOUND = TIMEOUT + PEER + JOIN + MARGIN
CHANGE_BOUND = 2 * PEER + JOIN + MARGIN
# Each publish may meet another home that has just fallen silent. A replacement publishes its temporary name, the new name, and withdraws.
PUBLISHES = {"write": 1, "remove": 1, "rename": 2, "replace": 3, "look": 1}
NEVER, FOREVER = float("-inf"), float("inf")
LEAVE = 5 + 2 * PEER + JOIN + MARGIN
END_BOUND = 2 * PEER + JOIN + TIMEOUT + 5
START_BOUND = 30
UNKNOWN = (errno.EHOSTUNREACH, errno.EIO)
UNREACHABLE = (*UNKNOWN, errno.ETIMEDOUT)
KEPT = re.compile(r'dyad\[\d+ rank (\d+)\]: warning: "([^"]*)" below .* is older than what another has published: that was not brought here')
NO_ROOM = {"full": (errno.ENOSPC, errno.EDQUOT, errno.EIO), "limit": (errno.EFBIG, errno.EIO)}
OUTCOMES = ("done", "absent", "waited in vain", "out of reach", "no room", "overtaken", "torn by its writer", "cut off", "outdated")
KINDS = ("kill", "stop", "cut", "full", "limit", "writer")


WRECKED = re.compile(r"dyad\[\d+ rank (\d+)\]: \w+: UCX has found a fault in itself: (?:files|rank) ")
LEFT = re.compile(r"dyad\[\d+ rank (\d+)\]: info: statistics: ")
TOOK_OVER = re.compile(r"dyad\[\d+ rank (\d+)\]: info: a rank of this node is dead: of what it left \(journal [^ )]*\.(\d+)\)")
GONE = re.compile(r"dyad\[\d+ rank (\d+)\]: info: rank (\d+) on node \S+ is gone: ")
BACK = re.compile(r"dyad\[\d+ rank (\d+)\]: info: rank (\d+) on node \S+ is back after ")
JOINED = re.compile(r"dyad\[\d+ rank \d+\]: info: joined as rank (\d+) of ")


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
    def __init__(self, seed, number, logs, dyad_log, ssd, events):
        self.plan = fault_plan.launch(seed, number)
        self.logs = [Log("%s/%d" % (logs, r)) for r in range(self.plan.ranks)]
        self.ssd, self.path, self.events = ssd, events, []
        self.ends = []  # heap of (when, number, undo, event)
        self.killed = set()
        self.dyad_log, self.dyad_seen, self.dyad_read = dyad_log, 0, time.monotonic()
        self.wrecks = {}  # of a rank: the event, while it has not joined anew
        self.lost = {}  # of a rank and another that it has lost and not found again: the event
        self.lag = 0.0

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

    def read_dyad_log(self):
        """When a rank said that UCX had found a fault in itself, when it had joined anew, when it had taken over what a dead one left,
        when it left, and whom it had lost for how long. (The log has no times.)"""
        last, self.dyad_read = self.dyad_read, time.monotonic()
        try:
            with open(self.dyad_log, "rb") as file:
                file.seek(self.dyad_seen)
                new = file.read()
        except FileNotFoundError:
            return
        new = new[:new.rfind(b"\n") + 1]
        self.dyad_seen += len(new)
        for line in new.decode(errors="replace").splitlines():
            wreck = WRECKED.match(line)
            joined, left, took = JOINED.match(line), LEFT.match(line), TOOK_OVER.match(line)
            gone, back = GONE.match(line), BACK.match(line)
            if gone and gone.groups() not in self.lost:
                event = {"kind": "lost", "target": int(gone.group(1)), "of": int(gone.group(2)), "begin": last, "end": None}
                self.lost[gone.groups()] = event
                self.events.append(event)
            elif back and back.groups() in self.lost:
                self.lost.pop(back.groups())["end"] = time.monotonic()
            if wreck and int(wreck.group(1)) not in self.wrecks:
                rank = int(wreck.group(1))
                self.wrecks[rank] = {"kind": "wreck", "target": rank, "begin": last, "end": None}
                self.events.append(self.wrecks[rank])
            elif joined and int(joined.group(1)) in self.wrecks:
                self.wrecks.pop(int(joined.group(1)))["end"] = time.monotonic()
            elif took:
                self.events.append({"kind": "heir", "target": int(took.group(2)), "by": int(took.group(1)), "begin": last,
                                    "end": time.monotonic()})
            elif left and int(left.group(1)) not in self.wrecks:
                self.events.append({"kind": "left", "target": int(left.group(1)), "begin": last, "end": time.monotonic()})
            kept = KEPT.match(line)
            if kept:
                self.events.append({"kind": "kept", "target": int(kept.group(1)), "name": kept.group(2), "begin": last, "end": last})

    def watch_lag(self):
        """How long a process that wants to run has to wait on this machine at the worst: MARGIN has to be more."""
        while True:
            begun = time.monotonic()
            time.sleep(0.01)
            self.lag = max(self.lag, time.monotonic() - begun - 0.01)

    def run(self):
        begun = time.monotonic()
        threading.Thread(target=self.watch_lag, daemon=True).start()
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
            self.read_dyad_log()
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
        self.read_dyad_log()
        with open(self.path, "w") as file:
            json.dump({"events": self.events, "wrong": wrong, "lag": self.lag}, file)


# --- judging --------------------------------------------------------------------------------


class Change:
    """Of a name: to a version (uid), or None: absent. sure: it was done, as a whole. torn: readers may see a beginning of it. dead: its
    process was killed in it. taken: None, because somebody took the name away. left: None, but a broken off writer's file has the name."""
    __slots__ = ("begin", "end", "uid", "sure", "torn", "rank", "dead", "taken", "left", "op")

    def __init__(self, op, end, uid, sure, torn=False, dead=False, taken=False, left=False):
        self.op, self.begin, self.rank = op, op.begin if op else NEVER, op.rank if op else None
        self.end, self.uid, self.sure, self.torn, self.dead, self.taken, self.left = end, uid, sure, torn, dead, taken, left


class Operation:
    def __init__(self, rank, line):
        self.rank, self.begin, self.step = rank, line[0], line[1]
        self.kind, self.name, self.to, self.uid, self.child = line[3:8]
        self.broke = False  # a write() of it failed
        self.opened, self.end, self.outcome = None, None, None
        self.over = None  # of a write in place: when it ended, or its process


class Judge:
    """lines: of each rank's log; told: what the injector left; scans: of each node the lines of its scan."""

    def __init__(self, plan, number, lines, told, scans):
        self.plan, self.number, self.lines, self.scans = plan, number, lines, scans
        self.faults = [e for e in told["events"] if e["kind"] not in ("end", "wreck", "left", "heir", "lost", "kept")]
        self.kept = [(e["target"], e["name"]) for e in told["events"] if e["kind"] == "kept"]
        self.wrecks = [dict(e, end=FOREVER if e["end"] is None else e["end"]) for e in told["events"] if e["kind"] == "wreck"]
        self.lost_ones = [dict(e, end=FOREVER if e["end"] is None else e["end"]) for e in told["events"] if e["kind"] == "lost"]
        self.left = {e["target"]: e for e in told["events"] if e["kind"] == "left"}
        self.heirs = {}  # who has taken over what a rank left
        for e in told["events"]:
            if e["kind"] == "heir":
                self.heirs.setdefault(e["target"], set()).add(e["by"])
        self.took_to_end = next((e["end"] - e["begin"] for e in told["events"] if e["kind"] == "end"), None)
        self.lag = told.get("lag", 0)
        self.wrong = [told["wrong"]] if told["wrong"] else []
        self.operations, self.died, self.changes = [], {}, {}
        self.dying = {}  # since when somebody was at killing it
        self.in_place = []  # operations that write into the file as it is
        self.broken = []  # (when, node, name, uid): a file that need not be whole was left there, nor was it published
        self.finished = {}
        for rank in range(self.plan.ranks):
            self.collect(rank)
        for op in self.operations:  # the injector may not have looked for long
            if op.rank in self.left:
                self.left[op.rank]["begin"] = max(self.left[op.rank]["begin"], op.end or op.begin)
        # Who is gone: killed, or cut off from all by UCX and not back.
        self.gone = {w["target"]: w["begin"] for w in self.wrecks if w["end"] == FOREVER}
        for rank, when in self.died.items():
            self.gone[rank] = min(when, self.gone.get(rank, FOREVER))

    def node(self, rank):
        return self.plan.node(rank)

    def ranks_on(self, node):
        return [r for r in range(self.plan.ranks) if self.node(r) == node]

    def collect(self, rank):
        lines, open_op, limited = self.lines[rank], None, None
        for event in self.faults:
            if event["kind"] == "kill" and event["target"] == rank:
                self.died[rank], self.dying[rank] = event["end"], event["begin"]
        for line in lines:
            at, _, what = line[:3]
            if what == "begin":
                open_op = Operation(rank, line)
                self.operations.append(open_op)
            elif what == "opened":
                open_op.opened = at
            elif what == "broke":
                open_op.broke = True
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
                limited = {"kind": "limit", "target": rank, "begin": at, "end": FOREVER}
                self.faults.append(limited)
            elif what == "unlimited":
                limited["end"] = at
            elif what == "finish":
                self.finished[rank] = at
        if rank not in self.died and rank not in self.finished:
            self.wrong.append("rank %d ended in step %d, and nobody had killed it" % (rank, lines[-1][1] if lines else -1))
            self.died[rank] = lines[-1][0] if lines else 0  # so that what follows from it is not told, too
        if limited:
            limited["end"] = min(limited["end"], self.died.get(rank, FOREVER))

    def bad(self, op, why):
        self.wrong.append("rank %d (n%d) step %d, %s %s at %.3f for %.3f s: %s" % (
            op.rank, self.node(op.rank), op.step, op.kind, op.name, op.begin, (op.end or op.begin) - op.begin, why))

    def change(self, name, *args, **kw):
        self.changes.setdefault(name, []).append(Change(*args, **kw))

    def note_change(self, op):
        outcome = op.outcome[0] if op.outcome else "killed"
        end = op.end or self.died.get(op.rank, FOREVER)
        dead = outcome == "killed"
        if outcome in ("absent", "unmade"):
            return
        sure = outcome == "done"
        if op.kind == "write":
            op.over = end
            self.in_place.append(op)
            self.change(op.name, op, end, op.uid, sure, torn=op.broke or outcome == "failed", dead=dead)
            if not sure:
                self.change(op.name, op, end, None, False, dead=dead, taken=not dead, left="gone" not in op.outcome[3:] if op.outcome else True)
                self.broken.append((end, self.node(op.rank), op.name, op.uid))
        elif op.kind == "replace":  # the name has what was there before, or this: never nothing
            self.change(op.name, op, end, op.uid, sure, dead=dead)
        elif op.kind == "remove":
            self.change(op.name, op, end, None, sure, dead=dead, taken=True)
        elif op.kind == "rename":
            self.change(op.name, op, end, None, sure, dead=dead, taken=True)
            # It is one rank's own name, so what it was is what that rank put there last.
            before = [c for c in self.changes.get(op.name, []) if c.begin < op.begin]
            latest = self.latest(before)
            for c in before:
                if c.left and c in latest or c.uid and (not sure or c in latest):
                    self.change(op.to, op, end, c.uid, sure, dead=dead, taken=not c.uid, left=c.left)
                if c.left and c in latest:
                    self.broken.append((end, self.node(op.rank), op.to, self.last_broken(self.node(op.rank), op.name)[1]))

    def note_seen(self, op):
        """Somebody has read what a killed process wrote: then it was published, by now."""
        for c in self.changes.get(op.name, []):
            # What it would have renamed to this name may have had this name before, and been read then.
            if c.dead and not c.sure and c.uid == op.outcome[1] and op.end >= c.begin and (
                    self.node(op.rank) != self.node(c.rank) or op.begin > c.end):
                c.sure, c.end = True, min(c.end, op.end)
                self.changes[op.name] = [o for o in self.changes[op.name] if o.op is not c.op or o is c]

    @staticmethod
    def latest(changes):
        """The last that is sure, and what came after it."""
        sure = [c for c in changes if c.sure]
        return [c for c in changes if not sure or c.begin >= sure[-1].begin]

    def history(self, name, op=None):
        """All changes of the name, but of that operation itself."""
        return [Change(None, NEVER, None, True)] + [c for c in self.changes.get(name, []) if c.op is not op]

    @staticmethod
    def missed(change, changes, begin):
        """What came after the change and was complete before `begin`."""
        return [o for o in changes if o.sure and change.end < o.begin and o.end < begin]

    def candidates(self, op, begin, end):
        """What the name may be for an operation between these times."""
        changes = self.history(op.name, op)
        return [c for c in changes if c.begin <= end and not self.missed(c, changes, begin)]

    def outdated(self, op, uids):
        """Rule 1: it got one of these, which is out of date; may it get that in place of all that it missed?"""
        changes = self.history(op.name, op)
        return any(c.begin <= op.end and c.uid in uids and
                   all(self.may_miss(op, c, o) for o in self.missed(c, changes, op.begin)) for c in changes)

    def may_miss(self, op, change, later):
        """It got `change`, not `later`."""
        leased = op.kind == "read" and self.node(change.rank) != self.node(op.rank)
        return self.held_up(later, [op.rank], op.begin, op.end, leased) or self.unordered(change, later, op.begin)

    def unordered(self, change, later, at):
        """Made on the two sides of a cut that has not been whole for long since the first: at that time each side may have its own."""
        if change.rank is None or self.node(change.rank) == self.node(later.rank):
            return False
        return any(begin <= change.end and end >= max(later.begin, at) for node in (self.node(change.rank), self.node(later.rank))
                   for begin, end in self.cuts(node))

    def cuts(self, node):
        """When it was cut off, each with the time in which it is found again."""
        return self.joined([(f["begin"], f["end"] + GRACE) for f in self.faults if f["kind"] == "cut" and f["target"] == node])

    def held_up(self, change, ranks, begin, end, leased=False):
        """The news of it may not have come to these ranks of one node. `leased`: they have a copy, and ask before they open it."""
        node, there = self.node(ranks[0]), self.node(change.rank)
        if there != node:  # who is on another node could tell it, as long as somebody was there
            last = max(self.ended(r) for r in range(self.plan.ranks) if self.node(r) != node)
            leased = leased and begin < last
            begin, end = min(begin, last), min(end, last)
            gone = max(map(self.ended, self.ranks_on(there)))
            if any(since <= change.begin and gone <= until for since, until in self.cuts(there)):
                return True  # nobody of that node ever was in reach of others again
        if leased:
            return self.hit(begin - GRACE, end, ("cut",), nodes=[there])
        return self.hit(begin - GRACE, end, ("cut", "stop"), [change.rank, *ranks], (node, there))

    def hidden(self, op):
        """Rule 1: it was told ENOENT; was all that it missed published behind a cut that is there still, or whose sides have not found
        each other again? (Or is again: a link that is whole for a moment brings nobody together.) Or on the other side of a cut than
        the removal?"""
        changes = self.history(op.name, op)

        def behind(o):
            node = self.node(o.rank)
            cuts = self.cuts(node)
            apart = any(e["of"] == o.rank and self.node(e["target"]) != node and e["begin"] <= op.end and e["end"] >= op.begin and
                        self.ended(e["target"]) > op.begin for e in self.lost_ones)
            return node != self.node(op.rank) and (apart or self.hit(op.begin, op.end, ("cut",), nodes=[node])) and any(
                begin <= o.end and end - (0 if apart else GRACE) >= op.begin for begin, end in cuts)
        return any(c.uid is None and (op.kind != "read" or c.taken) and
                   all(behind(o) or self.unordered(c, o, op.begin) for o in self.missed(c, changes, op.begin)) for c in changes if c.begin <= op.end)

    def hit(self, begin, end, kinds, ranks=(), nodes=()):
        return any(f["kind"] in kinds and f["begin"] <= end and f["end"] >= begin and
                   (f["target"] in nodes if f["kind"] in ("cut", "full") else f["target"] in ranks) for f in self.faults)

    def wrecked(self, begin, end, ranks):
        return any(w["target"] in ranks and w["begin"] <= end and w["end"] >= begin for w in self.wrecks)

    def no_room(self, op, error):
        """Rule 5."""
        return any(error in errors and self.hit(op.begin, op.end, (kind,), [op.rank], [self.node(op.rank)])
                   for kind, errors in NO_ROOM.items())

    def out_of_reach(self, op, error, now):
        """Rule 4."""
        owners = {c.rank for c in now if c.rank is not None}
        if error == errno.EHOSTUNREACH and self.wrecked(op.begin, op.end, [op.rank]):
            return True
        if error in UNREACHABLE + (errno.ENOENT,) and any(self.lost(c, op) for c in now if c.rank is not None):
            return True
        if error in UNREACHABLE and any(w["target"] in owners and w["end"] < FOREVER and w["begin"] <= op.end and
                                        w["end"] + GRACE >= op.begin for w in self.wrecks):
            return True
        alone = all(self.ended(r) <= op.begin for r in range(self.plan.ranks) if self.node(r) != self.node(op.rank))
        if error in (errno.EHOSTUNREACH, errno.EIO) and op.kind != "read" and any(c.uid is None for c in now) and self.hit(
                op.begin - GRACE - (ASK_PAUSE if alone else 0), op.end, ("cut", "stop"), range(self.plan.ranks), range(self.plan.nodes)):
            return True  # nobody can say that it is absent
        if error == errno.EHOSTUNREACH and op.kind == "read" and self.had_copy(op) and self.hit(
                op.begin - GRACE, op.end, ("cut", "stop"), range(self.plan.ranks), range(self.plan.nodes)):
            return True  # nor that the copy is not out of date
        if error in UNREACHABLE and any(op.begin <= end + GRACE and op.end >= begin for begin, end in self.alone(self.node(op.rank))):
            return True  # its own node was cut off, for all others were
        return error in UNREACHABLE and self.hit(op.begin - GRACE, op.end, ("cut", "stop"), owners,
                                                 {self.node(op.rank)} | {self.node(r) for r in owners})

    def nobody_knows(self, op, error):
        """Is this what an operation on an existing name ends in when both of its homes are away? Who waits for it goes on waiting."""
        errors = {"read": (errno.ETIMEDOUT,), "look": UNKNOWN, "remove": UNKNOWN, "rename": UNKNOWN}
        return error in errors.get(op.kind, ()) and self.both_homes_away(op)

    def both_homes_away(self, op):
        """Was there a moment in this wait at which two ranks were stopped or cut off, or not found again yet?"""
        edges = []
        for rank in range(self.plan.ranks):
            away = [(f["begin"], f["end"] + GRACE) for f in self.faults
                    if f["kind"] == "stop" and f["target"] == rank or f["kind"] == "cut" and f["target"] == self.plan.node(rank)]
            edges += [edge for begin, end in self.joined(away) if begin <= op.end and end >= op.begin for edge in ((begin, 1), (end, -1))]
        return self.reaches(edges, 2, op.begin, op.end)

    @staticmethod
    def reaches(edges, wanted, since, until):
        """Are so many of the spans that these edges belong to open at once, at a moment between these two?"""
        count = 0
        edges = sorted(edges, key=lambda e: (e[0], -e[1]))
        for k, (at, way) in enumerate(edges):
            count += way
            after = edges[k + 1][0] if k + 1 < len(edges) else FOREVER
            if count >= wanted and at <= until and after >= since:
                return True
        return False

    def had_copy(self, op):
        node = self.node(op.rank)
        return any(o.kind == "read" and o.name == op.name and o.end is not None and o.end < op.begin and self.node(o.rank) == node and
                   o.outcome[0] == "read" for o in self.operations)

    def refused(self, op, error, now):
        """Rules 3 to 5: which of OUTCOMES it is, or what is wrong with it."""
        if self.no_room(op, error):
            return "no room"
        absent = [c for c in now if c.uid is None]
        if error == errno.ENOENT and absent:
            if op.kind != "read" or any(c.taken for c in absent) or self.nobody_left(op):
                return "absent"
            if not self.out_of_reach(op, error, now):
                return "nobody is left, it was told, and that is not so"
        if error == errno.ETIMEDOUT and op.end - op.begin < TIMEOUT - 0.01:
            return "ETIMEDOUT before the time"
        if error == errno.ETIMEDOUT and op.kind == "read" and absent:
            return "waited in vain"
        if self.nobody_knows(op, error):
            return "out of reach"
        if self.out_of_reach(op, error, now):
            return "out of reach"
        if error == errno.EHOSTUNREACH and op.kind == "read" and absent and self.nobody_left(op, away=True):
            return "out of reach"
        if error == errno.ENOENT and self.hidden(op):
            return "outdated"
        return "%s, and it may be %s" % (errno.errorcode.get(error, error), self.shown(now))

    def lost(self, change, op):
        """Rule 4: is it right that what a killed rank had cannot be had?"""
        gone, node = self.ended(change.rank), self.node(change.rank)
        if gone > op.end:
            return False
        alive = [r for r in self.ranks_on(node) if self.ended(r) > op.end]

        def away(rank):
            return self.hit(op.begin - GRACE, op.end, ("stop",), [rank]) or self.wrecked(op.begin - GRACE, op.end, [rank])
        return (not change.sure or op.begin < gone + GRACE or self.broken_since(node, op.name, change.begin) or
                self.hit(op.begin - GRACE, op.end, ("cut",), nodes=[node]) or
                all(map(away, alive)) or any(away(r) or self.ended(r) <= op.end and op.begin < self.ended(r) + GRACE
                                             for r in self.heirs_of(change.rank)))

    def heirs_of(self, rank):
        """Who has taken over what it left, and theirs."""
        found, todo = set(), [rank]
        while todo:
            new = self.heirs.get(todo.pop(), set()) - found
            found |= new
            todo += new
        return found

    def ended(self, rank):
        left = self.left.get(rank)
        return min(self.gone.get(rank, FOREVER), left["begin"] if left else FOREVER)

    def broken_since(self, node, name, begin):
        """Was a rewriting in place broken off there?"""
        return any(o.name == name and self.node(o.rank) == node and o.over >= begin and
                   (not o.outcome or o.outcome[0] in ("killed", "failed")) for o in self.in_place)

    def shown(self, now):
        return ", ".join("%s of rank %s%s" % (c.uid or "absent", c.rank, "" if c.sure else " (unsure)") for c in now)

    def nobody_left(self, op, away=False):
        """Was there a moment in this wait at which all ranks were waiting, dead or at their end (or away: stopped, cut off, or not found
        again since by some rank: what is said is what all together know)?"""
        edges = []
        for rank in range(self.plan.ranks):
            idle = [(o.begin, o.end or FOREVER) for o in self.operations if o.rank == rank and o.kind == "read"]
            idle.append((min(self.gone.get(rank, FOREVER), self.finished.get(rank, FOREVER)), FOREVER))
            for f in self.faults if away else ():
                if f["kind"] == "stop" and f["target"] == rank or f["kind"] == "cut" and f["target"] == self.plan.node(rank):
                    idle.append((f["begin"], f["end"]))
                    idle += [(max(f["begin"], e["begin"]), min(f["end"] + GRACE, e["end"])) for e in self.lost_ones if e["of"] == rank]
            for begin, end in self.joined(idle):
                if begin <= op.end and end >= op.begin and end > begin:
                    edges += [(begin, 1), (end, -1)]
        return self.reaches(edges, self.plan.ranks, op.begin, op.end)

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

    def alone(self, node):
        """When all other nodes were cut off: so was this one."""
        spans = [(NEVER, FOREVER)] if self.plan.nodes > 1 else []
        for other in set(range(self.plan.nodes)) - {node}:
            cuts = self.joined([(f["begin"], f["end"]) for f in self.faults if f["kind"] == "cut" and f["target"] == other])
            spans = [(max(a, c), min(b, d)) for a, b in spans for c, d in cuts if max(a, c) < min(b, d)]
        return spans

    def own_fault(self, op):
        """For how long this rank's node was out of order during the operation."""
        node = self.node(op.rank)
        spans = [(f["begin"], f["end"]) for f in self.faults if f["kind"] == "cut" and f["target"] == node or
                 f["kind"] == "stop" and self.node(f["target"]) == node]
        spans += [(w["begin"], w["end"]) for w in self.wrecks if w["target"] == op.rank and w["end"] < FOREVER]
        spans += self.alone(node)
        return sum(max(0, min(end, op.end) - max(begin, op.begin)) for begin, end in self.joined(spans))

    def look_at(self, op):
        """Is this operation's end right?"""
        if op.outcome is None:
            if op.rank not in self.died:
                self.bad(op, "it never ended")
            return "cut off"
        bound = READ_BOUND if op.kind == "read" else CHANGE_BOUND + (PUBLISHES[op.kind] - 1) * 1.5 * PEER
        if op.end - op.begin > bound + self.own_fault(op):
            self.bad(op, "too long (%s)%s" % (
                op.outcome, self.lag > MARGIN / 3 and "; but processes waited up to %.1f s for a core" % self.lag or ""))
        kind = op.outcome[0]
        if kind == "killed" or op.child and kind in ("refused", "failed", "unmade") and self.dying.get(op.rank, FOREVER) <= op.end:
            return "cut off"  # (or its member was, and the child had nobody to ask)
        if kind in ("failed", "unmade"):
            return self.failed(op)
        if kind == "done" and op.kind in ("write", "replace"):
            return "done"
        now = self.candidates(op, op.begin, op.end)
        if kind in ("refused", "absent"):
            why = self.refused(op, op.outcome[1] if kind == "refused" else errno.ENOENT, now)
            if why in OUTCOMES:
                return why
            self.bad(op, why)
            return "wrong"
        if kind in ("there", "done"):
            if any(c.uid for c in now):
                return "done"
            if self.outdated(op, {c.uid for c in self.changes.get(op.name, []) if c.uid}):
                return "outdated"
            if kind == "done" and self.left_broken(self.node(op.rank), op.name, until=op.begin):
                return "done"
            self.bad(op, "it is absent: %s" % self.shown(now))
            return "wrong"
        uid = op.outcome[1]
        if kind == "read":
            if any(c.uid == uid for c in now):
                return "done"
            known = any(c.uid == uid for c in self.changes.get(op.name, []))
            if known and self.outdated(op, {uid}):
                return "outdated"
            self.bad(op, "%s: %s; it may be %s" % ("stale" if known else "wrong", uid, self.shown(now)))
            return "wrong"
        # A part of a file, or bytes of two.
        beginning = op.outcome[3] if len(op.outcome) > 3 else True
        if beginning and any(c.torn and uid in (None, c.uid) for c in now):
            return "torn by its writer"
        mixed = {u for c in now if c.op for u in self.mixed_with(c.op)}
        if mixed and uid in mixed | {None}:
            return "torn by its writer"
        if any(self.overtook(w, op) for w in self.in_place) and (uid is None or any(c.uid == uid for c in now)):
            return "overtaken"
        self.bad(op, "torn: %s, %s; it may be %s" % (uid, op.outcome[2], self.shown(now)))
        return "wrong"

    def mixed_with(self, op):
        """Two who write into one file at the same time: the uids of what its bytes may be."""
        uids = {w.uid for w in self.in_place if w.name == op.name and self.node(w.rank) == self.node(op.rank) and
                w.begin <= (op.over or NEVER) and w.over >= op.begin}
        return uids if len(uids) > 1 else set()

    def overtook(self, writer, op):
        """Can the reader have had the file open before that writer opened it? (Who opens it later has to wait for him.)"""
        return (writer.name == op.name and self.node(writer.rank) == self.node(op.rank) and writer.begin <= op.end and
                (op.begin <= writer.opened if writer.opened else op.begin <= writer.over))

    def failed(self, op):
        """A change that failed has to have a reason, too."""
        error = op.outcome[1]
        if self.no_room(op, error):
            return "no room"
        if error in UNREACHABLE and (self.nobody_knows(op, error) or
                                     self.out_of_reach(op, error, self.candidates(op, op.begin, op.end))):
            return "out of reach"
        self.bad(op, "%s in %s" % (errno.errorcode.get(error, error), op.outcome[2]))
        return "wrong"

    def scan(self, node, lines):
        """Rule 8."""
        end = max([self.finished.get(r, 0) for r in range(self.plan.ranks)])
        made = {o.uid: o for o in self.operations if o.kind == "replace"}
        looker = Operation(self.ranks_on(node)[0], [FOREVER, 0, "begin", "scan", None, None, None, False])
        for name, uid, wrong in lines:
            where = "on n%d %s" % (node, name)
            if name.startswith("t/"):
                op = made.get(name[2:])
                if not op or op.outcome and op.outcome[0] != "killed":
                    self.wrong.append("%s is left over: %s" % (where, op.outcome if op else "nobody made it"))
                continue
            looker.name, looker.end = name, FOREVER
            now = self.candidates(looker, FOREVER, FOREVER)
            if wrong:
                if any(c.torn and uid in (None, c.uid) for c in now):
                    continue
                if not self.left_broken(node, name) and not any(
                        uid in self.mixed_with(c.op) | {None} and self.mixed_with(c.op) for c in now if c.op):
                    self.wrong.append("%s is no whole version: %s %s" % (where, uid, wrong))
                continue
            alive = [r for r in self.ranks_on(node) if r not in self.gone]
            if not alive or any(c.uid == uid for c in now) or self.left_broken(node, name, uid):
                continue
            changes = self.history(name)
            there = min(end, max(map(self.ended, alive)))  # until then somebody of the node could be told
            if not any(c.uid == uid for c in changes):
                self.wrong.append("%s is %s, which never was there" % (where, uid))
            elif not any(c.uid == uid and self.may_lie(c, self.missed(c, changes, FOREVER), name, node, alive, there) for c in changes):
                self.wrong.append("%s is out of date: %s; it may be %s" % (where, uid, self.shown(now)))

    def may_lie(self, change, missed, name, node, alive, there):
        """It lies there in place of all that it missed."""
        unbrought = [o for o in missed if self.not_brought(name, change.uid, o, node, there)]
        return all(there <= o.end or self.held_up(o, alive, there, there) or self.unordered(change, o, there) or
                   any(u.end >= o.begin for u in unbrought)  # which has, or may have, replaced it
                   for o in missed)

    def not_brought(self, name, uid, change, node, end):
        """A file that was made there is older than this, and a rank has said that it stays: this could not be had, or there was no room. Or
        the rank that made it, which is to bring this, was killed when no other of its node was left."""
        maker = int(uid.split(".")[0])
        return maker in self.ranks_on(node) and self.gone.get(maker, NEVER) >= end or any((r, name) in self.kept for r in self.ranks_on(node)) and (
            all(self.ended(r) <= end for r in self.ranks_on(self.node(change.rank))) or
            self.broken_since(self.node(change.rank), name, change.begin) or
            self.hit(change.begin, end, ("full", "limit"), self.ranks_on(node), [node]))

    def leaves(self):
        """Rule 7: nobody leaves while another has something to do, but without those that it could not reach."""
        for rank, left in self.left.items():
            others = [r for r in range(self.plan.ranks)
                      if min(self.finished.get(r, FOREVER), self.gone.get(r, FOREVER)) > left["end"] and
                      not self.hit(left["end"] - LEAVE, left["end"], ("cut", "stop"), (rank, r), (self.node(rank), self.node(r)))]
            if others:
                self.wrong.append("rank %d left at %.3f, while ranks %s were at work" % (rank, left["end"], others))

    def last_broken(self, node, name):
        """When, and which."""
        return max(((when, uid) for when, where, what, uid in self.broken if where == node and what == name),
                   key=lambda b: b[0], default=(None, None))

    def left_broken(self, node, name, uid=None, until=FOREVER):
        """A write broke off there (`uid`: that one, and nobody has seen it published), or what it had left was renamed to this, and nothing
        has been put in its place."""
        broken, which = self.last_broken(node, name)
        if uid is not None and (uid != which or any(
                c.uid == uid and c.sure and c.op.kind == "write" for changes in self.changes.values() for c in changes)):
            return False
        return broken is not None and broken < until and not any(
            name in (o.name, o.to) and self.node(o.rank) == node and broken < o.begin < until and o.outcome and
            o.outcome[0] in ("read", "done") for o in self.operations)

    def run(self):
        for op in sorted(self.operations, key=lambda o: o.begin):
            if op.kind not in ("read", "look"):
                self.note_change(op)
        for op in sorted(self.operations, key=lambda o: o.end or FOREVER):
            if op.kind == "read" and op.outcome and op.outcome[0] == "read":
                self.note_seen(op)
        windows = {kind: [(f["begin"], min(f["end"], self.died.get(f["target"], f["end"]) if kind == "limit" else f["end"]) + GRACE)
                          for f in self.faults if f["kind"] == kind] for kind in KINDS}
        result = {"launch": self.number, "ranks": self.plan.ranks, "nodes": self.plan.nodes, "end": self.took_to_end, "lag": self.lag,
                  "wrecks": len(self.wrecks), "joined": sum(w["end"] < FOREVER for w in self.wrecks),
                  "unserved": sum(bool(o.outcome) and o.outcome[0] in ("refused", "failed", "unmade") and
                                  o.outcome[1] == errno.EHOSTUNREACH and self.wrecked(o.begin, o.end, [o.rank]) for o in self.operations),
                  "kinds": {}}
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
        self.leaves()
        for node, lines in enumerate(self.scans):
            self.scan(node, lines)
        result["kinds"], result["wrong"] = rows, self.wrong
        result["deserted"] = ["n%d" % node for node in range(self.plan.nodes)
                              if max(self.ranks_on(node), key=self.ended) in self.gone]  # the last one was killed
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
    print("UCX found a fault in itself in %d ranks; %d of them joined anew, %d operations of theirs failed meanwhile" % tuple(
        sum(r[what] for r in results) for what in ("wrecks", "joined", "unserved")))
    print("a process of this machine waited %.2f s for a core at the worst" % max((r["lag"] for r in results), default=0))


def main():
    """check prints how many faults there were, and the nodes none of whose ranks lives."""
    what = sys.argv[1]
    if what == "inject":
        Injector(*sys.argv[2:8]).run()
    elif what == "check":
        seed, number, logs, events, results = sys.argv[2:7]
        plan = fault_plan.launch(seed, number)
        lines = [Log("%s/%d" % (logs, r)).read().lines for r in range(plan.ranks)]
        scans = []
        for path in sys.argv[7:]:
            with open(path) as file:
                scans.append(list(map(json.loads, file)))
        with open(events) as file:
            result = Judge(plan, number, lines, json.load(file), scans).run()
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


if __name__ == "__main__":
    main()
