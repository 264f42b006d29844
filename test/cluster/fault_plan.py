"""fault_plan.py - what the ranks of a launch do and what is done to them: a function of the seed and nothing else

Both the worker (test/integration/progs/fault_worker.py) and the driver (faults.py) ask for launch(seed, number); each gets the
same plan without a word between them. `python3 fault_plan.py SEED NUMBER` shows one. A seed may name the kinds of faults
that there are to be: `1:kill,cut`.

Names, below the managed directory:
  o<r>/<i>   written, replaced, removed and renamed by rank r alone, read by all
  a<r>/<k>   written once, by rank r in its step k; read by ranks below r, some before it is there. (A rank waits for higher
             ones only, so no circle of waits comes about but by the death of a rank.)
  s/<i>      written and removed by all
  t/...      where an atomic replacement is written before it is renamed
"""
import random

OWN, SHARED = 5, 5
STEPS = 130
# Of a launch: the share of each kind of fault. `writer` is a child of a rank that dies in the midst of writing.
WEIGHTS = {"kill": 4, "stop": 8, "cut": 5, "full": 5, "limit": 6, "writer": 6}


class Step:
    __slots__ = ("kind", "name", "to", "uid", "size", "child", "think", "pieces", "die", "limit")

    def __init__(self, kind, name, to=None):
        self.kind, self.name, self.to = kind, name, to
        self.uid, self.size, self.pieces = None, 0, 1
        self.child, self.think, self.die, self.limit = False, 0.0, None, None

    def __repr__(self):
        return " ".join("%s=%r" % (s, getattr(self, s)) for s in self.__slots__ if getattr(self, s))


class Launch:
    """nodes; ranks (rank r is on node r % nodes); steps[r][k]; faults: what the driver does, (kind, target, step, seconds),
    target a rank or a node, at the moment when that rank (the foremost rank of that node) has begun that step."""

    def __init__(self):
        self.nodes, self.ranks, self.steps, self.faults = 0, 0, [], []

    def node(self, rank):
        return rank % self.nodes


def size_of(rng):
    part = rng.random()
    if part < 0.70:
        return rng.randrange(100, 8192)
    if part < 0.95:
        return rng.randrange(8192, 200000)
    return rng.randrange(200000, 1500000)


def steps_of(rng, rank, ranks):
    steps = [Step("write", "o%d/%d" % (rank, i)) for i in range(OWN)]
    while len(steps) < STEPS:
        k, part = len(steps), rng.random()
        own = "o%d/%d" % (rank, rng.randrange(OWN))
        if part < 0.34:
            steps.append(Step("read", "o%d/%d" % (rng.randrange(ranks), rng.randrange(OWN))))
        elif part < 0.42:
            steps.append(Step("read", "s/%d" % rng.randrange(SHARED)))
        elif part < 0.56 and rank + 1 < ranks:
            # Files of odd steps exist: see below.
            far = max(OWN, min(STEPS - 1, k + rng.choice((-20, -8, -3, 0, 1, 2, 4, 6))))
            steps.append(Step("read", "a%d/%d" % (rng.randrange(rank + 1, ranks), far | 1)))
        elif part < 0.72:
            steps.append(Step("write", own))
        elif part < 0.84:
            steps.append(Step("replace", own))
        elif part < 0.88:
            steps.append(Step("remove", own))
        elif part < 0.91:
            steps.append(Step("rename", own, "o%d/%d" % (rank, rng.randrange(OWN))))
        elif part < 0.97:
            steps.append(Step(rng.choice(("write", "replace", "replace", "remove")), "s/%d" % rng.randrange(SHARED)))
        else:
            steps.append(Step("look", "o%d/%d" % (rng.randrange(ranks), rng.randrange(OWN))))
    for k in range(OWN | 1, STEPS, 2):
        if rank > 0 and rng.random() < 0.25 or k >= STEPS - 2:
            steps[k] = Step("write", "a%d/%d" % (rank, k))
    for k, step in enumerate(steps):
        step.think = rng.random() ** 2 * 0.04
        step.child = rng.random() < 0.12
        if step.kind in ("write", "replace"):
            step.uid = "%d.%d" % (rank, k)
            step.size = size_of(rng)
            step.pieces = rng.choice((1, 1, 2, 4))
        if step.kind == "rename" and step.to == step.name:
            step.kind, step.to = "read", None
    return steps


def seconds_of(rng, most):
    """Half a second to `most`, the short ones more often."""
    return 0.5 * (most / 0.5) ** (rng.random() ** 1.5)


def launch(seed, number, faults=36):
    rng = random.Random("%s/%s" % (seed, number))
    plan = Launch()
    plan.nodes, per = rng.choice(((3, 3), (4, 2)))
    plan.ranks = plan.nodes * per
    plan.steps = [steps_of(rng, r, plan.ranks) for r in range(plan.ranks)]
    # Only files that are written are read: a rank's a<r>/<k> that its schedule does not have becomes the next that it has.
    there = {s.name for steps in plan.steps for s in steps if s.kind == "write"}
    for steps in plan.steps:
        for step in steps:
            if step.kind == "read" and step.name[0] == "a" and step.name not in there:
                owner, k = step.name[1:].split("/")
                later = [i for i in range(int(k), STEPS) if "a%s/%d" % (owner, i) in there]
                step.name = "a%s/%d" % (owner, later[0])
    # The last part of each schedule is without new faults: what was out of reach has to come back.
    last = STEPS * 4 // 5
    victims = rng.sample(range(plan.ranks), plan.ranks - 3)
    kinds = str(seed).partition(":")[2].split(",")
    kinds = kinds if kinds != [""] else list(WEIGHTS)
    weights = [WEIGHTS[kind] for kind in kinds]
    for _ in range(faults):
        kind, k = rng.choices(kinds, weights)[0], rng.randrange(OWN, last)
        rank, node = rng.randrange(plan.ranks), rng.randrange(plan.nodes)
        if kind == "kill":
            if victims:
                rank = victims.pop()
                step = plan.steps[rank][k]
                if rng.random() < 0.4:
                    plan.faults.append(("kill", rank, k, 0))
                else:
                    # By itself, at a point of a step; "timer": so long after the step began, wherever it is then.
                    points = ["timer"]
                    if step.kind in ("write", "replace"):
                        points += ["opened", "half", "written", "closed"]
                    step.child = False
                    step.die = (rng.choice(points), rng.random() ** 2 * 0.03)
        elif kind == "stop":
            plan.faults.append(("stop", rank, k, seconds_of(rng, 8)))
        elif kind == "cut":
            plan.faults.append(("cut", node, k, seconds_of(rng, 8)))
        elif kind == "full":
            plan.faults.append(("full", node, k, seconds_of(rng, 3)))
        elif kind == "limit":
            # Files may grow to so many bytes for so many steps: writes fail, and so do fetches and the library's own records.
            plan.steps[rank][k].limit = (rng.choice((0, 100, 1000, 4096, 10000, 65536)), rng.randrange(1, 6))
        elif kind == "writer":
            ks = [i for i in range(k, last) if plan.steps[rank][i].kind in ("write", "replace") and
                  plan.steps[rank][i].name[0] != "a" and not plan.steps[rank][i].die]
            if ks:
                step = plan.steps[rank][ks[0]]
                step.child, step.die = True, (rng.choice(("opened", "half", "written")), 0)
    plan.faults.sort(key=lambda fault: fault[2])
    return plan


if __name__ == "__main__":
    import sys
    shown = launch(sys.argv[1], sys.argv[2])
    print(shown.nodes, "nodes,", shown.ranks, "ranks")
    for fault in shown.faults:
        print(*fault)
    for r, steps in enumerate(shown.steps):
        for k, step in enumerate(steps):
            print("rank %d step %d: %r" % (r, k, step))
