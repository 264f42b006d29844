/*
 * dht/node_writing.c - who has what open for writing, on storage that nodes share
 *
 * The marks of open files (store/marks.h) are one node's. Where another node sees the same
 * files, a file that is there may be half written, so who opens one for writing tells its
 * homes first (BEGIN), and who opens one for reading asks them (ASK). Here are writers and
 * askers; the homes' part is node_writers.c: for each upath the ranks that write it, and
 * the askers that wait.
 *
 * The asker asks all homes, since one may have come a moment ago and know nothing yet; one
 * that knows of a writer keeps the asker, says EAGAIN when that has changed, and then all
 * are asked again. An answer is right as of some moment after the question, which is all
 * that an open can want: so answers to earlier rounds may count in later ones.
 *
 * Soft state, as all of a home's: a writer tells its homes again when the membership
 * changes. A writer's death is seen in two ways. Of a rank that is gone the homes know by
 * themselves. Of a process that was killed while its rank's member lives only that member
 * can know, and it looks only if somebody waits: so each ASK that meets a writer, and each
 * BEGIN that meets another, is passed on to it (WANTED); askers ask anew every
 * retry_interval, so a lost END is found as well. Abandoned is what no version was
 * published of since its writer began; publishing ends it, at each home before it notifies
 * (node_home.c), so who was notified and finds the file abandoned still knows by the
 * version whether that home is merely behind.
 *
 * What is not covered: the moment in which a rank's coming or going makes a home of a rank
 * for the asker and not yet for the writer; with two replicas the other one knows.
 */
#include "dht/node_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"

struct writing {
    UT_hash_handle hh;                /* by upath */
    uint32_t homes[DHT_REPLICAS_MAX]; /* who were told */
    unsigned nhomes;
    char upath[];
};

struct tell {
    struct ready ready;
    struct tell *prev, *next;
    struct dht_node *node;
    uint64_t id;
    struct dht_key key;
    uint8_t what; /* NET_WRITING_* */
    struct asks asks;
    struct timer timer;
    bool done;
    int status;
    dht_writing_fn fn;
    void *arg;
    char upath[];
};

struct dht_settle {
    struct ready ready;
    struct dht_settle *prev, *next;
    uint64_t id;
    struct dht_key key;
    bool wait;
    bool busy; /* one of the homes keeps us */
    bool done;
    int status;
    uint32_t by;
    struct dyad_version version;
    struct asks asks;
    struct timer timer, retry;
    dht_settle_fn fn;
    void *arg;
    char upath[];
};

/* ---- as a writer ---- */

static void tell_deliver(struct dht_node *node, struct ready *ready)
{
    struct tell *tell = (struct tell *)ready;

    DL_DELETE(node->tells, tell);
    if (tell->fn != NULL)
        tell->fn(tell->arg, tell->status);
    free(tell);
}

/* Send WRITING to the homes that have not been asked. Is an answer outstanding? */
static bool ask_homes(struct dht_node *node, const struct dht_key *key, const char *upath,
                      struct asks *asks, uint8_t what, uint64_t id)
{
    uint32_t homes[DHT_REPLICAS_MAX];
    bool again, full = false;

    do {
        unsigned n = node_homes(node, key, node->config.replicas, asks, homes);
        again = false;
        for (unsigned i = 0; i < n && !full; i++) {
            struct net_msg msg = {.type = NET_MSG_WRITING, .flags = what, .id = id};
            struct ask *ask;
            msg.entry.upath = upath;
            if (asks_find(asks, homes[i]) != NULL)
                continue;
            ask = asks_get(asks, homes[i]);
            full = ask == NULL;
            if (full)
                break;
            ask->pending = node_send(node, homes[i], &msg) == 0;
            ask->failed = !ask->pending;
            again |= ask->failed;
        }
    } while (again && !full);
    return asks_pending(asks);
}

/* End when no answer is outstanding. */
static void tell_advance(struct dht_node *node, struct tell *tell)
{
    if (tell->done)
        return;
    if (ask_homes(node, &tell->key, tell->upath, &tell->asks, tell->what, tell->id)) {
        if (!tell->timer.active)
            node_timer_start(node, &tell->timer, TIMER_LOOKUP);
        return;
    }
    tell->status = EHOSTUNREACH;
    for (unsigned i = 0; i < tell->asks.n; i++)
        if (tell->asks.ask[i].answered)
            tell->status = 0;
    tell->done = true;
    node_timer_stop(node, &tell->timer);
    node_ready_push(node, &tell->ready, tell_deliver);
}

static void asks_time_out(struct dht_node *node, struct asks *asks)
{
    for (unsigned i = 0; i < asks->n; i++) {
        if (asks->ask[i].pending) {
            asks->ask[i].pending = false;
            asks->ask[i].failed = true;
            node_silent(node, asks->ask[i].rank);
        }
    }
}

static void tell_timeout(struct dht_node *node, struct timer *timer)
{
    struct tell *tell = (struct tell *)((char *)timer - offsetof(struct tell, timer));

    asks_time_out(node, &tell->asks);
    tell_advance(node, tell);
}

static int tell_start(struct dht_node *node, const char *upath, uint8_t what,
                      dht_writing_fn fn, void *arg)
{
    size_t len = strlen(upath);
    struct tell *tell = calloc(1, sizeof(*tell) + len + 1);

    if (tell == NULL)
        return -1;
    memcpy(tell->upath, upath, len + 1);
    dht_key_init(&tell->key, tell->upath, node->config.depth);
    tell->id = node_next_id(node);
    tell->what = what;
    tell->timer.fn = tell_timeout;
    tell->fn = fn;
    tell->arg = arg;
    DL_APPEND(node->tells, tell);
    tell_advance(node, tell);
    return 0;
}

static int writing_keep(struct dht_node *node, const char *upath)
{
    size_t len = strlen(upath);
    struct writing *writing;

    HASH_FIND(hh, node->writing, upath, len, writing);
    if (writing != NULL)
        return 0;
    if ((writing = calloc(1, sizeof(*writing) + len + 1)) == NULL)
        return -1;
    memcpy(writing->upath, upath, len + 1);
    writing->nhomes = dht_node_homes(node, upath, writing->homes);
    HASH_ADD_KEYPTR(hh, node->writing, writing->upath, len, writing);
    if (writing->hh.tbl == NULL) {
        free(writing);
        errno = ENOMEM;
        return -1;
    }
    return 0;
}

static void writing_drop(struct dht_node *node, const char *upath)
{
    struct writing *writing;

    HASH_FIND(hh, node->writing, upath, strlen(upath), writing);
    if (writing != NULL) {
        HASH_DEL(node->writing, writing);
        free(writing);
    }
}

int dht_node_writing(struct dht_node *node, const char *upath, enum dht_writing what,
                     dht_writing_fn fn, void *arg)
{
    static const uint8_t flags[] = {[DHT_WRITING_BEGIN] = NET_WRITING_BEGIN,
                                    [DHT_WRITING_END] = NET_WRITING_END,
                                    [DHT_WRITING_ABANDONED] = NET_WRITING_ABANDONED};

    if (what == DHT_WRITING_BEGIN && writing_keep(node, upath) < 0)
        return -1;
    if (tell_start(node, upath, flags[what], fn, arg) < 0) {
        if (what == DHT_WRITING_BEGIN)
            writing_drop(node, upath);
        return -1;
    }
    if (what != DHT_WRITING_BEGIN)
        writing_drop(node, upath);
    node_rearm(node);
    return 0;
}

/* ---- as a reader ---- */

static void settle_free(struct dht_node *node, struct dht_settle *settle)
{
    node_timer_stop(node, &settle->timer);
    node_timer_stop(node, &settle->retry);
    DL_DELETE(node->settles, settle);
    free(settle);
}

static void settle_deliver(struct dht_node *node, struct ready *ready)
{
    struct dht_settle *settle = (struct dht_settle *)ready;
    struct dyad_version version = settle->version;
    dht_settle_fn fn = settle->fn;
    void *arg = settle->arg;
    int status = settle->status;
    uint32_t by = settle->by;

    settle_free(node, settle);
    fn(arg, status, by, &version);
}

static void settle_forget(struct dht_node *node, const struct dht_settle *settle)
{
    for (unsigned i = 0; i < settle->asks.n; i++) {
        struct net_msg msg = {
            .type = NET_MSG_WRITING, .flags = NET_WRITING_FORGET, .id = settle->id};
        msg.entry.upath = settle->upath;
        if (settle->asks.ask[i].waiter)
            node_send(node, settle->asks.ask[i].rank, &msg);
    }
}

static void settle_finish(struct dht_node *node, struct dht_settle *settle, int status)
{
    settle->done = true;
    settle->status = status;
    node_timer_stop(node, &settle->timer);
    node_timer_stop(node, &settle->retry);
    node_ready_push(node, &settle->ready, settle_deliver);
}

static void settle_advance(struct dht_node *node, struct dht_settle *settle)
{
    bool answered = false;

    if (settle->done)
        return;
    if (ask_homes(node, &settle->key, settle->upath, &settle->asks, NET_WRITING_ASK,
                  settle->id)) {
        if (!settle->timer.active)
            node_timer_start(node, &settle->timer, TIMER_LOOKUP);
        return;
    }
    node_timer_stop(node, &settle->timer);
    for (unsigned i = 0; i < settle->asks.n; i++)
        answered |= settle->asks.ask[i].answered;
    if (settle->busy && settle->wait) {
        if (!settle->retry.active)
            node_timer_start(node, &settle->retry, TIMER_RETRY);
        return;
    }
    if (settle->busy) {
        settle_forget(node, settle);
        settle_finish(node, settle, EBUSY);
    } else if (!answered) {
        settle_finish(node, settle, EHOSTUNREACH);
    } else {
        settle_finish(node, settle, settle->status);
    }
}

/* All of them once more, the silent ones too. */
static void settle_again(struct dht_node *node, struct dht_settle *settle)
{
    if (settle->done)
        return;
    node_timer_stop(node, &settle->timer);
    node_timer_stop(node, &settle->retry);
    settle->asks.n = 0;
    settle->busy = false;
    settle->status = 0;
    settle->by = DYAD_RANK_NONE;
    settle->version = (struct dyad_version){0};
    settle_advance(node, settle);
}

static void settle_timeout(struct dht_node *node, struct timer *timer)
{
    struct dht_settle *settle =
        (struct dht_settle *)((char *)timer - offsetof(struct dht_settle, timer));

    asks_time_out(node, &settle->asks);
    settle_advance(node, settle);
}

static void settle_retry(struct dht_node *node, struct timer *timer)
{
    settle_again(node,
                 (struct dht_settle *)((char *)timer - offsetof(struct dht_settle, retry)));
}

struct dht_settle *dht_node_settle(struct dht_node *node, const char *upath, bool wait,
                                   dht_settle_fn fn, void *arg)
{
    size_t len = strlen(upath);
    struct dht_settle *settle = calloc(1, sizeof(*settle) + len + 1);

    if (settle == NULL)
        return NULL;
    memcpy(settle->upath, upath, len + 1);
    dht_key_init(&settle->key, settle->upath, node->config.depth);
    settle->id = node_next_id(node);
    settle->wait = wait;
    settle->by = DYAD_RANK_NONE;
    settle->timer.fn = settle_timeout;
    settle->retry.fn = settle_retry;
    settle->fn = fn;
    settle->arg = arg;
    DL_APPEND(node->settles, settle);
    settle_advance(node, settle);
    node_rearm(node);
    return settle;
}

void dht_node_settle_cancel(struct dht_node *node, struct dht_settle *settle)
{
    if (!settle->done)
        settle_forget(node, settle);
    node_ready_remove(node, &settle->ready);
    settle_free(node, settle);
    node_rearm(node);
}

uint32_t dht_settle_writer(const struct dht_settle *settle)
{
    return settle->busy ? settle->by : DYAD_RANK_NONE;
}

static void settle_reply(struct dht_node *node, struct dht_settle *settle,
                         const struct net_msg *msg)
{
    struct ask *ask = asks_find(&settle->asks, msg->source);

    if (settle->done)
        return;
    if (msg->status == EAGAIN) {
        if (settle->wait && ask != NULL)
            settle_again(node, settle);
        return;
    }
    if (ask == NULL || !ask->pending)
        return;
    ask->pending = false;
    if (msg->status == EHOSTUNREACH) { /* it is new here, and knows nothing */
        ask->failed = true;
        settle_advance(node, settle);
        return;
    }
    ask->answered = true;
    if (msg->status == EBUSY) {
        ask->waiter = settle->busy = true;
        settle->by = msg->entry.owner;
    } else if (msg->status == EOWNERDEAD) {
        settle->status = EOWNERDEAD;
        if (!settle->busy)
            settle->by = msg->entry.owner;
        if (dyad_version_cmp(&msg->entry.version, &settle->version) > 0)
            settle->version = msg->entry.version;
    }
    settle_advance(node, settle);
}

/* ---- both ---- */

void writing_reply(struct dht_node *node, const struct net_msg *msg)
{
    struct dht_settle *settle;
    struct tell *tell;

    DL_FOREACH(node->tells, tell)
    {
        struct ask *ask = asks_find(&tell->asks, msg->source);
        if (tell->id != msg->id || tell->done)
            continue;
        if (ask != NULL && ask->pending) {
            ask->pending = false;
            ask->answered = true;
            tell_advance(node, tell);
        }
        return;
    }
    DL_FOREACH(node->settles, settle)
    {
        if (settle->id == msg->id) {
            settle_reply(node, settle, msg);
            return;
        }
    }
}

/* Has the rank, which died or came, made another a home of it, or itself one that knows
 * nothing? */
static bool writing_moved(struct dht_node *node, struct writing *writing, uint32_t rank)
{
    uint32_t homes[DHT_REPLICAS_MAX];
    unsigned n = dht_node_homes(node, writing->upath, homes);
    bool moved = n != writing->nhomes;

    for (unsigned i = 0; i < n; i++)
        moved |= i >= writing->nhomes || homes[i] != writing->homes[i] || homes[i] == rank;
    memcpy(writing->homes, homes, sizeof(homes));
    writing->nhomes = n;
    return moved;
}

void writing_rank_changed(struct dht_node *node, uint32_t rank, bool live)
{
    struct dht_settle *settle, *stmp;
    struct writing *writing, *wtmp;
    struct tell *tell, *ttmp;
    struct ask *ask;

    DL_FOREACH_SAFE(node->tells, tell, ttmp)
    {
        if (!live && (ask = asks_find(&tell->asks, rank)) != NULL && !ask->failed) {
            ask->pending = ask->answered = false;
            ask->failed = true;
            tell_advance(node, tell);
        }
    }
    HASH_ITER(hh, node->writing, writing, wtmp)
    {
        if (writing_moved(node, writing, rank) &&
            tell_start(node, writing->upath, NET_WRITING_BEGIN, NULL, NULL) < 0)
            log_warn("out of memory: a home may not know that \"%s\" is being written",
                     writing->upath);
    }
    DL_FOREACH_SAFE(node->settles, settle, stmp)
    {
        settle_again(node, settle);
    }
}

void writing_destroy(struct dht_node *node)
{
    struct writing *writing, *wtmp;
    struct dht_settle *settle, *stmp;
    struct tell *tell, *ttmp;

    DL_FOREACH_SAFE(node->tells, tell, ttmp)
    {
        node_ready_remove(node, &tell->ready);
        DL_DELETE(node->tells, tell);
        free(tell);
    }
    DL_FOREACH_SAFE(node->settles, settle, stmp)
    {
        node_ready_remove(node, &settle->ready);
        DL_DELETE(node->settles, settle);
        free(settle);
    }
    HASH_ITER(hh, node->writing, writing, wtmp)
    {
        HASH_DEL(node->writing, writing);
        free(writing);
    }
}
