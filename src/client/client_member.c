/*
 * client_member.c - when this process is its rank's member
 *
 * The process opens dyad/libdyad_member.so beside libdyad.so.1 and runs it. `lock` guards
 * the state machine NONE -> STARTING -> RUNNING -> NONE; `changed` is signalled at each
 * step.
 *
 * What could go wrong: an exit or exec comes at any step, in any thread of the program
 * (client_member_leave()); UCX ends itself in the member, and another member follows
 * (client_member_run()), or none can (`lost`). Nothing guards against a UCX that calls
 * abort() in a constructor, under the dynamic loader's lock.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "boot/member_claim.h"
#include "client/client.h"
#include "boot/libs.h"
#include "client/client_impl.h"
#include "client/client_loading.h"
#include "client/client_promoted.h"
#include "client/client_rejoins.h"
#include "engine/core/member_ops.h"
#include "store/looked.h"
#include "util/loader.h"
#include "util/log.h"

#define DESCRIPTORS_NEEDED 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static enum { NONE, STARTING, RUNNING } state;
static bool leaving, ending;
static enum member_leave leaving_how;
static bool
    table_private; /* of this run: the engine's threads hold nothing of the program's */
static struct member *running;
static const struct member_ops *ops;
static bool apart; /* with libraries of its own (client_library.c) */
/* Copies of the libraries that have ended themselves; of the thread in client_member_run() only. */
static struct client_rejoins rejoins;
/* The claim that client_member_start() made, in the program's table; -1: none. */
static int own_claim = -1;
/* This process could not join: it does not try again. Only ever set. */
static bool hopeless;
/* A library of ours has ended the member, and none can follow. Written by the member's
 * threads, always to true, and before a request can be refused for that reason (but where
 * the one that was to follow cannot join: there a moment after). */
static atomic_bool lost;
/* It was forked off a process that was a member, or began to be one. */
static bool forked;
/* This process was the member and is past its exit: see client_member_over(). */
static bool over;

static bool may_rejoin(void)
{
    return client_library_may_be_apart() &&
           client_rejoins_allow(&rejoins, util_clock_now());
}

static void load(void)
{
    unsigned begun = client_loading.begin();

    if (rejoins.copies > 0 || (boot_libs_may_share() && client_library_may_be_apart()))
        ops = client_member_library(apart = true);
    if (!ops && rejoins.copies == 0)
        ops = client_member_library(apart = false);
    client_loading.end(begun);
}

static void member_is_lost(void)
{
    atomic_store(&lost, true);
}

static void table_is_ready(void)
{
    pthread_mutex_lock(&lock);
    table_private = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

void client_member_table_wait(void)
{
    pthread_mutex_lock(&lock);
    while (state != NONE && !table_private)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

/* UCX and libevent end the program when they get no descriptor. */
static bool enough_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= DESCRIPTORS_NEEDED)
        return true;
    log_error(
        "a limit of %llu open descriptors is too small to join: set it to %d or more "
        "(ulimit -n), better to 1024",
        (unsigned long long)limit.rlim_cur, DESCRIPTORS_NEEDED);
    errno = EMFILE;
    return false;
}

static bool bears_threads(const struct client *client)
{
    if (client_library_may_be_here())
        return true;
    log_error(
        "this program was built with ThreadSanitizer, which does not bear the threads of "
        "the library: it cannot be the first process of rank %u; start it with dyad-run, "
        "or from a script that goes on after it (./prog; exit $?, not exec ./prog)",
        client->identity.rank);
    return false;
}

/* The rank has a member, which this thread cannot reach: it was put into a network
 * namespace of its own (unshare -n, bwrap --unshare-net) after that one had begun. Two
 * members would be two writers of one journal, so there is none here. Said once. */
static bool is_elsewhere(const struct client *client)
{
    static atomic_bool said;
    const struct store_marks *marks = client->dmd[ENGINE_CONSUMER].marks;

    if (!marks || !store_looked_elsewhere(marks, client->rank))
        return false;
    if (!atomic_exchange(&said, true))
        log_error(
            "this process is in another network namespace (unshare -n, bwrap "
            "--unshare-net) than the member of rank %u, and cannot reach it: what it does "
            "below the managed directory is not shared. Start dyad-run inside of the "
            "namespace, or do what has to do with shared files outside",
            client->identity.rank);
    errno = ENOTCONN;
    return true;
}

/* One member, from its beginning to its end: as member_ops.run(). */
static int run_one(struct client *client, struct member_params *params)
{
    struct member *member = NULL;
    int rc;

    /* By a thread with a table of its own: this one still has the program's, which may
     * close 1 and count on getting it from its next open. */
    if (!ops && client->run_loader)
        client->run_loader(load);
    else if (!ops)
        load();
    if (!ops) {
        errno = ELIBACC;
        goto error;
    }
    params->apart = apart;
    params->may_rejoin = may_rejoin;
    if (!(member = ops->create(params))) {
        log_error("cannot start the member of rank %u: %m", client->identity.rank);
        goto error;
    }
    pthread_mutex_lock(&lock);
    running = member;
    state = RUNNING;
    if (leaving)
        ops->leave(member, leaving_how, ending);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);

    rc = ops->run(member, &params->claim_fd);

    pthread_mutex_lock(&lock);
    running = NULL;
    state = STARTING;
    pthread_mutex_unlock(&lock);
    ops->destroy(member);
    return rc;
error:
    if (rejoins.copies > 0)
        log_error(
            "rank %u cannot join anew: files below its managed directory are no longer "
            "shared by its processes, and what they ask for fails",
            client->identity.rank);
    boot_member_claim_shut(params->claim_fd); /* else the member does so, in its table */
    return -1;
}

/* Its place is to be taken by the next image. */
static bool execs(void)
{
    pthread_mutex_lock(&lock);
    bool is = leaving && leaving_how == MEMBER_LEAVE_EXEC;
    pthread_mutex_unlock(&lock);
    return is;
}

/* With the lock held, by a thread with the program's table, after the member's end. */
static void own_claim_close(void)
{
    if (own_claim >= 0)
        close(own_claim);
    own_claim = -1;
}

/* A member whose UCX has ended itself (engine/core/aborted.c) is followed by another one
 * on the same thread, with the same claim: for all others this rank was in exec. The
 * libraries of the next are a new copy, in a name space of its own, and share nothing
 * with those of the dead one: neither UCX and PMIx nor their libc. The old copy stays,
 * with its memory, the threads of UCX that sleep in abort(), and whatever lock it holds;
 * nothing calls it. Name spaces are few, and a UCX that fails at once must end:
 * client_rejoins.h. */
int client_member_run(struct client *client, int claim_fd)
{
    struct member_params params = {
        .config = &client->config,
        .identity = &client->identity,
        .session = client->session,
        .launch = client->launch,
        .claim_fd = claim_fd,
        .thread_enter = client->thread_enter,
        .table_ready = table_is_ready,
        .lost = member_is_lost,
    };
    int rc = -1;

    pthread_mutex_lock(&lock);
    if (state != NONE) {
        if (own_claim == claim_fd) /* the other is at its end */
            own_claim_close();
        pthread_mutex_unlock(&lock);
        errno = EALREADY;
        return -1;
    }
    state = STARTING;
    table_private = false;
    pthread_mutex_unlock(&lock);

    if (is_elsewhere(client) || !enough_descriptors() || !bears_threads(client))
        boot_member_claim_shut(claim_fd);
    else
        rc = run_one(client, &params);
    while (rc == MEMBER_ABORTED) {
        ops = NULL;
        client_rejoins_count(&rejoins, util_clock_now());
        params.table_own = true;
        if (!execs()) {
            rc = run_one(client, &params);
        } else {
            close(params.claim_fd); /* the program's table has it, too */
            rc = 0;
        }
    }
    if (rc < 0 && rejoins.copies > 0)
        member_is_lost();
    if (rc < 0)
        __atomic_store_n(&hopeless, true, __ATOMIC_RELAXED);
    pthread_mutex_lock(&lock);
    /* A process in the claim's queue must not wait in vain. Once this thread has a table
     * of its own the number means another file here: client_member_leave() closes the
     * claim. A member that could not join has shut it. */
    if (!table_private && own_claim == claim_fd)
        own_claim_close();
    state = NONE;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return rc;
}

struct starter {
    struct client *client;
    int claim_fd;
};

static void *starter_main(void *arg)
{
    struct starter start = *(struct starter *)arg;

    free(arg);
    if (start.client->thread_enter)
        start.client->thread_enter();
    client_member_run(start.client, start.claim_fd);
    return NULL;
}

int client_member_start(struct client *client)
{
    struct starter *start = NULL;
    pthread_t thread;
    sigset_t all, old;
    int fd, rc;

    if (forked && !hopeless) {
        log_error(
            "the member of rank %u has died, and this process, which was forked off it "
            "and has not executed a program since, cannot take its place: what it does "
            "below the managed directory is not shared",
            client->identity.rank);
        hopeless = true;
    }
    if (hopeless) {
        errno = ENOTCONN;
        return -1;
    }
    if (is_elsewhere(client))
        return -1;
    if ((fd = boot_member_claim_bind(&client->claim, client->claim_len)) < 0)
        return errno == EADDRINUSE ? 0 : -1;
    if (!(start = malloc(sizeof(*start))))
        goto error;
    *start = (struct starter){.client = client, .claim_fd = fd};
    pthread_mutex_lock(&lock);
    own_claim = fd;
    pthread_mutex_unlock(&lock);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&thread, NULL, starter_main, start);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0) {
        errno = rc;
        goto error;
    }
    pthread_detach(thread);
    return 0;
error:
    pthread_mutex_lock(&lock);
    own_claim = -1;
    pthread_mutex_unlock(&lock);
    free(start);
    close(fd);
    return -1;
}

/* A call may come at any step, from exit or exec in any thread of the program. It raises
 * `leaving`, which the starting thread looks at before the member runs, and waits for
 * NONE.
 *
 * An exit or exec in a constructor of a library has the dynamic loader's lock. A member
 * whose thread waits for that has shared nothing yet, and cannot leave. */
void client_member_leave(enum member_leave how, bool image_ends)
{
    bool constructs = util_loader_held();

    pthread_mutex_lock(&lock);
    leaving = true;
    leaving_how = how;
    ending = image_ends;
    if (running)
        ops->leave(running, how, image_ends);
    while (state != NONE) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 1;
        if (pthread_cond_timedwait(&changed, &lock, &until) != ETIMEDOUT)
            continue;
        if (constructs && client_member_loads(client_get()) && util_loader_awaited())
            break;
        if (running)
            ops->nudge(running);
    }
    leaving = false;
    /* If the image goes on no process could become the member again, and connections
     * would wait. If it ends the claim ends with it. */
    if (!image_ends)
        own_claim_close();
    pthread_mutex_unlock(&lock);
}

void client_member_end(void)
{
    pthread_mutex_lock(&lock);
    over = true;
    pthread_mutex_unlock(&lock);
}

bool client_member_over(void)
{
    pthread_mutex_lock(&lock);
    bool is = over;
    pthread_mutex_unlock(&lock);
    return is;
}

bool client_member_lost(void)
{
    return atomic_load(&lost) && !client_member_over();
}

bool client_member_hopeless(void)
{
    return __atomic_load_n(&hopeless, __ATOMIC_RELAXED);
}

bool client_member_here(void)
{
    pthread_mutex_lock(&lock);
    bool here = state != NONE;
    pthread_mutex_unlock(&lock);
    return here;
}

void client_fork_child(void)
{
    /* Only the forking thread is here: whatever the locks guarded belongs to threads that
     * are not. */
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&changed, NULL);
    state = NONE;
    leaving = false;
    over = false;
    table_private = false;
    running = NULL;
    /* PMIx and UCX do not survive a fork: it would wait for their threads for ever. */
    forked |= ops != NULL || rejoins.copies > 0;
    if (own_claim >= 0)
        close(own_claim); /* else the claim would outlive the member, in a child that never
                             execs */
    own_claim = -1;
    client_lock_reset();
    client_loading_fork_child();
    client_promoted_fork_child();
}
