/*
 * dht/node_writing.c - files that are open for writing, where other nodes have to know
 *
 * The marks of open files (store/marks.h) are seen by one node. If another node sees the
 * same files, a file that is there may be half written, so a rank that opens one for
 * writing notifies its homes first (BEGIN), and one that opens it for reading asks them
 * (ASK: node_writing_ask.c). This file is the writers' part; the homes' part is
 * node_writers.c: for each upath the ranks that write it, and the askers that wait.
 *
 * Elsewhere each node writes a file of its own, which are put together (JOINED). Then what begins
 * is mostly a LOOKUP (NET_LOOKUP_WRITES), and what ends a PUBLISH (dyad_base.ends), at no cost.
 *
 * A reader would get a half-written file if its home did not know of the writer. This is
 * not covered in the moment in which a rank that comes or goes makes another rank a home
 * for the asker and not yet for the writer; with two replicas the other home knows.
 */
#include "dht/node_writing.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dht/node_module.h"
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
    dht_who_fn who; /* SHOW: in place of fn, with what has been answered: */
    uint64_t when;
    struct dyad_base base; /* BEGIN, JOINED; of the answers to SHOW: the root */
    uint32_t owner, *ranks;
    unsigned n;
    int error;
    bool met; /* BEGIN, JOINED: by another node */
    void *arg;
    char upath[];
};

struct writings {
    struct writing *by_upath; /* what we write */
    struct tell *tells;       /* BEGINs and ENDs without an answer */
};

static void tell_free(struct tell *tell)
{
    free(tell->ranks);
    free(tell);
}

static void tell_deliver(struct dht_node *node, struct ready *ready)
{
    struct tell *tell = (struct tell *)ready;

    DL_DELETE(node->writings->tells, tell);
    if (tell->who != NULL)
        tell->who(tell->arg, tell->status, tell->owner, tell->ranks, tell->n, &tell->base);
    else if (tell->fn != NULL)
        tell->fn(tell->arg, tell->status);
    tell_free(tell);
}

/* What a home says of the writers. */
static void tell_take(struct tell *tell, const struct net_msg *msg)
{
    size_t n = msg->blob_len / sizeof(uint32_t);
    uint32_t *ranks = realloc(tell->ranks, (tell->n + n + 1) * sizeof(*ranks));

    if (ranks != NULL)
        tell->ranks = ranks;
    if (ranks == NULL || msg->status != 0)
        tell->error = ranks == NULL ? ENOMEM : msg->status;
    if (msg->rank != DYAD_RANK_NONE)
        tell->owner = msg->rank;
    /* Homes may have heard of two first ones in another order: all take the older one. */
    if (msg->base.kind != DYAD_BASE_NONE &&
        (tell->base.kind == DYAD_BASE_NONE || msg->base.time < tell->base.time))
        tell->base = msg->base;
    for (size_t i = 0; ranks != NULL && i < n; i++) {
        uint32_t rank;
        unsigned k = 0;
        memcpy(&rank, (const char *)msg->blob + i * sizeof(rank), sizeof(rank));
        rank = le32toh(rank);
        while (k < tell->n && ranks[k] != rank)
            k++;
        if (k == tell->n)
            ranks[tell->n++] = rank;
    }
}

bool writing_ask_homes(struct dht_node *node, const struct dht_key *key, const char *upath,
                       struct asks *asks, uint8_t what, uint64_t when,
                       const struct dyad_base *base, uint64_t id)
{
    uint32_t homes[DHT_REPLICAS_MAX];
    bool again, full = false;

    do {
        unsigned n = node_homes(node, key, node->config.replicas, asks, homes);
        again = false;
        for (unsigned i = 0; i < n && !full; i++) {
            struct net_msg msg = {
                .type = NET_MSG_WRITING, .flags = what, .id = id, .after = when};
            struct ask *ask;
            msg.entry.upath = upath;
            if (base != NULL)
                msg.base = *base;
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
    if (writing_ask_homes(node, &tell->key, tell->upath, &tell->asks, tell->what,
                          tell->when, &tell->base, tell->id)) {
        if (!tell->timer.active)
            node_timer_start(node, &tell->timer, TIMER_LOOKUP);
        return;
    }
    tell->status = EHOSTUNREACH;
    for (unsigned i = 0; i < tell->asks.n; i++)
        if (tell->asks.ask[i].answered)
            tell->status = tell->error == 0 && tell->met ? EALREADY : tell->error;
    tell->done = true;
    node_timer_stop(node, &tell->timer);
    node_ready_push(node, &tell->ready, tell_deliver);
}

void writing_time_out(struct dht_node *node, struct asks *asks)
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

    writing_time_out(node, &tell->asks);
    tell_advance(node, tell);
}

static int tell_start(struct dht_node *node, const char *upath, uint8_t what, uint64_t when,
                      const struct dyad_base *base, dht_writing_fn fn, dht_who_fn who,
                      void *arg)
{
    size_t len = strlen(upath);
    struct tell *tell = calloc(1, sizeof(*tell) + len + 1);

    if (tell == NULL)
        return -1;
    tell->who = who;
    tell->owner = DYAD_RANK_NONE;
    memcpy(tell->upath, upath, len + 1);
    dht_key_init(&tell->key, tell->upath, node->config.depth);
    tell->id = node_next_id(node);
    tell->what = what;
    tell->when = when;
    if (base != NULL)
        tell->base = *base;
    tell->timer.fn = tell_timeout;
    tell->fn = fn;
    tell->arg = arg;
    DL_APPEND(node->writings->tells, tell);
    tell_advance(node, tell);
    return 0;
}

static int writing_keep(struct dht_node *node, const char *upath)
{
    size_t len = strlen(upath);
    struct writing *writing;

    HASH_FIND(hh, node->writings->by_upath, upath, len, writing);
    if (writing != NULL)
        return 0;
    if ((writing = calloc(1, sizeof(*writing) + len + 1)) == NULL)
        return -1;
    memcpy(writing->upath, upath, len + 1);
    writing->nhomes = dht_node_homes(node, upath, writing->homes);
    HASH_ADD_KEYPTR(hh, node->writings->by_upath, writing->upath, len, writing);
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

    HASH_FIND(hh, node->writings->by_upath, upath, strlen(upath), writing);
    if (writing != NULL) {
        HASH_DEL(node->writings->by_upath, writing);
        free(writing);
    }
}

/* How a writer's end is learned of if it dies: the homes know by themselves that a rank
 * is gone. If a process was killed while its rank's member lives only that member can
 * know, and it looks only if a rank waits: so each ASK that meets a writer, and each
 * BEGIN that meets another, is passed on to it (WANTED); askers ask anew every
 * retry_interval, so a lost END is found as well.
 *
 * A file is abandoned if its writer died and no version was published since it began; a
 * publish ends that, at each home before it notifies waiters (node_home_answers.c), so a
 * waiter that finds the file still abandoned knows by the version whether that home is
 * merely behind. */
int dht_node_writing(struct dht_node *node, const char *upath, enum dht_writing what,
                     uint64_t when, dht_writing_fn fn, void *arg)
{
    static const uint8_t flags[] = {
        [DHT_WRITING_BEGIN] = NET_WRITING_BEGIN,
        [DHT_WRITING_JOIN] = NET_WRITING_BEGIN | NET_WRITING_JOINED,
        [DHT_WRITING_END] = NET_WRITING_END,
        [DHT_WRITING_END_OWN] = NET_WRITING_END | NET_WRITING_OWN,
        [DHT_WRITING_ABANDONED] = NET_WRITING_ABANDONED};

    if (what == DHT_WRITING_BEGIN && writing_keep(node, upath) < 0)
        return -1;
    if (tell_start(node, upath, flags[what], when, NULL, fn, NULL, arg) < 0) {
        if (what == DHT_WRITING_BEGIN)
            writing_drop(node, upath);
        return -1;
    }
    if (what != DHT_WRITING_BEGIN && what != DHT_WRITING_JOIN)
        writing_drop(node, upath);
    node_rearm(node);
    return 0;
}

int dht_node_writing_from(struct dht_node *node, const char *upath,
                          const struct dyad_base *base, uint64_t when, dht_writing_fn fn,
                          void *arg)
{
    if (tell_start(node, upath, NET_WRITING_BEGIN | NET_WRITING_JOINED, when, base, fn,
                   NULL, arg) < 0)
        return -1;
    node_rearm(node);
    return 0;
}

int dht_node_who_writes(struct dht_node *node, const char *upath, dht_who_fn fn, void *arg)
{
    if (tell_start(node, upath, NET_WRITING_SHOW, 0, NULL, NULL, fn, arg) < 0)
        return -1;
    node_rearm(node);
    return 0;
}

static void tell_begun(struct tell *tell, const struct net_msg *msg)
{
    tell->met |= msg->rank != DYAD_RANK_NONE;
    if (msg->status == ESTALE)
        tell->error = ESTALE;
}

static bool writing_reply(struct dht_node *node, const struct net_msg *msg)
{
    struct tell *tell;

    DL_FOREACH(node->writings->tells, tell)
    {
        struct ask *ask = asks_find(&tell->asks, msg->source);
        if (tell->id != msg->id || tell->done)
            continue;
        if (ask != NULL && ask->pending) {
            ask->pending = false;
            ask->answered = msg->status != EHOSTUNREACH; /* it is new here */
            ask->failed = !ask->answered;
            if (tell->who != NULL)
                tell_take(tell, msg);
            else if (tell->what == (NET_WRITING_BEGIN | NET_WRITING_JOINED))
                tell_begun(tell, msg);
            tell_advance(node, tell);
        }
        return true;
    }
    return false;
}

/* True if the rank, by its death or arrival, has made another rank a home of the upath,
 * or is itself a home that does not know of the writer. */
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

/* The homes' state is soft: a writer notifies its homes again when the membership
 * changes. */
static void writing_homes_changed(struct dht_node *node, uint32_t rank, bool live)
{
    struct writing *writing, *wtmp;
    struct tell *tell, *ttmp;
    struct ask *ask;

    DL_FOREACH_SAFE(node->writings->tells, tell, ttmp)
    {
        if (!live && (ask = asks_find(&tell->asks, rank)) != NULL && !ask->failed) {
            ask->pending = ask->answered = false;
            ask->failed = true;
            tell_advance(node, tell);
        }
    }
    HASH_ITER(hh, node->writings->by_upath, writing, wtmp)
    {
        if (writing_moved(node, writing, rank) &&
            tell_start(node, writing->upath, NET_WRITING_BEGIN, 0, NULL, NULL, NULL, NULL) <
                0)
            log_warn("out of memory: a home may not know that \"%s\" is being written",
                     writing->upath);
    }
}

static int writing_create(struct dht_node *node)
{
    node->writings = calloc(1, sizeof(*node->writings));
    return node->writings != NULL ? 0 : -1;
}

static void writing_destroy(struct dht_node *node)
{
    struct writing *writing, *wtmp;
    struct tell *tell, *ttmp;

    if (node->writings == NULL)
        return;
    DL_FOREACH_SAFE(node->writings->tells, tell, ttmp)
    {
        node_ready_remove(node, &tell->ready);
        DL_DELETE(node->writings->tells, tell);
        tell_free(tell);
    }
    HASH_ITER(hh, node->writings->by_upath, writing, wtmp)
    {
        HASH_DEL(node->writings->by_upath, writing);
        free(writing);
    }
    free(node->writings);
}

bool writing_all_told(const struct dht_node *node)
{
    return node->writings->tells == NULL;
}

static const struct node_message messages[] = {
    {NET_MSG_WRITING_REPLY, true, writing_reply},
    {0},
};

const struct node_module node_writing_module = {
    .messages = messages,
    .create = writing_create,
    .destroy = writing_destroy,
    .homes_changed = writing_homes_changed,
};
