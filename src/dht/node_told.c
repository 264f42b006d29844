/*
 * dht/node_told.c - the home role: holders of what is older are told, and others of their
 * node
 *
 * Holders that an earlier version has told and that still owe an answer are told again with
 * the new one: an acknowledgement means that no node uses anything older, however fast
 * versions follow each other. Nobody is waited for longer than invalidate_timeout.
 *
 * What a holder has lies on its node, where others read it, also when the holder is dead,
 * or silent because it is stopped. So in its place a live rank of the same node is told
 * (NET_INVALIDATE_NODE), which sees to what that one has left before it answers: for a dead
 * holder at once, for a silent one when half of the time has passed. If the neighbour is
 * silent as well, or sees another disk, the next one is told, DHT_INSTEAD_MAX in all. A
 * neighbour's answer does not shorten the wait for a silent holder: who keeps an answer of
 * the homes (node_kept.c) may use it for as long as that.
 *
 * For one that is dead, and may not be, nobody may be left to be told, and it may use its
 * copies for a time (node_lease.c): that is waited for.
 *
 * An answer of a neighbour that comes late, for a version before the last, does no harm:
 * each of them is told of the newest that the home has at that moment, and what is looked
 * at is whether the holder has something older.
 */
#include "dht/node_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "util/log.h"

static void told_free(struct dht_node *node, struct told *told)
{
    if (told->hh.tbl != NULL) {
        struct told *list = told->record->user;
        DL_DELETE(list, told);
        told->record->user = list;
        HASH_DEL(node->told, told);
    }
    node_timer_stop(node, &told->timer);
    free(told->replies);
    free(told->ranks);
    free(told);
}

static void told_timeout(struct dht_node *node, struct timer *timer);

static void told_finish(struct dht_node *node, struct told *told)
{
    struct dyad_entry entry = told->record->entry;

    entry.version = told->version;
    for (unsigned i = 0; i < told->nreplies; i++)
        home_reply_publish(node, told->replies[i].rank, told->replies[i].id, 0, &entry);
    told_free(node, told);
}

bool told_add_reply(struct told *told, uint32_t rank, uint64_t id)
{
    struct reply_to *replies;

    for (unsigned i = 0; i < told->nreplies; i++)
        if (told->replies[i].rank == rank && told->replies[i].id == id)
            return true;
    replies = realloc(told->replies, (told->nreplies + 1) * sizeof(*replies));
    if (replies == NULL)
        return false;
    told->replies = replies;
    replies[told->nreplies++] = (struct reply_to){rank, id};
    return true;
}

struct told *told_create(struct dht_node *node, struct dht_record *record,
                         const struct net_msg *msg)
{
    struct told *told = calloc(1, sizeof(*told)), *list = record->user;

    if (told == NULL)
        return NULL;
    told->id = node_next_id(node);
    told->record = record;
    told->version = msg->entry.version;
    told->timer.fn = told_timeout;
    told->publisher = msg->source;
    if (!told_add_reply(told, msg->source, msg->id))
        goto free_told;
    HASH_ADD(hh, node->told, id, sizeof(told->id), told);
    if (told->hh.tbl == NULL)
        goto free_told;
    DL_APPEND(list, told);
    record->user = list;
    return told;

free_told:
    free(told->replies);
    free(told);
    return NULL;
}

static struct told_rank *told_find(struct told *told, uint64_t rank)
{
    for (unsigned i = 0; i < told->nranks; i++)
        if (told->ranks[i].rank == rank)
            return &told->ranks[i];
    return NULL;
}

static void told_drop(struct told *told, struct told_rank *holder)
{
    *holder = told->ranks[--told->nranks];
}

static bool told_send(struct dht_node *node, const struct told *told, uint32_t rank)
{
    struct net_msg msg = {
        .type = NET_MSG_INVALIDATE, .id = told->id, .entry = told->record->entry};

    return node_send(node, rank, &msg) == 0;
}

/* The next live rank of the holder's node that is not itself waited for by now. Not the
 * publisher: it knows the new version as its own, and does not look. */
static uint32_t neighbour_next(struct dht_node *node, struct told *told,
                               const struct told_rank *holder)
{
    const uint32_t *at = node->config.node;
    uint32_t r = holder->instead == DYAD_RANK_NONE ? 0 : holder->instead + 1;

    for (; at != NULL && r < node->config.nranks; r++)
        if (at[r] == at[holder->rank] && r != holder->rank && r != told->publisher &&
            dht_node_is_live(node, r) && (told->step == 0 || told_find(told, r) == NULL))
            return r;
    return DYAD_RANK_NONE;
}

/* Ask the next of its neighbours in its place. False: the holder is not to be waited for.
 */
static bool told_instead(struct dht_node *node, struct told *told, struct told_rank *holder)
{
    uint32_t r;

    while (holder->asked < DHT_INSTEAD_MAX &&
           (r = neighbour_next(node, told, holder)) != DYAD_RANK_NONE) {
        struct net_msg msg = {.type = NET_MSG_INVALIDATE,
                              .flags = NET_INVALIDATE_NODE,
                              .id = told->id,
                              .entry = told->record->entry,
                              .length = holder->rank};
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
void told_start(struct dht_node *node, struct told *told)
{
    for (unsigned i = told->nranks; i > 0; i--) {
        struct told_rank *holder = &told->ranks[i - 1];
        if (!holder->dead && !told_send(node, told, holder->rank))
            holder->dead = true;
        if (holder->dead && !told_instead(node, told, holder))
            told_drop(told, holder);
    }
    if (told->nranks == 0)
        told_finish(node, told);
    else
        node_timer_start(node, &told->timer, TIMER_INVALIDATE);
}

static void told_timeout(struct dht_node *node, struct timer *timer)
{
    struct told *told = (struct told *)((char *)timer - offsetof(struct told, timer));

    if (told->step++ < DHT_INSTEAD_MAX) {
        for (unsigned i = told->nranks; i > 0; i--) {
            struct told_rank *holder = &told->ranks[i - 1];
            if (!holder->seen_to && !told_instead(node, told, holder))
                told_drop(told, holder);
        }
        if (told->nranks > 0) {
            node_timer_start(node, &told->timer, TIMER_INSTEAD);
            return;
        }
    }
    for (unsigned i = 0; i < told->nranks; i++)
        if (!told->ranks[i].seen_to)
            log_warn(
                "%s %u did not confirm in time that it dropped its copy of %s, nor "
                "did another of its node: no longer waited for",
                node->config.absent ? "place" : "rank", told->ranks[i].rank,
                told->record->upath);
    told_finish(node, told);
}

/* Not so of one that may only be stopped, or beyond a cut: nobody takes over what it has,
 * so others of its node must be asked in its place at each version. */
bool told_holder_is_gone(const struct dht_node *node, uint32_t rank)
{
    return !dht_node_is_live(node, rank) &&
           (node->missing == NULL || node->missing[rank] == DHT_GONE);
}

/* Those who have a copy that has not come to us before it was outdated are its holders,
 * too. Of a directory they are told that we know now: record_notify(). */
static int take_waiters(struct dht_record *record, const struct dyad_entry *newer)
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
        DL_DELETE(record->waiters, waiter);
        free(waiter);
    }
    return rc;
}

/* Move the ranks that hold something older from the record to `told`. */
void told_take_ranks(struct dht_node *node, struct told *told, const struct net_msg *msg)
{
    struct dht_record *record = told->record;
    const struct told *earlier;
    int rc = 0;

    if (record->entry.state == DYAD_ENTRY_PUBLISHED)
        rc |= dht_shard_add_holder(record, record->entry.owner);
    rc |= take_waiters(record, &msg->entry);
    DL_FOREACH((struct told *)record->user, earlier)
    {
        for (unsigned i = 0; i < earlier->nranks; i++)
            rc |= dht_shard_add_holder(record, earlier->ranks[i].rank);
    }
    if (record->nholders > 0 &&
        (told->ranks = calloc(record->nholders, sizeof(*told->ranks))) == NULL) {
        rc = -1;
        record->nholders = 0;
    }
    for (unsigned i = 0; i < record->nholders; i++) {
        uint32_t rank = record->holders[i];
        if (rank == msg->source ||
            (msg->entry.state == DYAD_ENTRY_PUBLISHED && rank == msg->entry.owner))
            continue;
        told->ranks[told->nranks++] = (struct told_rank){
            .rank = rank, .instead = DYAD_RANK_NONE, .dead = !dht_node_is_live(node, rank)};
    }
    for (unsigned i = 0; i < told->nranks; i++)
        log_debug("rank %u has \"%s\", and is told of version %llu", told->ranks[i].rank,
                  record->upath, (unsigned long long)msg->entry.version.counter);
    free(record->holders);
    record->holders = NULL;
    record->nholders = 0;
    if (rc < 0)
        log_warn("out of memory: not every holder of %s is told of its new version",
                 record->upath);

    /* Who has a directory keeps it when it is published again. */
    for (unsigned i = 0; msg->entry.state == DYAD_ENTRY_PUBLISHED &&
                         S_ISDIR(msg->entry.mode) && i < told->nranks;
         i++)
        if (!told_holder_is_gone(node, told->ranks[i].rank) &&
            dht_shard_add_holder(record, told->ranks[i].rank) < 0)
            log_warn("out of memory: a holder of %s is forgotten", record->upath);
}

/* Somebody has answered in the place of a holder. */
static void instead_reply(struct dht_node *node, struct told *told,
                          const struct net_msg *msg)
{
    struct told_rank *holder = told_find(told, msg->length);

    if (holder == NULL) /* it has answered itself */
        return;
    if (holder->pending > 0)
        holder->pending--;
    if (msg->status == 0)
        holder->seen_to = true;
    if (holder->seen_to ? holder->dead : !told_instead(node, told, holder))
        told_drop(told, holder);
}

/* What is older keeps its name there: it has to go when the newer one does. */
static void stays(struct dht_record *record, uint32_t rank)
{
    if (record->entry.state == DYAD_ENTRY_PUBLISHED && record->entry.owner != rank &&
        dht_shard_add_holder(record, rank) < 0)
        log_warn("out of memory: a holder of %s is forgotten", record->upath);
}

void told_reply(struct dht_node *node, const struct net_msg *msg)
{
    struct told_rank *holder;
    struct told *told;

    HASH_FIND(hh, node->told, &msg->id, sizeof(msg->id), told);
    if (told == NULL) {
        if ((msg->flags & NET_INVALIDATE_NODE) != 0)
            passed_reply(node, msg);
        return;
    }
    if ((msg->flags & NET_INVALIDATE_STAYS) != 0)
        stays(told->record, msg->source);
    if ((msg->flags & NET_INVALIDATE_NODE) != 0)
        instead_reply(node, told, msg);
    else if ((holder = told_find(told, msg->source)) != NULL)
        told_drop(told, holder);
    if (told->nranks == 0)
        told_finish(node, told);
}

void told_rank_dead(struct dht_node *node, uint32_t rank)
{
    struct told *told, *tmp;

    HASH_ITER(hh, node->told, told, tmp)
    {
        for (unsigned i = told->nranks; i > 0; i--) {
            struct told_rank *holder = &told->ranks[i - 1];
            if (holder->rank == rank) {
                /* It may have died before it had removed its copy, or have gone on and
                 * died after somebody had looked. */
                *holder = (struct told_rank){
                    .rank = rank, .instead = DYAD_RANK_NONE, .dead = true};
            } else if (holder->instead == rank && !holder->seen_to && holder->pending > 0) {
                holder->pending--;
            } else {
                continue;
            }
            if (!told_instead(node, told, holder))
                told_drop(told, holder);
        }
        if (told->nranks == 0)
            told_finish(node, told);
    }
}

void told_destroy(struct dht_node *node)
{
    struct told *told, *tmp;

    HASH_ITER(hh, node->told, told, tmp)
    {
        told_free(node, told);
    }
}
