/*
 * dht/node.c - one rank's part in the table: life, timers, queue, who is alive
 *
 * Messages to self and completions go through one queue, which is emptied at the end of
 * dht_node_receive() and in dht_node_tick(), so no callback runs inside the call that
 * started its operation and no state machine is entered twice. What a callback starts joins
 * the queue; a bound on one round lets the loop breathe.
 *
 * Requests carry an id that starts at incarnation << 40, so an answer to an earlier member
 * of this rank matches nothing. An answer counts only from a rank that was asked under that
 * id and has not answered.
 *
 * Liveness is kept as the number of each rank's last death. What a home acknowledged is
 * valid as long as it has not died since: a death costs no walk over what we have
 * published.
 */
#include "dht/node_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/clock.h"

#define READY_BUDGET   1024
#define SWEEP_INTERVAL 1000000000ull /* ns: many deaths, one walk over the shard */

struct self_msg {
    struct ready ready;
    struct net_msg msg;
    char upath[];
};

static void lookup_or_copy_reply(struct dht_node *node, const struct net_msg *msg)
{
    if (copies_reply(node, msg))
        return;
    if (msg->type == NET_MSG_NOTIFY)
        lookup_notify(node, msg);
    else
        lookup_reply(node, msg);
}

static const struct {
    void (*fn)(struct dht_node *node, const struct net_msg *msg);
    bool upath; /* must be there */
} handlers[NET_MSG_TYPE_END] = {
    [NET_MSG_PUBLISH] = {home_publish, true},
    [NET_MSG_LOOKUP] = {home_lookup, true},
    [NET_MSG_LOOKUP_CANCEL] = {home_lookup_cancel, true},
    [NET_MSG_LOOKUP_REPLY] = {lookup_or_copy_reply, false},
    [NET_MSG_NOTIFY] = {lookup_or_copy_reply, false},
    [NET_MSG_INVALIDATE] = {incoming_invalidate, true},
    [NET_MSG_INVALIDATE_REPLY] = {told_reply, false},
    [NET_MSG_WRITING] = {home_writing, true},
    [NET_MSG_WRITING_REPLY] = {writing_reply, true},
    [NET_MSG_SETTLE] = {doubt_settle, false},
    [NET_MSG_SETTLED] = {doubt_settled, false},
};

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
        /* Longer than who is noted keeps the answer, which began to count before. */
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

/* Tell the user when to call next. A deadline that moved back is left to fire for nothing,
 * which is cheaper than moving the timer at every reply. */
void node_rearm(struct dht_node *node)
{
    uint64_t when = UINT64_MAX;

    if (node->running)
        return;
    for (int i = 0; i < TIMER_CLASSES; i++)
        if (node->timers[i] != NULL && node->timers[i]->when < when)
            when = node->timers[i]->when;
    if (node->ready != NULL || node->ask_untold ||
        ((node->reviewing || leave_has_more(node)) && node->nrepair < DHT_REPAIR_WINDOW) ||
        (node->copies_reviewing && node->ncopies_asking < DHT_REPAIR_WINDOW))
        when = node->ops->now(node->arg);
    if (when < node->armed) {
        node->armed = when;
        node->ops->set_timer(node->arg, when);
    }
}

/* Do what is queued, then what of the review fits in. */
static void node_run(struct dht_node *node)
{
    if (node->running)
        return;
    node->running = true;
    for (int i = 0; i < READY_BUDGET && node->ready != NULL; i++) {
        struct ready *ready = node->ready;
        node_ready_remove(node, ready);
        ready->fn(node, ready);
    }
    own_review_step(node);
    copies_review_step(node);
    leave_step(node);
    doubt_step(node);
    node->running = false;
    node_rearm(node);
}

uint64_t node_next_id(struct dht_node *node)
{
    return ++node->last_id;
}

static void node_dispatch(struct dht_node *node, const struct net_msg *msg)
{
    if (msg->type == NET_MSG_PUBLISH_REPLY || msg->type == NET_MSG_ERROR) {
        if (!publish_reply(node, msg))
            lookup_or_copy_reply(node, msg);
    } else if (!handlers[msg->type].upath || msg->entry.upath != NULL) {
        handlers[msg->type].fn(node, msg);
    }
}

static void self_msg_deliver(struct dht_node *node, struct ready *ready)
{
    struct self_msg *self = (struct self_msg *)ready;
    node_dispatch(node, &self->msg);
    free(self);
}

int node_send(struct dht_node *node, uint32_t rank, struct net_msg *msg)
{
    struct self_msg *self;
    size_t len;

    msg->source = node->config.self;
    msg->source_incarnation = node->config.incarnation;
    if (rank != node->config.self)
        return node->ops->send(node->arg, rank, msg);

    len = msg->entry.upath != NULL ? strlen(msg->entry.upath) + 1 : 0;
    self = calloc(1, sizeof(*self) + len);
    if (self == NULL)
        return -1;
    self->msg = *msg;
    if (len > 0)
        self->msg.entry.upath = memcpy(self->upath, msg->entry.upath, len);
    node_ready_push(node, &self->ready, self_msg_deliver);
    return 0;
}

bool node_rank_live(const void *arg, uint32_t rank)
{
    const struct dht_node *node = arg;
    if (rank == node->config.self)
        return !node->leaving;
    return node->death == NULL || (node->death[rank] & 1) == 0;
}

void node_silent(struct dht_node *node, uint32_t rank)
{
    if (node->ops->silent != NULL && rank != node->config.self)
        node->ops->silent(node->arg, rank);
}

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

static bool rank_live_or_missing(const void *arg, uint32_t rank)
{
    const struct dht_node *node = arg;

    return node_rank_live(node, rank) ||
           (node->missing != NULL && node->missing[rank] != DHT_GONE) ||
           buried_is(node, rank);
}

unsigned node_homes_all(const struct dht_node *node, const struct dht_key *key,
                        uint32_t homes[DHT_REPLICAS_MAX])
{
    struct dht_ring ring = node->ring;

    ring.live = rank_live_or_missing;
    if (node->nmissing > 0 || node->ndoubted > 0) /* or nobody is buried, either */
        ring.nfew = 0;                            /* these are the live ones only */
    return dht_homes_find(&ring, key, homes);
}

void asks_stood_still(struct asks *asks, uint64_t ns, uint64_t now)
{
    for (unsigned i = 0; i < asks->n; i++)
        asks->ask[i].sent = util_clock_moved(asks->ask[i].sent, ns, now);
}

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

struct dht_node *dht_node_create(const struct dht_node_config *config,
                                 const struct dht_node_ops *ops, void *arg)
{
    struct dht_node *node;

    if (config->self >= config->nranks || config->replicas < 1 ||
        config->request_timeout == 0 || config->retry_interval == 0 ||
        config->invalidate_timeout == 0) {
        errno = EINVAL;
        return NULL;
    }
    node = calloc(1, sizeof(*node));
    if (node == NULL)
        return NULL;
    node->config = *config;
    /* A home waits no longer than that for who keeps an answer before a newer version
     * counts.
     */
    if (node->config.keep_time > config->invalidate_timeout)
        node->config.keep_time = config->invalidate_timeout;
    if (node->config.lease > config->invalidate_timeout)
        node->config.lease = config->invalidate_timeout;
    node->joining = config->absent;
    node->restoring = config->restores;
    if (node->config.replicas > config->nranks)
        node->config.replicas = config->nranks;
    if (node->config.replicas > DHT_REPLICAS_MAX)
        node->config.replicas = DHT_REPLICAS_MAX;
    node->ops = ops;
    node->arg = arg;
    node->ring = (struct dht_ring){.nranks = config->nranks,
                                   .replicas = node->config.replicas,
                                   .node = config->node,
                                   .live = node_rank_live,
                                   .arg = node,
                                   .few = node->few};
    node->nlive = config->nranks;
    for (uint32_t i = 0; i < config->nranks && i < DHT_FEW_LIVE; i++)
        node->few[i] = i;
    node->last_id = (uint64_t)config->incarnation << 40;
    node->last_token = node->last_id;
    node->armed = UINT64_MAX;
    node->review_timer.fn = own_review_timer;
    node->refresh_timer.fn = own_refresh_timer;
    node->sweep_timer.fn = home_sweep;
    node->orphan_timer.fn = leave_orphans_removed;
    node->copy_timer.fn = copies_timer;
    node->doubt_timer.fn = doubt_timer;
    if (config->absent) {
        node->death = malloc(config->nranks * sizeof(*node->death));
        if (node->death == NULL)
            goto free_node;
        for (uint32_t i = 0; i < config->nranks; i++)
            node->death[i] = i != config->self;
        node->few[0] = config->self;
        node->nlive = node->ring.nfew = 1;
    }
    node->shard = dht_shard_create(config->depth, config->bins);
    if (node->shard == NULL || (config->listing && dht_shard_keep_index(node->shard) < 0))
        goto free_node;
    if (config->refresh_interval > 0) {
        node_timer_start(node, &node->refresh_timer, TIMER_REFRESH);
        node_rearm(node);
    }
    return node;

free_node:
    dht_shard_destroy(node->shard);
    free(node->death);
    free(node);
    return NULL;
}

void dht_node_destroy(struct dht_node *node)
{
    if (node == NULL)
        return;
    /* What is freed is not taken out of these lists, which several parts share. */
    for (int i = 0; i < TIMER_CLASSES; i++) {
        struct timer *timer, *tmp;
        DL_FOREACH_SAFE(node->timers[i], timer, tmp)
        {
            timer->active = false;
        }
        node->timers[i] = NULL;
    }
    node_ready_free(node, self_msg_deliver);
    kept_drop_all(node);
    leave_destroy(node);
    lookup_destroy(node);
    copies_destroy(node);
    writing_destroy(node);
    home_writers_destroy(node);
    publish_destroy(node);
    incoming_destroy(node);
    own_destroy(node);
    home_destroy(node);
    dht_shard_destroy(node->shard);
    doubt_destroy(node);
    buried_destroy(node);
    lease_destroy(node);
    free(node->missing);
    free(node->death);
    free(node);
}

bool dht_node_receive(struct dht_node *node, const struct net_msg *msg)
{
    if (msg->type >= NET_MSG_TYPE_END)
        return false;
    if (msg->type != NET_MSG_PUBLISH_REPLY && msg->type != NET_MSG_ERROR &&
        handlers[msg->type].fn == NULL)
        return false;
    /* What comes from the network and says that it is from us, or from nobody, is not
     * answered. */
    if (msg->source >= node->config.nranks || msg->source == node->config.self)
        return true;
    if (!leave_refuses(node, msg))
        node_dispatch(node, msg);
    node_run(node);
    return true;
}

void dht_node_tick(struct dht_node *node)
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
    node_run(node);
}

/* All timers alike, so their lists stay in order; what was begun since (the loop notices a
 * stop a little later) is not later than if it began now. What is kept, and may not be
 * older than a bound that others hold to, is not touched: it goes by the clock. */
void dht_node_stood_still(struct dht_node *node, uint64_t ns)
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
    lookup_stood_still(node, ns);
    publish_stood_still(node, ns);
}

/* Keep nlive and few after a change; the death table says what holds now. */
static void few_update(struct dht_node *node, uint32_t rank, bool live)
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

void dht_node_set_live(struct dht_node *node, uint32_t rank, bool live)
{
    if (rank >= node->config.nranks || rank == node->config.self ||
        node_rank_live(node, rank) == live)
        return;
    if (node->death == NULL) {
        node->death = calloc(node->config.nranks, sizeof(*node->death));
        if (node->death == NULL)
            return; /* it stays "unknown": requests to it fail or time out one by one */
    }
    kept_drop_all(node);
    node->kept_floor = node->ops->now(node->arg);
    if (live) {
        leave_rank_live(node, rank);
        node->death[rank] &= ~1u;
        few_update(node, rank, true);
        doubt_rank_live(node, rank);
        lookup_rank_live(node);
    } else {
        node->death[rank] = ++node->epoch << 1 | 1;
        few_update(node, rank, false);
        lease_rank_dead(node, rank);
        doubt_rank_dead(node, rank);
        publish_rank_dead(node, rank);
        lookup_rank_dead(node, rank);
        told_rank_dead(node, rank);
        home_writers_rank_dead(node, rank);
        if (!node->sweep_timer.active)
            node_timer_start(node, &node->sweep_timer, TIMER_SWEEP);
        if (!node->orphan_timer.active)
            node_timer_start(node, &node->orphan_timer, TIMER_AGAIN);
    }
    writing_rank_changed(node, rank, live);
    own_review(node, false);
    copies_review(node);
    node_rearm(node);
}

bool dht_node_is_live(const struct dht_node *node, uint32_t rank)
{
    return rank < node->config.nranks && node_rank_live(node, rank);
}

bool dht_node_is_absent(const struct dht_node *node, uint32_t rank)
{
    /* Dead, and by none of the deaths that were counted. */
    return rank < node->config.nranks && node->death != NULL && node->death[rank] == 1;
}

void dht_node_set_missing(struct dht_node *node, uint32_t rank, enum dht_missing missing)
{
    if (rank >= node->config.nranks)
        return;
    doubt_missing(node, rank, missing);
    node_rearm(node);
}

struct live_with {
    const struct dht_node *node;
    uint32_t rank;
};

static bool rank_live_with(const void *arg, uint32_t rank)
{
    const struct live_with *with = arg;
    return rank == with->rank || node_rank_live(with->node, rank);
}

bool dht_node_concerns(const struct dht_node *node, const char *upath, uint32_t rank)
{
    struct live_with with = {node, rank};
    struct dht_ring ring = node->ring;
    uint32_t homes[DHT_REPLICAS_MAX];
    struct dht_key key;
    bool found = false;

    dht_key_init(&key, upath, node->config.depth);
    ring.live = rank_live_with;
    ring.arg = &with;
    if (!node_rank_live(node, rank))
        ring.nfew = 0; /* it is not among them */
    for (unsigned i = dht_homes_find(&ring, &key, homes); i > 0 && !found; i--)
        found = homes[i - 1] == rank;
    return found;
}

struct dht_shard *dht_node_shard(struct dht_node *node)
{
    return node->shard;
}

const struct dht_node_stats *dht_node_get_stats(const struct dht_node *node)
{
    return &node->stats;
}

unsigned dht_node_homes(struct dht_node *node, const char *upath,
                        uint32_t homes[DHT_REPLICAS_MAX])
{
    struct dht_key key;

    dht_key_init(&key, upath, node->config.depth);
    return dht_homes_find(&node->ring, &key, homes);
}

unsigned dht_node_pending(const struct dht_node *node)
{
    return node->npublish + node->nrepair + node->reviewing;
}
