/*
 * client_loading.c - a lock that loaders share, and that a fork has for itself
 *
 * Threads of ours load libraries, in the program's name space or in another. A child that
 * is forked meanwhile has the loader's lists half changed, with nobody to go on:
 * - glibc frees the lock of dlopen() in the child, but not the one of these lists
 *   (dl_load_write_lock, glibc 2.36), so the child's next dlopen() waits for ever;
 * - its exit runs the destructors of libraries that were not constructed, which may crash
 *   (libnl-route, a dependency of UCX's modules).
 * So a fork waits until no load of ours is under way. What libc itself loads (NSS) and
 * what UCX's own modules load in their turn is not held. Nor does _Fork() or clone() wait.
 */
#include "client/client_loading.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WAIT_S 5

static pthread_once_t watching = PTHREAD_ONCE_INIT;
/* Here, because the program's libc calls the handlers: that of another name space
 * (client_library.c) does not hear of forks. */
static pthread_rwlock_t loading = PTHREAD_RWLOCK_INITIALIZER;
/* Which lock that is: a child has another one than its parent, and sets this while it has
 * one thread. Never 0. */
static unsigned number = 1;
/* The thread that forks and has the lock, and how many forks of its are under way: a signal
 * handler may fork in the midst of one. Not thread-local, whose memory the loader would
 * allocate with the program's malloc and may free with libc's. */
static _Atomic pid_t forker;
static unsigned forks; /* only `forker` looks */

static struct timespec in_time(void)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    return until;
}

/* A thread that loads may wait for dlopen()'s lock, which the forking thread may have, in a
 * constructor of the program's: then nothing is half loaded; the fork goes on. */
static void fork_comes(void)
{
    struct timespec until = in_time();
    pid_t me = (pid_t)syscall(SYS_gettid);

    if (atomic_load(&forker) == me) {
        forks++;
    } else if (pthread_rwlock_timedwrlock(&loading, &until) == 0) {
        forks = 1;
        atomic_store(&forker, me);
    }
}

static void fork_over(void)
{
    if (atomic_load(&forker) != (pid_t)syscall(SYS_gettid))
        return;
    if (forks > 1) {
        forks--;
        return;
    }
    atomic_store(&forker, 0); /* before: a handler that forks from here on does without */
    pthread_rwlock_unlock(&loading);
}

void client_loading_fork_child(void)
{
    pthread_rwlock_init(&loading, NULL);
    atomic_store(&forker, 0);
    number++;
}

static void watch(void)
{
    pthread_atfork(fork_comes, fork_over, client_loading_fork_child);
}

void client_loading_watch(void)
{
    pthread_once(&watching, watch);
}

/* Readers go first, so a constructor may load again. A fork that takes long is in handlers
 * of the program's that wait for somebody, perhaps for us: then the load goes on. */
static unsigned loading_begin(void)
{
    struct timespec until = in_time();
    int saved = errno;
    unsigned begun;

    client_loading_watch();
    begun = pthread_rwlock_timedrdlock(&loading, &until) == 0 ? number : 0;
    errno = saved;
    return begun;
}

/* A child that was forked in a constructor comes here with its parent's number. */
static void loading_end(unsigned begun)
{
    int saved = errno;

    if (begun == number)
        pthread_rwlock_unlock(&loading);
    errno = saved;
}

const struct boot_loading client_loading = {.begin = loading_begin, .end = loading_end};
