/*
 * dht/node_writing_ask.c - who reads, on storage that nodes share: does anybody write it?
 *
 * The asker asks all homes (ASK), since one may have come a moment ago and know nothing
 * yet; one that knows of a writer keeps the asker, says EAGAIN when that has changed, and
 * then all are asked again. An answer is right as of some moment after the question, which
 * is all that an open can want: so answers to earlier rounds may count in later ones.
 * node_writing.c has the protocol.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dht/node_module.h"
#include "dht/node_writing.h"

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
    if (writing_ask_homes(node, &settle->key, settle->upath, &settle->asks, NET_WRITING_ASK,
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

    writing_time_out(node, &settle->asks);
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
        settle->by = msg->rank;
    } else if (msg->status == EOWNERDEAD) {
        settle->status = EOWNERDEAD;
        if (!settle->busy)
            settle->by = msg->rank;
        if (dyad_version_cmp(&msg->entry.version, &settle->version) > 0)
            settle->version = msg->entry.version;
    }
    settle_advance(node, settle);
}

static bool settle_receive(struct dht_node *node, const struct net_msg *msg)
{
    struct dht_settle *settle;

    DL_FOREACH(node->settles, settle)
    {
        if (settle->id == msg->id) {
            settle_reply(node, settle, msg);
            return true;
        }
    }
    return false;
}

static void settle_homes_changed(struct dht_node *node, uint32_t rank, bool live)
{
    struct dht_settle *settle, *tmp;

    (void)rank;
    (void)live;
    DL_FOREACH_SAFE(node->settles, settle, tmp)
    {
        settle_again(node, settle);
    }
}

static void settle_destroy(struct dht_node *node)
{
    struct dht_settle *settle, *tmp;

    DL_FOREACH_SAFE(node->settles, settle, tmp)
    {
        node_ready_remove(node, &settle->ready);
        DL_DELETE(node->settles, settle);
        free(settle);
    }
}

static const struct node_message messages[] = {
    {NET_MSG_WRITING_REPLY, true, settle_receive},
    {0},
};

const struct node_module node_writing_ask_module = {
    .messages = messages,
    .destroy = settle_destroy,
    .homes_changed = settle_homes_changed,
};
