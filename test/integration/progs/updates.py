#!/usr/bin/env python3
"""Ranks change the same files in part, at random, and what they read is judged.

updates.py work RANK RANKS SEED COUNT [KILLED [DIES]]  COUNT operations on files in SSD; the log in W/updates.RANK, and at the end
                                        W/ok.RANK. KILLED: that part of the changes is made by a process that is killed, most of them
                                        in the midst. DIES: seconds until this rank is killed itself, in whatever it is doing
updates.py check RANKS [WHAT...]        judge the logs; what was done to them beside: cuts, deaths=NUMBER, full (disks)

A file is a row of slots; each rank writes its own with a number that rises. Lost is an update whose close succeeded
before a read began which does not have it, though nobody replaced the file meanwhile; a false alarm, a close that fails
(EIO) though nobody else wrote the file while it was open.
"""
import errno, json, os, random, signal, struct, sys, threading, time

SLOTS, FILES = 4, 3
SLOT = struct.Struct("<HHI")  # rank + 1, slot, number
REPLACES = ("anew", "rename", "remove")
FIELDS = ("kind", "name", "begin", "end", "status", "what", "slot", "number")
TAKEN_OVER = 5_000_000_000  # ns after a death: until another has published what it had begun


def work(rank, ranks, seed, count, killed=0.0, dies=0.0):
    rng = random.Random(seed * 1000 + rank)
    top, number = os.environ["SSD"], 0
    log = open(f"{os.environ['W']}/updates.{rank}", "wb", buffering=0)

    def note(*words):
        log.write(json.dumps(words).encode() + b"\n")

    def die():
        note("dies", 0, time.monotonic_ns(), 0, 0, "", None, 0)
        os.kill(os.getpid(), signal.SIGKILL)

    if dies:
        timer = threading.Timer(dies, die)
        timer.daemon = True
        timer.start()

    def pause():
        if rng.random() < 0.3:
            time.sleep(rng.random() * 0.003)

    def write(path, flags):
        nonlocal number
        number += 1
        slot, where = rng.randrange(SLOTS), "open"
        try:
            fd = os.open(path, flags | os.O_RDWR, 0o644)
            try:
                where = "write"
                pause()
                os.pwrite(fd, SLOT.pack(rank + 1, slot, number), (rank * SLOTS + slot) * SLOT.size)
                pause()
                where = "close"
            finally:
                os.close(fd)
            return 0, where, slot
        except OSError as e:
            return e.errno, where, slot

    def read(path):
        try:
            with open(path, "rb", buffering=0) as f:
                return 0, f.read().hex(), None
        except OSError as e:
            return e.errno, "", None

    def replace(kind, path):
        try:
            if kind == "remove":
                os.remove(path)
            elif kind == "rename":
                status = write(f"{path}.{rank}", os.O_CREAT | os.O_TRUNC)
                os.rename(f"{path}.{rank}", path)
                return status
            else:
                return write(path, os.O_CREAT | os.O_TRUNC)
            return 0, "", None
        except OSError as e:
            return e.errno, kind, None

    def dies(path, flags):
        """A child makes the change. True: it was not killed before its end."""
        pid = os.fork()
        if not pid:
            write(path, flags)
            os._exit(0)
        time.sleep(rng.expovariate(1 / 0.003))
        os.kill(pid, signal.SIGKILL)
        return os.waitpid(pid, 0)[1] == 0

    ailing = {}
    for _ in range(count):
        name = rng.randrange(FILES)
        path = f"{top}/f{name}"
        draw = rng.random()
        kind = "read" if draw < 0.35 else "join" if draw < 0.6 else "update" if draw < 0.97 else rng.choice(REPLACES)
        if ailing.get(name) and rng.random() < 0.5:
            kind = rng.choice(REPLACES)
        begin = time.monotonic_ns()
        note(kind, name, begin, None, None, "", None, number)
        if kind == "read":
            status, what, slot = read(path)
        elif kind in REPLACES:
            status, what, slot = replace(kind, path)
        else:
            flags = os.O_CREAT if kind == "update" else 0
            if killed and rng.random() < killed:
                kind = "ended" if dies(path, flags) else "killed"
                number += 1
                status, what, slot = 0, "", None
            else:
                status, what, slot = write(path, flags)
        ailing[name] = status in (errno.EIO, errno.ETIMEDOUT)
        note(kind, name, begin, time.monotonic_ns(), status, what, slot, number)
        pause()
    open(f"{os.environ['W']}/ok.{rank}", "x").close()


def load(rank):
    """The operations of a rank; that in which it died ends some time after it."""
    ops, died = [], 0
    with open(f"{os.environ['W']}/updates.{rank}") as f:
        for line in f:
            op = dict(zip(FIELDS, json.loads(line)), rank=rank)
            if op["kind"] == "dies":
                died = op["begin"]
                continue
            if ops and ops[-1]["end"] is None:
                ops.pop()
            ops.append(op)
    if ops and ops[-1]["end"] is None:
        assert died, f"rank {rank} ended in the midst of {ops[-1]}"
        ops[-1].update(end=died + TAKEN_OVER, status=-1)
    return ops, bool(died)


def check(ranks, cuts, deaths, full):
    logs, dead = zip(*map(load, range(ranks)))
    every, wrong = [op for log in logs for op in log], 0
    unlucky = cuts or deaths
    by_name = {name: [op for op in every if op["name"] == name] for name in range(FILES)}

    def beside(op, begin, ops):
        return [o for o in ops if o is not op and o["end"] > begin and o["begin"] < op["end"]]

    def show(*ops):
        for op in ops:
            print("   ", {k: v for k, v in op.items() if k != "what" or op["kind"] != "read"})

    judged, kills = 0, sum(op["kind"] == "killed" for op in every)
    for op in every:
        others = by_name[op["name"]]
        if op["kind"] == "read" and op["status"] == 0:
            have = {}
            data = bytes.fromhex(op["what"])
            for at in range(0, len(data) - len(data) % SLOT.size, SLOT.size):
                rank, slot, number = SLOT.unpack_from(data, at)
                have[rank - 1, slot] = number
            for rank, log in enumerate(logs):
                for slot in range(SLOTS):
                    done = [u for u in log if u["name"] == op["name"] and u["kind"] in ("update", "join", "anew") and
                            u["slot"] == slot and u["status"] == 0 and u["end"] < op["begin"]]
                    if not done or have.get((rank, slot), 0) >= done[-1]["number"]:
                        judged += bool(done)
                        continue
                    if not any(o["kind"] in REPLACES for o in beside(op, done[-1]["begin"], others) if o is not done[-1]):
                        wrong += 1
                        print(f"lost: rank {op['rank']} read {have.get((rank, slot))} of rank {rank}, slot {slot}:")
                        since = done[-1]["begin"] - 30_000_000  # ns: what the lost update itself began from is shown, too
                        show(op, done[-1], *sorted(beside(op, since, others), key=lambda o: o["end"]))
        elif op["status"] == errno.EIO and op["what"] == "close":
            # What one that was killed had written may be found at any time after that.
            if not kills and not unlucky and not full and not any(o["rank"] != op["rank"] and o["kind"] != "read" for o in beside(op, op["begin"], others)):
                wrong += 1
                print(f"failed for nothing:")
                show(op)
        elif op["status"] not in (-1, 0, errno.EIO, errno.ENOENT, errno.ETIMEDOUT if kills or unlucky else 0,
                                  errno.EHOSTUNREACH if unlucky else 0, errno.ENOSPC if full else 0):
            wrong += 1
            print("failed:")
            show(op)
    closes = [op for op in every if op["kind"] in ("update", "join")]
    if deaths and sum(dead) != deaths:
        wrong += 1
        print(f"{sum(dead)} ranks died, not {deaths}")
    if judged < len(every) / (20 if kills or unlucky else 4):
        wrong += 1
        print(f"only {judged} slots were judged")
    print(f"{len(every)} operations; {sum(o['kind'] == 'read' and not o['status'] for o in every)} reads, "
          f"{judged} slots of them judged; {sum(o['status'] == 0 for o in closes)} of {len(closes)} updates succeeded, "
          f"{sum(o['status'] == errno.EIO and o['what'] == 'close' for o in closes)} were told of a conflict; {f'{kills} were killed; ' if kills else ''}{f'{sum(dead)} ranks died; ' if deaths else ''}{wrong} wrong")
    return wrong


if sys.argv[1] == "work":
    work(*map(int, sys.argv[2:6]), *map(float, sys.argv[6:]))
else:
    what = dict(word.partition("=")[::2] for word in sys.argv[3:])
    sys.exit(check(int(sys.argv[2]), "cuts" in what, int(what.get("deaths", 0)), "full" in what) > 0)
