"""faults.py produce|consume [CASE...] - each fault and trap of the kind of library that this is, as a case

Run in the managed directory. A case is a pair of functions with its name: what the producer does, and what the consumer on
the other node must find. DONE: a directory outside, for what must not be said through the managed one.
"""
import ctypes
import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
libc.fopen.restype = ctypes.c_void_p
libc.fopen.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
libc.fclose.argtypes = [ctypes.c_void_p]
libc.fputs.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
libc.fputws.argtypes = [ctypes.c_wchar_p, ctypes.c_void_p]
libc.fgets.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p]
libc.fgets.restype = ctypes.c_char_p
libc.fgetws.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]

DONE = os.environ["DONE"]
DMD = os.environ["DYAD_PATH"]
PRODUCE, CONSUME = [], []


def produce(function):
    PRODUCE.append(function)
    return function


def consume(function):
    CONSUME.append(function)
    return function


def put(name, text, flags=os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode=0o644):
    fd = os.open(name, flags, mode)
    os.write(fd, text.encode())
    os.close(fd)


def get(name, flags=os.O_RDONLY, mode=0):
    fd = os.open(name, flags, mode)
    text = os.read(fd, 100000).decode()
    os.close(fd)
    return text


def same(got, wanted):
    assert got == wanted, (got, wanted)


# --- tests `mode` instead of `oflag` ---

MODES = (0o644, 0o444, 0o200, 0o000, 0o777)


@produce
def oflag_not_mode():
    for mode in MODES:
        put("mode.%o" % mode, "mode %o" % mode, os.O_WRONLY | os.O_CREAT, mode)


@consume
def oflag_not_mode_read():
    for mode in MODES:
        # A read is one whatever the third argument says.
        same(get("mode.%o" % mode, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666), "mode %o" % mode)


# --- compares fopen modes with strcmp ---

WRITE_MODES = ("w", "wb", "wt", "w+", "w+b", "wb+", "we", "wx", "wbx", "wxe", "w+x", "wc", "wm", "wce", "a", "ab", "a+", "ab+", "a+b", "ae")
READ_MODES = ("r", "rb", "rt", "re", "rbe", "rm", "rc", "rmce")
UPDATE_MODES = ("r+", "rb+", "r+b", "r+e", "a+", "ab+")


def stream(name, mode):
    f = libc.fopen(name.encode(), mode.encode())
    assert f, (name, mode, os.strerror(ctypes.get_errno()))
    return f


@produce
def fopen_modes():
    for mode in WRITE_MODES:
        f = stream("fopen." + mode, mode)
        libc.fputs(mode.encode(), f)
        assert libc.fclose(f) == 0
    f = stream("fopen.ccs", "w,ccs=UTF-8")
    libc.fputws("wide \u00e9", f)
    assert libc.fclose(f) == 0
    for mode in UPDATE_MODES:
        put("update." + mode, "before")
        f = stream("update." + mode, mode)
        libc.fputs(b"AFTER.", f)
        assert libc.fclose(f) == 0
        put("updated." + mode, "")


@consume
def fopen_modes_read():
    line = ctypes.create_string_buffer(100)
    for i, mode in enumerate(WRITE_MODES):
        f = stream("fopen." + mode, READ_MODES[i % len(READ_MODES)])
        same(libc.fgets(line, 100, f), mode.encode())
        libc.fclose(f)
    wide = ctypes.create_unicode_buffer(100)
    f = stream("fopen.ccs", "r,ccs=UTF-8")
    assert libc.fgetws(wide, 100, f)
    libc.fclose(f)
    same(wide.value, "wide \u00e9")
    for mode in UPDATE_MODES:
        get("updated." + mode)
        same(get("update." + mode), "AFTER." if mode[0] == "r" else "beforeAFTER.")


# --- publishes O_WRONLY only ---


@produce
def read_write_is_published():
    put("rdwr.1", "read-write", os.O_RDWR | os.O_CREAT)
    put("rdwr.2", "exclusive", os.O_RDWR | os.O_CREAT | os.O_EXCL)
    put("rdwr.3", "append", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    with open("rdwr.4", "w+") as f:
        f.write("streams")
        f.seek(0)
        same(f.read(), "streams")


@consume
def read_write_is_published_read():
    for i, text in enumerate(("read-write", "exclusive", "append", "streams")):
        same(get("rdwr.%d" % (i + 1)), text)


# --- empty files are an error ---


@produce
def empty_files():
    put("empty.1", "")
    open("empty.2", "w").close()
    subprocess.run(["touch", "empty.3"], check=True)
    subprocess.run(": >empty.4; truncate -s 0 empty.5", shell=True, check=True)


@consume
def empty_files_read():
    for i in range(1, 6):
        same(get("empty.%d" % i), "")
        same(os.stat("empty.%d" % i).st_size, 0)


# --- a consumer killed in a fetch leaves a partial file that counts as complete ---

BIG = 48 << 20


@produce
def killed_in_a_fetch():
    with open("big", "wb") as f:
        for i in range(BIG >> 20):
            f.write(bytes([i]) * (1 << 20))


@consume
def killed_in_a_fetch_read():
    killed = 0
    child = subprocess.Popen(["cat", "big"], stdout=subprocess.DEVNULL)
    while child.poll() is None:
        if os.path.isdir(".dyad/tmp") and any(os.stat(".dyad/tmp/" + t).st_blocks for t in os.listdir(".dyad/tmp") if os.path.exists(".dyad/tmp/" + t)):
            child.kill()
            killed = 1
            break
    child.wait()
    with open("big", "rb") as f:
        for i in range(BIG >> 20):
            assert f.read(1 << 20) == bytes([i]) * (1 << 20), i
        assert not f.read(1)
    print("killed in the fetch: %d" % killed)


# --- a rewritten file is never seen again ---


@produce
def rewritten():
    for version in range(1, 6):
        put("rewritten", "version %d" % version)  # of one size
        put("rewritten.%d" % version, "")
        get("rewritten.seen.%d" % version)


@consume
def rewritten_read():
    for version in range(1, 6):
        get("rewritten.%d" % version)
        same(get("rewritten"), "version %d" % version)
        put("rewritten.seen.%d" % version, "")


# --- waits are unbounded ---


@consume
def bounded_wait():
    begin = time.monotonic()
    child = subprocess.run(["cat", "nobody_writes_this"], env=dict(os.environ, DYAD_TIMEOUT="1"), stderr=subprocess.PIPE, text=True)
    assert child.returncode == 1 and "timed out" in child.stderr, child
    assert 0.9 < time.monotonic() - begin < 8
    open(DONE + "/bounded", "w").close()


@produce
def bounded_wait_meanwhile():
    while not os.path.exists(DONE + "/bounded"):  # somebody is at work, so there is no other verdict
        time.sleep(0.05)


# --- ".." is not checked ---


@produce
def dot_dot():
    os.makedirs("sub", exist_ok=True)
    put("sub/below", "below")
    put(DMD + "/sub/../climbed", "climbed")
    put(DMD + "/../" + os.path.basename(DMD) + "/around", "around")
    put(DMD + "/../outside." + os.path.basename(DMD), "outside")
    same(get(DMD + "/../outside." + os.path.basename(DMD)), "outside")


@consume
def dot_dot_read():
    same(get("climbed"), "climbed")
    same(get("sub/below"), "below")
    same(get("sub/../around"), "around")
    begin = time.monotonic()
    for name in (DMD + "/../nothing", "../nothing", DMD + "/sub/../../nothing"):
        try:
            get(name)
            assert False, name
        except FileNotFoundError:
            pass
    assert time.monotonic() - begin < 1, "waited for what is outside"


# --- umask leaks ---


@produce
def umask_is_kept():
    for mask, mode in ((0o077, 0o666), (0o000, 0o666), (0o027, 0o777)):
        os.umask(mask)
        put("umask.%03o" % mask, "x", mode=mode)
        same(os.stat("umask.%03o" % mask).st_mode & 0o777, mode & ~mask)
        same(os.umask(0o022), mask)


@consume
def umask_is_kept_read():
    for mask, mode in ((0o077, 0o600), (0o000, 0o666), (0o027, 0o750)):
        os.umask(0o077)
        same(get("umask.%03o" % mask), "x")
        same(os.umask(0o022), 0o077)
        same(os.stat("umask.%03o" % mask).st_mode & 0o777, mode)


# --- traps ---


@produce
def trap_1_vfork():
    """subprocess closes descriptors in the child of vfork, in our memory."""
    held = open("trap.1", "w")
    held.write("begin ")
    held.flush()
    for _ in range(20):
        subprocess.run(["true"], close_fds=True, check=True)
    time.sleep(0.05)
    held.write("end")
    held.close()


@produce
def trap_2_redirection():
    for shell in ("bash", "dash"):
        subprocess.run([shell, "-c", "echo a >trap.2.%s; seq 100 >trap.2.%s.seq; dd if=/dev/zero of=trap.2.%s.dd bs=1k count=9 2>/dev/null" % ((shell,) * 3)], check=True)


@produce
def trap_3_exit():
    for how in ("sys.exit(0)", "pass", "f.flush(); os._exit(0)"):
        name = "trap.3." + how[:4].strip(".;(")
        subprocess.run([sys.executable, "-c", "import os, sys\nf = open(%r, 'w')\nf.write('x' * 5000)\n%s" % (name, how)], check=True)
    subprocess.run(["perl", "-e", "open F, '>', 'trap.3.perl'; print F 'unflushed'; exit 0"], check=True)


@produce
def trap_5_foreign_closes():
    subprocess.run([sys.executable, "-c", """
import os
for i in range(3):
    open("trap.5.%d" % i, "w").write("before")
    os.closerange(3, 100000)
    with open("trap.5.%d" % i, "w") as f: f.write("after %d" % i)
for fd in range(3, 1024):
    try: os.close(fd)
    except OSError: pass
with open("trap.5.3", "w") as f: f.write("after 3")
"""], check=True)
    subprocess.run(["bash", "-c", "exec 10>trap.5.4 200>trap.5.5; echo ten >&10; echo more >&200; exec 10>&- 200>&-; (exec 255>&-; true)"], check=True)


@produce
def trap_6_locks():
    """What we open and close of a file must not end the program's locks on it."""
    put("trap.6", "locked")
    fd = os.open("trap.6", os.O_RDWR)
    fcntl.lockf(fd, fcntl.LOCK_EX)
    asks = "import fcntl, sys\ntry: fcntl.lockf(open('trap.6', 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)\nexcept OSError: sys.exit(9)"
    for step in (lambda: None, lambda: os.stat("trap.6"), lambda: put("trap.6.other", "x"), lambda: os.write(fd, b"LOCKED"), lambda: os.fsync(fd), lambda: os.rename("trap.6", "trap.6.away"), lambda: os.rename("trap.6.away", "trap.6"), lambda: subprocess.run(["true"])):
        step()
        same(subprocess.run([sys.executable, "-c", asks]).returncode, 9)
    flocked = os.open("trap.6.flock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(flocked, fcntl.LOCK_EX)
    same(subprocess.run(["flock", "-n", "trap.6.flock", "true"]).returncode, 1)
    os.close(flocked)
    same(subprocess.run(["flock", "-n", "trap.6.flock", "true"]).returncode, 0)
    os.close(fd)


@produce
def trap_6_locks_over_exec():
    """A lock of fcntl lasts over exec; the new image looks at what it inherited."""
    put("trap.6.exec", "x")
    ready, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        fd = os.open("trap.6.exec", os.O_RDWR)
        fcntl.lockf(fd, fcntl.LOCK_EX)
        os.set_inheritable(fd, True)
        os.set_inheritable(go, True)
        os.execvp("sh", ["sh", "-c", "echo >&%d; exec sleep 30" % go])
    os.close(go)
    os.read(ready, 1)
    time.sleep(0.1)  # the second exec
    try:
        with open("trap.6.exec", "r+") as f:
            fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert False, "the lock is gone"
    except BlockingIOError:
        pass
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@produce
def created_for_reading():
    """As flock does: O_RDONLY | O_CREAT of what is published elsewhere is not a new empty file."""
    put("created", "by the producer")
    put("created.after", "")


@consume
def created_for_reading_read():
    get("created.after")
    same(get("created", os.O_RDONLY | os.O_CREAT, 0o644), "by the producer")


@produce
def trap_7_errno():
    ctypes.set_errno(1234)
    for call, args in ((libc.open, (b"trap.7", os.O_WRONLY | os.O_CREAT, 0o644)), (libc.open, (b"trap.7", os.O_RDONLY)), (libc.stat, (b"trap.7", ctypes.create_string_buffer(500)))):
        ctypes.set_errno(1234)
        rc = call(*args)
        assert rc >= 0, rc
        same(ctypes.get_errno(), 1234)
        if rc > 2:
            libc.close(rc)
            same(ctypes.get_errno(), 1234)
    for call in (lambda: libc.open(None, 0), lambda: libc.openat(-100, None, 0), lambda: libc.unlink(None), lambda: libc.rename(None, b"x"), lambda: libc.rename(b"trap.7", None), lambda: libc.access(None, 0), lambda: libc.mkdir(None, 0), lambda: libc.truncate(None, 0), lambda: libc.chdir(None)):
        ctypes.set_errno(0)
        same(call(), -1)
        same(ctypes.get_errno(), errno.EFAULT)
    ctypes.set_errno(0)
    same(libc.close(-1), -1)
    same(ctypes.get_errno(), errno.EBADF)
    assert not libc.fopen(b"trap.7", b"nonsense") and ctypes.get_errno() == errno.EINVAL
    put("trap.7", "errno")


@produce
def trap_8_environment():
    subprocess.run(["cp", "/dev/stdin", "trap.8"], input="bare", text=True, env={}, check=True)
    subprocess.run(["env", "-i", "sh", "-c", "echo bare >trap.8.env"], check=True)
    subprocess.run("unset LD_PRELOAD; sh -c 'echo unset >trap.8.unset'", shell=True, check=True)


@produce
def trap_9_threads():
    def work(n):
        for i in range(10):
            put("trap.9.%d.%d" % (n, i), str(i))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]


@produce
def trap_10_fork():
    """The child of a member goes on, and so does the member."""
    for i in range(3):
        pid = os.fork()
        if pid == 0:
            put("trap.10.child.%d" % i, "child")
            same(get("trap.10.child.%d" % i), "child")
            get("trap.10.answer")  # of the other node
            os._exit(0)
        put("trap.10.parent.%d" % i, "parent")
        same(os.waitpid(pid, 0)[1], 0)


@consume
def trap_10_fork_answer():
    get("trap.10.child.0")
    put("trap.10.answer", "")


@produce
def trap_11_start():
    """A guest that touches nothing has no thread, no library, no descriptor of ours."""
    script = "import os; print(len(os.listdir('/proc/self/task')), 'libdyad.so' in open('/proc/self/maps').read(), sorted(map(int, os.listdir('/proc/self/fd')))[-1] < 10)"
    out = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True, cwd="/").stdout
    same(out, "1 False True\n")


@consume
def traps_read():
    same(get("trap.1"), "begin end")
    for shell in ("bash", "dash"):
        same(get("trap.2." + shell), "a\n")
        same(get("trap.2.%s.seq" % shell), "".join("%d\n" % i for i in range(1, 101)))
        same(len(get("trap.2.%s.dd" % shell)), 9216)
    for how in ("sys", "pass", "f.fl"):
        same(get("trap.3." + how), "x" * 5000)
    same(get("trap.3.perl"), "unflushed")
    get("trap.5.5")
    for i in range(4):
        same(get("trap.5.%d" % i), "after %d" % i)
    same(get("trap.5.4"), "ten\n")
    same(get("trap.5.5"), "more\n")
    get("trap.7")
    same(get("trap.6"), "LOCKED")
    same(get("trap.8"), "bare")
    same(get("trap.8.env"), "bare\n")
    same(get("trap.8.unset"), "unset\n")
    for n in range(8):
        for i in range(10):
            same(get("trap.9.%d.%d" % (n, i)), str(i))
    for i in range(3):
        same(get("trap.10.parent.%d" % i), "parent")
        same(get("trap.10.child.%d" % i), "child")


failed = 0
for case in PRODUCE if sys.argv[1] == "produce" else CONSUME:
    if sys.argv[2:] and case.__name__ not in sys.argv[2:]:
        continue
    begin = time.monotonic()
    try:
        case()
        print("%s: ok (%.2f s)" % (case.__name__, time.monotonic() - begin), flush=True)
    except Exception as error:
        print("%s: FAILED at line %d: %r" % (case.__name__, error.__traceback__.tb_next.tb_lineno if error.__traceback__.tb_next else 0, error), flush=True)
        failed = 1
sys.exit(failed)
