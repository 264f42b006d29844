/*
 * client_promoted.c - from guest to promoted guest
 *
 * A short-lived process must pay nothing for this: one atomic add per file that it had to
 * ask for. `lock` guards the state machine NONE -> STARTING -> RUNNING -> NONE, `changed`
 * is signalled at each step. The thread begins with the program's descriptor table; who
 * closes a file meanwhile waits (client_promoted_table_wait), as with a member that starts.
 *
 * A fork ends a promoted guest (fork_comes): the process is a guest from then on.
 */
#include "client/client_promoted.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "boot/libs.h"
#include "client/client_impl.h"
#include "client/client_loading.h"
#include "engine/core/member_ops.h"
#include "util/clock.h"
#include "util/log.h"

/* So long a guest must have been at it. */
#define BUSY_FOR UTIL_NSEC_PER_SEC
/* Leaving takes so long at most: then a thread of ours is stuck in the disk or in UCX. */
#define LEAVE_BOUND UTIL_NSEC_PER_SEC
#define NUDGE_NS    (20 * UTIL_NSEC_PER_MSEC)

static atomic_ullong count, since;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static enum { NONE, STARTING, RUNNING } state;
static bool leaving, table_private, hopeless;
static pthread_once_t watching = PTHREAD_ONCE_INIT; /* for forks: once in all */
static bool forked; /* from a process that may have had UCX */
static struct promoted_guest *running;
static const struct member_ops *ops;

static void table_is_ready(void)
{
    pthread_mutex_lock(&lock);
    table_private = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

bool client_promoted_table_wait(void)
{
    bool here;

    pthread_mutex_lock(&lock);
    here = state != NONE;
    while (state != NONE && !table_private)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return here;
}

/* UCX does not survive a fork: it believes in threads and descriptors that are the
 * parent's. Where a process was forked from one that has it loaded (its rank's first, of
 * which a pool of workers is forked), or may share it with the program, it gets a copy of
 * its own. */
static void load(void)
{
    unsigned begun = client_loading.begin();
    void *ucs = forked ? dlopen("libucs.so.0", RTLD_NOW | RTLD_NOLOAD) : NULL;
    bool apart = ucs || boot_libs_may_share();

    if (!ops && (!apart || client_library_may_be_apart()))
        ops = client_member_library(apart);
    if (ucs)
        dlclose(ucs);
    client_loading.end(begun);
}

static int run(struct client *client)
{
    struct member_params params = {
        .config = &client->config,
        .identity = &client->identity,
        .session = client->session,
        .launch = client->launch,
        .claim_fd = -1,
        .claim = &client->claim,
        .claim_len = client->claim_len,
        .thread_enter = client->thread_enter,
        .table_ready = table_is_ready,
    };
    struct promoted_guest *promoted;
    int rc;

    if (client->run_loader)
        client->run_loader(load);
    else
        load();
    if (!ops)
        return -1;
    if (!(promoted = ops->promoted_create(&params)))
        return -1;
    pthread_mutex_lock(&lock);
    running = promoted;
    state = RUNNING;
    if (leaving)
        ops->promoted_leave(promoted, true);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);

    rc = ops->promoted_run(promoted);

    pthread_mutex_lock(&lock);
    running = NULL;
    bool ended = leaving;
    pthread_mutex_unlock(&lock);
    /* With the image: UCX may still read what it was given. */
    if (!ended)
        ops->promoted_destroy(promoted);
    return rc;
}

static void *thread_main(void *arg)
{
    struct client *client = arg;
    int rc;

    if (client->thread_enter)
        client->thread_enter();
    rc = run(client);
    pthread_mutex_lock(&lock);
    hopeless = hopeless || rc < 0;
    state = NONE;
    atomic_store(&count, 0);
    atomic_store(&since, 0);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* A program's thread forks: be a guest before, so that no lock of UCX's or of its libc's is
 * held in the child, whose exit runs the destructors of all libraries. While the thread is
 * only starting there is nothing of the kind: its libraries are loaded while nobody forks.
 */
static void fork_comes(void)
{
    pthread_mutex_lock(&lock);
    bool up = state == RUNNING;
    pthread_mutex_unlock(&lock);
    if (up)
        client_promoted_leave();
}

static void watch_forks(void)
{
    pthread_atfork(fork_comes, NULL, NULL);
}

static void start(struct client *client)
{
    pthread_t thread;
    sigset_t all, old;
    bool mine;
    int rc;

    pthread_mutex_lock(&lock);
    mine = state == NONE && !hopeless && !leaving;
    if (mine) {
        state = STARTING;
        table_private = false;
    }
    pthread_mutex_unlock(&lock);
    if (!mine)
        return;
    client_loading_watch(); /* first: a fork ends the promoted guest before it locks */
    pthread_once(&watching, watch_forks);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&thread, NULL, thread_main, client);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc == 0) {
        pthread_detach(thread);
        return;
    }
    pthread_mutex_lock(&lock);
    state = NONE;
    hopeless = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

void client_promoted_count(struct client *client)
{
    uint64_t promote = (uint64_t)client->config.promote, n;
    unsigned long long first = 0, now;
    int saved = errno;

    if (promote == 0)
        return;
    n = atomic_fetch_add_explicit(&count, 1, memory_order_relaxed) + 1;
    if (n > 1 && n < promote)
        return;
    now = util_clock_now();
    atomic_compare_exchange_strong(&since, &first, now);
    if (n >= promote && first && now - first >= BUSY_FOR && !client_member_here())
        start(client);
    errno = saved;
}

void client_promoted_leave(void)
{
    uint64_t end = util_clock_now() + LEAVE_BOUND;
    struct timespec until;

    pthread_mutex_lock(&lock);
    bool was = state != NONE;
    leaving = true;
    if (running)
        ops->promoted_leave(running, true);
    while (state != NONE && util_clock_now() < end) {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += (long)NUDGE_NS;
        if (until.tv_nsec >= (long)UTIL_NSEC_PER_SEC) {
            until.tv_nsec -= (long)UTIL_NSEC_PER_SEC;
            until.tv_sec++;
        }
        if (pthread_cond_timedwait(&changed, &lock, &until) == ETIMEDOUT && running)
            ops->promoted_nudge(running);
    }
    /* If exec fails, or it was for a fork, the process stays a guest: UCX was left as it
     * is, with a thread in a table of descriptors that another promoted guest would not
     * have. */
    hopeless = hopeless || was;
    leaving = false;
    pthread_mutex_unlock(&lock);
    atomic_store(&count, 0);
    atomic_store(&since, 0);
}

void client_promoted_fork_child(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&changed, NULL);
    state = NONE;
    leaving = table_private = hopeless = false;
    running = NULL;
    ops = NULL;
    forked = true;
    atomic_store(&count, 0);
    atomic_store(&since, 0);
}
