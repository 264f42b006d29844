"""trees.py produce|consume|guest INPUT - the ways in which Python programs have others write and read

Run in the managed directory. Each step of produce is named as the file that it makes, which is a copy of INPUT;
consume reads them all, through children of each kind.
"""
import concurrent.futures
import multiprocessing
import os
import pty
import subprocess
import sys
import threading

INPUT = sys.argv[2]
TEXT = open(INPUT).read()
METHODS = ("fork", "spawn", "forkserver")
STEPS = []


def step(function):
    STEPS.append(function)
    return function


# A command whose output ends some time after it was started.
SLOW_CAT = 'head -n 300 "$0"; sleep 0.05; tail -n +301 "$0"'


@step
def run(name):
    subprocess.run(["cp", INPUT, name], check=True)


@step
def run_leaky(name):
    subprocess.run(["cp", INPUT, name], check=True, close_fds=False)


@step
def run_shell(name):
    subprocess.run("cat %s >%s" % (INPUT, name), shell=True, check=True)


@step
def popen_stdout(name):
    with open(name, "wb") as out:
        child = subprocess.Popen(["sh", "-c", SLOW_CAT, INPUT], stdout=out)
    assert child.wait() == 0


@step
def popen_stdout_leaky(name):
    with open(name, "wb") as out:
        child = subprocess.Popen(["sh", "-c", SLOW_CAT, INPUT], stdout=out, close_fds=False)
    assert child.wait() == 0


@step
def popen_pipe(name):
    with open(name, "wb") as out, subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=out) as child:
        child.stdin.write(TEXT.encode())


@step
def popen_chain(name):
    with open(name, "wb") as out:
        first = subprocess.Popen(["cat", INPUT], stdout=subprocess.PIPE)
        second = subprocess.Popen(["cat"], stdin=first.stdout, stdout=out, close_fds=False)
    first.stdout.close()
    assert first.wait() == 0 and second.wait() == 0


@step
def pass_fds(name):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT, 0o644)
    child = subprocess.Popen(["sh", "-c", 'cat "$0" >&%d' % fd, INPUT], pass_fds=(fd,))
    os.close(fd)
    assert child.wait() == 0


@step
def inherited(name):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT, 0o644)
    os.set_inheritable(fd, True)
    child = subprocess.Popen(["sh", "-c", 'cat "$0" >&%d' % fd, INPUT], close_fds=False)
    os.close(fd)
    assert child.wait() == 0


@step
def preexec(name):
    child = subprocess.Popen(["sh", "-c", SLOW_CAT, INPUT], preexec_fn=lambda: os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT, 0o644), 1))
    assert child.wait() == 0


@step
def system(name):
    assert os.system("cat %s >%s" % (INPUT, name)) == 0


@step
def popen(name):
    with os.popen("cat >" + name, "w") as out:
        out.write(TEXT)


@step
def spawn_dup2(name):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT, 0o644)
    pid = os.posix_spawn("/bin/cat", ["cat", INPUT], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, fd, 1), (os.POSIX_SPAWN_CLOSE, fd)])
    os.close(fd)
    assert os.waitpid(pid, 0)[1] == 0


@step
def spawn_open(name):
    """The file is opened inside of libc."""
    pid = os.posix_spawn("/bin/cat", ["cat", INPUT], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)])
    assert os.waitpid(pid, 0)[1] == 0


@step
def spawn_bare(name):
    """The environment of the child is rebuilt."""
    pid = os.posix_spawn("/bin/cp", ["cp", INPUT, name], {"PATH": os.environ["PATH"]})
    assert os.waitpid(pid, 0)[1] == 0


@step
def fork_exit(name):
    pid = os.fork()
    if pid == 0:
        os.write(os.open(name, os.O_WRONLY | os.O_CREAT, 0o644), TEXT.encode())
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0


@step
def fork_parent_first(name):
    """Parent and child hold it; the parent closes first."""
    fd = os.open(name, os.O_WRONLY | os.O_CREAT, 0o644)
    gate, opened = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(opened)
        os.read(gate, 1)
        os.write(fd, TEXT.encode())
        os._exit(0)
    os.close(fd)
    os.close(gate)
    os.close(opened)
    assert os.waitpid(pid, 0)[1] == 0


@step
def fork_child_first(name):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT, 0o644)
    half = len(TEXT) // 2
    pid = os.fork()
    if pid == 0:
        os.write(fd, TEXT[:half].encode())
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    os.write(fd, TEXT[half:].encode())
    os.close(fd)


@step
def fork_pty(name):
    pid, fd = pty.fork()
    if pid == 0:
        with open(name, "w") as out:
            out.write(TEXT)
        os._exit(0)
    try:
        while os.read(fd, 1000):
            pass
    except OSError:
        pass
    assert os.waitpid(pid, 0)[1] == 0


@step
def double_fork(name):
    """As daemons are made: nobody waits for it."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            subprocess.run(["sh", "-c", "{ %s; } >%s" % (SLOW_CAT, name), INPUT])
        os._exit(0)
    os.wait()


@step
def fork_in_thread(name):
    def work():
        pid = os.fork()
        if pid == 0:
            with open(name, "w") as out:
                out.write(TEXT)
            os._exit(0)
        os.waitpid(pid, 0)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def copy(name):
    with open(name, "w") as out:
        out.write(TEXT)
    return name


def sixteen(name):
    return ["%s.%d" % (name, i) for i in range(16)]


def pool(method):
    def work(name):
        with multiprocessing.get_context(method).Pool(4) as workers:
            assert workers.map(copy, sixteen(name)) == sixteen(name)
        copy(name)

    work.__name__ = "pool_" + method
    return work


for how in METHODS:
    step(pool(how))


@step
def executor(name):
    with concurrent.futures.ProcessPoolExecutor(3) as workers:
        list(workers.map(copy, sixteen(name)))
    copy(name)


@step
def process_left(name):
    """A child that the interpreter waits for at its end only."""
    multiprocessing.get_context("fork").Process(target=copy, args=(name,)).start()


def same(name):
    with open(name) as file:
        return file.read() == TEXT


def consume():
    names = [s.__name__ for s in STEPS]
    pools = [n for n in names if n.startswith("pool_") or n == "executor"]
    files = names + [f for n in pools for f in sixteen(n)]
    # All at once, from four processes, while they are being written.
    with multiprocessing.get_context("fork").Pool(4) as workers:
        bad = [f for f, right in zip(files, workers.map(same, files, 1)) if not right]
    assert not bad, bad
    for method in METHODS[1:]:
        with multiprocessing.get_context(method).Pool(2) as workers:
            assert all(workers.map(same, files)), method
    for close_fds in (False, True):
        for name in names[:6]:
            with open(name) as file:
                out = subprocess.run(["cat"], stdin=file, stdout=subprocess.PIPE, text=True, close_fds=close_fds, check=True)
            assert out.stdout == TEXT, name
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        assert all(threads.map(same, files))


def guest():
    """What a child that writes and reads has become: nothing but itself."""
    copy("guest_wrote")
    assert same("run")
    threads = os.listdir("/proc/self/task")
    maps = open("/proc/self/maps").read()
    assert "libdyad.so" in maps, "it did not use the library"
    assert len(threads) == 1, threads
    for library in ("libuc", "libpmix", "libcrypto", "libdyad_member", "libjansson"):
        assert library not in maps, library


if __name__ == "__main__":
    if sys.argv[1] == "guest":
        guest()
    elif sys.argv[1] == "consume":
        consume()
    else:
        for s in STEPS:
            try:
                s(s.__name__)
            except Exception as error:
                print("trees.py: %s: %r" % (s.__name__, error), file=sys.stderr)
                raise
        subprocess.run([sys.executable, __file__, "guest", INPUT], check=True)
