/*
 * dht/node_own.c - our own entries: what they are, and that they stay where they belong
 *
 * A home that is silent or dead is passed over by a publish. It stays a wanted home as long
 * as it is not known to be dead, so the entry is looked at again after retry_interval, and
 * at every change of membership (the "review"), until every home that all ranks would
 * compute holds it. This is half of why no wait is lost; the other half is in
 * node_lookup.c.
 *
 * Withdrawals are remembered and republished as entries are. So a late old owner finds the
 * tombstone also at a home that is new.
 *
 * An entry lives as long as something of ours is published or withdrawn, or an operation on
 * it is under way (own_go_on() frees it).
 */
#include "dht/node_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define REVIEW_BUDGET 4096 /* entries per round: ~1 ms of the loop */

struct own *own_find(struct dht_node *node, const char *upath, uint32_t hash)
{
    struct own *own;

    HASH_FIND_BYHASHVALUE(hh, node->own, upath, strlen(upath), hash, own);
    return own;
}

struct own *own_get(struct dht_node *node, const char *upath, uint32_t hash)
{
    struct own *own = own_find(node, upath, hash);
    size_t len = strlen(upath);

    if (own != NULL)
        return own;
    own = calloc(1, sizeof(*own) + len + 1);
    if (own == NULL)
        return NULL;
    memcpy(own->upath, upath, len + 1);
    own->hash = hash;
    own->highest = node->counter_floor;
    HASH_ADD_KEYPTR_BYHASHVALUE(hh, node->own, own->upath, len, hash, own);
    if (own->hh.tbl == NULL) {
        free(own);
        errno = ENOMEM;
        return NULL;
    }
    return own;
}

bool dht_node_owns(const struct dht_node *node)
{
    for (const struct own *own = node->own; own != NULL; own = own->hh.next)
        if (own->queue != NULL || own->entry.state == DYAD_ENTRY_PUBLISHED)
            return true;
    return false;
}

static void own_free(struct dht_node *node, struct own *own)
{
    if (node->review == own)
        node->review = own->hh.next;
    HASH_DEL(node->own, own);
    free(own);
}

bool own_under_way(struct dht_node *node, const char *upath)
{
    const struct own *own;
    struct dht_key key;

    if (node->publishes == NULL)
        return false;
    dht_key_init(&key, upath, 0);
    own = own_find(node, upath, (uint32_t)key.full);
    return own != NULL && own->queue != NULL;
}

bool own_is_at(const struct dht_node *node, const struct own *own, uint32_t rank)
{
    if (node->death != NULL && node->death[rank] >> 1 > own->epoch)
        return false;
    for (uint32_t i = 0; i < own->nhomes; i++)
        if (own->homes[i] == rank)
            return true;
    return false;
}

static bool own_is_in_place(struct dht_node *node, const struct own *own)
{
    uint32_t homes[DHT_REPLICAS_MAX];
    unsigned n = dht_node_homes(node, own->upath, homes);

    for (unsigned i = 0; i < n; i++)
        if (!own_is_at(node, own, homes[i]))
            return false;
    return true;
}

bool dht_node_is_unsettled(struct dht_node *node, const char *upath)
{
    const struct own *own;
    struct dht_key key;

    dht_key_init(&key, upath, 0);
    own = own_find(node, upath, (uint32_t)key.full);
    return own != NULL &&
           (own->queue != NULL || own->deferred != NULL || !own_is_in_place(node, own));
}

void own_go_on(struct dht_node *node, struct own *own)
{
    struct incoming *deferred = own->deferred;

    if (own->queue != NULL) {
        publish_start(node, own->queue);
        return;
    }
    if (own->relay_again) {
        own->relay_again = false;
        leave_again(node, own->upath);
        if (own->queue != NULL)
            return;
    }
    own->deferred = NULL;
    if (own->entry.state == DYAD_ENTRY_NONE) {
        if (node->counter_floor < own->highest)
            node->counter_floor = own->highest;
        own_free(node, own);
    } else if (!own_is_in_place(node, own) && !node->review_timer.active) {
        node_timer_start(node, &node->review_timer, TIMER_RETRY);
    }
    incoming_route_all(node, deferred);
}

int dht_node_restore(struct dht_node *node, const struct dyad_entry *entry)
{
    const struct publish *op;
    struct own *own;
    struct dht_key key;

    if (entry->version.counter == 0 || entry->version.counter > DHT_COUNTER_MAX ||
        (entry->state != DYAD_ENTRY_PUBLISHED && entry->state != DYAD_ENTRY_WITHDRAWN)) {
        errno = EINVAL;
        return -1;
    }
    dht_key_init(&key, entry->upath, 0);
    own = own_get(node, entry->upath, (uint32_t)key.full);
    if (own == NULL)
        return -1;
    if (own->highest < entry->version.counter)
        own->highest = entry->version.counter;
    /* A publish of this incarnation, done or under way, is newer. What only brings to the
     * homes what we had published or withdrawn before, or passes on an entry of another,
     * perhaps this one with its dead owner, is not. */
    LL_FOREACH(own->queue, op)
    {
        if (!op->repair)
            return 0;
    }
    if (dyad_version_cmp(&entry->version, &own->entry.version) < 0)
        return 0;
    /* Of the same version the homes may have been told since by another who has taken it
     * over as well, and is dead. */
    own->again = own->queue != NULL;
    own->entry = *entry;
    own->entry.upath = own->upath;
    own->nhomes = 0;
    own_review(node, false);
    node_rearm(node);
    return 0;
}

void own_review(struct dht_node *node, bool all)
{
    if (node->own == NULL)
        return;
    node->review_all |= all;
    if (node->reviewing) {
        node->review_again = true;
    } else {
        node->reviewing = true;
        node->review = node->own;
        resync_review_begins(node);
    }
}

void own_review_step(struct dht_node *node)
{
    for (int i = 0; i < REVIEW_BUDGET && node->reviewing; i++) {
        struct own *own = node->review;
        if (own == NULL) {
            node->reviewing = node->review_again && node->own != NULL;
            node->review_again = false;
            node->review_all &= node->reviewing;
            node->review = node->own;
            if (node->reviewing)
                resync_review_begins(node);
            continue;
        }
        if (node->nrepair >= DHT_REPAIR_WINDOW)
            return;
        node->review = own->hh.next;
        if (own->queue != NULL || own->entry.state == DYAD_ENTRY_NONE)
            continue;
        if (node->review_all || !own_is_in_place(node, own))
            publish_repair(node, own);
    }
}

bool own_all_in_place(const struct dht_node *node, uint64_t moment)
{
    const struct publish *op;

    if (node->reviewing || node->nrepair > 0)
        return false;
    for (op = node->publishes; op != NULL; op = op->hh.next)
        if (op->id <= moment)
            return false;
    return true;
}

void own_review_timer(struct dht_node *node, struct timer *timer)
{
    (void)timer;
    own_review(node, false);
}

void own_refresh_timer(struct dht_node *node, struct timer *timer)
{
    own_review(node, true);
    node_timer_start(node, timer, TIMER_REFRESH);
}

void own_destroy(struct dht_node *node)
{
    struct own *own, *tmp;

    HASH_ITER(hh, node->own, own, tmp)
    {
        publish_queue_free(own);
        incoming_list_free(own->deferred);
        own_free(node, own);
    }
}
