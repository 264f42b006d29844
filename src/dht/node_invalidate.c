/*
 * dht/node_invalidate.c - the home role: INVALIDATE to holders of older versions, or to
 * others of their node
 *
 * When a home takes a version, the holders of older ones get an INVALIDATE, and the
 * publisher is acknowledged when they have answered: then no node uses an older version,
 * however fast versions follow each other. No answer is waited for longer than
 * invalidate_timeout.
 *
 * A holder's copy lies on its node, where others read it, also when the holder is dead,
 * or silent because it is stopped: then a live rank of its node is asked in its place
 * (invalidation_instead()). If nobody there confirms in time the older copy may be read
 * on; that is logged.
 */
#include "dht/node_invalidate.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "dht/node_copies.h"
#include "dht/node_lease.h"
#include "dht/node_module.h"
#include "dht/node_writers.h"
#include "util/log.h"

/* A version that a home has taken: holders of older ones that have not answered yet. */
struct invalidation {
    uint64_t id;
    UT_hash_handle hh;
    struct invalidation *prev, *next; /* record->user: those of one record */
    struct dht_record *record;
    struct dyad_version version;
    struct timer timer;
    struct reply_to {
        uint32_t rank;
        uint64_t id;
    } * replies; /* PUBLISHes to be acknowledged */
    unsigned nreplies;
    struct stale_holder *holders; /* still to answer */
    unsigned nholders;
    uint32_t publisher;
    unsigned step; /* of the time for it: 0 the first half */
};

struct stale_holder {
    uint32_t rank;           /* has something older */
    uint32_t instead;        /* the last that was asked in its place, or DYAD_RANK_NONE */
    unsigned asked, pending; /* how many were asked; of these, without an answer */
    bool dead;               /* it will not answer itself */
    bool seen_to;            /* no rank of its node can find an older copy there */
};

static void invalidation_free(struct dht_node *node, struct invalidation *inv)
{
    if (inv->hh.tbl != NULL) {
        struct invalidation *list = inv->record->user;
        DL_DELETE(list, inv);
        inv->record->user = list;
        HASH_DEL(node->invalidations, inv);
    }
    node_timer_stop(node, &inv->timer);
    free(inv->replies);
    free(inv->holders);
    free(inv);
}

static void invalidation_timeout(struct dht_node *node, struct timer *timer);

static void invalidation_finish(struct dht_node *node, struct invalidation *inv)
{
    struct dyad_entry entry = inv->record->entry;

    entry.version = inv->version;
    for (unsigned i = 0; i < inv->nreplies; i++)
        node_reply_publish(node, inv->replies[i].rank, inv->replies[i].id, 0, &entry);
    invalidation_free(node, inv);
}

static bool invalidation_add_reply(struct invalidation *inv, uint32_t rank, uint64_t id)
{
    struct reply_to *replies;

    for (unsigned i = 0; i < inv->nreplies; i++)
        if (inv->replies[i].rank == rank && inv->replies[i].id == id)
            return true;
    replies = realloc(inv->replies, (inv->nreplies + 1) * sizeof(*replies));
    if (replies == NULL)
        return false;
    inv->replies = replies;
    replies[inv->nreplies++] = (struct reply_to){rank, id};
    return true;
}

struct invalidation *invalidation_create(struct dht_node *node, struct dht_record *record,
                                         const struct net_msg *msg)
{
    struct invalidation *inv = calloc(1, sizeof(*inv)), *list = record->user;

    if (inv == NULL)
        return NULL;
    inv->id = node_next_id(node);
    inv->record = record;
    inv->version = msg->entry.version;
    inv->timer.fn = invalidation_timeout;
    inv->publisher = msg->source;
    if (!invalidation_add_reply(inv, msg->source, msg->id))
        goto free_inv;
    HASH_ADD(hh, node->invalidations, id, sizeof(inv->id), inv);
    if (inv->hh.tbl == NULL)
        goto free_inv;
    DL_APPEND(list, inv);
    record->user = list;
    return inv;

free_inv:
    free(inv->replies);
    free(inv);
    return NULL;
}

bool invalidation_join(struct dht_record *record, const struct dyad_version *version,
                       uint32_t rank, uint64_t id)
{
    struct invalidation *inv;

    DL_FOREACH((struct invalidation *)record->user, inv)
    {
        if (dyad_version_cmp(&inv->version, version) == 0) {
            invalidation_add_reply(inv, rank, id); /* ENOMEM: it is silent */
            return true;
        }
    }
    return false;
}

bool invalidation_is_awaited(const struct dht_record *record)
{
    const struct invalidation *inv;

    DL_FOREACH((const struct invalidation *)record->user, inv)
    {
        if (inv->nholders > 0)
            return true;
    }
    return false;
}

static struct stale_holder *invalidation_find(struct invalidation *inv, uint32_t rank)
{
    for (unsigned i = 0; i < inv->nholders; i++)
        if (inv->holders[i].rank == rank)
            return &inv->holders[i];
    return NULL;
}

static void invalidation_drop(struct invalidation *inv, struct stale_holder *holder)
{
    *holder = inv->holders[--inv->nholders];
}

static bool invalidation_send(struct dht_node *node, const struct invalidation *inv,
                              uint32_t rank)
{
    struct net_msg msg = {
        .type = NET_MSG_INVALIDATE, .id = inv->id, .entry = inv->record->entry};

    return node_send(node, rank, &msg) == 0;
}

/* The next live rank of the holder's node that is not itself waited for by now. Not the
 * publisher: it knows the new version as its own, and does not look. */
static uint32_t neighbour_next(struct dht_node *node, struct invalidation *inv,
                               const struct stale_holder *holder)
{
    const uint32_t *at = node->config.node;
    uint32_t r = holder->instead == DYAD_RANK_NONE ? 0 : holder->instead + 1;

    for (; at != NULL && r < node->config.nranks; r++)
        if (at[r] == at[holder->rank] && r != holder->rank && r != inv->publisher &&
            dht_node_is_live(node, r) &&
            (inv->step == 0 || invalidation_find(inv, r) == NULL))
            return r;
    return DYAD_RANK_NONE;
}

/* Ask the next of its neighbours in its place. False: the holder is not to be waited for.
 *
 * The neighbour (NET_INVALIDATE_NODE) removes the holder's copy before it answers. It is
 * asked for a dead holder at once, for a silent one when half of the time has passed. If
 * the neighbour is silent as well, or sees another disk, the next one is asked,
 * DHT_INSTEAD_MAX in all. A neighbour's answer does not shorten the wait for a silent
 * holder: a holder may use answers that it keeps (node_lookup_cache.c) for as long as
 * that. For a holder that is taken for dead, but may live, there may be no rank to ask,
 * and it may use its copies until its lease ends (node_lease.c): the home waits for that.
 */
static bool invalidation_instead(struct dht_node *node, struct invalidation *inv,
                                 struct stale_holder *holder)
{
    uint32_t r;

    while (holder->asked < DHT_INSTEAD_MAX &&
           (r = neighbour_next(node, inv, holder)) != DYAD_RANK_NONE) {
        struct net_msg msg = {.type = NET_MSG_INVALIDATE,
                              .flags = NET_INVALIDATE_NODE,
                              .id = inv->id,
                              .entry = inv->record->entry,
                              .rank = holder->rank};
        holder->instead = r;
        holder->asked++;
        if (node_send(node, r, &msg) == 0) {
            holder->pending++;
            return true;
        }
    }
    if (holder->pending > 0)
        return true;
    /* Nobody there sees what it has, or nobody is there any more. */
    if (holder->asked > 0)
        holder->seen_to = true;
    /* If the message could not be sent its loss will be noticed, and judged anew. */
    return !holder->dead || node_rank_live(node, holder->rank) ||
           lease_may_last(node, holder->rank);
}

/* Tell the ranks; the publisher is answered when the last one has answered. */
void invalidation_start(struct dht_node *node, struct invalidation *inv)
{
    for (unsigned i = inv->nholders; i > 0; i--) {
        struct stale_holder *holder = &inv->holders[i - 1];
        if (!holder->dead && !invalidation_send(node, inv, holder->rank))
            holder->dead = true;
        if (holder->dead && !invalidation_instead(node, inv, holder))
            invalidation_drop(inv, holder);
    }
    if (inv->nholders == 0)
        invalidation_finish(node, inv);
    else
        node_timer_start(node, &inv->timer, TIMER_INVALIDATE);
}

static void invalidation_timeout(struct dht_node *node, struct timer *timer)
{
    struct invalidation *inv =
        (struct invalidation *)((char *)timer - offsetof(struct invalidation, timer));

    if (inv->step++ < DHT_INSTEAD_MAX) {
        for (unsigned i = inv->nholders; i > 0; i--) {
            struct stale_holder *holder = &inv->holders[i - 1];
            if (!holder->seen_to && !invalidation_instead(node, inv, holder))
                invalidation_drop(inv, holder);
        }
        if (inv->nholders > 0) {
            node_timer_start(node, &inv->timer, TIMER_INSTEAD);
            return;
        }
    }
    for (unsigned i = 0; i < inv->nholders; i++)
        if (!inv->holders[i].seen_to)
            log_warn(
                "%s %u did not confirm in time that it dropped its copy of %s, nor "
                "did another of its node: no longer waited for",
                node->config.absent ? "place" : "rank", inv->holders[i].rank,
                inv->record->upath);
    invalidation_finish(node, inv);
}

/* Ranks that wait as holders (HELD) of a version that never came to us, and is outdated
 * now, are holders, too. For a directory they get a NOTIFY that we know it now:
 * record_notify(). */
static int take_waiters(struct dht_node *node, struct dht_record *record,
                        const struct dyad_entry *newer)
{
    struct dht_waiter *waiter, *tmp;
    int rc = 0;

    DL_FOREACH_SAFE(record->waiters, waiter, tmp)
    {
        if ((waiter->flags & NET_LOOKUP_HELD) == 0 ||
            dyad_version_cmp(&waiter->newer_than, &newer->version) >= 0)
            continue;
        rc |= dht_shard_add_holder(record, waiter->rank);
        if (newer->state == DYAD_ENTRY_PUBLISHED && S_ISDIR(newer->mode))
            continue;
        dht_shard_free_waiter(node->shard, record, waiter);
    }
    return rc;
}

/* Move the ranks that hold an older version from the record to inv->holders. Holders that
 * got an INVALIDATE for an earlier version, and still owe an answer, get another for the
 * new one. We may hold a copy without being noted here, if we stand in for the homes; and
 * these leave us out if it is we who bring the version to them. */
void invalidation_take_holders(struct dht_node *node, struct invalidation *inv,
                               const struct net_msg *msg)
{
    struct dht_record *record = inv->record;
    const struct invalidation *earlier;
    int rc = 0;

    if (record->entry.state == DYAD_ENTRY_PUBLISHED)
        rc |= dht_shard_add_holder(record, record->entry.owner);
    rc |= take_waiters(node, record, &msg->entry);
    if (msg->source != node->config.self && copies_are_older(node, &msg->entry))
        rc |= dht_shard_add_holder(record, node->config.self);
    DL_FOREACH((struct invalidation *)record->user, earlier)
    {
        for (unsigned i = 0; i < earlier->nholders; i++)
            rc |= dht_shard_add_holder(record, earlier->holders[i].rank);
    }
    if (record->nholders > 0 &&
        (inv->holders = calloc(record->nholders, sizeof(*inv->holders))) == NULL) {
        rc = -1;
        record->nholders = 0;
    }
    for (unsigned i = 0; i < record->nholders; i++) {
        uint32_t rank = record->holders[i];
        if (rank == msg->source ||
            (msg->entry.state == DYAD_ENTRY_PUBLISHED && rank == msg->entry.owner))
            continue;
        inv->holders[inv->nholders++] = (struct stale_holder){
            .rank = rank, .instead = DYAD_RANK_NONE, .dead = !dht_node_is_live(node, rank)};
    }
    for (unsigned i = 0; i < inv->nholders; i++)
        log_debug("rank %u has \"%s\", and is told of version %llu", inv->holders[i].rank,
                  record->upath, (unsigned long long)msg->entry.version.counter);
    free(record->holders);
    record->holders = NULL;
    record->nholders = 0;
    if (rc < 0)
        log_warn("out of memory: not every holder of %s is told of its new version",
                 record->upath);

    /* A holder of a directory keeps it when it is published again. */
    for (unsigned i = 0; msg->entry.state == DYAD_ENTRY_PUBLISHED &&
                         S_ISDIR(msg->entry.mode) && i < inv->nholders;
         i++)
        if (!node_rank_gone(node, inv->holders[i].rank) &&
            dht_shard_add_holder(record, inv->holders[i].rank) < 0)
            log_warn("out of memory: a holder of %s is forgotten", record->upath);
}

/* Somebody has answered in the place of a holder. A neighbour's late answer, for a
 * version before the last, does no harm: each request has the newest version of the home
 * at that moment, and the neighbour checks whether the holder has an older one. */
static void invalidation_instead_reply(struct dht_node *node, struct invalidation *inv,
                                       const struct net_msg *msg)
{
    struct stale_holder *holder = invalidation_find(inv, msg->rank);

    if (holder == NULL) /* it has answered itself */
        return;
    if (holder->pending > 0)
        holder->pending--;
    if (msg->status == 0)
        holder->seen_to = true;
    if (holder->seen_to ? holder->dead : !invalidation_instead(node, inv, holder))
        invalidation_drop(inv, holder);
}

/* The older file keeps its name there: it has to go when the newer one does. */
static void stays(struct dht_record *record, uint32_t rank)
{
    if (record->entry.state == DYAD_ENTRY_PUBLISHED && record->entry.owner != rank &&
        dht_shard_add_holder(record, rank) < 0)
        log_warn("out of memory: a holder of %s is forgotten", record->upath);
}

static bool invalidation_reply(struct dht_node *node, const struct net_msg *msg)
{
    struct stale_holder *holder;
    struct invalidation *inv;

    HASH_FIND(hh, node->invalidations, &msg->id, sizeof(msg->id), inv);
    if (inv == NULL)
        return false;
    if ((msg->flags & NET_INVALIDATE_STAYS) != 0)
        stays(inv->record, msg->source);
    if ((msg->flags & NET_INVALIDATE_NODE) != 0)
        invalidation_instead_reply(node, inv, msg);
    else if ((holder = invalidation_find(inv, msg->source)) != NULL)
        invalidation_drop(inv, holder);
    if (inv->nholders == 0)
        invalidation_finish(node, inv);
    return true;
}

static void invalidation_rank_lost(struct dht_node *node, uint32_t rank)
{
    struct invalidation *inv, *tmp;

    HASH_ITER(hh, node->invalidations, inv, tmp)
    {
        for (unsigned i = inv->nholders; i > 0; i--) {
            struct stale_holder *holder = &inv->holders[i - 1];
            if (holder->rank == rank) {
                /* It may have died before it had removed its copy, or have gone on and
                 * died after somebody had looked. */
                *holder = (struct stale_holder){
                    .rank = rank, .instead = DYAD_RANK_NONE, .dead = true};
            } else if (holder->instead == rank && !holder->seen_to && holder->pending > 0) {
                holder->pending--;
            } else {
                continue;
            }
            if (!invalidation_instead(node, inv, holder))
                invalidation_drop(inv, holder);
        }
        if (inv->nholders == 0)
            invalidation_finish(node, inv);
    }
}

/* The INVALIDATE, or its answer, may be lost with the connection: it is sent again. */
static void invalidation_rank_back(struct dht_node *node, uint32_t rank)
{
    struct invalidation *inv, *tmp;

    HASH_ITER(hh, node->invalidations, inv, tmp)
    {
        struct stale_holder *holder = invalidation_find(inv, rank);
        if (holder != NULL && holder->pending == 0 && invalidation_send(node, inv, rank))
            holder->dead = false;
    }
}

static void invalidation_destroy(struct dht_node *node)
{
    struct invalidation *inv, *tmp;

    HASH_ITER(hh, node->invalidations, inv, tmp)
    {
        invalidation_free(node, inv);
    }
}

static const struct node_message messages[] = {
    {NET_MSG_INVALIDATE_REPLY, false, invalidation_reply},
    {0},
};

const struct node_module node_invalidation_module = {
    .messages = messages,
    .destroy = invalidation_destroy,
    .rank_lost = invalidation_rank_lost,
    .rank_back = invalidation_rank_back,
};
