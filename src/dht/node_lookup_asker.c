/*
 * dht/node_lookup_asker.c - our lookups: how they begin, what the homes say, who comes and
 * goes
 *
 * Whom a lookup asks, and when it ends, is in node_lookup_homes.c; what is kept of answers
 * in node_lookup_cache.c.
 *
 * Also with WAIT, once any rank has died or a home was passed over, all homes are asked,
 * the others without.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dht/node_copies.h"
#include "dht/node_lookup_homes.h"
#include "dht/node_lookup_cache.h"
#include "dht/node_module.h"
#include "dht/node_own.h"
#include "util/clock.h"
#include "util/digest.h"
#include "util/log.h"

static void take_bytes(struct dht_lookup *l, const struct net_msg *msg)
{
    if ((l->flags & NET_LOOKUP_COPY) == 0 || l->bytes != NULL || msg->blob_len == 0 ||
        msg->blob_len != l->best.size)
        return;
    if (msg->digest != 0 && util_digest(msg->blob, msg->blob_len) != msg->digest) {
        log_warn(
            "rank %u has other bytes of \"%s\" than were published: they are fetched from "
            "its owner",
            msg->source, l->upath);
        return;
    }
    l->bytes = malloc(msg->blob_len); /* without memory: they are fetched */
    if (l->bytes != NULL)
        memcpy(l->bytes, msg->blob, msg->blob_len);
}

/* What a home has said; or, in place of an older version, our own tombstone. A home that was
 * out of reach may be asked before it has been given that, when all that had it are dead. */
static const struct dyad_entry *answer_of(struct dht_node *node, const struct dht_lookup *l,
                                          const struct net_msg *msg)
{
    const struct dyad_entry *said = &msg->entry;
    const struct own *own = said->state == DYAD_ENTRY_PUBLISHED
                                ? own_find(node, l->upath, (uint32_t)l->key.full)
                                : NULL;

    if (own != NULL && own->entry.state == DYAD_ENTRY_WITHDRAWN &&
        dyad_version_cmp(&own->entry.version, &said->version) > 0)
        return &own->entry;
    return said;
}

/* An entry that is above newer_than. True if it is the best so far. One of the best's
 * version may bring what others have not, or not any more: the bytes (of msg). */
static bool lookup_take(struct dht_lookup *l, const struct dyad_entry *entry,
                        const struct net_msg *msg)
{
    int order = l->best.state == DYAD_ENTRY_NONE
                    ? 1
                    : dyad_version_cmp(&entry->version, &l->best.version);

    if (dyad_version_cmp(&entry->version, &l->newer_than) <= 0 || order < 0)
        return false;
    if (order > 0) {
        free(l->bytes);
        l->bytes = NULL;
        l->best = *entry;
        l->best.upath = l->upath;
    }
    take_bytes(l, msg);
    return order > 0;
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
    if (lookup_first_home(node, l) != ask->rank) /* it has come back meanwhile */
        lookup_round(node, l);
    else if ((first && node->death != NULL) || any_passed_over(l))
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
    const struct dyad_entry *entry = answer_of(node, l, msg);

    ask->pending = ask->waiter = ask->wait = false;
    ask->answered = true;
    ask->tentative = (msg->flags & NET_LOOKUP_UNSURE) != 0;
    ask->stood_in = (msg->flags & NET_LOOKUP_STOOD_IN) != 0;
    l->tentative |= ask->tentative;
    if (l->home == ask->rank)
        l->home = DYAD_RANK_NONE;
    if (entry->state == DYAD_ENTRY_PUBLISHED && lookup_take(l, entry, msg)) {
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
        lookup_take(l, entry, msg);
    /* While another home keeps our waiter, that this one has nothing is no news. */
    if (l->state == LOOKUP_WAITING && l->best.state == DYAD_ENTRY_NONE)
        lookup_advance(node, l);
    else
        lookup_ask_all(node, l);
}

static bool lookup_reply(struct dht_node *node, const struct net_msg *msg)
{
    struct dht_lookup *l;
    struct ask *ask;
    bool newer;

    l = lookup_find(node, msg, &ask);
    if (l == NULL || !ask->pending)
        return true;
    newer = dyad_version_cmp(&msg->entry.version, &l->newer_than) > 0;
    l->met = l->met || (msg->flags & NET_LOOKUP_WRITES) != 0;
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
        lookup_ask_failed(node, l, ask);
        ask->refused = true;
        lookup_advance(node, l);
    }
    return true;
}

static bool lookup_notify(struct dht_node *node, const struct net_msg *msg)
{
    struct dht_lookup *l;
    struct ask *ask;

    l = lookup_find(node, msg, &ask);
    if (l != NULL && (ask->wait || ask->waiter) && msg->entry.state != DYAD_ENTRY_NONE &&
        dyad_version_cmp(&msg->entry.version, &l->newer_than) > 0)
        lookup_answered(node, l, ask, msg);
    return true;
}

static void lookup_rank_lost(struct dht_node *node, uint32_t rank)
{
    struct dht_lookup *l, *tmp;

    DL_FOREACH_SAFE(node->lookups, l, tmp)
    {
        struct ask *ask = asks_find(&l->asks, rank);
        if (ask == NULL || ask->failed)
            continue;
        lookup_ask_failed(node, l, ask);
        lookup_advance(node, l);
    }
}

/* Look-ups whose answer was not believed ask again. */
static void lookup_wake(struct dht_node *node)
{
    struct dht_lookup *l, *tmp;

    DL_FOREACH_SAFE(node->lookups, l, tmp)
    {
        if (!l->again.active)
            continue;
        node_timer_stop(node, &l->again);
        lookup_again(node, l);
    }
}

/* A rank came back: waiters belong where it is now the first home, and it may know more. It
 * is not passed over any more. */
static void lookup_rank_back(struct dht_node *node, uint32_t rank)
{
    struct dht_lookup *l, *tmp;

    lookup_wake(node);
    DL_FOREACH_SAFE(node->lookups, l, tmp)
    {
        struct ask *ask = asks_find(&l->asks, rank);
        if (ask != NULL && (l->flags & NET_LOOKUP_WAIT) != 0 && l->state != LOOKUP_ALL)
            ask->failed = false;
        if (l->state == LOOKUP_WAITING && lookup_first_home(node, l) != l->home)
            lookup_round(node, l);
    }
}

static void lookup_stood_still(struct dht_node *node, uint64_t ns)
{
    uint64_t now = node->ops->now(node->arg);
    struct dht_lookup *l;

    DL_FOREACH(node->lookups, l)
    {
        l->since = util_clock_moved(l->since, ns, now);
        asks_stood_still(&l->asks, ns, now);
    }
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
    lookup_set_timers(l);
    l->since = node->ops->now(node->arg);
    l->home = DYAD_RANK_NONE;
    l->fn = fn;
    l->arg = arg;
    dht_key_init(&l->key, upath, node->config.depth);
    if (cache_answers(node, l)) {
        node_ready_push(node, &l->ready, lookup_done);
        node_rearm(node);
        return l;
    }
    HASH_ADD(hh, node->lookups_by_id, id, sizeof(l->id), l);
    if (l->hh.tbl == NULL) {
        lookup_free(l);
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
    lookup_free(lookup);
    node_rearm(node);
}

void *dht_lookup_take_bytes(struct dht_lookup *lookup)
{
    void *bytes = lookup->bytes;

    lookup->bytes = NULL;
    return bytes;
}

uint32_t dht_lookup_home(const struct dht_lookup *lookup)
{
    return lookup->home;
}

static void lookup_destroy(struct dht_node *node)
{
    struct dht_lookup *l, *tmp;
    struct ready *ready;

    DL_FOREACH(node->ready, ready)
    {
        if (ready->fn == lookup_done)
            free(((struct dht_lookup *)ready)->bytes);
    }
    node_ready_free(node, lookup_done);
    HASH_CLEAR(hh, node->lookups_by_id);
    DL_FOREACH_SAFE(node->lookups, l, tmp)
    {
        lookup_free(l);
    }
}

static const struct node_message messages[] = {
    {NET_MSG_LOOKUP_REPLY, false, lookup_reply},
    {NET_MSG_ERROR, false, lookup_reply},
    {NET_MSG_NOTIFY, false, lookup_notify},
    {0},
};

const struct node_module node_lookup_module = {
    .messages = messages,
    .destroy = lookup_destroy,
    .rank_lost = lookup_rank_lost,
    .rank_back = lookup_rank_back,
    .sure_again = lookup_wake,
    .stood_still = lookup_stood_still,
};
