/*
 * fdtable.c - close_range(CLOSE_RANGE_UNSHARE), guards, and a thread that stays behind
 *
 * The calling thread leaves the program's table, fetches from it the descriptors to keep,
 * and puts guards at the low numbers and a marker above them; threads that it creates
 * share its table. System calls are made directly: the libc names may be interposed.
 *
 * What could go wrong: a kernel lacks a call, or a container forbids it
 * (unshare_keeping(), boot_fdtable_move()); once a thread has unshared there is no way
 * back, so a thread that will have the program's table is created before (the host
 * thread: it only sleeps, and creates others on request); threads of a library that has
 * aborted keep the private table, and what is open in it (boot_fdtable_move()).
 */
#include "boot/fdtable.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/fd_close.h"
#include "util/stack.h"

#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1U << 1)
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

#define FLOOR_WANTED   512
#define KEEP_MAX       16
#define OLD_KERNEL_FDS 65536
#define HOST_STACK     (64 * 1024)

/* The marker, by which the table of a thread is recognised: a memfd at a number just
 * above the guards. A thread is ours if its descriptor of that number is that file, so
 * threads that libraries create need no registration. The marker is written once, before
 * any other thread of the private table exists; `number` is last, with release order, as
 * threads of the program may look at any time. */
static struct {
    dev_t dev;
    ino_t ino;
    int number; /* 0: no private table yet */
} marker;

/* The host thread's mailbox: one request at a time. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool running, wanted, answered;
    pid_t pid; /* a forked child has no host thread */
    void *(*fn)(void *arg);
    void *arg;
    pthread_t thread;
    int rc;
} host = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void *host_main(void *arg)
{
    (void)arg;
    prctl(PR_SET_NAME, "dyad-host");
    pthread_mutex_lock(&host.lock);
    for (;;) {
        while (!host.wanted)
            pthread_cond_wait(&host.changed, &host.lock);
        host.wanted = false;
        host.rc = pthread_create(&host.thread, NULL, host.fn, host.arg);
        host.answered = true;
        pthread_cond_broadcast(&host.changed);
    }
    return NULL;
}

static int host_start(void)
{
    pthread_attr_t attr;
    sigset_t all, old;
    pthread_t thread;
    int rc = 0;

    pthread_mutex_lock(&host.lock);
    if (!host.running || host.pid != getpid()) {
        size_t stack =
            HOST_STACK > PTHREAD_STACK_MIN ? HOST_STACK : (size_t)PTHREAD_STACK_MIN;
        sigfillset(&all);
        pthread_attr_init(&attr);
        util_stack_set(&attr, stack);
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        rc = pthread_create(&thread, &attr, host_main, NULL);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        pthread_attr_destroy(&attr);
        host.running = rc == 0;
        host.pid = getpid();
    }
    pthread_mutex_unlock(&host.lock);
    return rc;
}

int boot_fdtable_host_thread(pthread_t *thread, void *(*fn)(void *arg), void *arg)
{
    int rc = ESRCH;

    pthread_mutex_lock(&host.lock);
    if (host.running && host.pid == getpid()) {
        while (host.wanted || host.answered) /* another thread's request */
            pthread_cond_wait(&host.changed, &host.lock);
        host.fn = fn;
        host.arg = arg;
        host.wanted = true;
        pthread_cond_broadcast(&host.changed);
        while (!host.answered)
            pthread_cond_wait(&host.changed, &host.lock);
        host.answered = false;
        *thread = host.thread;
        rc = host.rc;
        pthread_cond_broadcast(&host.changed);
    }
    pthread_mutex_unlock(&host.lock);
    return rc;
}

bool boot_fdtable_is_private(void)
{
    int saved = errno, number = __atomic_load_n(&marker.number, __ATOMIC_ACQUIRE);
    struct stat st;
    bool same = number && fstat(number, &st) == 0 && st.st_ino == marker.ino &&
                st.st_dev == marker.dev;

    errno = saved;
    return same;
}

static int dup_above(int fd, int lowest)
{
    return (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, lowest);
}

static bool kept(const int keep[], size_t n, int fd)
{
    for (size_t i = 0; i < n; i++)
        if (keep[i] == fd)
            return true;
    return false;
}

/* Close all above 2 that is not kept; the list is read again until nothing is left to
 * close. */
static int close_others(const int keep[], size_t n)
{
    char path[64];
    bool again = true;

    strcpy(path,
           "/proc/thread-self/fd"); /* not /proc/self: that is the first thread's table */
    while (again) {
        DIR *dir = opendir(path);
        struct dirent *entry;
        if (!dir)
            return -1;
        again = false;
        while ((entry = readdir(dir))) {
            int fd = atoi(entry->d_name);
            if (fd <= 2 || fd == dirfd(dir) || kept(keep, n, fd))
                continue;
            util_fd_close_raw(fd);
            again = true;
        }
        closedir(dir);
    }
    return 0;
}

/* Fetch keep[] out of the program's table, into numbers of floor or above: through a
 * pidfd (pidfd_getfd, Linux 5.6; a process may always do so to itself). The pidfd stands
 * for the first thread, which has the program's table unless it has ended already. */
static int fetch_kept(int keep[], size_t n, int lowest)
{
    int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);

    if (pidfd < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        int low = (int)syscall(SYS_pidfd_getfd, pidfd, keep[i], 0);
        int high = low < 0 ? -1 : dup_above(low, lowest);
        if (low >= 0)
            util_fd_close_raw(low);
        if (high < 0) {
            util_fd_close_raw(pidfd);
            return -1;
        }
        keep[i] = high;
    }
    util_fd_close_raw(pidfd);
    return 0;
}

/* With bad arguments both calls fail with EBADF or EINVAL where they exist and are allowed.
 */
static bool have_pidfd_getfd(void)
{
    return syscall(SYS_pidfd_getfd, -1, 0, 0) < 0 && errno == EBADF &&
           syscall(SYS_pidfd_open, -1, 0) < 0 && errno == EINVAL;
}

/* close_range() with UNSHARE copies only what is below 3: not one descriptor of the
 * program's is duplicated and closed again, which could flush a file of a network file
 * system. Where the kernel lacks that call or pidfd_getfd, unshare(CLONE_FILES) copies
 * the whole table and what is not kept is closed: correct too (POSIX locks belong to the
 * table), only slower. */
static int unshare_keeping(int keep[], size_t n, int lowest, bool copy)
{
    if (!copy && have_pidfd_getfd() &&
        syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_UNSHARE) == 0)
        return fetch_kept(keep, n, lowest);

    if (unshare(CLONE_FILES) < 0 || close_others(keep, n) < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        int high = dup_above(keep[i], lowest);
        if (high < 0)
            return -1;
        util_fd_close_raw(keep[i]);
        keep[i] = high;
    }
    return 0;
}

/* 0 becomes /dev/null, and 1 and 2 if they are closed; then every free number below
 * `lowest`. */
static int put_guards(int lowest)
{
    int null = (int)syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC, 0), fd;

    if (null < 0)
        return -1;
    if (null != 0 && syscall(SYS_dup3, null, 0, 0) < 0)
        return -1;
    do
        fd = dup_above(null, 1);
    while (fd >= 0 && fd < lowest);
    if (fd < 0)
        return -1;
    util_fd_close_raw(fd);
    return 0;
}

static int put_marker(int lowest)
{
    int fd = (int)syscall(SYS_memfd_create, "dyad-table", MFD_CLOEXEC), high;
    struct stat st;

    if (fd < 0)
        return -1;
    high = dup_above(fd, lowest);
    util_fd_close_raw(fd);
    if (high < 0 || fstat(high, &st) < 0)
        return -1;
    marker.dev = st.st_dev;
    marker.ino = st.st_ino;
    __atomic_store_n(&marker.number, high, __ATOMIC_RELEASE);
    return 0;
}

static int floor_get(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur / 2 < FLOOR_WANTED)
        return (int)(limit.rlim_cur / 2);
    return FLOOR_WANTED;
}

int boot_fdtable_unshare(int keep[], size_t n)
{
    int lowest = floor_get();
    int rc;

    if (n > KEEP_MAX) {
        errno = EINVAL;
        return -1;
    }
    for (size_t i = 0; i < n; i++)
        if (keep[i] < 0 || fcntl(keep[i], F_GETFD) < 0) {
            errno = EINVAL;
            return -1;
        }
    if ((rc = host_start()) != 0) {
        errno = rc;
        return -1;
    }
    if (unshare_keeping(keep, n, lowest, false) < 0 || put_guards(lowest) < 0 ||
        put_marker(lowest) < 0)
        return -1;
    return 0;
}

void boot_fdtable_drop(int fd)
{
    if (boot_fdtable_is_private())
        syscall(SYS_dup3, 0, fd, 0); /* 0 is /dev/null here */
}

/* All but the marker, by which the table is known; the guards too: nothing of ours is left
 * for them to protect. */
void boot_fdtable_close_all(void)
{
    int keep = __atomic_load_n(&marker.number, __ATOMIC_ACQUIRE);
    struct rlimit limit;

    if (!boot_fdtable_is_private() ||
        (syscall(SYS_close_range, STDERR_FILENO + 1, keep - 1, 0) == 0 &&
         syscall(SYS_close_range, keep + 1, ~0U, 0) == 0))
        return;
    /* before Linux 5.9 */
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur > OLD_KERNEL_FDS)
        limit.rlim_cur = OLD_KERNEL_FDS;
    for (int fd = STDERR_FILENO + 1; fd < (int)limit.rlim_cur; fd++)
        if (fd != keep)
            util_fd_close_raw(fd);
}

/* --- from one private table to the next --- */

/* A library that has aborted may have left threads in the private table, which keep it,
 * and all descriptors in it, open. So boot_fdtable_move() leaves a thread behind, which
 * empties the table; the descriptors that have to stay are in the caller's copy by then.
 */

struct emptier {
    sem_t go;
    bool wanted;
};

static void *emptier_main(void *arg)
{
    struct emptier *emptier = arg;

    while (sem_wait(&emptier->go) < 0)
        ;
    if (emptier->wanted) {
        boot_fdtable_drop(STDOUT_FILENO);
        boot_fdtable_close_all();
    }
    return NULL;
}

int boot_fdtable_move(int fd)
{
    const int first = STDERR_FILENO + 1;
    struct emptier emptier = {.wanted = false};
    pthread_t thread;
    int error;

    if (!boot_fdtable_is_private()) {
        errno = EINVAL;
        return -1;
    }
    sem_init(&emptier.go, 0, 0);
    if ((error = pthread_create(&thread, NULL, emptier_main, &emptier)) != 0) {
        sem_destroy(&emptier.go);
        errno = error;
        return -1;
    }
    /* Not unshare() where that can be had: containers forbid it. `first` is a guard in the
     * old table. A connection ends when both tables have let go of it. */
    if (syscall(SYS_dup3, fd, first, O_CLOEXEC) < 0) {
        error = errno;
    } else if (syscall(SYS_close_range, first + 1, ~0U, CLOSE_RANGE_UNSHARE) == 0) {
        emptier.wanted = true;
    } else if (unshare(CLONE_FILES) < 0) {
        error = errno;
    } else {
        emptier.wanted = true;
        if (close_others(&first, 1) < 0)
            error = EIO;
    }
    sem_post(&emptier.go);
    pthread_join(thread, NULL);
    sem_destroy(&emptier.go);
    errno = error ? error : errno;
    return error ? -1 : first;
}

int boot_fdtable_take(int *fd)
{
    int lowest = floor_get(), high = dup_above(*fd, lowest);

    if (high < 0)
        return -1;
    util_fd_close_raw(*fd);
    *fd = high;
    return put_guards(lowest) < 0 || put_marker(lowest) < 0 ? -1 : 0;
}
