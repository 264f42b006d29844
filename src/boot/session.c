/*
 * session.c - a member's thread for the session directory
 *
 * The thread takes a slot, reports it, and then waits for operations and for the time of
 * the next look (session_look.c). What it finds, compared with what it has told, goes to
 * the loop as results (session_result.c).
 *
 * Locking: what stands below `lock` is guarded by it, and it is never held across a file
 * operation. The node map belongs to the loop from RESULT_READY on, all else to the thread.
 */
#include "boot/session_impl.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include <utlist.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "util/clock.h"
#include "util/log.h"
#include "util/stack.h"
#include "util/wipe.h"

#define DESTROY_BOUND_NS (2 * UTIL_NSEC_PER_SEC)
#define STACK            (512 * 1024)

/* --- the thread --- */

static int join(struct boot_session *session)
{
    struct session_dir *dir = session->dir;
    const struct session_dir_slot *slots;
    uint32_t ranks;

    if (session_dir_open(dir, session->ranks) < 0 ||
        session_dir_take_slot(dir, &session->place.slot, &session->place.incarnation) < 0)
        return -1;
    if (session->place.slot == 0) /* one says it */
        session_dir_look_above(dir);
    ranks = session_dir_ranks(dir);
    session->reported = calloc(ranks, sizeof(*session->reported));
    if (!session->reported || session_map_create(&session->map, &session->job, ranks) < 0) {
        log_error("no memory for the %u slots of the session", ranks);
        errno = ENOMEM;
        return -1;
    }
    slots = session_dir_slots(dir);
    for (uint32_t i = 0; i < ranks; i++)
        if (slots[i].live || slots[i].gone)
            session_map_set(&session->map, i,
                            slots[i].live ? slots[i].live_node : slots[i].gone_node);
    session_map_set(&session->map, session->place.slot, session_dir_node(dir));
    strcpy(session->place.id, session_dir_id(dir));
    session->place.job = &session->job;
    return 0;
}

static void wait_until(struct boot_session *session, uint64_t when)
{
    struct timespec ts = {.tv_sec = (time_t)(when / UTIL_NSEC_PER_SEC),
                          .tv_nsec = (long)(when % UTIL_NSEC_PER_SEC)};

    if (when)
        pthread_cond_timedwait(&session->changed, &session->lock, &ts);
    else
        pthread_cond_wait(&session->changed, &session->lock);
}

/* Until it is closed. Lock held. */
static void serve(struct boot_session *session)
{
    while (!session->closed) {
        struct session_op *op = session->pending;
        bool due = session->committed && util_clock_now() >= session->next_look;
        if (!op && !due) {
            wait_until(session, session->committed ? session->next_look : 0);
            continue;
        }
        if (op)
            DL_DELETE(session->pending, op);
        pthread_mutex_unlock(&session->lock);
        if (op && session->joined)
            session_do_op(session, op);
        if (op)
            util_wipe_free(op, sizeof(*op) + op->len);
        if (due)
            session_look(session);
        pthread_mutex_lock(&session->lock);
    }
}

static void *thread_main(void *arg)
{
    struct boot_session *session = arg;
    int error;
    bool leave;

    prctl(PR_SET_NAME, "dyad-session");
    error = join(session) < 0 ? errno : 0;
    session->joined = !error;
    session_report(session, (struct session_result){.kind = RESULT_READY, .error = error});
    pthread_mutex_lock(&session->lock);
    serve(session);
    leave = session->leave;
    pthread_mutex_unlock(&session->lock);
    if (leave)
        session_dir_leave(session->dir);
    pthread_mutex_lock(&session->lock);
    session->running = false;
    pthread_cond_broadcast(&session->changed);
    session_unref_unlock(session);
    return NULL;
}

static int start(struct boot_session *session)
{
    pthread_attr_t attr;
    int rc;

    session->refs++;
    session->running = true;
    pthread_attr_init(&attr);
    util_stack_set(&attr, STACK);
    rc = pthread_create(&session->thread, &attr, thread_main, session);
    pthread_attr_destroy(&attr);
    if (rc != 0) {
        session->refs--;
        session->running = false;
    }
    return rc;
}

/* --- interface --- */

struct boot_session *boot_session_create(struct net_loop *loop, const char *dir,
                                         const char *kvs, uint32_t ranks,
                                         const struct boot_identity *identity,
                                         const struct boot_session_ops *ops, void *arg)
{
    struct boot_session *session = calloc(1, sizeof(*session));
    pthread_condattr_t attr;
    int rc;

    if (!session)
        return NULL;
    if (!(session->dir = session_dir_create(dir, kvs, identity))) {
        free(session);
        return NULL;
    }
    session->loop = loop;
    session->ops = ops;
    session->arg = arg;
    session->ranks = ranks;
    session->refs = 1;
    pthread_mutex_init(&session->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&session->changed, &attr);
    pthread_condattr_destroy(&attr);

    pthread_mutex_lock(&session->lock);
    rc = start(session);
    if (rc != 0) {
        session_unref_unlock(session);
        errno = rc;
        return NULL;
    }
    pthread_mutex_unlock(&session->lock);
    return session;
}

void boot_session_destroy(struct boot_session *session, bool leave)
{
    uint64_t bound = util_clock_now() + DESTROY_BOUND_NS;
    pthread_t thread;
    bool running;

    if (!session)
        return;
    pthread_mutex_lock(&session->lock);
    session->closed = true;
    session->leave = leave;
    session_results_free(session);
    pthread_cond_broadcast(&session->changed);
    while (session->running && util_clock_now() < bound)
        wait_until(session, bound);
    running = session->running;
    thread = session->thread;
    session_unref_unlock(session);
    if (running) {
        log_warn(
            "the session directory's file system does not answer: leaving without "
            "saying so; the others find out by themselves");
        pthread_detach(thread);
    } else {
        pthread_join(thread, NULL);
    }
}

static int post_op(struct boot_session *session, enum session_op_kind kind, uint32_t slot,
                   uint32_t incarnation, const void *blob, size_t len)
{
    struct session_op *op = malloc(sizeof(*op) + len);

    if (!op)
        return -1;
    *op = (struct session_op){
        .kind = kind, .slot = slot, .incarnation = incarnation, .len = len};
    if (len)
        memcpy(op->blob, blob, len);
    pthread_mutex_lock(&session->lock);
    DL_APPEND(session->pending, op);
    pthread_cond_broadcast(&session->changed);
    pthread_mutex_unlock(&session->lock);
    return 0;
}

int boot_session_commit(struct boot_session *session, const void *blob, size_t len)
{
    return post_op(session, OP_COMMIT, 0, 0, blob, len);
}

/* The hash is that of session_dir.c, which the entry has in its name. */
void boot_session_met(struct boot_session *session, uint32_t slot, const char *node)
{
    if (slot < session->job.nranks)
        session_map_set(&session->map, slot, XXH3_64bits(node, session_node_length(node)));
}

int boot_session_get(struct boot_session *session, uint32_t slot)
{
    return post_op(session, OP_GET, slot, 0, NULL, 0);
}

void boot_session_lost(struct boot_session *session, uint32_t slot, uint32_t incarnation)
{
    post_op(session, OP_LOST, slot, incarnation, NULL, 0);
}

void boot_session_find(struct boot_session *session, uint32_t slot)
{
    post_op(session, OP_FIND, slot, 0, NULL, 0);
}

const char *boot_session_empty_nodes(struct boot_session *session)
{
    pthread_mutex_lock(&session->lock);
    strcpy(session->empty_shown, session->empty);
    pthread_mutex_unlock(&session->lock);
    return session->empty_shown;
}
