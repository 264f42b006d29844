"""Promoted guests that are killed, exec, and meet rewritten files. One mode for each of three nodes.

promoted.py feed|bear|fetch DIR WORK    (WORK: a directory that all see, outside of DIR)
"""
import glob
import hashlib
import os
import signal
import subprocess
import sys
import time
import traceback

SMALL = 64 << 10
LARGE = 8 << 20
BIG = 32 << 20
KILLS = [0, 0.004, 0.01]  # seconds into the fetches of large files
LARGES = 8
WARM = 60
ROUNDS = 40
top, work = sys.argv[2], sys.argv[3]


def content(name, size, version=0):
    head = b"%08d" % version
    seed = hashlib.sha256(("%s %d" % (name, version)).encode()).digest()
    return (head + (seed * (size // len(seed) + 1)))[:size]


def write(name, size, version=0):
    full = os.path.join(top, name)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "wb") as f:
        f.write(content(name, size, version))


def read(name):
    with open(os.path.join(top, name), "rb") as f:
        return f.read()


def check(name, size):
    assert read(name) == content(name, size), name + " is wrong"


def mark(name, text=""):
    new = os.path.join(work, "%s.%d.new" % (name, os.getpid()))  # two may set one mark
    with open(new, "w") as f:
        f.write(text)
    os.rename(new, os.path.join(work, name))


def await_mark(name):
    end = time.monotonic() + 30
    while not os.path.exists(os.path.join(work, name)):
        assert time.monotonic() < end, "no " + name
        time.sleep(0.002)


def marked(name):
    with open(os.path.join(work, name)) as f:
        return f.read()


def promoted():
    for comm in glob.glob("/proc/self/task/*/comm"):
        try:
            with open(comm) as f:
                if f.read().startswith("dyad-promoted"):
                    return True
        except (FileNotFoundError, ProcessLookupError):
            pass  # that thread has ended
    return False


def warm(who):
    """Read files until this process is a peer."""
    for i in range(WARM):
        check("w%s/%d" % (who, i), SMALL)
        if promoted():
            break
        time.sleep(0.06)
    else:
        raise AssertionError(who + " was not promoted")
    time.sleep(0.3)  # it tells its member so once it is connected


def child(fn, *args):
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            fn(*args)
            status = 0
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        os._exit(status)
    return pid


def ended(pid):
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status == 0, "process %d ended with %d" % (pid, status)


# --- node 0 ---


def feed():
    for who in ["k%d" % i for i in range(len(KILLS))] + ["s", "x", "e", "q", "n", "m", "p", "r0", "r1"]:
        for i in range(WARM):
            write("w%s/%d" % (who, i), SMALL)
    for k in range(len(KILLS)):
        for i in range(LARGES):
            write("l%d/%d" % (k, i), LARGE)
    write("x/after", LARGE)
    for version in range(1, 1 + ROUNDS):
        for i in range(2):
            write("r/%d" % i, LARGE, version)
            mark("version.%d" % i, str(version))  # close has returned
        if version == 1:
            await_mark("rewrite")


# --- node 1 ---


def killed_fetching(k):
    warm("k%d" % k)
    mark("k%d" % k)
    for i in range(LARGES):
        check("l%d/%d" % (k, i), LARGE)
    mark("k%d.through" % k)
    signal.pause()


def killed_serving():
    warm("s")
    for i in range(4):
        write("out/%d" % i, BIG)
    mark("s")
    signal.pause()


def leaves_by_exec():
    warm("x")
    code = "import sys; sys.argv[1:1] = ['after']; exec(open(%r).read())" % __file__
    mark("x", repr(time.monotonic()))
    os.execv(sys.executable, [sys.executable, "-c", code, top, work])


def after():
    print("exec to main: %.0f ms" % ((time.monotonic() - float(marked("x"))) * 1e3))
    assert not promoted()
    check("x/after", LARGE)


def leaves_by_exit():
    warm("e")
    mark("e", repr(time.monotonic()))


def started(mode):
    """In a new image, which has none of what its parent has loaded."""
    subprocess.run([sys.executable, __file__, mode, top, work], check=True)


def quick():
    for i in range(3):
        check("wq/%d" % i, SMALL)
    assert len(os.listdir("/proc/self/task")) == 1, "a short-lived guest has threads"
    with open("/proc/self/maps") as maps:
        assert "libucs" not in maps.read(), "a short-lived guest has UCX"


def nested():
    """A promoted guest that forks is a guest again; its child is promoted."""
    warm("n")
    pid = child(warm, "m")
    assert not promoted(), "still a peer after a fork"
    ended(pid)
    check("wn/%d" % (WARM - 1), SMALL)


def waits_for_nothing():
    """A peer that waits is as quiet as any process that does."""
    warm("p")
    try:
        read("never")
    except FileNotFoundError:
        return
    raise AssertionError("who published that?")


def rereads(r):
    warm("r%d" % r)
    mark("rewrite")
    seen = 0
    while seen < ROUNDS:
        least = int(marked("version.%d" % r))
        data = read("r/%d" % r)
        seen = int(data[:8])
        assert data == content("r/%d" % r, LARGE, seen), "r/%d is of no version" % r
        assert seen >= least, "r/%d is of version %d, %d was published" % (r, seen, least)


def bear():
    kill = [child(killed_fetching, k) for k in range(len(KILLS))]
    serve = child(killed_serving)
    for k, delay in enumerate(KILLS):
        await_mark("k%d" % k)
        time.sleep(delay)
        os.kill(kill[k], signal.SIGKILL)
        os.waitpid(kill[k], 0)
        through = os.path.exists(os.path.join(work, "k%d.through" % k))
        print("killed after %.0f ms, %s" % (delay * 1e3, "too late" if through else "in its fetches"))
        for i in range(LARGES):
            check("l%d/%d" % (k, i), LARGE)
    started("quick")
    fresh = child(started, "nested")
    execs, exits = child(leaves_by_exec), child(leaves_by_exit)
    await_mark("e")
    ended(exits)
    took = time.monotonic() - float(marked("e"))
    print("exit of a promoted guest: %.1f ms" % (took * 1e3))
    assert took < 0.5, took
    ended(execs)
    ended(fresh)
    await_mark("s")
    mark("serve")
    await_mark("begun")
    os.kill(serve, signal.SIGSTOP)  # whatever is asked of it from now on
    time.sleep(0.3)
    os.kill(serve, signal.SIGKILL)  # it does not answer
    os.waitpid(serve, 0)
    rereaders = [child(rereads, r) for r in range(2)]
    for pid in rereaders:
        ended(pid)
    ended(child(waits_for_nothing))
    print("bear: all right", flush=True)


# --- node 2 ---


def fetch():
    await_mark("serve")
    for i in range(4):
        check("out/%d" % i, BIG)
        if i == 0:
            mark("begun")
    print("fetch: all right", flush=True)


{"feed": feed, "bear": bear, "fetch": fetch, "after": after, "quick": quick, "nested": nested}[sys.argv[1]]()
