/*
 * revalidate.c - copies whose homes have changed are compared with what is published
 *
 * A home sends a newer version to the holders of copies. When a home is lost, its
 * successor does not know the holders; while this rank was beyond a cut, it got no
 * message. So for each rank that was lost or came back, the copies of which it is (or
 * was) a home are looked up again, a little later: that makes us a holder there, and a
 * newer version is handled as if its INVALIDATE had come. Until that is over no lease is
 * renewed (copy_lease.c): when the lease has run out an open asks the homes itself.
 *
 * What could go wrong: the homes that are asked know less than we do (answered()), or
 * never get to know more (unknown_ends()); the answer is from before the last change
 * (want()).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "engine/coherence/invalidate.h"
#include "engine/coherence/revalidate.h"
#include "engine/coherence/unknown_version.h"
#include "engine/core/member_impl.h"
#include "engine/core/module.h"
#include "engine/core/retry_queue.h"
#include "engine/membership/unreachable.h"
#include "util/log.h"

/* Owners need a moment to publish to new homes, and losses come in crowds. */
#define FIRST_PAUSE (1 * UTIL_NSEC_PER_SEC)

struct item {
    struct retry retry;
    UT_hash_handle hh;
    struct unknown_version unknown;
};

struct revalidate {
    struct member *member;
    struct net_timer *timer;
    bool *rank; /* [nranks]: changed since the last time */
    bool any;
    struct retry_queue *retries;
    struct item *items; /* by upath */
};

/* The copies of that name, of both sides. */
struct copies {
    bool any, older, newer;      /* than what is published */
    struct dyad_version version; /* the newer one's, or of two the highest */
    uint32_t owner;
};

static struct copies compare(struct member *member, const char *upath,
                             const struct dyad_entry *entry)
{
    struct copies copies = {0};

    for (int s = 0; s < 2; s++) {
        const struct store_record *record =
            member->dmd[s].journal ? store_journal_find(member->dmd[s].journal, upath)
                                   : NULL;
        int order;
        if (!record || record->kind != STORE_RECORD_COPY)
            continue;
        copies.any = true;
        order = entry ? dyad_version_cmp(&record->entry.version, &entry->version) : 1;
        copies.older |= order < 0;
        if (order <= 0)
            continue;
        if (!copies.newer ||
            dyad_version_cmp(&record->entry.version, &copies.version) > 0) {
            copies.version = record->entry.version;
            copies.owner = record->entry.owner;
        }
        copies.newer = true;
    }
    return copies;
}

/* Its owner lives, could tell the homes, and does not. */
static bool owner_is_silent_on_it(const struct item *item, uint32_t owner)
{
    struct revalidate *re = retry_queue_arg(&item->retry);
    struct member *member = re->member;

    if (owner >= member->job->nranks || owner == member->self.rank ||
        unreachable_is_missing(member, owner) || !dht_node_is_live(member->dht, owner) ||
        !net_worker_peer(member->worker, owner))
        return false;
    if (net_worker_heard_at(member->worker, owner) >= item->unknown.since)
        return true;
    unreachable_suspect(member, owner);
    return false;
}

/* It is dead, or has left, and nobody has taken its place. */
static bool owner_is_gone(struct member *member, uint32_t owner)
{
    return owner >= member->job->nranks || (!unreachable_is_missing(member, owner) &&
                                            !dht_node_is_live(member->dht, owner));
}

/* The homes could be asked, and do not know of `copies`. True: they never will, and they
 * are not asked again. That is so when homes that do know what is published have not
 * known of our version for so long that its owner would have told them (the rule of
 * takeover_copies.c), and that owner lives and has been heard of since (it is asked to
 * say something: PING): it has nothing to tell. Then the copy goes. If the owner is dead,
 * it died together with all homes, and the copy is all that is left of the file: it
 * stays, and is not looked up any more, for the homes tell us of what comes
 * (dht/node_copies.c). */
static bool unknown_ends(struct item *item, const struct copies *copies)
{
    struct revalidate *re = retry_queue_arg(&item->retry);
    const char *upath = item->retry.upath;
    bool sure = unknown_version_is_sure(&item->unknown);

    if (owner_is_gone(re->member, copies->owner)) {
        if (sure)
            log_info("nobody knows of \"%s\" any more: the copy on this node stays", upath);
        return sure;
    }
    if (!owner_is_silent_on_it(item, copies->owner) || !sure)
        return false;
    unknown_version_drop(re->member, upath, &copies->version);
    return true;
}

/* A look-up that brings a version below ours, or nothing, has asked homes that have not
 * heard of ours (yet), and did not make us a holder; nor did one that reached nobody.
 * Such a copy is looked up on and on (retry_queue.c), after pauses that double from
 * FIRST_PAUSE: a home that cannot say anything now may be able to without any rank being
 * lost or found, as when another rank has told it what it had missed (dht/node_resync.c).
 * The next change of one of its homes makes the copy due at once. The questions end when
 * the copy is no more, or has been compared, or by unknown_ends(). */
static enum retry_next answered(struct retry *retry, int status,
                                const struct dyad_entry *entry, struct retry_pause *pause)
{
    struct item *item = (struct item *)retry;
    struct revalidate *re = retry_queue_arg(retry);
    bool heard = status == 0 || status == ENOENT;
    struct copies copies = compare(re->member, retry->upath, heard ? entry : NULL);

    if (copies.older) {
        log_info("the copy of \"%s\" is out of date", retry->upath);
        produce_invalidate(re->member, entry, 0); /* nobody waits for an answer */
    }
    if (retry->again || !copies.newer)
        return QUESTION_OVER; /* or to be asked once more */
    if (!heard) {
        item->unknown = (struct unknown_version){0};
    } else if (unknown_ends(item, &copies)) {
        return QUESTION_OVER;
    }
    pause->by = unknown_version_by(&item->unknown);
    return QUESTION_PUT_OFF;
}

/* False in a member that leaves, which does not need the answer. */
static bool is_wanted(const struct retry *retry)
{
    struct revalidate *re = retry_queue_arg(retry);

    return re->member->state != MEMBER_LEAVING &&
           compare(re->member, retry->upath, NULL).any;
}

static void freed(struct retry *retry)
{
    struct item *item = (struct item *)retry;
    struct revalidate *re = retry_queue_arg(retry);

    if (item->hh.tbl)
        HASH_DEL(re->items, item);
}

static void stepped(void *arg)
{
    const struct revalidate *re = arg;

    if (!re->items)
        log_debug("all copies whose homes have changed have been compared");
}

static const struct retry_queue_ops ops = {
    .size = sizeof(struct item),
    .window = 32,
    .flags = NET_LOOKUP_COPY,
    .tick = UTIL_NSEC_PER_SEC / 4,
    .pause = {.first = FIRST_PAUSE, .most = 60 * UTIL_NSEC_PER_SEC},
    .is_wanted = is_wanted,
    .answered = answered,
    .freed = freed,
    .stepped = stepped,
};

/* Have the copy looked up. A change that comes while a look-up is under way makes it
 * begin once more behind it: its answer may be from before. False: ENOMEM. */
static bool want(struct revalidate *re, const char *upath)
{
    struct item *item;

    HASH_FIND_STR(re->items, upath, item);
    if (!item) {
        if (!(item = retry_queue_add(re->retries, upath)))
            return false;
        HASH_ADD_KEYPTR(hh, re->items, item->retry.upath, strlen(upath), item);
        if (!item->hh.tbl) {
            retry_drop(&item->retry);
            return false;
        }
    }
    item->unknown = (struct unknown_version){0};
    retry_again(&item->retry);
    return true;
}

static int collect(const struct store_record *record, void *arg)
{
    struct revalidate *re = arg;
    struct member *member = re->member;
    uint32_t owner = record->entry.owner;
    struct item *item;
    bool concerned;

    if (record->kind != STORE_RECORD_COPY)
        return 0;
    HASH_FIND_STR(re->items, record->entry.upath, item);
    concerned = item && owner < member->job->nranks && re->rank[owner];
    for (uint32_t r = 0; r < member->job->nranks && !concerned; r++)
        concerned = re->rank[r] && dht_node_concerns(member->dht, record->entry.upath, r);
    return concerned && !want(re, record->entry.upath);
}

static void look(void *arg)
{
    struct revalidate *re = arg;
    struct member *member = re->member;
    struct member_dmd *dmd = member->dmd;
    int rc = 0;

    if (member->state == MEMBER_LEAVING)
        return;
    for (int s = 0; s < 2 && rc == 0; s++)
        if (dmd[s].journal && (s == 0 || dmd[s].journal != dmd[0].journal))
            rc = store_journal_foreach(dmd[s].journal, collect, re);
    if (rc != 0) {
        log_warn("out of memory: copies on this node may be out of date");
        net_timer_start(re->timer, util_clock_now() + FIRST_PAUSE);
    } else {
        memset(re->rank, 0, member->job->nranks * sizeof(*re->rank));
        re->any = false;
    }
    if (re->items)
        log_debug("homes have changed: %u copies are compared with what is published",
                  (unsigned)HASH_COUNT(re->items));
    modules_homes_changed(member);
    retry_queue_go_on(re->retries);
}

void revalidate_rank(struct member *member, uint32_t rank)
{
    struct revalidate *re = OWN(member, revalidate);

    re->rank[rank] = true;
    if (!re->any)
        net_timer_start(re->timer, util_clock_now() + FIRST_PAUSE);
    re->any = true;
}

bool revalidate_pending(struct member *member)
{
    const struct revalidate *re = OWN(member, revalidate);

    return re->any || re->items;
}

static void revalidate_destroy(struct member *member)
{
    struct revalidate *re = OWN(member, revalidate);

    retry_queue_destroy(re->retries);
    net_timer_destroy(re->timer);
    free(re->rank);
}

static int revalidate_start(struct member *member)
{
    struct revalidate *re = OWN(member, revalidate);

    re->member = member;
    re->rank = calloc(member->job->nranks, sizeof(*re->rank));
    re->timer = net_timer_create(member->loop, look, re);
    re->retries = retry_queue_create(member, &ops, re);
    return re->rank && re->timer && re->retries ? 0 : -1;
}

static void rank_changed(struct member *member, uint32_t rank,
                         enum member_rank_change change)
{
    if (change != MEMBER_RANK_GONE)
        revalidate_rank(member, rank);
}

const struct member_module revalidate_module = {
    .own = MODULE_OWN(revalidate),
    .start = revalidate_start,
    .rank_changed = rank_changed,
    .destroy = revalidate_destroy,
};
