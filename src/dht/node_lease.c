/*
 * dht/node_lease.c - how long the lease of a holder that is lost must be waited for
 *
 * A rank uses its copies without asking as long as all their homes have answered it
 * within config.lease (engine/coherence/copy_lease.c asks them). A home that has noted
 * the holder waits for it longer than that (invalidate_timeout) before a newer version
 * counts, so by then the holder has got its INVALIDATE, or its lease is over. But where a
 * rank is taken for dead nobody waits, and it may be beyond a cut with a lease that
 * lasts. There are two such cases, lease_may_last() and lease_of_home_may_last(): without
 * a wait in them an older copy would be used after a newer version counts.
 */
#include "dht/node_lease.h"

#include <stdlib.h>

#include "dht/node_module.h"
#include "dht/node_unrecovered.h"

static void lease_rank_lost(struct dht_node *node, uint32_t rank)
{
    if (node->config.lease == 0)
        return;
    if (node->lost_at == NULL)
        node->lost_at = calloc(node->config.nranks, sizeof(*node->lost_at));
    if (node->lost_at != NULL)
        node->lost_at[rank] = node->ops->now(node->arg);
}

/* The home takes the holder for dead (node_invalidate.c). It sends no INVALIDATE, but
 * waits until config.lease after the moment in which the holder was lost: all answers to
 * it were sent before that moment. A rank that is known to be gone has no lease, and
 * grants none.
 *
 * The holder itself checks which ranks are homes of its copies, and whether a home knows
 * each copy (node_copies.c). And a home tells it how often it was given up there: it got
 * no INVALIDATE at such a time, though it may know nothing of the loss. */
bool lease_may_last(const struct dht_node *node, uint32_t rank)
{
    return node->lost_at != NULL && !node_rank_live(node, rank) &&
           node_rank_missing(node, rank) &&
           node->ops->now(node->arg) < node->lost_at[rank] + node->config.lease;
}

/* The publisher takes all homes for dead (node_publish.c): their stand-ins do not know
 * the holder. If it is beyond the same cut, its homes give it no more answers as soon as
 * they know that they are on the minority; on our side, it gets none of theirs. So such a
 * publish does not end before config.lease after the loss of its homes. (One home that
 * answers is enough: each knows every holder.) */
bool lease_of_home_may_last(const struct dht_node *node, const struct dht_key *key,
                            struct asks *asks)
{
    uint32_t homes[DHT_REPLICAS_MAX];
    bool lasts = false;
    unsigned n;

    if (node->lost_at == NULL || node->missing == NULL)
        return false;
    n = node_homes_all(node, key, homes);
    for (unsigned i = 0; i < n; i++) {
        const struct ask *ask = asks_find(asks, homes[i]);
        if (ask != NULL && ask->answered)
            return false;
        lasts = lasts || lease_may_last(node, homes[i]);
    }
    return lasts;
}

static void lease_destroy(struct dht_node *node)
{
    free(node->lost_at);
}

const struct node_module node_lease_module = {.destroy = lease_destroy,
                                              .rank_lost = lease_rank_lost};
