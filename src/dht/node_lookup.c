/*
 * dht/node_lookup.c - our lookups
 *
 * The first home in probe order is asked, or this rank itself where it is one of the homes:
 * every live home has every acknowledged entry, and ourselves costs no message. A positive
 * answer ends the lookup. A negative one, which only comes without WAIT or for a tombstone,
 * is checked with all other homes at once; the highest version of all answers counts. A
 * silent or dead home is passed over and the next of the probe order takes its place.
 *
 * Also with WAIT, once any rank has died or a home was passed over, all homes are asked,
 * the others without.
 *
 * What takes its place may know nothing yet, or be on the wrong side of a cut. So that
 * nothing is published is believed only if one says so that has been a home all along: one
 * of the homes as they would be if all were live that are silent or missing. Where none of
 * them can be reached it is asked again for request_timeout (owners that know of a death
 * publish again at once), and then the answer is that nobody can say: EHOSTUNREACH. Nor is
 * one believed that was cut off, or that somebody who was cut off has not told yet what it
 * published meanwhile (node_tentative.c); and none if it is we who may be on the smaller
 * side of a cut, for whoever answers is there, too. What such a home does have may be
 * superseded: the others are asked for something newer, as after a negative answer. All
 * this holds for a tombstone, too: who has stood in for homes keeps what they were not told
 * of, and when they fall silent is asked once more. A wait, which a tombstone would end,
 * goes on until it is known to be in force.
 *
 * With WAIT the first home keeps a waiter. No wait is lost for longer than retry_interval,
 * once ranks agree on who is dead (until then, see below): (1) A publish reaches every home
 * that the publisher believes alive, at once or, where a home was silent or has come back,
 * by the review in node_own.c. (2) When our home dies we register at the next at once.
 * (3) Every retry_interval we ask the first home again, with WAIT, so a waiter that a home
 * lost with its shard is renewed, and every other home without: whatever the home that
 * keeps the waiter has missed, another one has. (4) Ranks that disagree about the dead may
 * compute disjoint homes: each believes ranks dead that the other uses. So the round also
 * asks the homes that 2R replicas would have, among which are those of a publisher that
 * wrongly skipped up to R of ours; a rank that is really dead and that we still believe
 * alive is passed over by its silence, and what takes its place is where the publisher
 * went.
 *
 * One id serves all messages of a lookup, so a home that is asked again renews its waiter
 * instead of adding one, and a notice that overtakes the answer to the LOOKUP is
 * understood.
 */
#include "dht/node_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/clock.h"

static void lookup_advance(struct dht_node *node, struct dht_lookup *l);

static void lookup_send_cancel(struct dht_node *node, struct dht_lookup *l, uint32_t rank)
{
    struct net_msg msg = {.type = NET_MSG_LOOKUP_CANCEL, .id = l->id};
    msg.entry.upath = l->upath;
    if (node_rank_live(node, rank))
        node_send(node, rank, &msg);
}

/* Take the lookup out of everything but the queue of what is ready. */
static void lookup_unlink(struct dht_node *node, struct dht_lookup *l)
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

static void lookup_done(struct dht_node *node, struct ready *ready)
{
    struct dht_lookup *l = (struct dht_lookup *)ready;
    bool none = l->best.state == DYAD_ENTRY_NONE || l->status == EHOSTUNREACH;

    (void)node;
    l->fn(l->arg, l->status, none ? NULL : &l->best);
    free(l);
}

static void lookup_finish(struct dht_node *node, struct dht_lookup *l, int status)
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

/* Has one answered that would know? `soon`: one that has not may yet. */
static bool negative_is_sure(struct dht_node *node, struct dht_lookup *l, bool *soon)
{
    uint32_t homes[DHT_REPLICAS_MAX];
    unsigned n = node_homes_all(node, &l->key, homes);

    *soon = false;
    for (unsigned i = 0; i < n; i++) {
        const struct ask *ask = asks_find(&l->asks, homes[i]);
        if (ask != NULL && ask->answered && !ask->tentative &&
            node->side == DHT_SIDE_BIGGER && !unrecovered_is_empty(node, homes[i]))
            return true;
        if (unrecovered_is(node, homes[i]))
            *soon |= tentative_may_end(node);
        else if ((homes[i] != node->config.self || ask == NULL || !ask->answered) &&
                 (node_rank_live(node, homes[i]) || node->missing[homes[i]] == DHT_MISSING))
            *soon = true;
    }
    /* We are one of those who do not know. */
    if (node->side == DHT_SIDE_SMALLER || (tentative_is(node) && !*soon))
        *soon = tentative_may_end(node);
    return false;
}

/* Is it a "no" that may be that of somebody who cannot know? */
static bool must_be_sure(struct dht_node *node, struct dht_lookup *l)
{
    uint32_t homes[DHT_REPLICAS_MAX];
    bool silent = false;
    unsigned n;

    if (l->best.state != DYAD_ENTRY_WITHDRAWN || l->tentative ||
        node->side != DHT_SIDE_BIGGER)
        return true;
    /* It is news where a home has it, and may be an old story where those are silent. */
    n = node_homes(node, &l->key, node->config.replicas, NULL, homes);
    for (unsigned i = 0; i < n; i++) {
        const struct ask *ask = asks_find(&l->asks, homes[i]);
        if (ask != NULL && ask->answered)
            return false;
        silent |= ask != NULL && ask->failed && !ask->refused;
    }
    return silent;
}

/* DHT_LOOKUP_SURE: a home that is silent, and not known to be lost, may be so because we
 * are cut off with those that have answered. */
static bool all_have_answered(struct dht_node *node, struct dht_lookup *l, bool *soon)
{
    uint32_t homes[DHT_REPLICAS_MAX];
    unsigned n = node_homes_all(node, &l->key, homes);

    for (unsigned i = 0; i < n; i++) {
        const struct ask *ask = asks_find(&l->asks, homes[i]);
        if (node_rank_live(node, homes[i]) && (ask == NULL || !ask->answered)) {
            *soon = true;
            return false;
        }
    }
    return true;
}

static bool is_sure(struct dht_node *node, struct dht_lookup *l, bool *soon)
{
    return negative_is_sure(node, l, soon) &&
           ((l->flags & DHT_LOOKUP_SURE) == 0 || all_have_answered(node, l, soon));
}

static void lookup_again(struct dht_node *node, struct timer *timer)
{
    struct dht_lookup *l =
        (struct dht_lookup *)((char *)timer - offsetof(struct dht_lookup, again));

    for (unsigned i = 0; i < l->asks.n; i++)
        if (l->asks.ask[i].waiter)
            lookup_send_cancel(node, l, l->asks.ask[i].rank);
    l->asks.n = 0; /* all have answered or failed */
    l->tentative = false;
    l->state = (l->flags & DHT_LOOKUP_SURE) != 0 ? LOOKUP_ALL : LOOKUP_FIRST;
    lookup_advance(node, l);
}

/* What the answers so far amount to. */
static void lookup_conclude(struct dht_node *node, struct dht_lookup *l)
{
    bool answered = false, soon;

    if (l->best.state == DYAD_ENTRY_PUBLISHED) { /* of an unsure home, and none is newer */
        lookup_finish(node, l, 0);
        return;
    }
    for (unsigned i = 0; i < l->asks.n; i++)
        answered |= l->asks.ask[i].answered;
    if (answered && must_be_sure(node, l) && !is_sure(node, l, &soon)) {
        if ((l->flags & NET_LOOKUP_WAIT) != 0 ||
            (soon && node->ops->now(node->arg) - l->since < node->config.request_timeout)) {
            node_timer_start(node, &l->again, soon ? TIMER_AGAIN : TIMER_RETRY);
            return;
        }
        answered = false;
    }
    lookup_finish(node, l, answered ? ENOENT : EHOSTUNREACH);
}

/* 0, or -1: the rank is passed over, or (asks full) cannot be asked. */
static int lookup_ask(struct dht_node *node, struct dht_lookup *l, uint32_t rank, bool wait)
{
    struct net_msg msg = {.type = NET_MSG_LOOKUP,
                          .flags = (l->flags & (NET_LOOKUP_COPY | NET_LOOKUP_KEEP)) |
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

static uint32_t lookup_first_home(struct dht_node *node, struct dht_lookup *l)
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

static void lookup_advance(struct dht_node *node, struct dht_lookup *l)
{
    if (l->state == LOOKUP_ALL)
        lookup_advance_all(node, l);
    else
        lookup_advance_first(node, l);
}

static void lookup_ask_all(struct dht_node *node, struct dht_lookup *l)
{
    l->state = LOOKUP_ALL;
    node_timer_stop(node, &l->retry);
    lookup_advance(node, l);
}

static void ask_fail(struct dht_node *node, struct dht_lookup *l, struct ask *ask)
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
            ask_fail(node, l, ask);
            node_silent(node, ask->rank);
        }
    }
    lookup_advance(node, l);
    if (!l->ready.queued && !l->timer.active && asks_pending(&l->asks))
        node_timer_start(node, &l->timer, TIMER_LOOKUP);
}

/* Ask everybody again (see above). */
static void lookup_round(struct dht_node *node, struct dht_lookup *l)
{
    uint32_t homes[2 * DHT_REPLICAS_MAX], first;
    const struct ask *ask;
    unsigned left = 0, n;

    /* Who was passed over may be there again; who was asked before may be no home now. What
     * is outstanding goes on, so that a home's silence is counted from the first question.
     */
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

/* An entry that is above newer_than, from a home. True if it is the best so far. */
static bool lookup_take(struct dht_lookup *l, const struct dyad_entry *entry)
{
    if (dyad_version_cmp(&entry->version, &l->newer_than) <= 0 ||
        (l->best.state != DYAD_ENTRY_NONE &&
         dyad_version_cmp(&entry->version, &l->best.version) <= 0))
        return false;
    l->best = *entry;
    l->best.upath = l->upath;
    return true;
}

static bool any_passed_over(const struct dht_lookup *l)
{
    for (unsigned i = 0; i < l->asks.n; i++)
        if (l->asks.ask[i].failed)
            return true;
    return false;
}

/* The home that has a waiter of ours now may stand in for one that is dead, or silent, and
 * not know what the others do. */
static void lookup_ask_others(struct dht_node *node, struct dht_lookup *l)
{
    uint32_t homes[DHT_REPLICAS_MAX];
    unsigned n = node_homes(node, &l->key, node->config.replicas, NULL, homes);

    for (unsigned i = 0; i < n; i++)
        if (asks_find(&l->asks, homes[i]) == NULL)
            lookup_ask(node, l, homes[i], false);
}

static void lookup_registered(struct dht_node *node, struct dht_lookup *l, struct ask *ask)
{
    ask->waiter = true;
    if (l->state == LOOKUP_ALL)
        return;
    l->home = ask->rank;
    for (unsigned i = 0; i < l->asks.n; i++) {
        struct ask *old = &l->asks.ask[i];
        if (old != ask && old->waiter) {
            lookup_send_cancel(node, l, old->rank);
            old->waiter = old->wait = false;
        }
    }
    bool first = l->state == LOOKUP_FIRST;
    l->state = LOOKUP_WAITING;
    if (first)
        node_timer_start(node, &l->retry, TIMER_RETRY);
    if ((first && node->death != NULL) || any_passed_over(l))
        lookup_ask_others(node, l);
}

static struct dht_lookup *lookup_find(struct dht_node *node, const struct net_msg *msg,
                                      struct ask **ask)
{
    struct dht_lookup *l;

    HASH_FIND(hh, node->lookups_by_id, &msg->id, sizeof(msg->id), l);
    if (l == NULL || (msg->entry.upath != NULL && strcmp(msg->entry.upath, l->upath) != 0))
        return NULL;
    *ask = asks_find(&l->asks, msg->source);
    return *ask != NULL ? l : NULL;
}

/* The home said what it has: it keeps no waiter. */
static void lookup_answered(struct dht_node *node, struct dht_lookup *l, struct ask *ask,
                            const struct net_msg *msg)
{
    const struct dyad_entry *entry = &msg->entry;

    ask->pending = ask->waiter = ask->wait = false;
    ask->answered = true;
    ask->tentative = (msg->flags & NET_LOOKUP_UNSURE) != 0;
    l->tentative |= ask->tentative;
    if (l->home == ask->rank)
        l->home = DYAD_RANK_NONE;
    if (entry->state == DYAD_ENTRY_PUBLISHED && lookup_take(l, entry)) {
        if ((l->flags & NET_LOOKUP_COPY) != 0 && entry->owner != node->config.self)
            copies_note(
                node, l->upath, &entry->version,
                (msg->flags & NET_LOOKUP_UNNOTED) != 0 ? DYAD_RANK_NONE : ask->rank);
        if (ask->tentative)
            lookup_ask_all(node, l);
        else
            lookup_finish(node, l, 0);
        return;
    }
    if (entry->state == DYAD_ENTRY_WITHDRAWN)
        lookup_take(l, entry);
    /* While another home keeps our waiter, that this one has nothing is no news. */
    if (l->state == LOOKUP_WAITING && l->best.state == DYAD_ENTRY_NONE)
        lookup_advance(node, l);
    else
        lookup_ask_all(node, l);
}

void lookup_reply(struct dht_node *node, const struct net_msg *msg)
{
    struct dht_lookup *l;
    struct ask *ask;
    bool newer;

    l = lookup_find(node, msg, &ask);
    if (l == NULL || !ask->pending)
        return;
    newer = dyad_version_cmp(&msg->entry.version, &l->newer_than) > 0;
    l->uncacheable = l->uncacheable || (msg->flags & NET_LOOKUP_KEEP) == 0 ||
                     (msg->flags & NET_LOOKUP_UNSURE) != 0;
    if (msg->type == NET_MSG_LOOKUP_REPLY && msg->status == EAGAIN && ask->wait) {
        ask->pending = false;
        lookup_registered(node, l, ask);
        if (l->state == LOOKUP_ALL)
            lookup_advance(node, l);
    } else if (msg->type == NET_MSG_LOOKUP_REPLY &&
               ((msg->status == 0 && msg->entry.state == DYAD_ENTRY_PUBLISHED && newer) ||
                (msg->status == ENOENT && msg->entry.state == DYAD_ENTRY_WITHDRAWN &&
                 newer) ||
                (msg->status == ENOENT && msg->entry.state == DYAD_ENTRY_NONE &&
                 !ask->wait))) {
        lookup_answered(node, l, ask, msg);
    } else {
        ask_fail(node, l, ask);
        ask->refused = true;
        lookup_advance(node, l);
    }
}

void lookup_notify(struct dht_node *node, const struct net_msg *msg)
{
    struct dht_lookup *l;
    struct ask *ask;

    l = lookup_find(node, msg, &ask);
    if (l != NULL && (ask->wait || ask->waiter) && msg->entry.state != DYAD_ENTRY_NONE &&
        dyad_version_cmp(&msg->entry.version, &l->newer_than) > 0)
        lookup_answered(node, l, ask, msg);
}

void lookup_rank_dead(struct dht_node *node, uint32_t rank)
{
    struct dht_lookup *l, *tmp;

    DL_FOREACH_SAFE(node->lookups, l, tmp)
    {
        struct ask *ask = asks_find(&l->asks, rank);
        if (ask == NULL || ask->failed)
            continue;
        ask_fail(node, l, ask);
        lookup_advance(node, l);
    }
}

/* A rank came back: waiters belong where it is now the first home, and it may know more. */
void lookup_rank_live(struct dht_node *node)
{
    struct dht_lookup *l, *tmp;

    lookup_wake(node);
    DL_FOREACH_SAFE(node->lookups, l, tmp)
    {
        if (l->state == LOOKUP_WAITING && lookup_first_home(node, l) != l->home)
            lookup_round(node, l);
    }
}

void lookup_wake(struct dht_node *node)
{
    struct dht_lookup *l, *tmp;

    DL_FOREACH_SAFE(node->lookups, l, tmp)
    {
        if (!l->again.active)
            continue;
        node_timer_stop(node, &l->again);
        lookup_again(node, &l->again);
    }
}

void lookup_stood_still(struct dht_node *node, uint64_t ns)
{
    uint64_t now = node->ops->now(node->arg);
    struct dht_lookup *l;

    DL_FOREACH(node->lookups, l)
    {
        l->since = util_clock_moved(l->since, ns, now);
        asks_stood_still(&l->asks, ns, now);
    }
}

/* End a lookup before it has begun. */
static bool lookup_is_cached(struct dht_node *node, struct dht_lookup *l)
{
    const struct cached *cached;
    struct dyad_answer answer;

    if ((l->flags & NET_LOOKUP_KEEP) == 0)
        return false;
    cached = cache_find(node, l->upath);
    if (cached == NULL && !cache_of_node(node, l, &answer))
        return false;
    l->status = cached != NULL ? cached->status : answer.status;
    /* That this rank is known as a holder must be as of now. */
    if (l->status == 0 && (l->flags & NET_LOOKUP_COPY) != 0)
        return false;
    l->best = cached != NULL ? cached->entry : answer.entry;
    l->best.upath = l->upath;
    node->stats.kept += cached != NULL;
    node->stats.node += cached == NULL;
    node_ready_push(node, &l->ready, lookup_done);
    return true;
}

struct dht_lookup *dht_node_lookup(struct dht_node *node, const char *upath, uint8_t flags,
                                   const struct dyad_version *newer_than, dht_lookup_fn fn,
                                   void *arg)
{
    size_t len = strlen(upath);
    struct dht_lookup *l = calloc(1, sizeof(*l) + len + 1);

    if (l == NULL)
        return NULL;
    memcpy(l->upath, upath, len + 1);
    l->id = node_next_id(node);
    l->flags = flags;
    if (newer_than != NULL)
        l->newer_than = *newer_than;
    if ((flags & NET_LOOKUP_WAIT) != 0 || l->newer_than.counter > 0 ||
        node->config.keep_time == 0)
        l->flags &= ~NET_LOOKUP_KEEP;
    l->timer.fn = lookup_timeout;
    l->retry.fn = lookup_retry;
    l->again.fn = lookup_again;
    l->since = node->ops->now(node->arg);
    l->home = DYAD_RANK_NONE;
    l->fn = fn;
    l->arg = arg;
    dht_key_init(&l->key, upath, node->config.depth);
    if (lookup_is_cached(node, l)) {
        node_rearm(node);
        return l;
    }
    HASH_ADD(hh, node->lookups_by_id, id, sizeof(l->id), l);
    if (l->hh.tbl == NULL) {
        free(l);
        errno = ENOMEM;
        return NULL;
    }
    DL_APPEND(node->lookups, l);
    cache_expect(node, l);
    if ((flags & DHT_LOOKUP_SURE) != 0)
        l->state = LOOKUP_ALL;
    lookup_advance(node, l);
    node_rearm(node);
    return l;
}

void dht_node_cancel(struct dht_node *node, struct dht_lookup *lookup)
{
    if (lookup->ready.queued) {
        node_ready_remove(node, &lookup->ready);
    } else {
        cache_fill(node, lookup, false);
        lookup_unlink(node, lookup);
    }
    free(lookup);
    node_rearm(node);
}

uint32_t dht_lookup_home(const struct dht_lookup *lookup)
{
    return lookup->home;
}

void lookup_destroy(struct dht_node *node)
{
    struct dht_lookup *l, *tmp;

    node_ready_free(node, lookup_done);
    HASH_CLEAR(hh, node->lookups_by_id);
    DL_FOREACH_SAFE(node->lookups, l, tmp)
    {
        free(l);
    }
}
