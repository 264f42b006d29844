/*
 * node_publish_await.c - a change of a published file waits for homes that may be back
 *
 * What replaces a file may pass over a home that is silent or missing: the later version counts. A change must not.
 * Beyond a cut another node may have changed the same version, and that home have taken it: then no home would refuse
 * either, and one of the two would be lost. So a change ends when each home that was passed over is, or has been:
 *
 *   live, and silent           asked again
 *   missing                    waited for: it is back, and asked again; or it is missing for long, or gone
 *   missing for long, gone     passed over
 *
 * It refuses what does not know of the other side's, as any home does. The bound is that of a missing rank.
 */
#include "dht/node_publish_await.h"

static bool is_change(const struct publish *op)
{
    return !op->repair &&
           (op->base.kind == DYAD_BASE_FROM || op->base.kind == DYAD_BASE_VERSION);
}

static bool is_passed_over(const struct ask *ask)
{
    return ask->failed && !ask->refused;
}

void publish_asks_again(const struct dht_node *node, struct publish *op)
{
    unsigned left = 0;

    for (unsigned i = 0; is_change(op) && i < op->asks.n; i++)
        if (!is_passed_over(&op->asks.ask[i]) ||
            !node_rank_live(node, op->asks.ask[i].rank))
            op->asks.ask[left++] = op->asks.ask[i];
    if (is_change(op))
        op->asks.n = left;
}

bool publish_awaits_home(const struct dht_node *node, const struct publish *op,
                         uint32_t rank)
{
    for (unsigned i = 0; is_change(op) && i < op->asks.n; i++) {
        const struct ask *ask = &op->asks.ask[i];
        if (is_passed_over(ask) &&
            (rank != DYAD_RANK_NONE
                 ? ask->rank == rank
                 : node->missing != NULL && node->missing[ask->rank] == DHT_MISSING))
            return true;
    }
    return false;
}
