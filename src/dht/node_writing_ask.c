/*
 * dht/node_writing_ask.c - who reads, on storage that nodes share: does anybody write it?
 *
 * The asker asks all homes (ASK), since one may have come a moment ago and know nothing
 * yet; one that knows of a writer keeps the asker, says EAGAIN when that has changed, and
 * then all are asked again. An answer is right as of some moment after the request, which
 * is all that an open can want: so answers to earlier rounds may count in later ones.
 * node_writing.c has the protocol.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dht/node_module.h"
#include "dht/node_writing.h"

struct dht_writing_ask {
    struct ready ready;
    struct dht_writing_ask *prev, *next;
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
    dht_writing_ask_fn fn;
    void *arg;
    char upath[];
};

static void query_free(struct dht_node *node, struct dht_writing_ask *query)
{
    node_timer_stop(node, &query->timer);
    node_timer_stop(node, &query->retry);
    DL_DELETE(node->writing_asks, query);
    free(query);
}

static void query_deliver(struct dht_node *node, struct ready *ready)
{
    struct dht_writing_ask *query = (struct dht_writing_ask *)ready;
    struct dyad_version version = query->version;
    dht_writing_ask_fn fn = query->fn;
    void *arg = query->arg;
    int status = query->status;
    uint32_t by = query->by;

    query_free(node, query);
    fn(arg, status, by, &version);
}

static void query_forget(struct dht_node *node, const struct dht_writing_ask *query)
{
    for (unsigned i = 0; i < query->asks.n; i++) {
        struct net_msg msg = {
            .type = NET_MSG_WRITING, .flags = NET_WRITING_FORGET, .id = query->id};
        msg.entry.upath = query->upath;
        if (query->asks.ask[i].waiter)
            node_send(node, query->asks.ask[i].rank, &msg);
    }
}

static void query_finish(struct dht_node *node, struct dht_writing_ask *query, int status)
{
    query->done = true;
    query->status = status;
    node_timer_stop(node, &query->timer);
    node_timer_stop(node, &query->retry);
    node_ready_push(node, &query->ready, query_deliver);
}

static void query_advance(struct dht_node *node, struct dht_writing_ask *query)
{
    bool answered = false;

    if (query->done)
        return;
    if (writing_ask_homes(node, &query->key, query->upath, &query->asks, NET_WRITING_ASK, 0,
                          NULL, query->id)) {
        if (!query->timer.active)
            node_timer_start(node, &query->timer, TIMER_LOOKUP);
        return;
    }
    node_timer_stop(node, &query->timer);
    for (unsigned i = 0; i < query->asks.n; i++)
        answered |= query->asks.ask[i].answered;
    if (query->busy && query->wait) {
        if (!query->retry.active)
            node_timer_start(node, &query->retry, TIMER_RETRY);
        return;
    }
    if (query->busy) {
        query_forget(node, query);
        query_finish(node, query, EBUSY);
    } else if (!answered) {
        query_finish(node, query, EHOSTUNREACH);
    } else {
        query_finish(node, query, query->status);
    }
}

/* All of them once more, the silent ones too. */
static void query_again(struct dht_node *node, struct dht_writing_ask *query)
{
    if (query->done)
        return;
    node_timer_stop(node, &query->timer);
    node_timer_stop(node, &query->retry);
    query->asks.n = 0;
    query->busy = false;
    query->status = 0;
    query->by = DYAD_RANK_NONE;
    query->version = (struct dyad_version){0};
    query_advance(node, query);
}

static void query_timeout(struct dht_node *node, struct timer *timer)
{
    struct dht_writing_ask *query =
        (struct dht_writing_ask *)((char *)timer - offsetof(struct dht_writing_ask, timer));

    writing_time_out(node, &query->asks);
    query_advance(node, query);
}

static void query_retry(struct dht_node *node, struct timer *timer)
{
    query_again(node, (struct dht_writing_ask *)((char *)timer -
                                                 offsetof(struct dht_writing_ask, retry)));
}

struct dht_writing_ask *dht_node_ask_writers(struct dht_node *node, const char *upath,
                                             bool wait, dht_writing_ask_fn fn, void *arg)
{
    size_t len = strlen(upath);
    struct dht_writing_ask *query = calloc(1, sizeof(*query) + len + 1);

    if (query == NULL)
        return NULL;
    memcpy(query->upath, upath, len + 1);
    dht_key_init(&query->key, query->upath, node->config.depth);
    query->id = node_next_id(node);
    query->wait = wait;
    query->by = DYAD_RANK_NONE;
    query->timer.fn = query_timeout;
    query->retry.fn = query_retry;
    query->fn = fn;
    query->arg = arg;
    DL_APPEND(node->writing_asks, query);
    query_advance(node, query);
    node_rearm(node);
    return query;
}

void dht_node_ask_writers_cancel(struct dht_node *node, struct dht_writing_ask *query)
{
    if (!query->done)
        query_forget(node, query);
    node_ready_remove(node, &query->ready);
    query_free(node, query);
    node_rearm(node);
}

uint32_t dht_writing_ask_writer(const struct dht_writing_ask *query)
{
    return query->busy ? query->by : DYAD_RANK_NONE;
}

static void query_reply(struct dht_node *node, struct dht_writing_ask *query,
                        const struct net_msg *msg)
{
    struct ask *ask = asks_find(&query->asks, msg->source);

    if (query->done)
        return;
    if (msg->status == EAGAIN) {
        if (query->wait && ask != NULL)
            query_again(node, query);
        return;
    }
    if (ask == NULL || !ask->pending)
        return;
    ask->pending = false;
    if (msg->status == EHOSTUNREACH) { /* it is new here, and knows nothing */
        ask->failed = true;
        query_advance(node, query);
        return;
    }
    ask->answered = true;
    if (msg->status == EBUSY) {
        ask->waiter = query->busy = true;
        query->by = msg->rank;
    } else if (msg->status == EOWNERDEAD) {
        query->status = EOWNERDEAD;
        if (!query->busy)
            query->by = msg->rank;
        if (dyad_version_cmp(&msg->entry.version, &query->version) > 0)
            query->version = msg->entry.version;
    }
    query_advance(node, query);
}

static bool query_receive(struct dht_node *node, const struct net_msg *msg)
{
    struct dht_writing_ask *query;

    DL_FOREACH(node->writing_asks, query)
    {
        if (query->id == msg->id) {
            query_reply(node, query, msg);
            return true;
        }
    }
    return false;
}

static void query_homes_changed(struct dht_node *node, uint32_t rank, bool live)
{
    struct dht_writing_ask *query, *tmp;

    (void)rank;
    (void)live;
    DL_FOREACH_SAFE(node->writing_asks, query, tmp)
    {
        query_again(node, query);
    }
}

static void query_destroy(struct dht_node *node)
{
    struct dht_writing_ask *query, *tmp;

    DL_FOREACH_SAFE(node->writing_asks, query, tmp)
    {
        node_ready_remove(node, &query->ready);
        DL_DELETE(node->writing_asks, query);
        free(query);
    }
}

static const struct node_message messages[] = {
    {NET_MSG_WRITING_REPLY, true, query_receive},
    {0},
};

const struct node_module node_writing_ask_module = {
    .messages = messages,
    .destroy = query_destroy,
    .homes_changed = query_homes_changed,
};
