/*
 * dht/node_lease.c - what a holder's lease rests upon, and how long it must be waited for
 *
 * A rank uses its copies without a question as long as all homes of them have answered it
 * within config.lease (engine/coherence/copy_lease.c asks them). A home that has noted the
 * holder waits for it longer than that (invalidate_timeout) before a newer version counts,
 * so by then the holder has been told, or its lease is over. Two cases are left, in which
 * nobody waits by itself, since somebody is taken for dead: it may be beyond a cut, and its
 * lease last.
 * - The holder, to its home (node_invalidate.c). It is not told, but waited for until
 *   config.lease after the moment in which it was lost: what it asked before that was
 *   answered before that, and nothing was answered since.
 * - All homes, to the publisher (node_publish.c): those who stand in for them do not know
 *   of the holder. If it is beyond the same cut, then its homes have no answers for it as
 *   soon as they know that they are on the minority; on our side, it has none of theirs. So
 * such a publish does not end before config.lease after the loss of its homes. (One of them
 * that answers is enough: each knows of every holder.) Who is known to be gone has no
 * lease, and grants none.
 *
 * What the holder asks for itself: which ranks are homes of its copies, and whether each
 * copy is known to one of them (node_copies.c). And a home tells it how often it was given
 * up there: what was published at such a time it was not told of, though it knows nothing
 * of the loss.
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

bool lease_may_last(const struct dht_node *node, uint32_t rank)
{
    return node->lost_at != NULL && !node_rank_live(node, rank) &&
           node_rank_missing(node, rank) &&
           node->ops->now(node->arg) < node->lost_at[rank] + node->config.lease;
}

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
