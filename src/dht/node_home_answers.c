/*
 * dht/node_home_answers.c - the home role: a shard that answers, notifies and invalidates
 *
 * A home takes a version that is above its highest and refuses any other with that
 * highest, so all homes end with the same version whatever the order of arrival. A
 * tombstone is an entry like any other and stays for the session. A rank that was given
 * an entry to copy, or keeps an answer, is a holder. When a newer version is taken,
 * INVALIDATE goes to the holders and the superseded owner, waiters get a NOTIFY, and the
 * publisher gets its answer when the holders have answered or been given up
 * (node_invalidate.c).
 *
 * A holder that is not noted would go on using what is superseded: one that cannot be
 * noted gets an error (no memory), or an answer that says so.
 */
#include "dht/node_home_answers.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "dht/base.h"
#include "dht/node_invalidate.h"
#include "dht/node_leave.h"
#include "dht/node_module.h"
#include "dht/node_record.h"
#include "dht/node_tentative.h"
#include "dht/node_unrecovered.h"
#include "dht/node_writers.h"
#include "util/log.h"

/* Bytes that are kept are those of the version that they came with. An INVALIDATE or
 * another rank may have brought that version first, without them. A rank that is dead, for
 * all we know, does not tell us that its publish has ended, so we keep none of it. */
static void record_set(struct dht_node *node, struct dht_record *record,
                       const struct net_msg *msg)
{
    if (msg->blob_len > 0 ||
        dyad_version_cmp(&record->entry.version, &msg->entry.version) != 0)
        dht_shard_set_inlined(node->shard, record, msg->blob,
                              dht_node_is_live(node, msg->source) ? msg->blob_len : 0,
                              msg->digest);
    record->entry = msg->entry;
    record->entry.upath = record->upath;
    /* Not known if another rank passes the entry on. */
    record->owner_incarnation =
        msg->source == msg->entry.owner ? msg->source_incarnation : 0;
}

static bool is_about_to_fetch(const struct dht_record *record, uint32_t rank, uint8_t flags)
{
    return (flags & (NET_LOOKUP_COPY | NET_LOOKUP_HELD)) == NET_LOOKUP_COPY &&
           rank != record->entry.owner;
}

/* A rank that waits for the file, and is going to have the bytes, waits for these. */
static bool waits_for_bytes(const struct dht_record *record, uint32_t rank, uint8_t flags)
{
    return record->inlined != NULL && record->inlined->held &&
           (flags & NET_LOOKUP_WAIT) != 0 && is_about_to_fetch(record, rank, flags);
}

/* Give the bytes along with the entry to a rank that is about to fetch them. They belong to
 * the record: msg has to be sent before that changes. An owner that was superseded refuses
 * what is asked for, a home cannot. So none are given by a home that may have missed a
 * newer version (tentative), or is none for the name; to a rank that would not hear of
 * one; and while other ranks still have an older copy. As a GET they wait for the end of
 * the publish: who has read a file may remove it, and a publish that is refused for that
 * somewhere would bring it back. */
static void add_inlined(struct dht_node *node, const struct dht_record *record,
                        uint32_t rank, uint8_t flags, struct net_msg *msg)
{
    const struct dht_inlined_file *file = record->inlined;
    struct dht_key key;

    if (file == NULL || file->held || file->len != record->entry.size ||
        !is_about_to_fetch(record, rank, flags) || (msg->flags & NET_LOOKUP_UNNOTED) != 0 ||
        invalidation_is_awaited(record))
        return;
    dht_key_init(&key, record->upath, node->config.depth);
    if (tentative_is(node) || unrecovered_stands_in(node, &key) ||
        !record_has_home(node, record, node->config.self))
        return;
    msg->blob = file->bytes;
    msg->blob_len = file->len;
    msg->digest = file->digest;
}

static bool is_asked_for(const struct dyad_version *version,
                         const struct dyad_version *newer_than, uint8_t flags)
{
    int order = dyad_version_cmp(version, newer_than);

    return order > 0 || (order == 0 && (flags & NET_LOOKUP_HELD) != 0);
}

/* True if the waiting rank is dead. A holder that is missing counts as live: it still has
 * its copy. */
static bool waiter_is_gone(const struct dht_node *node, const struct dht_waiter *waiter)
{
    return (waiter->flags & NET_LOOKUP_HELD) != 0 ? node_rank_gone(node, waiter->rank)
                                                  : !dht_node_is_live(node, waiter->rank);
}

static void record_notify(struct dht_node *node, struct dht_record *record)
{
    struct dht_waiter *waiter, *tmp;

    DL_FOREACH_SAFE(record->waiters, waiter, tmp)
    {
        struct net_msg msg = {
            .type = NET_MSG_NOTIFY, .id = waiter->id, .entry = record->entry};
        msg.entry.written = record->entry.state == DYAD_ENTRY_PUBLISHED &&
                            writers_join(node, record->upath, waiter->rank);
        if (!is_asked_for(&record->entry.version, &waiter->newer_than, waiter->flags) ||
            waits_for_bytes(record, waiter->rank, waiter->flags))
            continue;
        /* A rank that cannot be noted as a holder gets no answer now: it asks again. */
        if ((waiter->flags & NET_LOOKUP_COPY) != 0 &&
            record->entry.state == DYAD_ENTRY_PUBLISHED &&
            waiter->rank != record->entry.owner) {
            if (waiter_is_gone(node, waiter))
                msg.flags = NET_LOOKUP_UNNOTED;
            else if (dht_shard_add_holder(record, waiter->rank) < 0)
                continue;
        }
        add_inlined(node, record, waiter->rank, waiter->flags, &msg);
        node_send(node, waiter->rank, &msg);
        dht_shard_free_waiter(node->shard, record, waiter);
    }
}

static void inlined_give(struct dht_node *node, struct dht_record *record)
{
    if (record->inlined == NULL || !record->inlined->held)
        return;
    record->inlined->held = false;
    record_notify(node, record);
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
    record_set(node, record, msg);
    /* Should it have come back: it must hear of the next version as any holder. */
    if (dht_node_is_live(node, old) && dht_shard_add_holder(record, old) < 0)
        log_warn("out of memory: a holder of %s is forgotten", record->upath);
}

/* The version that is here came again. From its owner it is acknowledged, and brings the
 * owner's fields up to date. From another rank, of the same storage, it makes that rank
 * the owner: it is the same file on the same disk, and its former owner has died
 * (engine/recovery/takeover.c). Holders are not notified of that: a rank that cannot
 * reach the old owner asks again. */
static void publish_again(struct dht_node *node, struct dht_record *record,
                          const struct net_msg *msg)
{
    bool other = msg->entry.owner != record->entry.owner;

    if (msg->entry.state != record->entry.state ||
        (other && (msg->entry.state != DYAD_ENTRY_PUBLISHED ||
                   !dyad_storage_equal(msg->entry.storage, record->entry.storage)))) {
        node_reply_publish(node, msg->source, msg->id, ESTALE, &record->entry);
        return;
    }
    if (other)
        owner_set(node, record, msg);
    /* A message of an earlier member of that rank may have been overtaken. */
    else if (msg->source == msg->entry.owner &&
             msg->source_incarnation >= record->owner_incarnation)
        record_set(node, record, msg);
    /* Its publish has ended, or its publisher is dead, and we were not told. */
    if (msg->blob_len == 0 && msg->source == msg->entry.owner)
        inlined_give(node, record);
    if (!invalidation_join(record, &msg->entry.version, msg->source, msg->id))
        node_reply_publish(node, msg->source, msg->id, 0, &record->entry);
}

/* The publisher waits until holders have answered. That waiting cannot go round in a
 * circle: a rank delays its answer only while a publish of its own with a LOWER version
 * is under way (node_incoming.c), which itself waits for lower ones. */
/* True if the owner of what `msg` replaces, whom another home may have refused for that, may have to
 * give what it has written to this one, and then says that it has ended. If it has done so it says
 * that again as soon as somebody asks (WANTED). */
static bool is_refused_elsewhere(const struct dht_node *node,
                                 const struct dht_record *record, const struct net_msg *msg)
{
    bool passed_on = msg->source != msg->entry.owner && msg->base.kind == DYAD_BASE_NONE;

    return (msg->base.kind == DYAD_BASE_VERSION || passed_on) && msg->entry.recorded &&
           record->entry.recorded && record->entry.state == DYAD_ENTRY_PUBLISHED &&
           !dyad_storage_equal(record->entry.storage, msg->entry.storage) &&
           dht_node_is_live(node, record->entry.owner);
}

bool home_publish(struct dht_node *node, const struct net_msg *msg)
{
    struct dht_record *record;
    struct invalidation *inv;
    struct dht_key key;
    int order;

    if (!publish_is_valid(node, msg)) {
        node_reply_publish(node, msg->source, msg->id, EINVAL, &msg->entry);
        return true;
    }
    dht_key_init(&key, msg->entry.upath, node->config.depth);
    record = dht_shard_insert(node->shard, &key, msg->entry.upath);
    if (record == NULL) {
        node_reply_publish(node, msg->source, msg->id, ENOMEM, &msg->entry);
        return true;
    }
    order = dyad_version_cmp(&msg->entry.version, &record->entry.version);
    if (order < 0 ||
        (order > 0 &&
         (dht_base_is_overtaken(&msg->base, &record->entry, msg->entry.storage) ||
          dht_base_is_behind(&msg->base, &msg->entry, &record->entry)))) {
        node_reply_publish(node, msg->source, msg->id, ESTALE, &record->entry);
        return true;
    }
    if (order == 0) {
        publish_again(node, record, msg);
        return true;
    }
    if (msg->base.joint && writers_are_removed(node, msg->entry.upath, msg->source)) {
        node_reply_publish(node, msg->source, msg->id, EIDRM, &record->entry);
        record_remove_empty(node, record);
        return true;
    }
    inv = NULL;
    if (msg->entry.state != DYAD_ENTRY_PUBLISHED ||
        dht_shard_set_listed(node->shard, record, true) == 0)
        inv = invalidation_create(node, record, msg);
    if (inv == NULL) {
        if (record->entry.state != DYAD_ENTRY_PUBLISHED)
            dht_shard_set_listed(node->shard, record, false);
        record_remove_empty(node, record);
        node_reply_publish(node, msg->source, msg->id, ENOMEM, &msg->entry);
        return true;
    }
    invalidation_take_holders(node, inv, msg);
    record_forget_noted(node, record);
    if (is_refused_elsewhere(node, record, msg))
        writers_note(node, record->upath, record->entry.owner, 0, 0);
    record_set(node, record, msg);
    if (msg->base.stays)
        writers_note(node, record->upath, msg->source, msg->id, msg->base.looked);
    writers_published(node, &record->entry, msg->source, &msg->base);
    if (record->entry.state != DYAD_ENTRY_PUBLISHED)
        dht_shard_set_listed(node->shard, record, false);
    record_notify(node, record);
    if (node->ops->taken != NULL && record->entry.state == DYAD_ENTRY_PUBLISHED)
        node->ops->taken(node->arg, &record->entry);
    leave_note(node, record, msg->source);
    invalidation_start(node, inv);
    return true;
}

static bool home_publish_ended(struct dht_node *node, const struct net_msg *msg)
{
    struct dht_record *record;
    struct dht_key key;

    dht_key_init(&key, msg->entry.upath, node->config.depth);
    record = dht_shard_find(node->shard, &key, msg->entry.upath);
    if (record != NULL &&
        dyad_version_cmp(&record->entry.version, &msg->entry.version) == 0)
        inlined_give(node, record);
    return true;
}

/* The publishes of a lost rank go on no more, or beyond a cut. (Another rank may own the
 * file by now.) */
static int inlined_publisher_lost(struct dht_record *record, void *arg)
{
    struct dht_node *node = arg;

    if (!dht_node_is_live(node, record->entry.version.rank))
        inlined_give(node, record);
    return 0;
}

/* A rank that keeps the answer (NET_LOOKUP_KEEP), be it an entry or "not published", is a
 * holder, too: it gets the next version in the same way, before that is acknowledged
 * (node_record.c).
 *
 * A rank that we take for dead may ask all the same: it has just joined, and we do not
 * know that yet. It would get no INVALIDATE, so it is not noted, and the answer says so.
 */
static bool home_lookup(struct dht_node *node, const struct net_msg *msg)
{
    struct net_msg reply = {.type = NET_MSG_LOOKUP_REPLY, .status = ENOENT, .id = msg->id};
    bool wait = (msg->flags & NET_LOOKUP_WAIT) != 0;
    /* A dead rank gets no newer versions. We may not know yet that this one lives. */
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
        is_asked_for(&record->entry.version, &msg->newer_than, msg->flags) &&
        !waits_for_bytes(record, msg->source, msg->flags)) {
        reply.entry = record->entry;
        if (record->entry.state == DYAD_ENTRY_PUBLISHED)
            reply.status = 0;
        reply.entry.written =
            reply.status == 0 && writers_join(node, record->upath, msg->source);
        keep &= !reply.entry.written; /* nobody would tell when that ends */
        /* The last version of a dead owner is not brought to ranks that became homes
         * since: another home may have a newer version than this one. */
        if (reply.status == 0 && !dht_node_is_live(node, record->entry.owner))
            reply.flags |= NET_LOOKUP_UNSURE;
        if (record->entry.state == DYAD_ENTRY_WITHDRAWN &&
            !record_has_home(node, record, node->config.self))
            reply.flags |= NET_LOOKUP_STOOD_IN;
        dht_shard_drop_waiter(node->shard, record, msg->source, msg->id);
        if (reply.status == 0 && (keep || (msg->flags & NET_LOOKUP_COPY) != 0) &&
            msg->source != record->entry.owner) {
            if (!known)
                reply.flags |= NET_LOOKUP_UNNOTED;
            else if (dht_shard_add_holder(record, msg->source) < 0)
                reply.status = ENOMEM;
        }
        if (reply.status == 0)
            add_inlined(node, record, msg->source, msg->flags, &reply);
        /* The owner gets an INVALIDATE as well: invalidation_take_holders(). */
        if (keep && (reply.status == 0 ||
                     (reply.status == ENOENT && record_note(node, record, &key, msg))))
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
    } else if (keep && record_note(node, record, &key, msg)) {
        reply.flags |= NET_LOOKUP_KEEP;
    }
    if (reply.status == ENOMEM)
        reply.type = NET_MSG_ERROR;
    if ((msg->flags & NET_LOOKUP_WRITES) != 0 && reply.status == ENOENT && known) {
        if (writers_elsewhere(node, msg->entry.upath, msg->source))
            reply.flags |= NET_LOOKUP_WRITES;
        writers_note(node, msg->entry.upath, msg->source, msg->id, WRITERS_UNMARKED);
    }
    node_send(node, msg->source, &reply);
    return true;
}

static bool home_lookup_cancel(struct dht_node *node, const struct net_msg *msg)
{
    struct dht_record *record;
    struct dht_key key;

    dht_key_init(&key, msg->entry.upath, node->config.depth);
    record = dht_shard_find(node->shard, &key, msg->entry.upath);
    if (record == NULL)
        return true;
    dht_shard_drop_waiter(node->shard, record, msg->source, msg->id);
    record_remove_empty(node, record);
    return true;
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
        if (!node_rank_gone(sweep->node, record->holders[i]))
            left++;
    if (left < record->nholders) {
        /* Built anew: the array's size follows from the number in it. */
        uint32_t *old = record->holders, n = record->nholders;
        record->holders = NULL;
        record->nholders = 0;
        for (uint32_t i = 0; i < n; i++)
            if (!node_rank_gone(sweep->node, old[i]) &&
                dht_shard_add_holder(record, old[i]) < 0)
                log_warn("out of memory: a holder of %s is forgotten", record->upath);
        free(old);
    }
    DL_FOREACH_SAFE(record->waiters, waiter, tmp)
    {
        if (waiter_is_gone(sweep->node, waiter))
            dht_shard_free_waiter(sweep->node->shard, record, waiter);
    }
    if (record->inlined != NULL &&
        !record_has_home(sweep->node, record, sweep->node->config.self)) {
        dht_shard_set_inlined(sweep->node->shard, record, NULL, 0, 0);
        record_notify(sweep->node, record);
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

/* Drop dead waiters and holders, and the bytes of names that we stood in for. Until then
 * they cost nothing: a dead holder gets no message, and a NOTIFY to a rank that is gone, or
 * has another member by now, is lost or ignored. */
static void home_sweep(struct dht_node *node, struct timer *timer)
{
    struct sweep sweep = {.node = node};

    (void)timer;
    dht_shard_foreach(node->shard, sweep_record, &sweep);
    for (size_t i = 0; i < sweep.nempty; i++)
        record_remove_empty(node, sweep.empty[i]);
    free(sweep.empty);
    leave_orphans_published(node);
}

static void home_sweep_soon(struct dht_node *node)
{
    if (!node->sweep_timer.active)
        node_timer_start(node, &node->sweep_timer, TIMER_SWEEP);
}

static void home_rank_lost(struct dht_node *node, uint32_t rank)
{
    (void)rank;
    dht_shard_foreach_inlined(node->shard, inlined_publisher_lost, node);
    home_sweep_soon(node);
}

static void home_rank_back(struct dht_node *node, uint32_t rank)
{
    (void)rank;
    home_sweep_soon(node);
}

/* Its copies were kept for its return. */
static void home_missing_changed(struct dht_node *node, uint32_t rank, enum dht_missing was)
{
    if (was != DHT_GONE && node->missing[rank] == DHT_GONE)
        home_sweep_soon(node);
}

static int home_create(struct dht_node *node)
{
    node->sweep_timer.fn = home_sweep;
    return 0;
}

static const struct node_message messages[] = {
    {NET_MSG_PUBLISH, true, home_publish},
    {NET_MSG_PUBLISH_ENDED, true, home_publish_ended},
    {NET_MSG_LOOKUP, true, home_lookup},
    {NET_MSG_LOOKUP_CANCEL, true, home_lookup_cancel},
    {0},
};

const struct node_module node_home_module = {
    .messages = messages,
    .create = home_create,
    .rank_lost = home_rank_lost,
    .rank_back = home_rank_back,
    .missing_changed = home_missing_changed,
};
