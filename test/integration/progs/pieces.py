"""Ranks of several nodes write one file at once, each other random bytes, and read all of it afterwards; many times.

pieces.py RANK RANKS, with the environment's W (a directory that all nodes see), SSD, PIECES_SEED and PIECES_ROUNDS.
"""
import os
import random
import sys
import time

W, SSD, me, ranks = os.environ["W"], os.environ["SSD"], int(sys.argv[1]), int(sys.argv[2])
SEED, ROUNDS = int(os.environ["PIECES_SEED"]), int(os.environ["PIECES_ROUNDS"])


def sync(name):
    open(f"{W}/flag.{name}.{me}", "x").close()
    while not all(os.path.exists(f"{W}/flag.{name}.{r}") for r in range(ranks)):
        time.sleep(0.0005)


def at_once(rnd, own, size):
    """Ranges that do not meet: all write their own, in any order. The writes of this rank, and the file."""
    cuts = sorted(rnd.sample(range(1, size), min(size - 1, rnd.choice([2, 5, 40, 300]))))
    pieces, want, end, at = {}, bytearray(size), 0, 0
    for cut in cuts + [size]:
        rank = rnd.randrange(ranks + 1)  # the last: a hole
        if rank < ranks:
            pieces.setdefault(rank, []).append((at, bytes([65 + rank]) * (cut - at)))
            want[at:cut] = bytes([65 + rank]) * (cut - at)
            end = cut
        at = cut
    mine = pieces.get(me, [])
    own.shuffle(mine)
    return mine, want[:end]


def in_turn(rnd, size):
    """Ranges of any rank, one after the other: the last one counts."""
    steps, want, end = [], bytearray(size), 0
    for step in range(rnd.randrange(2, 9)):
        offset = rnd.randrange(size)
        length = rnd.randrange(1, size - offset + 1)
        steps.append((rnd.randrange(ranks), offset, bytes([65 + step]) * length))
        want[offset:offset + length] = steps[-1][2]
        end = max(end, offset + length)
    return steps, want[:end]


for k in range(ROUNDS):
    rnd = random.Random(SEED * 100000 + k)  # alike on all nodes
    own = random.Random((SEED * 100000 + k) * 100 + me)
    size = rnd.choice([10, 1000, 20000, 300000])
    turns = rnd.random() < 0.25
    if turns:
        steps, want = in_turn(rnd, size)
        mine = [step for step in steps if step[0] == me]
    else:
        mine, want = at_once(rnd, own, size)
    fd = os.open(f"{SSD}/r{k}", os.O_RDWR | os.O_CREAT, 0o644) if mine else None
    sync(f"open.{k}")
    if turns:
        for i, (rank, offset, data) in enumerate(steps):
            if rank == me:
                time.sleep(0.002)  # within the bound of the clocks, wider on a busy machine, it may be EIO
                os.pwrite(fd, data, offset)
            sync(f"turn.{k}.{i}")
    else:
        for offset, data in mine:
            os.pwrite(fd, data, offset)
        if rnd.random() < 0.5:
            sync(f"written.{k}")
    if own.random() < 0.5:
        time.sleep(own.random() * 0.003)  # they close in another order each time
    if mine:
        os.close(fd)
    sync(f"closed.{k}")
    if want:
        with open(f"{SSD}/r{k}", "rb") as f:
            have = f.read()
        bad = [(i, want[i], have[i]) for i in range(min(len(have), len(want))) if have[i] != want[i]]
        assert have == bytes(want), (SEED, k, turns, len(have), len(want), len(bad), bad[:1], bad[-1:])
    sync(f"read.{k}")
