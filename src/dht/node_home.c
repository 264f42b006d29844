/*
 * dht/node_home.c - the home role: a shard that answers, notifies and invalidates
 *
 * A home takes a version that is above its highest and refuses any other with that highest,
 * so all homes end with the same version whatever the order of arrival. A tombstone is an
 * entry like any other and stays for the session. A version that comes again from its owner
 * is acknowledged, and brings the owner's fields up to date; one that comes from another
 * rank, of the same storage, makes that one the owner: the file is the same one on the same
 * disk, and who served it has died (engine/recovery/takeover.c). Nobody need be told of
 * that: who cannot reach the old owner asks again.
 *
 * Coherence: who was given an entry to copy is a holder of it. When a newer version is
 * taken, its holders and the superseded owner are told, and the publisher gets its answer
 * when they have answered or been given up (node_invalidate.c).
 *
 * Who keeps an answer (NET_LOOKUP_KEEP) is a holder too, of what there is or of nothing: it
 * is told of the next version in the same way, before that is acknowledged. Holders of
 * nothing are forgotten after a time for which no rank keeps an answer, and beyond
 * NOTED_MAX such records the answer is one that must not be kept: polls of names that never
 * come cost a bounded amount of memory.
 *
 * Somebody that we take for dead may ask all the same: it has just joined, and we have not
 * heard of it. It would not be told, so it is not noted, and the answer says so.
 *
 * That waiting cannot go round in a circle: a rank delays its answer only while a publish
 * of its own with a LOWER version is under way (node_incoming.c), which itself waits for
 * lower ones.
 */
#include "dht/node_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "util/log.h"

#define NOTED_MAX 65536

void home_reply_publish(struct dht_node *node, uint32_t rank, uint64_t id, int status,
                        const struct dyad_entry *entry)
{
    struct net_msg msg = {
        .type = NET_MSG_PUBLISH_REPLY, .status = status, .id = id, .entry = *entry};
    node_send(node, rank, &msg); /* if it fails the publisher's deadline passes */
}

static struct noted *noted_find(struct dht_node *node, struct dht_record *record)
{
    struct noted *noted;

    HASH_FIND_PTR(node->noted, &record, noted);
    return noted;
}

/* The record's holders, if it has any, are not holders of nothing any more. */
static void noted_free(struct dht_node *node, struct dht_record *record)
{
    struct noted *noted = noted_find(node, record);

    if (noted == NULL)
        return;
    node_timer_stop(node, &noted->timer);
    HASH_DEL(node->noted, noted);
    free(noted);
}

/* A record that says nothing any more. Those with an entry stay: tombstones last. */
static bool record_is_empty(const struct dht_record *record)
{
    return record->entry.state == DYAD_ENTRY_NONE && record->waiters == NULL &&
           record->nholders == 0;
}

static void record_remove_empty(struct dht_node *node, struct dht_record *record)
{
    if (!record_is_empty(record))
        return;
    noted_free(node, record);
    dht_shard_remove(node->shard, record);
}

/* Those who were noted here have forgotten the answer by now. */
static void noted_timeout(struct dht_node *node, struct timer *timer)
{
    struct noted *noted = (struct noted *)((char *)timer - offsetof(struct noted, timer));
    struct dht_record *record = noted->record;

    noted_free(node, record);
    free(record->holders);
    record->holders = NULL;
    record->nholders = 0;
    record_remove_empty(node, record);
}

/* The rank keeps the answer that nothing is published; the record is made if need be.
 * False: it must not. */
static bool noted_add(struct dht_node *node, struct dht_record *record,
                      const struct dht_key *key, const struct net_msg *msg)
{
    struct noted *noted = NULL;

    if (node->config.keep_time == 0 ||
        (record == NULL &&
         (record = dht_shard_insert(node->shard, key, msg->entry.upath)) == NULL))
        return false;
    noted = noted_find(node, record);
    if (noted == NULL && HASH_COUNT(node->noted) < NOTED_MAX &&
        (noted = calloc(1, sizeof(*noted))) != NULL) {
        noted->record = record;
        noted->timer.fn = noted_timeout;
        HASH_ADD_PTR(node->noted, record, noted);
        if (noted->hh.tbl == NULL) {
            free(noted);
            noted = NULL;
        }
    }
    if (noted != NULL)
        node_timer_start(node, &noted->timer, TIMER_NOTED);
    if (noted == NULL || dht_shard_add_holder(record, msg->source) < 0) {
        record_remove_empty(node, record);
        return false;
    }
    return true;
}

static void record_set(struct dht_record *record, const struct net_msg *msg)
{
    record->entry = msg->entry;
    record->entry.upath = record->upath;
    /* Unless somebody else passes it on. */
    record->owner_incarnation =
        msg->source == msg->entry.owner ? msg->source_incarnation : 0;
}

static bool is_asked_for(const struct dyad_version *version,
                         const struct dyad_version *newer_than, uint8_t flags)
{
    int order = dyad_version_cmp(version, newer_than);

    return order > 0 || (order == 0 && (flags & NET_LOOKUP_HELD) != 0);
}

/* What a rank has already it still has if it is only out of our reach. */
static bool waiter_is_gone(const struct dht_node *node, const struct dht_waiter *waiter)
{
    return (waiter->flags & NET_LOOKUP_HELD) != 0 ? node_holder_is_gone(node, waiter->rank)
                                                  : !dht_node_is_live(node, waiter->rank);
}

static void record_notify(struct dht_node *node, struct dht_record *record)
{
    struct dht_waiter *waiter, *tmp;

    DL_FOREACH_SAFE(record->waiters, waiter, tmp)
    {
        struct net_msg msg = {
            .type = NET_MSG_NOTIFY, .id = waiter->id, .entry = record->entry};
        if (!is_asked_for(&record->entry.version, &waiter->newer_than, waiter->flags))
            continue;
        /* One that cannot be noted as a holder is not told now: it asks again by itself. */
        if ((waiter->flags & NET_LOOKUP_COPY) != 0 &&
            record->entry.state == DYAD_ENTRY_PUBLISHED &&
            waiter->rank != record->entry.owner) {
            if (waiter_is_gone(node, waiter))
                msg.flags = NET_LOOKUP_UNNOTED;
            else if (dht_shard_add_holder(record, waiter->rank) < 0)
                continue;
        }
        node_send(node, waiter->rank, &msg);
        DL_DELETE(record->waiters, waiter);
        free(waiter);
    }
}

static bool publish_is_valid(const struct dht_node *node, const struct net_msg *msg)
{
    const struct dyad_entry *entry = &msg->entry;

    if (entry->version.counter == 0 || entry->version.counter > DHT_COUNTER_MAX ||
        entry->version.rank >= node->config.nranks)
        return false;
    if (entry->state == DYAD_ENTRY_PUBLISHED)
        return entry->owner < node->config.nranks;
    return entry->state == DYAD_ENTRY_WITHDRAWN;
}

/* Another rank of the same storage has taken the file over. The one that made this version
 * has not: a message of it that was overtaken says nothing new, and would name a dead
 * owner.
 */
static void owner_set(struct dht_node *node, struct dht_record *record,
                      const struct net_msg *msg)
{
    const struct dyad_version *version = &msg->entry.version;
    uint32_t old = record->entry.owner;

    if (msg->source != msg->entry.owner ||
        (version->rank == msg->source && version->incarnation == msg->source_incarnation))
        return;
    log_debug("rank %u serves \"%s\", version %llu, in the place of rank %u", msg->source,
              record->upath, (unsigned long long)version->counter, old);
    record_set(record, msg);
    /* Should it have come back: it must hear of the next version as any holder. */
    if (dht_node_is_live(node, old) && dht_shard_add_holder(record, old) < 0)
        log_warn("out of memory: a holder of %s is forgotten", record->upath);
}

/* The version that is here came again. */
static void publish_again(struct dht_node *node, struct dht_record *record,
                          const struct net_msg *msg)
{
    bool other = msg->entry.owner != record->entry.owner;
    struct invalidation *inv;

    if (msg->entry.state != record->entry.state ||
        (other && (msg->entry.state != DYAD_ENTRY_PUBLISHED ||
                   !dyad_storage_equal(msg->entry.storage, record->entry.storage)))) {
        home_reply_publish(node, msg->source, msg->id, ESTALE, &record->entry);
        return;
    }
    if (other)
        owner_set(node, record, msg);
    /* A message of an earlier member of that rank may have been overtaken. */
    else if (msg->source == msg->entry.owner &&
             msg->source_incarnation >= record->owner_incarnation)
        record_set(record, msg);
    DL_FOREACH((struct invalidation *)record->user, inv)
    {
        if (dyad_version_cmp(&inv->version, &msg->entry.version) == 0) {
            invalidation_add_reply(inv, msg->source, msg->id); /* ENOMEM: it is silent */
            return;
        }
    }
    home_reply_publish(node, msg->source, msg->id, 0, &record->entry);
}

void home_publish(struct dht_node *node, const struct net_msg *msg)
{
    struct dht_record *record;
    struct invalidation *inv;
    struct dht_key key;
    int order;

    if (!publish_is_valid(node, msg)) {
        home_reply_publish(node, msg->source, msg->id, EINVAL, &msg->entry);
        return;
    }
    dht_key_init(&key, msg->entry.upath, node->config.depth);
    record = dht_shard_insert(node->shard, &key, msg->entry.upath);
    if (record == NULL) {
        home_reply_publish(node, msg->source, msg->id, ENOMEM, &msg->entry);
        return;
    }
    order = dyad_version_cmp(&msg->entry.version, &record->entry.version);
    if (order < 0) {
        home_reply_publish(node, msg->source, msg->id, ESTALE, &record->entry);
        return;
    }
    if (order == 0) {
        publish_again(node, record, msg);
        return;
    }
    inv = NULL;
    if (msg->entry.state != DYAD_ENTRY_PUBLISHED ||
        dht_shard_set_listed(node->shard, record, true) == 0)
        inv = invalidation_create(node, record, msg);
    if (inv == NULL) {
        if (record->entry.state != DYAD_ENTRY_PUBLISHED)
            dht_shard_set_listed(node->shard, record, false);
        record_remove_empty(node, record);
        home_reply_publish(node, msg->source, msg->id, ENOMEM, &msg->entry);
        return;
    }
    invalidation_take_holders(node, inv, msg);
    noted_free(node, record);
    record_set(record, msg);
    home_written(node, record->upath);
    if (record->entry.state != DYAD_ENTRY_PUBLISHED)
        dht_shard_set_listed(node->shard, record, false);
    record_notify(node, record);
    leave_note(node, &record->entry);
    invalidation_start(node, inv);
}

void home_lookup(struct dht_node *node, const struct net_msg *msg)
{
    struct net_msg reply = {.type = NET_MSG_LOOKUP_REPLY, .status = ENOENT, .id = msg->id};
    bool wait = (msg->flags & NET_LOOKUP_WAIT) != 0;
    /* Who is dead is not told of newer versions. It may be news to us that it lives. */
    bool known = dht_node_is_live(node, msg->source);
    bool keep = (msg->flags & NET_LOOKUP_KEEP) != 0 && !wait && known;
    struct dht_record *record;
    struct dht_key key;

    if (msg->source != node->config.self)
        node->stats.answered++;
    reply.entry.upath = msg->entry.upath;
    reply.entry.owner = DYAD_RANK_NONE;
    dht_key_init(&key, msg->entry.upath, node->config.depth);
    if (tentative_is(node) || unrecovered_stands_in(node, &key))
        reply.flags |= NET_LOOKUP_UNSURE;
    record = dht_shard_find(node->shard, &key, msg->entry.upath);
    if (record != NULL &&
        is_asked_for(&record->entry.version, &msg->newer_than, msg->flags)) {
        reply.entry = record->entry;
        if (record->entry.state == DYAD_ENTRY_PUBLISHED)
            reply.status = 0;
        /* Nobody brings what a dead owner has published or withdrawn last to who has become
         * a home since: then another home has something newer, and this is from before. */
        if (reply.status == 0 && !dht_node_is_live(node, record->entry.owner))
            reply.flags |= NET_LOOKUP_UNSURE;
        dht_shard_drop_waiter(node->shard, record, msg->source, msg->id);
        if (reply.status == 0 && (keep || (msg->flags & NET_LOOKUP_COPY) != 0) &&
            msg->source != record->entry.owner) {
            if (!known)
                reply.flags |= NET_LOOKUP_UNNOTED;
            else if (dht_shard_add_holder(record, msg->source) < 0)
                reply.status = ENOMEM;
        }
        /* The owner is told as well: invalidation_take_holders(). */
        if (keep && (reply.status == 0 ||
                     (reply.status == ENOENT && noted_add(node, record, &key, msg))))
            reply.flags |= NET_LOOKUP_KEEP;
    } else if ((node->joining && !wait) ||
               ((msg->flags & NET_LOOKUP_HELD) != 0 && !known)) {
        reply.type = NET_MSG_ERROR; /* others may know others of us, and look up here */
        reply.status = EHOSTUNREACH;
    } else if (wait) {
        if (record == NULL)
            record = dht_shard_insert(node->shard, &key, msg->entry.upath);
        reply.status = EAGAIN;
        if (record == NULL ||
            dht_shard_add_waiter(node->shard, record, msg->source, msg->id, msg->flags,
                                 &msg->newer_than, node->ops->now(node->arg)) < 0) {
            reply.status = ENOMEM;
            if (record != NULL)
                record_remove_empty(node, record);
        }
    } else if (keep && noted_add(node, record, &key, msg)) {
        reply.flags |= NET_LOOKUP_KEEP;
    }
    if (reply.status == ENOMEM)
        reply.type = NET_MSG_ERROR;
    node_send(node, msg->source, &reply);
}

void home_lookup_cancel(struct dht_node *node, const struct net_msg *msg)
{
    struct dht_record *record;
    struct dht_key key;

    dht_key_init(&key, msg->entry.upath, node->config.depth);
    record = dht_shard_find(node->shard, &key, msg->entry.upath);
    if (record == NULL)
        return;
    dht_shard_drop_waiter(node->shard, record, msg->source, msg->id);
    record_remove_empty(node, record);
}

struct sweep {
    struct dht_node *node;
    struct dht_record **empty;
    size_t nempty, cap;
};

static int sweep_record(struct dht_record *record, void *arg)
{
    struct sweep *sweep = arg;
    struct dht_waiter *waiter, *tmp;
    uint32_t left = 0;

    for (uint32_t i = 0; i < record->nholders; i++)
        if (!node_holder_is_gone(sweep->node, record->holders[i]))
            left++;
    if (left < record->nholders) {
        /* Built anew: the array's size follows from the number in it. */
        uint32_t *old = record->holders, n = record->nholders;
        record->holders = NULL;
        record->nholders = 0;
        for (uint32_t i = 0; i < n; i++)
            if (!node_holder_is_gone(sweep->node, old[i]) &&
                dht_shard_add_holder(record, old[i]) < 0)
                log_warn("out of memory: a holder of %s is forgotten", record->upath);
        free(old);
    }
    DL_FOREACH_SAFE(record->waiters, waiter, tmp)
    {
        if (waiter_is_gone(sweep->node, waiter)) {
            DL_DELETE(record->waiters, waiter);
            free(waiter);
        }
    }
    if (!record_is_empty(record))
        return 0;
    if (sweep->nempty == sweep->cap) {
        size_t cap = sweep->cap ? 2 * sweep->cap : 64;
        struct dht_record **empty =
            realloc(sweep->empty, cap * sizeof(struct dht_record *));
        if (empty == NULL)
            return 0; /* the next sweep takes it */
        sweep->empty = empty;
        sweep->cap = cap;
    }
    sweep->empty[sweep->nempty++] = record;
    return 0;
}

/* Drop waiters and holders of the dead. Until then they cost nothing: a dead holder is not
 * told, and a notice to a rank that is gone, or is somebody else by now, is lost or
 * ignored. */
void home_sweep(struct dht_node *node, struct timer *timer)
{
    struct sweep sweep = {.node = node};

    (void)timer;
    dht_shard_foreach(node->shard, sweep_record, &sweep);
    for (size_t i = 0; i < sweep.nempty; i++)
        record_remove_empty(node, sweep.empty[i]);
    free(sweep.empty);
    leave_orphans_published(node);
}

void home_destroy(struct dht_node *node)
{
    struct noted *noted, *tmp;

    invalidation_destroy(node);
    HASH_ITER(hh, node->noted, noted, tmp)
    {
        noted_free(node, noted->record);
    }
}
