/* cases_lock.c - the program's own locks: they are granted, kept out and given up as
 * without us */
#include "conform.h"

#include <sys/file.h>

struct range {
    const char *name;
    off_t start, len;
};
static const struct range ranges[] = {
    {"all", 0, 0},           {"begin", 0, 10},     {"tail", 5, 0},
    {"behind", 1L << 40, 0}, {"negative", 10, -5}, {"far", 1L << 61, 100},
};

static int try_lock(int fd, int cmd, short type, const struct range *range)
{
    struct flock lock = {
        .l_type = type, .l_whence = SEEK_SET, .l_start = range->start, .l_len = range->len};

    return fcntl(fd, cmd, &lock);
}

/* Who asks in the child sees the lock, and gets it after the unlock. */
static void record_lock(long cmd, long which)
{
    const struct range *range = &ranges[which];
    struct flock lock = {.l_type = F_WRLCK, .l_start = range->start, .l_len = range->len};
    int fd = R(open("f", O_RDWR | O_CREAT, 0644));

    R(write(fd, "content", 7));
    R(try_lock(fd, (int)cmd, F_WRLCK, range));
    CHILD({
        int own = open("f", O_RDWR);

        R(try_lock(own, (int)cmd, F_RDLCK, range));
        R(fcntl(own, cmd == F_OFD_SETLK ? F_OFD_GETLK : F_GETLK, &lock));
        R(lock.l_type);
        R(lock.l_start);
        R(lock.l_len);
        R(lock.l_whence);
        R(lock.l_pid == getppid());
        R(lock.l_pid == -1);
    });
    R(try_lock(fd, (int)cmd, F_UNLCK, range));
    CHILD({
        int own = open("f", O_RDWR);

        R(try_lock(own, (int)cmd, F_WRLCK, range));
        R(write(own, "CON", 3));
        close(own);
    });
    R(close(fd));
    show("f");
}

/* The byte that marks a writer is not seen by one who asks for all locks. */
static void nobody_holds(long cmd, long flags)
{
    struct flock lock = {.l_type = F_WRLCK};
    int fd, other;

    put("f", "content");
    fd = R(open("f", O_RDWR));
    other = R(open("f", (int)flags));
    R(fcntl(other, (int)cmd, &lock));
    R(lock.l_type);
    R(lock.l_start);
    R(lock.l_len);
    R(close(fd));
    R(close(other));
}

static void whole_file(long how, long unused)
{
    int fd = R(open("f", O_RDWR | O_CREAT, 0644)), copy, other;

    (void)unused;
    switch (how) {
    case 0:
        R(flock(fd, LOCK_EX));
        other = R(open("f", O_RDWR));
        R(flock(other, LOCK_SH | LOCK_NB));
        copy = R(dup(fd));
        R(flock(copy, LOCK_UN));
        R(flock(other, LOCK_SH | LOCK_NB));
        R(flock(fd, LOCK_EX | LOCK_NB));
        break;
    case 1: /* goes with the last copy */
        R(flock(fd, LOCK_EX));
        copy = R(dup(fd));
        R(close(fd));
        other = R(open("f", O_RDONLY));
        R(flock(other, LOCK_EX | LOCK_NB));
        R(close(copy));
        R(flock(other, LOCK_EX | LOCK_NB));
        break;
    case 2: /* inherited */
        R(flock(fd, LOCK_EX));
        CHILD(int own = open("f", O_RDWR); R(flock(own, LOCK_EX | LOCK_NB));
              R(flock(fd, LOCK_UN)); R(flock(own, LOCK_EX | LOCK_NB)));
        R(flock(fd, LOCK_EX | LOCK_NB));
        break;
    case 3: /* of a reader */
        R(write(fd, "x", 1));
        R(close(fd));
        fd = R(open("f", O_RDONLY));
        R(flock(fd, LOCK_EX | LOCK_NB));
        R(flock(fd, LOCK_SH));
        other = R(open("f", O_WRONLY));
        R(flock(other, LOCK_EX | LOCK_NB));
        R(write(other, "y", 1));
        R(close(other));
        break;
    default:
        R(flock(99, LOCK_EX));
        R(flock(fd, 77));
        break;
    }
    show("f");
}

static void posix_file_lock(long which, long unused)
{
    int fd = R(open("f", O_RDWR | O_CREAT, 0644));

    (void)unused;
    R(write(fd, "0123456789", 10));
    switch (which) {
    case 0:
        R(lockf(fd, F_LOCK, 0));
        R(lseek(fd, 2, SEEK_SET));
        R(lockf(fd, F_TEST, 0));
        CHILD(int own = open("f", O_RDWR); R(lockf(own, F_TEST, 0));
              R(lockf(own, F_TLOCK, 5)); R(lseek(own, 10, SEEK_SET));
              R(lockf(own, F_TEST, 0)));
        R(lockf(fd, F_ULOCK, 0));
        break;
    case 1:
        R(lockf(fd, F_TLOCK, -5));
        CHILD(int own = open("f", O_RDWR); R(lockf64(own, F_TLOCK, 5));
              R(lockf64(own, F_TLOCK, 6)));
        R(lockf(fd, F_ULOCK, -5));
        break;
    case 2:
        R(lockf(fd, 77, 0));
        R(lockf(99, F_LOCK, 0));
        R(lockf(fd, F_LOCK, -100));
        break;
    case 3: /* lost when any descriptor of the file is closed */
        R(lockf(fd, F_LOCK, 0) /* at 10 */);
        R(lseek(fd, 0, SEEK_SET));
        R(lockf(fd, F_LOCK, 0));
        R(close(R(open("f", O_RDONLY))));
        CHILD(int own = open("f", O_RDWR); R(lockf(own, F_TLOCK, 0)));
        break;
    default: /* waits until its holder is gone */
        R(lseek(fd, 0, SEEK_SET));
        R(lockf(fd, F_LOCK, 0));
        int ready[2];

        R(pipe(ready));
        pid_t pid = spawn();
        if (pid == 0) {
            int own = open("f", O_RDWR);

            if (write(ready[1], "r", 1) != 1)
                _exit(1);
            R(lockf(own, F_LOCK, 0));
            R(write(own, "AFTER", 5));
            _exit(0);
        }
        char c;

        R(read(ready[0], &c, 1));
        R(write(fd, "first", 5));
        R(close(fd));
        reap(pid);
        break;
    }
    show("f");
}

static void across_exec(long cmd, long unused)
{
    struct range all = {"all", 0, 0};
    int fd = R(open("f", O_RDWR | O_CREAT, 0644));

    (void)unused;
    R(try_lock(fd, (int)cmd, F_WRLCK, &all));
    exec_verb("lock", "f");
    R(close(fd));
    exec_verb("lock", "f");
}

static void bad(long unused, long unused2)
{
    struct flock lock = {.l_type = F_WRLCK};
    int fd = R(open("f", O_RDONLY | O_CREAT, 0644));

    (void)unused, (void)unused2;
    R(fcntl(fd, F_SETLK, &lock));
    lock.l_type = 77;
    R(fcntl(fd, F_SETLK, &lock));
    lock.l_type = F_RDLCK;
    lock.l_whence = 9;
    R(fcntl(fd, F_SETLK, &lock));
    lock.l_whence = SEEK_SET;
    lock.l_start = -1;
    R(fcntl(fd, F_SETLK, &lock));
    lock.l_start = 0;
    lock.l_pid = 5;
    R(fcntl(fd, F_OFD_SETLK, &lock));
    lock.l_pid = 0;
    R(fcntl(99, F_SETLK, &lock));
    lock.l_whence = SEEK_END;
    R(fcntl(fd, F_SETLK, &lock));
    lock.l_whence = SEEK_CUR;
    R(fcntl(fd, F_SETLKW, &lock));
    R(fcntl(fd, F_SETLK, (struct flock *)8));
}

static void leases(long unused, long unused2)
{
    int fd;

    (void)unused, (void)unused2;
    put("f", "x");
    fd = R(open("f", O_RDONLY));
    R(fcntl(fd, F_SETLEASE, F_RDLCK));
    R(fcntl(fd, F_GETLEASE));
    R(fcntl(fd, F_SETLEASE, F_UNLCK));
    R(fcntl(fd, F_SETSIG, 0));
    R(fcntl(fd, F_GETOWN));
    R(fcntl(fd, F_GETPIPE_SZ));
}

void add_lock_cases(void)
{
    for (long which = 0; which < 6; which++) {
        conform_add(record_lock, F_SETLK, which, "lock.posix.%s", ranges[which].name);
        conform_add(record_lock, F_OFD_SETLK, which, "lock.ofd.%s", ranges[which].name);
    }
    conform_add(nobody_holds, F_GETLK, O_RDWR, "lock.none.posix");
    conform_add(nobody_holds, F_OFD_GETLK, O_RDWR, "lock.none.ofd");
    conform_add(nobody_holds, F_OFD_GETLK, O_RDONLY, "lock.none.ofd_reader");
    for (long how = 0; how < 5; how++)
        conform_add(whole_file, how, 0, "lock.flock.%ld", how);
    for (long which = 0; which < 5; which++)
        conform_add(posix_file_lock, which, 0, "lock.lockf.%ld", which);
    conform_add(across_exec, F_SETLK, 0, "lock.exec.posix");
    conform_add(across_exec, F_OFD_SETLK, 0, "lock.exec.ofd");
    ADD("lock", bad);
    ADD("lock", leases);
}
