/*
 * dht/node_core.c - what all parts of a node stand on
 */
#include "dht/node_core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dht/node_module.h"
#include "util/clock.h"

#define READY_BUDGET   1024
#define SWEEP_INTERVAL 1000000000ull /* ns: many deaths, one walk over the shard */

struct self_msg {
    struct ready ready;
    struct net_msg msg;
    char upath[];
};

/* ---- timers ---- */

static uint64_t timer_length(const struct dht_node *node, enum timer_class class)
{
    const uint64_t length[TIMER_CLASSES] = {
        [TIMER_PUBLISH] = node->config.request_timeout + node->config.invalidate_timeout,
        [TIMER_LOOKUP] = node->config.request_timeout,
        [TIMER_RETRY] = node->config.retry_interval,
        [TIMER_AGAIN] = node->config.request_timeout / 10,
        [TIMER_INVALIDATE] = node->config.invalidate_timeout / 2,
        [TIMER_INSTEAD] = node->config.invalidate_timeout / 2 / DHT_INSTEAD_MAX,
        [TIMER_SWEEP] = SWEEP_INTERVAL,
        /* Longer than a noted rank keeps the answer, whose time began before. */
        [TIMER_NOTED] = node->config.keep_time + node->config.keep_time / 4,
        [TIMER_REFRESH] = node->config.refresh_interval,
        [TIMER_LEASE] = node->config.lease / 8 + 1,
    };

    return length[class];
}

void node_timer_start(struct dht_node *node, struct timer *timer, enum timer_class class)
{
    node_timer_stop(node, timer);
    timer->class = class;
    timer->when = node->ops->now(node->arg) + timer_length(node, class);
    timer->active = true;
    DL_APPEND(node->timers[class], timer);
}

void node_timer_stop(struct dht_node *node, struct timer *timer)
{
    if (timer->active)
        DL_DELETE(node->timers[timer->class], timer);
    timer->active = false;
}
/* All timers alike, so their lists stay in order; what was begun since (the loop notices a
 * stop a little later) is not later than if it began now. */
void node_timers_stood_still(struct dht_node *node, uint64_t ns)
{
    uint64_t now = node->ops->now(node->arg);

    for (int i = 0; i < TIMER_CLASSES; i++) {
        uint64_t latest = now + timer_length(node, (enum timer_class)i);
        struct timer *timer;
        DL_FOREACH(node->timers[i], timer)
        {
            timer->when = timer->when + ns < latest ? timer->when + ns : latest;
        }
    }
}

void node_timers_forget(struct dht_node *node)
{
    for (int i = 0; i < TIMER_CLASSES; i++) {
        struct timer *timer, *tmp;
        DL_FOREACH_SAFE(node->timers[i], timer, tmp)
        {
            timer->active = false;
        }
        node->timers[i] = NULL;
    }
}

void node_run_timers(struct dht_node *node)
{
    uint64_t now = node->ops->now(node->arg);

    node->armed = UINT64_MAX;
    for (int i = 0; i < TIMER_CLASSES; i++) {
        while (node->timers[i] != NULL && node->timers[i]->when <= now) {
            struct timer *timer = node->timers[i];
            node_timer_stop(node, timer);
            timer->fn(node, timer);
        }
    }
}

/* ---- what is ready ---- */

void node_ready_push(struct dht_node *node, struct ready *ready,
                     void (*fn)(struct dht_node *node, struct ready *ready))
{
    ready->fn = fn;
    ready->queued = true;
    DL_APPEND(node->ready, ready);
}

void node_ready_remove(struct dht_node *node, struct ready *ready)
{
    if (ready->queued)
        DL_DELETE(node->ready, ready);
    ready->queued = false;
}

void node_ready_free(struct dht_node *node,
                     void (*fn)(struct dht_node *node, struct ready *ready))
{
    struct ready *ready, *tmp;

    DL_FOREACH_SAFE(node->ready, ready, tmp)
    {
        if (ready->fn == fn) {
            node_ready_remove(node, ready);
            free(ready);
        }
    }
}
/* A deadline that moved back is left to fire for nothing, which is cheaper than moving the
 * timer at every reply. */
void node_rearm(struct dht_node *node)
{
    uint64_t when = UINT64_MAX;

    if (node->running)
        return;
    for (int i = 0; i < TIMER_CLASSES; i++)
        if (node->timers[i] != NULL && node->timers[i]->when < when)
            when = node->timers[i]->when;
    if (node->ready != NULL || node_modules_have_step(node))
        when = node->ops->now(node->arg);
    if (when < node->armed) {
        node->armed = when;
        node->ops->set_timer(node->arg, when);
    }
}

void node_run(struct dht_node *node)
{
    if (node->running)
        return;
    node->running = true;
    for (int i = 0; i < READY_BUDGET && node->ready != NULL; i++) {
        struct ready *ready = node->ready;
        node_ready_remove(node, ready);
        ready->fn(node, ready);
    }
    node_modules_step(node);
    node->running = false;
    node_rearm(node);
}

/* ---- messages ---- */

uint64_t node_next_id(struct dht_node *node)
{
    return ++node->last_id;
}

static void self_msg_deliver(struct dht_node *node, struct ready *ready)
{
    struct self_msg *self = (struct self_msg *)ready;
    node_modules_receive(node, &self->msg);
    free(self);
}

int node_send(struct dht_node *node, uint32_t rank, struct net_msg *msg)
{
    struct self_msg *self;
    size_t len, blob_len;

    msg->source = node->config.self;
    msg->source_incarnation = node->config.incarnation;
    if (rank != node->config.self)
        return node->ops->send(node->arg, rank, msg);

    len = msg->entry.upath != NULL ? strlen(msg->entry.upath) + 1 : 0;
    blob_len = msg->blob_len;
    self = calloc(1, sizeof(*self) + len + blob_len);
    if (self == NULL)
        return -1;
    self->msg = *msg;
    if (len > 0)
        self->msg.entry.upath = memcpy(self->upath, msg->entry.upath, len);
    if (blob_len > 0)
        self->msg.blob = memcpy(self->upath + len, msg->blob, blob_len);
    node_ready_push(node, &self->ready, self_msg_deliver);
    return 0;
}
void node_core_destroy(struct dht_node *node)
{
    node_ready_free(node, self_msg_deliver);
    free(node->missing);
    free(node->death);
}

void node_silent(struct dht_node *node, uint32_t rank)
{
    if (node->ops->silent != NULL && rank != node->config.self)
        node->ops->silent(node->arg, rank);
}
/* ---- liveness ---- */

bool node_rank_live(const void *arg, uint32_t rank)
{
    const struct dht_node *node = arg;
    if (rank == node->config.self)
        return !node->leaving;
    return node->death == NULL || (node->death[rank] & 1) == 0;
}
bool dht_node_is_live(const struct dht_node *node, uint32_t rank)
{
    return rank < node->config.nranks && node_rank_live(node, rank);
}

bool node_rank_missing(const struct dht_node *node, uint32_t rank)
{
    return node->missing != NULL && node->missing[rank] != DHT_GONE;
}

bool node_rank_gone(const struct dht_node *node, uint32_t rank)
{
    return !dht_node_is_live(node, rank) && !node_rank_missing(node, rank);
}

uint32_t dht_node_losses(const struct dht_node *node, uint32_t rank)
{
    return node->death != NULL && rank < node->config.nranks ? node->death[rank] >> 1 : 0;
}

void node_few_update(struct dht_node *node, uint32_t rank, bool live)
{
    uint32_t n = 0;

    if (live) {
        if (node->nlive < DHT_FEW_LIVE)
            node->few[node->nlive] = rank;
        node->nlive++;
    } else if (--node->nlive < DHT_FEW_LIVE) {
        for (; n < node->nlive && node->few[n] != rank; n++)
            ;
        node->few[n] = node->few[node->nlive];
    } else if (node->nlive == DHT_FEW_LIVE) {
        for (uint32_t i = 0; i < node->config.nranks; i++)
            if (node_rank_live(node, i))
                node->few[n++] = i;
    }
    node->ring.nfew = node->nlive <= DHT_FEW_LIVE ? node->nlive : 0;
}
/* ---- homes ---- */

struct live_without {
    const struct dht_node *node;
    const struct asks *asks;
};

static bool rank_live_without(const void *arg, uint32_t rank)
{
    const struct live_without *live = arg;

    if (!node_rank_live(live->node, rank))
        return false;
    for (unsigned i = 0; i < live->asks->n; i++)
        if (live->asks->ask[i].rank == rank)
            return !live->asks->ask[i].failed;
    return true;
}

unsigned node_homes(struct dht_node *node, const struct dht_key *key, unsigned replicas,
                    const struct asks *asks, uint32_t homes[DHT_REPLICAS_MAX])
{
    struct live_without live = {node, asks};
    struct dht_ring ring = node->ring;

    ring.replicas = replicas;
    if (asks != NULL) {
        ring.live = rank_live_without;
        ring.arg = &live;
    }
    return dht_homes_find(&ring, key, homes);
}
unsigned dht_node_homes(struct dht_node *node, const char *upath,
                        uint32_t homes[DHT_REPLICAS_MAX])
{
    struct dht_key key;

    dht_key_init(&key, upath, node->config.depth);
    return dht_homes_find(&node->ring, &key, homes);
}
/* ---- the ranks that an operation has asked ---- */

struct ask *asks_find(struct asks *asks, uint32_t rank)
{
    for (unsigned i = 0; i < asks->n; i++)
        if (asks->ask[i].rank == rank)
            return &asks->ask[i];
    return NULL;
}

struct ask *asks_get(struct asks *asks, uint32_t rank)
{
    struct ask *ask = asks_find(asks, rank);

    if (ask == NULL && asks->n < DHT_ASK_MAX) {
        ask = &asks->ask[asks->n++];
        *ask = (struct ask){.rank = rank};
    }
    return ask;
}

bool asks_pending(const struct asks *asks)
{
    for (unsigned i = 0; i < asks->n; i++)
        if (asks->ask[i].pending)
            return true;
    return false;
}
void asks_stood_still(struct asks *asks, uint64_t ns, uint64_t now)
{
    for (unsigned i = 0; i < asks->n; i++)
        asks->ask[i].sent = util_clock_moved(asks->ask[i].sent, ns, now);
}
