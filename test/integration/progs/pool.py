"""A data set, a pool of workers that reads it, and a reader of what they write.

pool.py make DIR COUNT            write in/0 .. in/COUNT-1: 64 KiB each, every 50th 8 MiB
pool.py work DIR COUNT            four processes read in/*, each writes out/N of what it read: the bytes of large
                                  files, else their sum. Prints seconds and MB/s of what follows the start.
pool.py scan DIR COUNT            only read them
pool.py take DIR COUNT            read out/* and compare
"""
import hashlib
import multiprocessing
import os
import sys
import time

LARGE = 8 << 20
SMALL = 64 << 10
WARM = 20  # files of each worker that it takes its time for: it is busy for more than a second


def content(n, version=0):
    seed = hashlib.sha256(b"%d %d" % (n, version)).digest()
    size = LARGE if n % 50 == 7 else SMALL
    return (seed * (size // len(seed) + 1))[:size]


def path(top, kind, n):
    return os.path.join(top, kind, str(n))


def put(name, data):
    with open(name, "wb") as f:
        f.write(data)


def result(data):
    return data if len(data) == LARGE else hashlib.sha256(data).hexdigest().encode()


def make(top, count):
    os.makedirs(os.path.join(top, "in"), exist_ok=True)
    for n in range(count):
        put(path(top, "in", n), content(n))
    if "POOL_BEGIN" in os.environ:
        put(os.environ["POOL_BEGIN"], b"")


def one(args):
    top, n, pause = args
    time.sleep(pause)
    with open(path(top, "in", n), "rb") as f:
        data = f.read()
    assert data == content(n), "file %d is wrong" % n
    put(path(top, "out", n), result(data))
    return len(data)


def only_read(args):
    top, n, pause = args
    time.sleep(pause)
    with open(path(top, "in", n), "rb", buffering=0) as f:
        return os.fstat(f.fileno()).st_size


def scan(top, count):
    work(top, count, only_read)


def work(top, count, one=one, workers=4):
    os.makedirs(os.path.join(top, "out"), exist_ok=True)
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        warm = min(count, WARM * workers)
        moved = sum(pool.imap_unordered(one, ((top, n, 1.2 / WARM) for n in range(warm))))
        until = os.environ.get("POOL_BEGIN")  # the whole data set is there
        while until and not os.path.exists(until):
            time.sleep(0.01)
        begin = time.monotonic()
        moved = sum(pool.imap_unordered(one, ((top, n, 0) for n in range(warm, count))))
        seconds = time.monotonic() - begin
        pool.close()
        pool.join()
    print("pool: %d files, %.3f s, %.0f MB/s" % (count - warm, seconds, moved / 1e6 / seconds), flush=True)


def take(top, count):
    for n in range(count):
        with open(path(top, "out", n), "rb") as f:
            assert f.read() == result(content(n)), "result %d is wrong" % n
    print("take: %d results are right" % count, flush=True)


if __name__ == "__main__":
    {"make": make, "work": work, "scan": scan, "take": take}[sys.argv[1]](sys.argv[2], *map(int, sys.argv[3:]))
