"""Two ranks on two nodes, and the locks (fcntl) of one file that both have open: each case of what becomes of them.

W, SSD, PMIX_RANK as in the other tests. Rank 0 holds what rank 1 wants, and after that the other way round."""
import errno, fcntl, os, signal, struct, threading, time

W, SSD, me = os.environ["W"], os.environ["SSD"], int(os.environ["PMIX_RANK"])
steps = 0


def barrier():
    global steps
    steps += 1
    open(f"{W}/at.{steps}.{me}", "x").close()
    while not all(os.path.exists(f"{W}/at.{steps}.{r}") for r in range(2)):
        time.sleep(0.001)


def check(ok, what):
    if not ok:
        print(f"rank {me}, step {steps}: {what}", flush=True)
        os._exit(3)


def lock(fd, kind, length=10, start=0):
    fcntl.lockf(fd, kind, length, start)


def refused(fd, kind=fcntl.LOCK_EX, length=10, start=0):
    """errno of a lock that is not waited for; 0: it was had, and is given up."""
    try:
        lock(fd, kind | fcntl.LOCK_NB, length, start)
    except OSError as e:
        return e.errno
    lock(fd, fcntl.LOCK_UN, length, start)
    return 0


def tested(fd, start, length):
    """The type of lock that is in the way of one for writing."""
    flock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
    return struct.unpack("hhqqi4x", fcntl.fcntl(fd, fcntl.F_GETLK, flock))[0]


def made(name):
    path = f"{SSD}/{name}"
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    os.pwrite(fd, b"%d" % me, me)
    barrier()
    return path, fd


for holder in 0, 1:
    # Held: not had at once, nor half of it, nor from a process of the holder's; what is beside it is had.
    path, fd = made(f"held.{holder}")
    if me == holder:
        lock(fd, fcntl.LOCK_EX)
        pid = os.fork()
        if pid == 0:  # has none of its parent's
            check(refused(fd) == errno.EAGAIN, "a child has its parent's lock")
            os._exit(0)
        check(os.waitpid(pid, 0)[1] == 0, "the child failed")
    barrier()
    if me != holder:
        check(refused(fd) == errno.EAGAIN, "it was had")
        check(refused(fd, fcntl.LOCK_SH, 1, 9) == errno.EAGAIN, "the last byte was had")
        check(refused(fd, fcntl.LOCK_EX, 0, 5) == errno.EAGAIN, "all from there on was had")
        check(refused(fd, fcntl.LOCK_EX, 5, 10) == 0, "what is behind it was not had")
        check(tested(fd, 0, 10) == fcntl.F_WRLCK and tested(fd, 10, 10) == fcntl.F_UNLCK, "F_GETLK")
        try:
            os.lseek(fd, 0, os.SEEK_SET)
            os.lockf(fd, os.F_TEST, 3)
            check(False, "lockf(F_TEST) says that it is free")
        except OSError as e:
            check(e.errno == errno.EACCES, f"lockf(F_TEST): {e}")
    else:
        check(tested(fd, 0, 10) == fcntl.F_UNLCK, "its own lock is in its way")
        lock(fd, fcntl.LOCK_EX)  # what it has
    barrier()

    # A part of it is given up.
    if me == holder:
        lock(fd, fcntl.LOCK_UN, 4, 3)
    barrier()
    if me != holder:
        check(refused(fd, fcntl.LOCK_EX, 4, 3) == 0, "what was given up was not had")
        check(refused(fd, fcntl.LOCK_EX, 1, 2) == errno.EAGAIN, "what is before it was had")
        check(refused(fd, fcntl.LOCK_EX, 1, 7) == errno.EAGAIN, "what is behind it was had")
    barrier()

    # Waited for: it comes when the holder closes the file, by whatever descriptor.
    if me == holder:
        other = os.open(path, os.O_RDWR)
        time.sleep(0.02)  # the other one waits by now, or does not: both are right
        os.close(other)
    else:
        lock(fd, fcntl.LOCK_EX, 0)
        check(os.pread(fd, 10, 0) == b"01", "what the holder had written is not read")
        lock(fd, fcntl.LOCK_UN, 0)
    barrier()

    # Readers share it.
    lock(fd, fcntl.LOCK_SH)
    barrier()
    check(refused(fd, fcntl.LOCK_EX, 5, 20 + 10 * me) == 0, "what nobody has")
    if me == holder:
        lock(fd, fcntl.LOCK_UN)
    barrier()
    if me == holder:
        check(refused(fd) == errno.EAGAIN, "the other one reads still")
        check(refused(fd, fcntl.LOCK_SH) == 0, "two may read")
    barrier()
    lock(fd, fcntl.LOCK_UN)

    # A timer ends the wait, and nothing of it is left.
    barrier()
    if me == holder:
        lock(fd, fcntl.LOCK_EX)
    barrier()
    if me != holder:
        class Alarm(Exception):
            pass

        def ring(number, frame):
            raise Alarm

        signal.signal(signal.SIGALRM, ring)
        signal.siginterrupt(signal.SIGALRM, True)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        try:
            lock(fd, fcntl.LOCK_EX)
            check(False, "it was had")
        except Alarm:
            pass
    barrier()
    if me == holder:
        lock(fd, fcntl.LOCK_UN)
        check(refused(fd) == 0, "who was interrupted has it")
    barrier()

    # The holder is killed.
    if me == holder:
        ready, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            lock(fd, fcntl.LOCK_EX)
            os.write(tell, b"x")
            signal.pause()
        os.read(ready, 1)
    barrier()
    if me != holder:
        check(refused(fd) == errno.EAGAIN, "it was had")
    barrier()
    if me == holder:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    else:
        lock(fd, fcntl.LOCK_EX)
        lock(fd, fcntl.LOCK_UN)
    barrier()

    # One thread waits, another gives up all that the process has, and wants some of the bytes, too.
    if me == holder:
        lock(fd, fcntl.LOCK_EX)
    barrier()
    if me != holder:
        had = []
        thread = threading.Thread(target=lambda: had.append(lock(fd, fcntl.LOCK_EX)))
        thread.start()
        for _ in range(20):
            check(refused(fd, fcntl.LOCK_SH, 3) == errno.EAGAIN, "a lock beside another thread's")
        lock(fd, fcntl.LOCK_UN, 0)
    barrier()
    if me == holder:
        lock(fd, fcntl.LOCK_UN)
    else:
        thread.join()
        check(len(had) == 1, "the thread has failed")
    barrier()
    if me == holder:
        check(refused(fd) == errno.EAGAIN, "the thread's process has it")
    barrier()
    if me != holder:
        lock(fd, fcntl.LOCK_UN)
    barrier()

    # Renamed while it is locked.
    if me == holder:
        lock(fd, fcntl.LOCK_EX)
        os.rename(path, path + ".new")
        lock(fd, fcntl.LOCK_UN)
        os.rename(path + ".new", path)
    barrier()
    if me != holder:
        check(refused(fd) == 0, "what was given up by another name")
    barrier()
    try:
        fcntl.fcntl(fd, fcntl.F_GETLK, struct.pack("hhqqi4x", fcntl.F_UNLCK, 0, 0, 1, 0))
        check(False, "F_GETLK of no lock")
    except OSError as e:
        check(e.errno == errno.EINVAL, f"F_GETLK of no lock: {e}")
    barrier()

    # Others are refused.
    for call in (lambda: fcntl.flock(fd, fcntl.LOCK_EX),
                 lambda: fcntl.fcntl(fd, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 1, 0))):  # F_OFD_SETLK
        try:
            call()
            check(False, "a lock of the description")
        except OSError as e:
            check(e.errno == errno.ENOLCK, f"a lock of the description: {e}")
    fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)
    barrier()

    # Of before the other node came: it counts, and is given up as any other.
    path = f"{SSD}/before.{holder}"
    if me == holder:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        lock(fd, fcntl.LOCK_EX)
    barrier()
    if me != holder:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        check(refused(fd) == errno.EAGAIN, "it was had")
    barrier()
    if me == holder:
        lock(fd, fcntl.LOCK_UN)
    else:
        lock(fd, fcntl.LOCK_EX)
        lock(fd, fcntl.LOCK_UN)
    barrier()
    os.close(fd)
    barrier()

    # Given up after something is written that cannot be recorded, and with a child that has the member's descriptors.
    path, fd = made(f"unrecorded.{holder}")
    if me == holder:
        lock(fd, fcntl.LOCK_EX)
        ready, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(tell)
            os.read(ready, 1)
            os._exit(0)
        fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND)
        lock(fd, fcntl.LOCK_UN, 0)
    barrier()
    if me != holder:
        check(refused(fd) == 0, "what was given up")
    barrier()
    if me == holder:
        os.close(tell)
        os.waitpid(pid, 0)
    barrier()
    try:
        os.close(fd)
    except OSError as e:  # neither node has all of it
        check(e.errno == errno.EIO, f"close: {e}")
    barrier()

    # The whole file, and a read in the midst.
    path, fd = made(f"all.{holder}")
    if me == holder:
        lock(fd, fcntl.LOCK_EX, 0)
        check(os.pread(fd, 10, 0) == b"01", "a read under a lock of all of it")
        lock(fd, fcntl.LOCK_UN, 0)
    barrier()
    os.close(fd)
    barrier()
