/*
 * dht/node_unrecovered.c - the dead whose shard nobody can make good
 *
 * When a rank dies its place as a home goes to the next one of the order, and the owners
 * publish there what it had. An owner that is beyond a cut or stopped does not: so as long
 * as anybody is missing, who has taken the place of a dead rank may lack what the missing
 * had told that one. With one home dead and the other missing, "not published" would come
 * from those who have never been told. So the dead stay homes in what is asked of a
 * negative answer (node_homes_all()), as the missing do: those that died while anybody was
 * missing, however long after, for nobody brings to the heir of a missing home what its
 * missing owner published; and those that had died shortly before somebody was found
 * missing, for a cut is noticed late. They are forgotten when nobody is missing, and who
 * was has said SETTLED (node_tentative.c).
 *
 * One of them that comes back as another incarnation is a home with an empty shard. Its
 * negative answers are not believed as long as who is missing may be back soon; for longer
 * they are, for with a node that is lost for good all of a job may have been replaced.
 *
 * A home says so itself, too: it may know of a loss that the asker has not noticed.
 *
 * Where nobody is missing the cost is an entry in a list for each rank that died lately.
 */
#include "dht/node_impl.h"

#include <stdlib.h>
#include <string.h>

struct unrecovered {
    uint8_t *is; /* [rank] */
    uint32_t n;  /* of these */
    struct late {
        uint32_t rank;
        uint64_t when;
    } * late; /* who died, and is not counted yet; the earliest first */
    size_t nlate, size;
};

/* From the begin of a cut until it has been noticed, and one attempt to connect. */
static uint64_t noticed_in(const struct dht_node *node)
{
    return 2 * node->config.request_timeout + 1000000000u;
}

static bool make(struct dht_node *node)
{
    if (node->unrecovered == NULL)
        node->unrecovered = calloc(1, sizeof(*node->unrecovered));
    return node->unrecovered != NULL; /* else: as if nobody had died then */
}

static void unrecovered_add(struct dht_node *node, uint32_t rank)
{
    struct unrecovered *b = node->unrecovered;

    if (b->is == NULL)
        b->is = calloc(node->config.nranks, sizeof(*b->is));
    if (b->is == NULL || b->is[rank])
        return;
    b->is[rank] = true;
    b->n++;
}

static void drop_old(struct dht_node *node)
{
    struct unrecovered *b = node->unrecovered;
    uint64_t now = node->ops->now(node->arg);
    size_t old = 0;

    while (old < b->nlate && b->late[old].when + noticed_in(node) < now)
        old++;
    if (old == 0)
        return;
    b->nlate -= old;
    memmove(b->late, b->late + old, b->nlate * sizeof(*b->late));
}

void unrecovered_died(struct dht_node *node, uint32_t rank)
{
    struct unrecovered *b;

    if (!make(node))
        return;
    b = node->unrecovered;
    if (node->nmissing > 0 || node->nunsynced > 0) {
        unrecovered_add(node, rank);
        return;
    }
    drop_old(node);
    if (b->nlate == b->size) {
        size_t size = 2 * b->size + 8;
        struct late *late = realloc(b->late, size * sizeof(*late));
        if (late == NULL)
            return;
        b->late = late;
        b->size = size;
    }
    b->late[b->nlate++] = (struct late){rank, node->ops->now(node->arg)};
}

void unrecovered_missing(struct dht_node *node)
{
    struct unrecovered *b = node->unrecovered;

    if (b == NULL || b->nlate == 0)
        return;
    drop_old(node);
    for (size_t i = 0; i < b->nlate; i++)
        unrecovered_add(node, b->late[i].rank);
    b->nlate = 0;
}

void unrecovered_look(struct dht_node *node)
{
    struct unrecovered *b = node->unrecovered;

    if (b == NULL || b->n == 0 || node->nmissing > 0 || node->nunsynced > 0)
        return;
    memset(b->is, 0, node->config.nranks * sizeof(*b->is));
    b->n = 0;
}

bool unrecovered_is(const struct dht_node *node, uint32_t rank)
{
    return node->unrecovered != NULL && node->unrecovered->n > 0 &&
           node->unrecovered->is[rank];
}

bool unrecovered_is_empty(const struct dht_node *node, uint32_t rank)
{
    return unrecovered_is(node, rank) && node_rank_live(node, rank) &&
           tentative_may_end(node);
}

bool unrecovered_stands_in(const struct dht_node *node, const struct dht_key *key)
{
    uint32_t homes[DHT_REPLICAS_MAX];
    unsigned n;

    if (node->nmissing == 0 && (node->unrecovered == NULL || node->unrecovered->n == 0))
        return false;
    n = node_homes_all(node, key, homes);
    for (unsigned i = 0; i < n; i++)
        if (homes[i] == node->config.self)
            return false;
    return true;
}

void unrecovered_destroy(struct dht_node *node)
{
    if (node->unrecovered == NULL)
        return;
    free(node->unrecovered->is);
    free(node->unrecovered->late);
    free(node->unrecovered);
}
