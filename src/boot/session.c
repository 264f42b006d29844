/*
 * session.c - a member's thread for the session directory
 *
 * The thread takes a slot, reports it, and then waits for operations and for the time of
 * the next look. What it finds, compared with what it has told, goes to the loop as
 * results, by one post at a time, as in pmix.c.
 *
 * A look costs a stat() where nothing has changed, and comes less often the longer that
 * lasts, up to SCAN_SLOWEST times the first interval; a lost member brings the next one
 * forward. That somebody has left is believed if his entry is gone.*, or his slot
 * another's. An entry that is just missing proves nothing for MISSING_NS: a person may have
 * emptied the directory, and its members put themselves back, at their second look.
 *
 * Locking: what stands below `lock` is guarded by it, and it is never held across a file
 * operation. The node map belongs to the loop from RESULT_READY on, all else to the thread.
 */
#include "boot/session.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include <uthash.h>
#include <utlist.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "boot/session_dir.h"
#include "net/peer.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/stack.h"

#define DESTROY_BOUND_NS (2 * UTIL_NSEC_PER_SEC)
#define SCAN_SLOWEST     4
#define SCAN_APART_NS    (200 * UTIL_NSEC_PER_MSEC)
#define MISSING_NS       (30 * UTIL_NSEC_PER_SEC)
#define STACK            (512 * 1024)
#define EMPTY_SHOWN      8

uint64_t boot_session_scan_ns = 2 * UTIL_NSEC_PER_SEC;

enum result_kind { RESULT_READY, RESULT_COMMITTED, RESULT_FOUND, RESULT_GONE, RESULT_BLOB };

struct result {
    struct result *prev, *next;
    enum result_kind kind;
    uint32_t slot, incarnation;
    uint64_t node;
    int error;
    void *blob;
    size_t len;
};

enum op_kind { OP_COMMIT, OP_GET, OP_LOST, OP_FIND };

struct op {
    struct op *prev, *next;
    enum op_kind kind;
    uint32_t slot, incarnation;
    size_t len;
    unsigned char blob[];
};

struct node {
    UT_hash_handle hh;
    uint64_t hash;
    uint32_t number, users;
};

struct told { /* what the loop knows of a slot */
    uint32_t incarnation;
    uint64_t missing_since; /* 0: it is not missing */
};

struct boot_session {
    struct net_loop *loop;
    const struct boot_session_ops *ops;
    void *arg;
    uint32_t ranks; /* if the session is new */
    struct net_post post;

    /* of the thread */
    struct session_dir *dir;
    struct told *told;
    bool joined, committed;
    uint64_t interval, next_look;
    bool look_full; /* the next look is to be a list */
    bool missed;    /* our own entry was not there at the last */
    bool said_unreadable, said_superseded;
    struct {
        uint64_t hash;
        char name[NET_PEER_NODE_MAX + 1];
    } names[SESSION_DIR_GONE_MAX];
    size_t nnames;

    /* of the loop, once it was told of them */
    struct boot_session_place place;
    struct boot_pmix_job job;
    struct node **slot_node; /* NULL: of its own */
    struct node *nodes;
    uint32_t *numbers; /* that are free, beyond those of the slots */
    uint32_t nnumbers;
    char empty_shown[EMPTY_SHOWN * (NET_PEER_NODE_MAX + 3) + 32];

    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned refs; /* the owner, the thread, the post in the loop's queue */
    bool closed, leave, running, posted;
    pthread_t thread;
    struct op *pending;
    struct result *results;
    char empty[EMPTY_SHOWN * (NET_PEER_NODE_MAX + 3) + 32];
};

/* --- life --- */

static void results_free(struct boot_session *session)
{
    struct result *result, *next;

    DL_FOREACH_SAFE(session->results, result, next)
    {
        free(result->blob);
        free(result);
    }
    session->results = NULL;
}

/* Give up one reference; the lock is held, and is no more afterwards. */
static void unref_unlock(struct boot_session *session)
{
    bool last = --session->refs == 0;
    struct op *op, *next_op;
    struct node *node, *next_node;

    pthread_mutex_unlock(&session->lock);
    if (!last)
        return;
    results_free(session);
    DL_FOREACH_SAFE(session->pending, op, next_op)
    {
        free(op);
    }
    HASH_ITER(hh, session->nodes, node, next_node)
    {
        HASH_DEL(session->nodes, node);
        free(node);
    }
    free(session->slot_node);
    free(session->numbers);
    free(session->job.node);
    free(session->told);
    session_dir_destroy(session->dir);
    pthread_cond_destroy(&session->changed);
    pthread_mutex_destroy(&session->lock);
    free(session);
}

/* --- which slots share a node --- */

static int map_create(struct boot_session *session, uint32_t ranks)
{
    session->job.nranks = ranks;
    session->job.nnodes = 2 * ranks; /* a bound: a slot without a node counts as one */
    session->job.node = calloc(ranks, sizeof(*session->job.node));
    session->slot_node = calloc(ranks, sizeof(*session->slot_node));
    session->numbers = calloc(ranks, sizeof(*session->numbers));
    if (!session->job.node || !session->slot_node || !session->numbers)
        return -1;
    for (uint32_t i = 0; i < ranks; i++) {
        session->job.node[i] = i;
        session->numbers[i] = 2 * ranks - 1 - i;
    }
    session->nnumbers = ranks;
    return 0;
}

/* Without memory the slot counts as a node of its own: placement is then a little worse. */
static void map_set(struct boot_session *session, uint32_t slot, uint64_t hash)
{
    struct node *old = session->slot_node[slot], *node;

    if (old && old->hash == hash)
        return;
    if (old && --old->users == 0) {
        session->numbers[session->nnumbers++] = old->number;
        HASH_DEL(session->nodes, old);
        free(old);
    }
    session->slot_node[slot] = NULL;
    session->job.node[slot] = slot;
    HASH_FIND(hh, session->nodes, &hash, sizeof(hash), node);
    if (!node) {
        if (!(node = calloc(1, sizeof(*node))))
            return;
        node->hash = hash;
        node->number = session->numbers[--session->nnumbers];
        HASH_ADD(hh, session->nodes, hash, sizeof(node->hash), node);
    }
    node->users++;
    session->slot_node[slot] = node;
    session->job.node[slot] = node->number;
}

/* --- results, to the loop --- */

static void deliver_one(struct boot_session *session, const struct result *result)
{
    switch (result->kind) {
    case RESULT_READY:
        session->ops->ready(session->arg, result->error ? NULL : &session->place,
                            result->error);
        break;
    case RESULT_COMMITTED:
        session->ops->committed(session->arg, result->error);
        break;
    case RESULT_FOUND:
        map_set(session, result->slot, result->node);
        session->ops->found(session->arg, result->slot, result->incarnation);
        break;
    case RESULT_GONE:
        session->ops->gone(session->arg, result->slot, result->incarnation);
        break;
    case RESULT_BLOB:
        session->ops->blob(session->arg, result->slot, result->blob, result->len,
                           result->error);
        break;
    }
}

static void deliver(void *arg)
{
    struct boot_session *session = arg;
    struct result *list, *result, *next;

    pthread_mutex_lock(&session->lock);
    session->posted = false;
    list = session->results;
    session->results = NULL;
    pthread_mutex_unlock(&session->lock);

    DL_FOREACH_SAFE(list, result, next)
    {
        /* closed is written on this thread only, so it needs no lock here */
        if (!session->closed)
            deliver_one(session, result);
        free(result->blob);
        free(result);
    }
    pthread_mutex_lock(&session->lock);
    unref_unlock(session);
}

/* Takes `blob`. False: there is no memory; the loop then does not know. */
static bool report(struct boot_session *session, struct result what)
{
    struct result *result = malloc(sizeof(*result));

    if (!result) {
        free(what.blob);
        return false;
    }
    *result = what;
    pthread_mutex_lock(&session->lock);
    if (session->closed) {
        free(result->blob);
        free(result);
    } else {
        DL_APPEND(session->results, result);
        if (!session->posted) {
            session->posted = true;
            session->refs++;
            net_loop_post(session->loop, &session->post, deliver, session);
        }
    }
    pthread_mutex_unlock(&session->lock);
    return true;
}

/* --- what the thread finds --- */

/* The length of a node's name without its boot id: the node that was started anew is the
 * same node. */
static size_t name_length(const char *node)
{
    const char *slash = strrchr(node, '/');

    return slash && strlen(slash + 1) == 36 && strspn(slash + 1, "0123456789abcdef-") == 36
               ? (size_t)(slash - node)
               : strlen(node);
}

/* Name of a node without its boot id, or NULL. */
static const char *node_name(struct boot_session *session,
                             const struct session_dir_gone *gone)
{
    unsigned char blob[NET_PEER_BLOB_MAX + 1];
    struct net_peer peer;
    int n;

    for (size_t i = 0; i < session->nnames; i++)
        if (session->names[i].hash == gone->node)
            return session->names[i].name;
    n = session_dir_read_gone(session->dir, gone, blob, sizeof(blob));
    if (n < 0 || net_peer_decode(&peer, blob, (size_t)n) < 0)
        return NULL;
    peer.node[name_length(peer.node)] = '\0';
    size_t i = session->nnames < SESSION_DIR_GONE_MAX ? session->nnames++
                                                      : gone->node % SESSION_DIR_GONE_MAX;
    session->names[i].hash = gone->node;
    strcpy(session->names[i].name, peer.node);
    return session->names[i].name;
}

static bool has_live(const struct boot_session *session, uint64_t node)
{
    const struct session_dir_slot *slots = session_dir_slots(session->dir);

    for (uint32_t i = 0; i < session_dir_ranks(session->dir); i++)
        if (slots[i].live && slots[i].live_node == node)
            return true;
    return false;
}

static void find_empty_nodes(struct boot_session *session)
{
    char text[sizeof(session->empty)] = "";
    const struct session_dir_gone *gone;
    size_t ngone, at = 0, more = 0, shown = 0;
    const char *name;

    gone = session_dir_gone(session->dir, &ngone);
    for (size_t i = 0; i < ngone; i++) {
        if (has_live(session, gone[i].node))
            continue;
        if (shown == EMPTY_SHOWN) {
            more++;
        } else if ((name = node_name(session, &gone[i]))) {
            at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s", at ? ", " : "",
                                   name);
            shown++;
        }
    }
    if (more)
        snprintf(text + at, sizeof(text) - at, " and %zu more", more);
    pthread_mutex_lock(&session->lock);
    strcpy(session->empty, text);
    pthread_mutex_unlock(&session->lock);
}

static void tell_gone(struct boot_session *session, uint32_t slot)
{
    struct told *told = &session->told[slot];

    if (report(session,
               (struct result){
                   .kind = RESULT_GONE, .slot = slot, .incarnation = told->incarnation}))
        *told = (struct told){0};
}

static void tell_found(struct boot_session *session, uint32_t slot)
{
    const struct session_dir_slot *s = &session_dir_slots(session->dir)[slot];

    if (report(session, (struct result){.kind = RESULT_FOUND,
                                        .slot = slot,
                                        .incarnation = s->live,
                                        .node = s->live_node}))
        session->told[slot] = (struct told){.incarnation = s->live};
}

/* Tell the loop what the list says that it does not know. True if there was something. */
static bool announce(struct boot_session *session)
{
    const struct session_dir_slot *slots = session_dir_slots(session->dir);
    uint64_t now = util_clock_now();
    bool news = false;

    for (uint32_t i = 0; i < session_dir_ranks(session->dir); i++) {
        const struct session_dir_slot *s = &slots[i];
        struct told *told = &session->told[i];
        if (i == session->place.slot)
            continue;
        if (s->live == told->incarnation) {
            told->missing_since = 0;
            continue;
        }
        if (told->incarnation > s->live) {
            if (s->gone < told->incarnation && s->link <= told->incarnation) {
                if (!told->missing_since)
                    told->missing_since = now;
                session->look_full = true;
                if (now - told->missing_since < MISSING_NS)
                    continue;
            }
            tell_gone(session, i);
        }
        if (s->live)
            tell_found(session, i);
        news = true;
    }
    return news;
}

static void keep(struct boot_session *session)
{
    uint32_t inc = session->place.incarnation;
    const struct session_dir_slot *own =
        &session_dir_slots(session->dir)[session->place.slot];
    bool missed = session->missed;

    /* Not taken for dead, but just not there: somebody may be removing the directory. */
    session->missed = own->live != inc && own->gone < inc;
    if (session->missed && !missed) {
        session->look_full = true;
        session->interval = boot_session_scan_ns / 2;
        return;
    }
    if (session_dir_keep(session->dir) == 0 || errno != ESTALE || session->said_superseded)
        return;
    session->said_superseded =
        report(session, (struct result){.kind = RESULT_GONE,
                                        .slot = session->place.slot,
                                        .incarnation = session->place.incarnation});
}

static void look(struct boot_session *session)
{
    bool full = session->look_full || session_dir_changed(session->dir);

    session->look_full = false;
    if (!full) {
        session->interval *= 2;
    } else if (session_dir_list(session->dir) < 0) {
        if (!session->said_unreadable)
            log_warn(
                "the session directory cannot be read: %m; processes that are started "
                "now may not find this one");
        session->said_unreadable = true;
    } else {
        session->said_unreadable = false;
        keep(session);
        if (announce(session)) {
            session->interval = boot_session_scan_ns;
            find_empty_nodes(session);
        } else {
            session->interval *= 2;
        }
    }
    if (session->interval > SCAN_SLOWEST * boot_session_scan_ns)
        session->interval = SCAN_SLOWEST * boot_session_scan_ns;
    session->next_look = util_clock_now() + session->interval;
}

/* --- operations --- */

static void do_commit(struct boot_session *session, const struct op *op)
{
    int error = 0;

    if (session_dir_commit(session->dir, op->blob, op->len) < 0) {
        error = errno;
    } else {
        announce(session);
        find_empty_nodes(session);
        session->committed = true;
    }
    report(session, (struct result){.kind = RESULT_COMMITTED, .error = error});
    if (!error)
        session_dir_tidy(session->dir);
    session->interval = boot_session_scan_ns;
    session->next_look = util_clock_now() + session->interval;
}

static void do_get(struct boot_session *session, const struct op *op)
{
    unsigned char blob[NET_PEER_BLOB_MAX + 1];
    struct result result = {.kind = RESULT_BLOB, .slot = op->slot};
    int n = session_dir_read(session->dir, op->slot, blob, sizeof(blob));

    /* The list may be old. ESTALE: another node replaced what NFS had found. */
    if (n < 0 && (errno == ESRCH || errno == ESTALE) && session_dir_list(session->dir) == 0)
        n = session_dir_read(session->dir, op->slot, blob, sizeof(blob));
    if (n < 0) {
        result.error = errno;
    } else if (!(result.blob = malloc((size_t)n + 1))) {
        result.error = ENOMEM;
    } else {
        memcpy(result.blob, blob, (size_t)n);
        result.len = (size_t)n;
    }
    report(session, result);
}

static void do_lost(struct boot_session *session, const struct op *op)
{
    uint64_t soon = util_clock_now() + SCAN_APART_NS;
    struct told *told;

    if (op->slot >= session_dir_ranks(session->dir) || op->slot == session->place.slot)
        return;
    told = &session->told[op->slot];
    if (told->incarnation < op->incarnation) /* the loop knows it from elsewhere */
        *told = (struct told){.incarnation = op->incarnation};
    if (session_dir_slots(session->dir)[op->slot].live != op->incarnation)
        session_dir_list(session->dir);
    /* Told now: if it lives and puts itself back, it is found again. */
    if (session_dir_is_dead(session->dir, op->slot) &&
        session_dir_retire(session->dir, op->slot, op->incarnation) == 0)
        announce(session);
    session->look_full = true;
    session->interval = boot_session_scan_ns;
    if (session->next_look > soon)
        session->next_look = soon;
}

static void do_find(struct boot_session *session, const struct op *op)
{
    uint64_t soon = util_clock_now() + boot_session_scan_ns;

    if (op->slot >= session_dir_ranks(session->dir) || op->slot == session->place.slot)
        return;
    session->told[op->slot] = (struct told){0};
    session->look_full = true;
    session->interval = boot_session_scan_ns;
    if (session->next_look > soon)
        session->next_look = soon;
}

static void do_op(struct boot_session *session, const struct op *op)
{
    switch (op->kind) {
    case OP_COMMIT:
        do_commit(session, op);
        break;
    case OP_GET:
        do_get(session, op);
        break;
    case OP_LOST:
        do_lost(session, op);
        break;
    case OP_FIND:
        do_find(session, op);
        break;
    }
}

/* --- the thread --- */

static int join(struct boot_session *session)
{
    struct session_dir *dir = session->dir;
    const struct session_dir_slot *slots;
    uint32_t ranks;

    if (session_dir_open(dir, session->ranks) < 0 ||
        session_dir_claim(dir, &session->place.slot, &session->place.incarnation) < 0)
        return -1;
    ranks = session_dir_ranks(dir);
    session->told = calloc(ranks, sizeof(*session->told));
    if (!session->told || map_create(session, ranks) < 0) {
        log_error("no memory for the %u slots of the session", ranks);
        errno = ENOMEM;
        return -1;
    }
    slots = session_dir_slots(dir);
    for (uint32_t i = 0; i < ranks; i++)
        if (slots[i].live || slots[i].gone)
            map_set(session, i, slots[i].live ? slots[i].live_node : slots[i].gone_node);
    map_set(session, session->place.slot, session_dir_node(dir));
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
        struct op *op = session->pending;
        bool due = session->committed && util_clock_now() >= session->next_look;
        if (!op && !due) {
            wait_until(session, session->committed ? session->next_look : 0);
            continue;
        }
        if (op)
            DL_DELETE(session->pending, op);
        pthread_mutex_unlock(&session->lock);
        if (op && session->joined)
            do_op(session, op);
        free(op);
        if (due)
            look(session);
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
    report(session, (struct result){.kind = RESULT_READY, .error = error});
    pthread_mutex_lock(&session->lock);
    serve(session);
    leave = session->leave;
    pthread_mutex_unlock(&session->lock);
    if (leave)
        session_dir_leave(session->dir);
    pthread_mutex_lock(&session->lock);
    session->running = false;
    pthread_cond_broadcast(&session->changed);
    unref_unlock(session);
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
        unref_unlock(session);
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
    results_free(session);
    pthread_cond_broadcast(&session->changed);
    while (session->running && util_clock_now() < bound)
        wait_until(session, bound);
    running = session->running;
    thread = session->thread;
    unref_unlock(session);
    if (running) {
        log_warn(
            "the session directory's file system does not answer: leaving without "
            "saying so; the others find out by themselves");
        pthread_detach(thread);
    } else {
        pthread_join(thread, NULL);
    }
}

static int post_op(struct boot_session *session, enum op_kind kind, uint32_t slot,
                   uint32_t incarnation, const void *blob, size_t len)
{
    struct op *op = malloc(sizeof(*op) + len);

    if (!op)
        return -1;
    *op = (struct op){.kind = kind, .slot = slot, .incarnation = incarnation, .len = len};
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
        map_set(session, slot, XXH3_64bits(node, name_length(node)));
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
