/*
 * client_loading.c - a lock that loaders share, and that a fork has for itself
 *
 * Threads of ours load libraries, in the program's name space or in another. A child that
 * is forked meanwhile has the loader's lists half changed, with nobody to go on:
 * - glibc frees the lock of dlopen() in the child, but not the one of these lists
 *   (dl_load_write_lock, glibc 2.36), so the child's next dlopen() waits for ever;
 * - its exit runs the destructors of what was not constructed, which may crash
 *   (libnl-route, a dependency of UCX's modules).
 * So a fork waits until no load of ours is under way. The lock is here, where the program's
 * libc is, which calls the handlers: that of another name space (client_library.c) does not
 * hear of forks.
 */
#include "client/client_loading.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#define FORK_WAIT_S 2

static pthread_once_t watching = PTHREAD_ONCE_INIT;
/* Readers, who load, go first: a constructor may load again. */
static pthread_rwlock_t loading = PTHREAD_RWLOCK_INITIALIZER;
static _Thread_local bool locked;

/* A thread that loads may wait for dlopen()'s lock, which the forking thread may have, in a
 * constructor of the program's: then nothing is half loaded; the fork goes on. */
static void fork_comes(void)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += FORK_WAIT_S;
    locked = pthread_rwlock_timedwrlock(&loading, &until) == 0;
}

static void fork_over(void)
{
    if (locked)
        pthread_rwlock_unlock(&loading);
}

static void fork_child(void)
{
    pthread_rwlock_init(&loading, NULL);
}

static void watch(void)
{
    pthread_atfork(fork_comes, fork_over, fork_child);
}

void client_loading_watch(void)
{
    pthread_once(&watching, watch);
}

static void loading_begin(void)
{
    int saved = errno;

    client_loading_watch();
    pthread_rwlock_rdlock(&loading);
    errno = saved;
}

static void loading_end(void)
{
    int saved = errno;

    pthread_rwlock_unlock(&loading);
    errno = saved;
}

const struct boot_loading client_loading = {.begin = loading_begin, .end = loading_end};
