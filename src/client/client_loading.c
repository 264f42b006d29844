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
#include <stdbool.h>
#include <time.h>

#define WAIT_S 5

static pthread_once_t watching = PTHREAD_ONCE_INIT;
/* Here, because the program's libc calls the handlers: that of another name space
 * (client_library.c) does not hear of forks. */
static pthread_rwlock_t loading = PTHREAD_RWLOCK_INITIALIZER;
/* Of this thread. Loads are nested where a constructor loads; forks, where a signal handler
 * forks in the midst of a fork. The outermost takes the lock, if it can be had in time. */
static _Thread_local struct {
    unsigned loads, forks;
    bool shares, has;
} mine;

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

    if (mine.forks++ == 0)
        mine.has = mine.loads == 0 && pthread_rwlock_timedwrlock(&loading, &until) == 0;
}

static void fork_over(void)
{
    if (--mine.forks == 0 && mine.has) {
        mine.has = false;
        pthread_rwlock_unlock(&loading);
    }
}

/* Only this thread is here: it may be in a constructor that a load of ours has called. */
static void fork_child(void)
{
    mine.has = false;
    if (mine.forks > 0)
        mine.forks--;
    client_loading_fork_child();
}

void client_loading_fork_child(void)
{
    pthread_rwlock_init(&loading, NULL);
    if (mine.shares)
        pthread_rwlock_rdlock(&loading);
}

static void watch(void)
{
    pthread_atfork(fork_comes, fork_over, fork_child);
}

void client_loading_watch(void)
{
    pthread_once(&watching, watch);
}

/* A fork that does not end holds handlers of the program's that wait for somebody, perhaps
 * for us: the load goes on. */
static void loading_begin(void)
{
    struct timespec until = in_time();
    int saved = errno;

    client_loading_watch();
    if (mine.loads++ == 0)
        mine.shares = pthread_rwlock_timedrdlock(&loading, &until) == 0;
    errno = saved;
}

static void loading_end(void)
{
    int saved = errno;

    if (--mine.loads == 0 && mine.shares) {
        mine.shares = false;
        pthread_rwlock_unlock(&loading);
    }
    errno = saved;
}

const struct boot_loading client_loading = {.begin = loading_begin, .end = loading_end};
