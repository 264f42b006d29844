/*
 * dht/node_lookup_homes.c - whom a look-up asks, and what the answers amount to
 *
 * The first home in probe order is asked, or this rank itself where it is one of the
 * homes: every live home has every acknowledged entry, and ourselves costs no message. A
 * positive answer ends the lookup. A negative one, which only comes without WAIT or for a
 * tombstone, is checked with all other homes at once; the highest version of all answers
 * counts. A silent or dead home is passed over and the next of the probe order takes its
 * place. What takes its place may know nothing yet: node_negative.c says when a negative
 * answer is believed, and what happens until then. With WAIT the first home keeps a
 * waiter, which may get lost with that home's shard: lookup_round() renews it.
 */
#include "dht/node_lookup_homes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dht/node_lookup_cache.h"
#include "dht/node_negative.h"

void lookup_send_cancel(struct dht_node *node, struct dht_lookup *l, uint32_t rank)
{
    struct net_msg msg = {.type = NET_MSG_LOOKUP_CANCEL, .id = l->id};
    msg.entry.upath = l->upath;
    if (node_rank_live(node, rank))
        node_send(node, rank, &msg);
}

void lookup_unlink(struct dht_node *node, struct dht_lookup *l)
{
    for (unsigned i = 0; i < l->asks.n; i++)
        if (l->asks.ask[i].waiter || (l->asks.ask[i].wait && l->asks.ask[i].pending))
            lookup_send_cancel(node, l, l->asks.ask[i].rank);
    node_timer_stop(node, &l->timer);
    node_timer_stop(node, &l->retry);
    node_timer_stop(node, &l->again);
    HASH_DELETE(hh, node->lookups_by_id, l);
    DL_DELETE(node->lookups, l);
}

void lookup_free(struct dht_lookup *l)
{
    free(l->bytes);
    free(l);
}

void lookup_invalidate(struct dht_node *node, const struct dyad_entry *newer)
{
    struct dht_lookup *l;

    DL_FOREACH(node->lookups, l)
    {
        if (l->bytes != NULL && strcmp(l->upath, newer->upath) == 0 &&
            dyad_version_cmp(&l->best.version, &newer->version) < 0) {
            free(l->bytes);
            l->bytes = NULL;
        }
    }
}

void lookup_done(struct dht_node *node, struct ready *ready)
{
    struct dht_lookup *l = (struct dht_lookup *)ready;
    bool none = l->best.state == DYAD_ENTRY_NONE || l->status == EHOSTUNREACH;

    (void)node;
    l->fn(l->arg, l->status == ENOENT && l->met ? EALREADY : l->status,
          none ? NULL : &l->best);
    lookup_free(l);
}

void lookup_finish(struct dht_node *node, struct dht_lookup *l, int status)
{
    bool whole = !l->uncacheable;

    for (unsigned i = 0; i < l->asks.n; i++)
        whole = whole && !l->asks.ask[i].failed;
    l->status = status;
    cache_answered(node, l);
    cache_fill(node, l, whole);
    lookup_unlink(node, l);
    l->home = DYAD_RANK_NONE;
    node_ready_push(node, &l->ready, lookup_done);
}

/* The answers so far, taken together. */
static void lookup_conclude(struct dht_node *node, struct dht_lookup *l)
{
    enum negative negative = NEGATIVE_UNKNOWN;
    bool answered = false;

    if (l->best.state == DYAD_ENTRY_PUBLISHED) { /* tentative, and none is newer */
        lookup_finish(node, l, 0);
        return;
    }
    for (unsigned i = 0; i < l->asks.n; i++)
        answered |= l->asks.ask[i].answered;
    if (answered)
        negative = negative_judge(node, l);
    if (answered && negative != NEGATIVE_SURE &&
        ((l->flags & NET_LOOKUP_WAIT) != 0 ||
         (negative == NEGATIVE_TENTATIVE &&
          node->ops->now(node->arg) - l->since < node->config.request_timeout))) {
        node_timer_start(node, &l->again,
                         negative == NEGATIVE_TENTATIVE ? TIMER_AGAIN : TIMER_RETRY);
        return;
    }
    lookup_finish(node, l, negative == NEGATIVE_SURE ? ENOENT : EHOSTUNREACH);
}

/* One id serves all messages of a lookup, so a home that is asked again renews its waiter
 * instead of adding one, and a notice that overtakes the answer to the LOOKUP is
 * understood. */
int lookup_ask(struct dht_node *node, struct dht_lookup *l, uint32_t rank, bool wait)
{
    struct net_msg msg = {
        .type = NET_MSG_LOOKUP,
        .flags = (l->flags & (NET_LOOKUP_COPY | NET_LOOKUP_KEEP | NET_LOOKUP_WRITES)) |
                 (wait ? NET_LOOKUP_WAIT : 0),
        .id = l->id,
        .newer_than = l->newer_than};
    struct ask *ask = asks_get(&l->asks, rank);

    if (ask == NULL)
        return -1;
    msg.entry.upath = l->upath;
    ask->wait = wait;
    ask->answered = ask->refused = false;
    ask->sent = node->ops->now(node->arg);
    if (node_send(node, rank, &msg) < 0) {
        ask->pending = ask->waiter = false;
        ask->failed = true;
        return -1;
    }
    ask->pending = true;
    if (rank != node->config.self)
        node->stats.asked++;
    if (!l->timer.active)
        node_timer_start(node, &l->timer, TIMER_LOOKUP);
    return 0;
}

uint32_t lookup_first_home(struct dht_node *node, struct dht_lookup *l)
{
    uint32_t homes[DHT_REPLICAS_MAX];
    unsigned n = node_homes(node, &l->key, node->config.replicas, &l->asks, homes);

    for (unsigned i = 0; i < n; i++)
        if (homes[i] == node->config.self)
            return homes[i];
    return n > 0 ? homes[0] : DYAD_RANK_NONE;
}

/* See that the first home that is not passed over has been asked. */
static void lookup_advance_first(struct dht_node *node, struct dht_lookup *l)
{
    bool wait = (l->flags & NET_LOOKUP_WAIT) != 0;

    for (;;) {
        uint32_t rank = lookup_first_home(node, l);
        const struct ask *ask = asks_find(&l->asks, rank);
        if (rank == DYAD_RANK_NONE || (ask == NULL && l->asks.n == DHT_ASK_MAX)) {
            lookup_conclude(node, l);
            return;
        }
        if (ask != NULL && (ask->waiter || (ask->pending && ask->wait == wait)))
            return;
        if (lookup_ask(node, l, rank, wait) == 0)
            return;
    }
}

/* See that all homes have been asked; end when all have answered. */
static void lookup_advance_all(struct dht_node *node, struct dht_lookup *l)
{
    uint32_t homes[DHT_REPLICAS_MAX];
    bool again;

    do {
        unsigned n = node_homes(node, &l->key, node->config.replicas, &l->asks, homes);
        again = false;
        for (unsigned i = 0; i < n; i++) {
            const struct ask *ask = asks_find(&l->asks, homes[i]);
            if (ask != NULL ? ask->pending || ask->answered || ask->waiter
                            : l->asks.n == DHT_ASK_MAX)
                continue;
            again |= lookup_ask(node, l, homes[i], false) < 0;
        }
    } while (again);
    if (!asks_pending(&l->asks))
        lookup_conclude(node, l);
}

void lookup_advance(struct dht_node *node, struct dht_lookup *l)
{
    if (l->state == LOOKUP_ALL)
        lookup_advance_all(node, l);
    else
        lookup_advance_first(node, l);
}

void lookup_ask_all(struct dht_node *node, struct dht_lookup *l)
{
    l->state = LOOKUP_ALL;
    node_timer_stop(node, &l->retry);
    lookup_advance(node, l);
}

void lookup_again(struct dht_node *node, struct dht_lookup *l)
{
    for (unsigned i = 0; i < l->asks.n; i++)
        if (l->asks.ask[i].waiter)
            lookup_send_cancel(node, l, l->asks.ask[i].rank);
    l->asks.n = 0; /* all have answered or failed */
    l->tentative = false;
    l->state = (l->flags & DHT_LOOKUP_SURE) != 0 ? LOOKUP_ALL : LOOKUP_FIRST;
    lookup_advance(node, l);
}

static void lookup_again_timeout(struct dht_node *node, struct timer *timer)
{
    lookup_again(node,
                 (struct dht_lookup *)((char *)timer - offsetof(struct dht_lookup, again)));
}

void lookup_ask_failed(struct dht_node *node, struct dht_lookup *l, struct ask *ask)
{
    if (ask->pending &&
        ask->wait) /* it may be slow, not dead, and keep a waiter for nothing */
        lookup_send_cancel(node, l, ask->rank);
    ask->pending = ask->answered = ask->waiter = ask->wait = false;
    ask->failed = true;
    if (l->home == ask->rank)
        l->home = DYAD_RANK_NONE;
}

static void lookup_timeout(struct dht_node *node, struct timer *timer)
{
    struct dht_lookup *l =
        (struct dht_lookup *)((char *)timer - offsetof(struct dht_lookup, timer));
    uint64_t now = node->ops->now(node->arg);

    for (unsigned i = 0; i < l->asks.n; i++) {
        struct ask *ask = &l->asks.ask[i];
        if (ask->pending && ask->sent + node->config.request_timeout <= now) {
            lookup_ask_failed(node, l, ask);
            node_silent(node, ask->rank);
        }
    }
    lookup_advance(node, l);
    if (!l->ready.queued && !l->timer.active && asks_pending(&l->asks))
        node_timer_start(node, &l->timer, TIMER_LOOKUP);
}

/* Every retry_interval, ask all homes again. No wait is lost for longer than that, once
 * ranks agree on who is dead (until then (4) helps):
 *
 * - (1) A publish reaches every home that the publisher believes alive, at once or, where
 *   a home was silent or has come back, by the review in node_republish.c.
 * - (2) When our home dies we register at the next at once.
 * - (3) Here we ask the first home again, with WAIT, so a waiter that a home lost with
 *   its shard is renewed, and every other home without: whatever the home that keeps the
 *   waiter has missed, another one has.
 * - (4) Ranks that disagree about the dead may compute disjoint homes: each believes
 *   ranks dead that the other uses. So the round also asks the homes that 2R replicas
 *   would have, among which are those of a publisher that wrongly skipped up to R of
 *   ours; a rank that is really dead and that we still believe alive is passed over by
 *   its silence, and what takes its place is where the publisher went. */
void lookup_round(struct dht_node *node, struct dht_lookup *l)
{
    uint32_t homes[2 * DHT_REPLICAS_MAX], first;
    const struct ask *ask;
    unsigned left = 0, n;

    /* A rank that was passed over may be there again; one that was asked may be no home
     * now. Outstanding requests go on, so that a home's silence counts from the first of
     * them. */
    for (unsigned i = 0; i < l->asks.n; i++)
        if (l->asks.ask[i].waiter || l->asks.ask[i].pending)
            l->asks.ask[left++] = l->asks.ask[i];
    l->asks.n = left;
    node_timer_start(node, &l->retry, TIMER_RETRY);

    first = lookup_first_home(node, l);
    ask = asks_find(&l->asks, first);
    if (ask == NULL || !ask->pending || !ask->wait)
        lookup_ask(node, l, first, true);
    n = node_homes(node, &l->key, node->config.replicas, NULL, homes);
    n += node_homes(node, &l->key, 2 * node->config.replicas, NULL, homes + n);
    for (unsigned i = 0; i < n; i++) {
        if (asks_find(&l->asks, homes[i]) == NULL)
            lookup_ask(node, l, homes[i], false);
    }
    lookup_advance(node, l);
}

static void lookup_retry(struct dht_node *node, struct timer *timer)
{
    lookup_round(node,
                 (struct dht_lookup *)((char *)timer - offsetof(struct dht_lookup, retry)));
}

void lookup_set_timers(struct dht_lookup *l)
{
    l->timer.fn = lookup_timeout;
    l->retry.fn = lookup_retry;
    l->again.fn = lookup_again_timeout;
}
