/*
 * dht/node_negative.c - whether a negative answer is sure
 *
 * A rank that takes the place of a home may lack entries, or be on the wrong side of a
 * cut. So a "no" is believed only from a rank that has been a home all along. If none of
 * these can be reached the homes are asked again for request_timeout (owners that know of
 * a death publish again at once), and then the look-up ends in EHOSTUNREACH. A wait,
 * which a tombstone would end, goes on until the tombstone is known to be in force. An
 * entry from a tentative home may be superseded: the others are asked for a newer one, as
 * after a negative answer.
 *
 * A tombstone is a "no", too: a rank that has stood in for homes keeps versions that they
 * did not get, and is asked again when they fall silent.
 */
#include "dht/node_negative.h"

#include "dht/node_tentative.h"
#include "dht/node_unrecovered.h"

static bool any_home_missing(const struct dht_node *node, const struct dht_key *key)
{
    uint32_t homes[DHT_REPLICAS_MAX];
    unsigned n;

    if (node->nmissing == 0)
        return false;
    n = node_homes_all(node, key, homes);
    for (unsigned i = 0; i < n; i++)
        if (node_rank_missing(node, homes[i]))
            return true;
    return false;
}

/* The rule. A "no" is sure
 *
 * 1. if it is a tombstone, which is news where a home has it and may be an old story where
 *    those are silent: no answer was tentative, we are on the majority, and one of the
 *    homes as they are now has answered, or none of them is silent. But a rank that says
 *    that it is no home, while one of those it stood in for is missing to us, does not
 *    count: that home is back, and may have a newer version;
 *
 * 2. or if one has answered that would know: one of the homes as they would be if all who
 *    are missing or unrecovered lived (node_homes_all()), whose answer was not tentative
 *    (it was cut off, or somebody who was cut off has not told it yet what it published
 *    meanwhile) and that has not come back with an empty shard; and we are on the
 *    majority, for whoever answers is on our side. With DHT_LOOKUP_SURE also each other of
 * these homes has answered that is not known to be lost: one that is silent may be so
 * because we are cut off with those that have answered.
 *
 * Else it is tentative if one of these homes may yet answer for sure: it lives and is not
 * this rank, which has answered; or it is missing and may be back soon; or it is
 * unrecovered, or we are on the minority or tentative ourselves, and that may end soon.
 * And else it is unknown. */
enum negative negative_judge(struct dht_node *node, struct dht_lookup *l)
{
    const enum dht_partition side = tentative_partition(node);
    bool known = false, silent = false, answered = false, soon = false, missing;
    uint32_t homes[DHT_REPLICAS_MAX];
    unsigned n;

    if (l->best.state == DYAD_ENTRY_WITHDRAWN && !l->tentative &&
        side == DHT_PARTITION_MAJORITY) {
        missing = any_home_missing(node, &l->key);
        n = node_homes(node, &l->key, node->config.replicas, NULL, homes);
        for (unsigned i = 0; i < n; i++) {
            const struct ask *ask = asks_find(&l->asks, homes[i]);
            bool stood_in = ask != NULL && ask->stood_in && missing;
            answered |= ask != NULL && ask->answered && !stood_in;
            silent |= ask != NULL && ((ask->failed && !ask->refused) || stood_in);
        }
        if (answered || !silent)
            return NEGATIVE_SURE;
    }

    silent = false;
    n = node_homes_all(node, &l->key, homes);
    for (unsigned i = 0; i < n; i++) {
        const struct ask *ask = asks_find(&l->asks, homes[i]);
        bool live = node_rank_live(node, homes[i]);
        answered = ask != NULL && ask->answered;
        silent |= live && !answered;
        if (answered && !ask->tentative && side == DHT_PARTITION_MAJORITY &&
            !unrecovered_is_empty(node, homes[i]))
            known = true;
        else if (unrecovered_is(node, homes[i]))
            soon |= tentative_may_end(node);
        else if (homes[i] != node->config.self || !answered)
            soon |= live || node->missing[homes[i]] == DHT_MISSING;
    }
    if (known && ((l->flags & DHT_LOOKUP_SURE) == 0 || !silent))
        return NEGATIVE_SURE;
    if (known)
        return NEGATIVE_TENTATIVE;
    if (side == DHT_PARTITION_MINORITY || (tentative_is(node) && !soon))
        soon = tentative_may_end(node);
    return soon ? NEGATIVE_TENTATIVE : NEGATIVE_UNKNOWN;
}
