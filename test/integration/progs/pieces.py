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


for k in range(ROUNDS):
    rnd = random.Random(SEED * 100000 + k)  # alike on all nodes
    own = random.Random((SEED * 100000 + k) * 100 + me)
    size = rnd.choice([10, 1000, 20000, 300000])
    cuts = sorted(rnd.sample(range(1, size), min(size - 1, rnd.choice([2, 5, 40, 300]))))
    pieces, want, end, at = {}, bytearray(size), 0, 0
    for cut in cuts + [size]:
        rank = rnd.randrange(ranks + 1)  # the last: a hole
        if rank < ranks:
            pieces.setdefault(rank, []).append((at, cut - at))
            want[at:cut] = bytes([65 + rank]) * (cut - at)
            end = cut
        at = cut
    mine = pieces.get(me, [])
    own.shuffle(mine)
    fd = os.open(f"{SSD}/r{k}", os.O_RDWR | os.O_CREAT, 0o644) if mine else None
    sync(f"open.{k}")
    for offset, length in mine:
        os.pwrite(fd, bytes([65 + me]) * length, offset)
    if rnd.random() < 0.5:
        sync(f"written.{k}")
    if own.random() < 0.5:
        time.sleep(own.random() * 0.003)  # they close in another order each time
    if mine:
        os.close(fd)
    sync(f"closed.{k}")
    if end:
        with open(f"{SSD}/r{k}", "rb") as f:
            have = f.read()
        bad = [(i, chr(want[i]), chr(have[i])) for i in range(min(len(have), end)) if have[i] != want[i]]
        assert have == bytes(want[:end]), (SEED, k, len(have), end, len(bad), bad[:1], bad[-1:])
    sync(f"read.{k}")
