/*
 * dht/node_unrecovered.c - dead ranks whose shard may be lost
 *
 * When a rank dies its place as a home goes to the next one of the order, and the owners
 * publish its entries there again. An owner that is beyond a cut or stopped does not: so
 * as long as a rank is missing, the successor of a dead home may lack entries of the
 * missing rank. With one home dead and the other missing, "not published" would come from
 * ranks that never got the entry. So these dead stay homes when a negative answer is
 * judged (node_homes_all()), as the missing do. They are forgotten when no rank is
 * missing, and those that were have sent RESYNCED (node_resync.c). If no rank is missing
 * the cost is an entry in a list for each rank that died lately.
 */
#include "dht/node_unrecovered.h"

#include <stdlib.h>
#include <string.h>

#include "dht/node_module.h"
#include "dht/node_tentative.h"

struct unrecovered {
    uint8_t *is; /* [rank] */
    uint32_t n;  /* of these */
    struct recent {
        uint32_t rank;
        uint64_t when;
    } * recent; /* who died, and is not counted yet; the earliest first */
    size_t nrecent, size;
};

/* From the begin of a cut until it has been noticed, and one attempt to connect. */
static uint64_t noticed_in(const struct dht_node *node)
{
    return 2 * node->config.request_timeout + 1000000000u;
}

static void unrecovered_add(struct dht_node *node, uint32_t rank)
{
    struct unrecovered *u = node->unrecovered;

    if (u->is == NULL)
        u->is = calloc(node->config.nranks, sizeof(*u->is));
    if (u->is == NULL || u->is[rank])
        return;
    u->is[rank] = true;
    u->n++;
}

static void drop_old(struct dht_node *node)
{
    struct unrecovered *u = node->unrecovered;
    uint64_t now = node->ops->now(node->arg);
    size_t old = 0;

    while (old < u->nrecent && u->recent[old].when + noticed_in(node) < now)
        old++;
    if (old == 0)
        return;
    u->nrecent -= old;
    memmove(u->recent, u->recent + old, u->nrecent * sizeof(*u->recent));
}

/* Those count that died while any rank was missing, however long after, for the entries
 * of a missing owner do not reach the successor of a missing home. The others are noted:
 * they count if a rank is found missing shortly after, for a cut is noticed late
 * (one_more_missing()). */
static void missing_died(struct dht_node *node, uint32_t rank)
{
    struct unrecovered *u = node->unrecovered;

    if (!tentative_all_synced(node)) {
        unrecovered_add(node, rank);
        return;
    }
    drop_old(node);
    if (u->nrecent == u->size) {
        size_t size = 2 * u->size + 8;
        struct recent *recent = realloc(u->recent, size * sizeof(*recent));
        if (recent == NULL)
            return;
        u->recent = recent;
        u->size = size;
    }
    u->recent[u->nrecent++] = (struct recent){rank, node->ops->now(node->arg)};
}

static void one_more_missing(struct dht_node *node)
{
    struct unrecovered *u = node->unrecovered;

    drop_old(node);
    for (size_t i = 0; i < u->nrecent; i++)
        unrecovered_add(node, u->recent[i].rank);
    u->nrecent = 0;
}

static void unrecovered_missing_changed(struct dht_node *node, uint32_t rank,
                                        enum dht_missing was)
{
    bool missing = node->missing[rank] != DHT_GONE;

    if (was != DHT_GONE && !missing)
        missing_died(node, rank);
    else if (was == DHT_GONE && missing)
        one_more_missing(node);
}

static void unrecovered_all_synced(struct dht_node *node)
{
    struct unrecovered *u = node->unrecovered;

    if (u->n == 0)
        return;
    memset(u->is, 0, node->config.nranks * sizeof(*u->is));
    u->n = 0;
}

bool unrecovered_is(const struct dht_node *node, uint32_t rank)
{
    return node->unrecovered->n > 0 && node->unrecovered->is[rank];
}

/* A dead rank that comes back as another incarnation is a home with an empty shard. Its
 * negative answers are not believed as long as the missing ranks may be back soon; after
 * that they are, for with a node that is lost for good all of a job may have been
 * replaced. */
bool unrecovered_is_empty(const struct dht_node *node, uint32_t rank)
{
    return unrecovered_is(node, rank) && node_rank_live(node, rank) &&
           tentative_may_end(node);
}

/* A home that stands in for such ranks says so in its answer (NET_LOOKUP_UNSURE): it may
 * know of a loss that the asker has not noticed. */
bool unrecovered_stands_in(const struct dht_node *node, const struct dht_key *key)
{
    uint32_t homes[DHT_REPLICAS_MAX];
    unsigned n;

    if (node->nmissing == 0 && node->unrecovered->n == 0)
        return false;
    n = node_homes_all(node, key, homes);
    for (unsigned i = 0; i < n; i++)
        if (homes[i] == node->config.self)
            return false;
    return true;
}

static bool rank_live_or_lost(const void *arg, uint32_t rank)
{
    const struct dht_node *node = arg;

    return node_rank_live(node, rank) || node_rank_missing(node, rank) ||
           unrecovered_is(node, rank);
}

unsigned node_homes_all(const struct dht_node *node, const struct dht_key *key,
                        uint32_t homes[DHT_REPLICAS_MAX])
{
    struct dht_ring ring = node->ring;

    ring.live = rank_live_or_lost;
    if (!tentative_all_synced(node)) /* else nobody is unrecovered, either */
        ring.nfew = 0;               /* these are the live ones only */
    return dht_homes_find(&ring, key, homes);
}

static int unrecovered_create(struct dht_node *node)
{
    node->unrecovered = calloc(1, sizeof(*node->unrecovered));
    return node->unrecovered != NULL ? 0 : -1;
}

static void unrecovered_destroy(struct dht_node *node)
{
    if (node->unrecovered == NULL)
        return;
    free(node->unrecovered->is);
    free(node->unrecovered->recent);
    free(node->unrecovered);
}

const struct node_module node_unrecovered_module = {
    .create = unrecovered_create,
    .destroy = unrecovered_destroy,
    .missing_changed = unrecovered_missing_changed,
    .all_synced = unrecovered_all_synced,
};
