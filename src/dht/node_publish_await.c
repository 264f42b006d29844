/*
 * node_publish_await.c - a change of a published file waits for homes that may be back
 *
 * What replaces a file may pass over a home that is silent or missing: the later version counts. A change must not.
 * Beyond a cut another node may have changed the same version, and that home have taken it: then no home would refuse
 * either, and one of the two would be lost. So a change ends when each of its homes, as they are if all live, is
 *
 *   live, and has answered     it refuses what does not know of the other side's, as any home does
 *   missing for long, or gone  and passed over, as by a replacement
 *
 * One that was silent, and lives, is asked again, some times; for one that is missing it is waited: until it is back, or
 * for as long as for any missing rank.
 */
#include "dht/node_publish_await.h"

#include "dht/base.h"
#include "dht/node_unrecovered.h"
#include "util/log.h"

#define SILENT_MAX 8 /* it answers, but not this */

static bool is_change(const struct publish *op)
{
    return !op->repair && dht_base_is_change(&op->base);
}

void publish_note_change(struct publish *op)
{
    op->entry.change =
        is_change(op) && op->entry.state == DYAD_ENTRY_PUBLISHED && !op->entry.conflict;
}

bool publish_is_left_to_publisher(const struct dht_node *node,
                                  const struct dyad_entry *entry)
{
    return entry->change && entry->owner == entry->version.rank &&
           entry->version.rank != node->config.self &&
           dht_node_is_live(node, entry->version.rank);
}

static bool is_silent(const struct dht_node *node, const struct ask *ask)
{
    return ask->failed && !ask->refused && node_rank_live(node, ask->rank);
}

void publish_asks_again(const struct dht_node *node, struct publish *op)
{
    unsigned left = 0;

    op->awaits = false;
    if (!is_change(op) || op->silent == SILENT_MAX)
        return;
    for (unsigned i = 0; i < op->asks.n; i++) {
        if (!is_silent(node, &op->asks.ask[i]))
            op->asks.ask[left++] = op->asks.ask[i];
    }
    op->silent += left < op->asks.n;
    op->asks.n = left;
}

/* DYAD_RANK_NONE: none. */
static uint32_t missing_home(const struct dht_node *node, const struct publish *op)
{
    uint32_t homes[DHT_REPLICAS_MAX];
    unsigned n = node->nmissing > 0 ? node_homes_all(node, &op->key, homes) : 0;

    for (unsigned i = 0; i < n; i++)
        if (node->missing[homes[i]] == DHT_MISSING && !node_rank_live(node, homes[i]))
            return homes[i];
    return DYAD_RANK_NONE;
}

static bool awaits(const struct dht_node *node, struct publish *op)
{
    uint32_t missing;

    if (!is_change(op))
        return false;
    missing = missing_home(node, op);
    if (missing != DYAD_RANK_NONE) {
        if (!op->told)
            log_warn(
                "the publish of \"%s\" waits for rank %u, which cannot be reached, and may "
                "know of another node's change: until it is back, or for DYAD_JOIN_TIMEOUT",
                op->entry.upath, missing);
        op->told = true;
        return true;
    }
    for (unsigned i = 0; op->silent < SILENT_MAX && i < op->asks.n; i++)
        if (is_silent(node, &op->asks.ask[i])) /* its connection has just broken */
            return true;
    return false;
}

bool publish_awaits_home(struct dht_node *node, struct publish *op)
{
    op->awaits = awaits(node, op);
    if (op->awaits)
        node_timer_start(node, &op->timer, TIMER_AGAIN);
    return op->awaits;
}
