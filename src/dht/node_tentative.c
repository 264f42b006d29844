/*
 * dht/node_tentative.c - when this rank's "not published" is tentative: it may not be
 * true
 *
 * A home answers from its shard, which has the entries that publishers could bring.
 * Entries that a rank published while it took us for dead are not there before it has
 * published them again: until it has said so (RESYNCED: node_resync.c) we answer with
 * NET_LOOKUP_UNSURE, and lookups do not believe the "no" (node_negative.c). So do we
 * while we may be on the minority: dht_node_set_partition().
 *
 * If a debt were forgotten a home would deny a file that is there; if one stayed for ever
 * no wait would end. Entries of a rank that died beyond the cut, whose homes there are
 * lost, too, are not brought (docs/dht.md).
 */
#include "dht/node_tentative.h"

#include <stdlib.h>

#include "dht/node_module.h"
#include "util/log.h"

/* The state is one byte for each rank, made when the first one comes back, and counters:
 * if no rank was lost a lookup costs one comparison, and no message. */
struct tentative {
    uint8_t *owed; /* NULL: nothing yet; [rank]: enum owed */
    uint32_t nowing, nasked, nmissing_short;
    enum dht_partition side;
    bool partition_lasts; /* dht_node_partition_lasts() */
};

bool tentative_is(const struct dht_node *node)
{
    return node->tentative->nowing > 0 || node->tentative->side != DHT_PARTITION_MAJORITY;
}

/* The word of ranks that are missing still is not waited for any more when our side has been
 * the majority for long: dht_node_partition_lasts(). */
bool tentative_may_end(const struct dht_node *node)
{
    const struct tentative *tentative = node->tentative;

    return tentative->nasked > 0 || tentative->nmissing_short > 0 ||
           tentative->side == DHT_PARTITION_UNKNOWN ||
           (tentative->side == DHT_PARTITION_MAJORITY && tentative->nowing > 0 &&
            !tentative->partition_lasts);
}

void tentative_set_owed(struct dht_node *node, uint32_t rank, unsigned bits)
{
    uint8_t *owed;
    bool is, was;

    if (node->tentative->owed == NULL && bits != 0)
        node->tentative->owed = calloc(node->config.nranks, sizeof(*node->tentative->owed));
    if (node->tentative->owed == NULL)
        return; /* out of memory: as if it had never been lost */
    owed = &node->tentative->owed[rank];
    is = (bits & OWED_NOW) != 0;
    was = (*owed & OWED_NOW) != 0;
    if (is != was)
        log_debug("rank %u %s, for what is not published", (unsigned)rank,
                  is ? "is to give its word" : "need not be asked any more");
    node->tentative->nowing += is - was;
    node->tentative->nasked += ((bits & OWED_ASKED) != 0) - ((*owed & OWED_ASKED) != 0);
    *owed = (uint8_t)bits;
    if (tentative_all_synced(node))
        node_modules_all_synced(node);
}

unsigned tentative_owed(const struct dht_node *node, uint32_t rank)
{
    return node->tentative->owed != NULL ? node->tentative->owed[rank] : 0;
}

void tentative_put_off(struct dht_node *node, uint32_t rank)
{
    bool joined = (tentative_owed(node, rank) & (OWED_JOINED | OWED_LATER)) != 0;

    tentative_set_owed(node, rank, joined ? OWED_LATER : 0);
}

bool tentative_all_synced(const struct dht_node *node)
{
    return node->nmissing == 0 && node->tentative->nowing == 0;
}

bool tentative_any_asked(const struct dht_node *node)
{
    return node->tentative->nasked > 0;
}

enum dht_partition tentative_partition(const struct dht_node *node)
{
    return node->tentative->side;
}

void tentative_look(struct dht_node *node, bool was)
{
    if (was && !tentative_is(node))
        node_modules_sure_again(node);
}

bool tentative_not_missing(struct dht_node *node, uint32_t rank)
{
    if (!node_rank_missing(node, rank))
        return false;
    node->tentative->nmissing_short -= node->missing[rank] == DHT_MISSING;
    node->nmissing--;
    node->missing[rank] = DHT_GONE;
    return true;
}

/* Set what a rank that is not live owes because it is missing. */
static void set_missing(struct dht_node *node, uint32_t rank, enum dht_missing missing)
{
    if (missing == DHT_GONE)
        tentative_put_off(node, rank);
    else if (node->tentative->side == DHT_PARTITION_MINORITY)
        tentative_set_owed(node, rank, tentative_owed(node, rank) | OWED_MISSED);
    if (missing == DHT_MISSING_LONG) { /* the job goes on without its word */
        if (node->tentative->partition_lasts)
            tentative_set_owed(node, rank,
                               tentative_owed(node, rank) & ~(unsigned)OWED_MISSED);
        dht_node_not_awaited(node, rank);
    }
}

void dht_node_set_missing(struct dht_node *node, uint32_t rank, enum dht_missing missing)
{
    bool was_tentative = tentative_is(node);
    enum dht_missing was;

    if (rank >= node->config.nranks)
        return;
    if (node->missing == NULL && missing != DHT_GONE)
        node->missing = calloc(node->config.nranks, sizeof(*node->missing));
    if (node->missing != NULL) { /* else it is as dead as the others */
        was = (enum dht_missing)node->missing[rank];
        node->tentative->nmissing_short += (missing == DHT_MISSING) - (was == DHT_MISSING);
        node->nmissing += (missing != DHT_GONE) - (was != DHT_GONE);
        node->missing[rank] = (uint8_t)missing;
        node_modules_missing_changed(node, rank, was);
        set_missing(node, rank, missing);
        if (tentative_all_synced(node))
            node_modules_all_synced(node);
        tentative_look(node, was_tentative);
    }
    node_rearm(node);
}

void dht_node_not_awaited(struct dht_node *node, uint32_t rank)
{
    bool was = tentative_is(node);
    unsigned owed = rank < node->config.nranks ? tentative_owed(node, rank) : 0;

    if ((owed & OWED_JOINED) == 0)
        return;
    tentative_set_owed(node, rank, (owed & ~(unsigned)OWED_JOINED) | OWED_LATER);
    tentative_look(node, was);
    node_rearm(node);
}

/* While a rank is missing its side of the cut and ours differ. Both cannot say "unknown"
 * of every name for as long as that lasts: a job that has lost a node for good must go
 * on. The majority goes on; a rank that may be on the minority is tentative (the user
 * knows the nodes, and calls this). It has missed entries of every missing rank, not only
 * of those that come back first: so each rank that is missing while we are on the
 * minority owes a RESYNCED, also after the first of them have come back and we are on the
 * majority again. */
void dht_node_set_partition(struct dht_node *node, enum dht_partition side)
{
    bool was = tentative_is(node);

    if (node->tentative->side == side)
        return;
    node->tentative->side = side;
    node->tentative->partition_lasts = false;
    for (uint32_t r = 0;
         side == DHT_PARTITION_MINORITY && node->missing != NULL && r < node->config.nranks;
         r++)
        if (node->missing[r] != DHT_GONE)
            tentative_set_owed(node, r, tentative_owed(node, r) | OWED_MISSED);
    tentative_look(node, was);
    node_rearm(node);
}

/* A missing rank does not owe its RESYNCED for ever: it may have died meanwhile. When our
 * side has been the majority for long, a rank that is still missing counts as lost on
 * this side. Live homes have passed on what they had from it before their own RESYNCED.
 */
void dht_node_partition_lasts(struct dht_node *node)
{
    bool was = tentative_is(node);

    if (node->tentative->side != DHT_PARTITION_MAJORITY)
        return;
    node->tentative->partition_lasts = true;
    for (uint32_t r = 0; node->missing != NULL && r < node->config.nranks; r++)
        if (node->missing[r] == DHT_MISSING_LONG)
            tentative_set_owed(node, r, tentative_owed(node, r) & ~(unsigned)OWED_MISSED);
    tentative_look(node, was);
    node_rearm(node);
}

bool dht_node_is_tentative(const struct dht_node *node)
{
    return tentative_is(node) || node->joining || node->leaving;
}

bool dht_node_is_majority(const struct dht_node *node)
{
    return node->tentative->side == DHT_PARTITION_MAJORITY;
}

static int tentative_create(struct dht_node *node)
{
    node->tentative = calloc(1, sizeof(*node->tentative));
    return node->tentative != NULL ? 0 : -1;
}

static void tentative_destroy(struct dht_node *node)
{
    if (node->tentative == NULL)
        return;
    free(node->tentative->owed);
    free(node->tentative);
}

const struct node_module node_tentative_module = {.create = tentative_create,
                                                  .destroy = tentative_destroy};
