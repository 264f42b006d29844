/*
 * dht/node_proxy.c - the publisher's part: holders of older versions that no home can
 * know
 *
 * The homes know the holders of older versions and invalidate them (node_invalidate.c).
 * But a holder may be stopped when the homes that have noted it are lost. Its copy lies
 * on its node all the same, where others read it. So when the other homes have the new
 * version, the publisher asks a live rank of that holder's node, its proxy, to remove
 * older copies there (NET_INVALIDATE_NODE), as homes ask one in the place of a silent
 * holder. The publish ends when the proxy has answered. If it is silent, or sees another
 * disk, the next one is asked, DHT_INSTEAD_MAX in all, in invalidate_timeout. If none
 * confirms, the older copy may be read on; that is logged. Who counts as such a holder is
 * said at proxy_add_missing() and proxy_see_to().
 */
#include "dht/node_proxy.h"

#include "dht/node_unrecovered.h"
#include "util/log.h"

static struct proxied *proxy_find(struct publish *op, uint32_t rank)
{
    for (unsigned i = 0; i < op->nproxied; i++)
        if (op->proxied[i].rank == rank)
            return &op->proxied[i];
    return NULL;
}

/* How many missing ranks are looked at: beyond a cut they are many, and mostly no rank of
 * their node can be asked. */
#define MISSING_MAX 32

uint32_t dht_node_neighbour(const struct dht_node *node, uint32_t rank, uint32_t last)
{
    const uint32_t *at = rank < node->config.nranks ? node->config.node : NULL;
    uint32_t r = last == DYAD_RANK_NONE ? 0 : last + 1;

    for (; at != NULL && r < node->config.nranks; r++)
        if (at[r] == at[rank] && r != rank && dht_node_is_live(node, r))
            return r;
    return DYAD_RANK_NONE;
}

/* Not ourselves: the new version is our own, and we do not look. */
static uint32_t neighbour_next(const struct dht_node *node, const struct proxied *proxied)
{
    uint32_t r = dht_node_neighbour(node, proxied->rank, proxied->instead);

    return r == node->config.self ? dht_node_neighbour(node, proxied->rank, r) : r;
}

/* Ask the next of its neighbours. As in node_incoming.c, only lower versions are waited
 * for: a rank that is asked puts its answer off as long as a publish of its own with a
 * lower version is under way, and the ranks which that one asks are ahead of it. */
static void proxy_ask(struct dht_node *node, struct publish *op, struct proxied *proxied)
{
    uint32_t r;

    while (proxied->asked < DHT_INSTEAD_MAX &&
           (r = neighbour_next(node, proxied)) != DYAD_RANK_NONE) {
        struct net_msg msg = {.type = NET_MSG_INVALIDATE,
                              .flags = NET_INVALIDATE_NODE,
                              .id = op->id,
                              .entry = op->entry,
                              .rank = proxied->rank};
        proxied->instead = r;
        proxied->asked++;
        if (node_send(node, r, &msg) == 0) {
            proxied->pending++;
            log_debug(
                "no home knows what rank %u has of \"%s\", and it cannot be reached: rank "
                "%u sees to that",
                proxied->rank, op->entry.upath, r);
            return;
        }
    }
}

/* Not for a rank that is known to be dead: its neighbours take its files over, and
 * compare them with the table. */
static void proxy_add(struct dht_node *node, struct publish *op, uint32_t rank)
{
    struct proxied *proxied;

    if (rank == node->config.self || node_rank_gone(node, rank) ||
        proxy_find(op, rank) != NULL || op->nproxied == DHT_PROXIED_MAX)
        return;
    proxied = &op->proxied[op->nproxied++];
    *proxied = (struct proxied){.rank = rank, .instead = DYAD_RANK_NONE};
    proxy_ask(node, op, proxied);
    if (op->proxy_step > DHT_INSTEAD_MAX) /* others' time is over: this one has its own */
        op->proxy_step = 0;
}

static bool was_ever_live(const void *arg, uint32_t rank)
{
    const struct dht_node *node = arg;

    return node->death == NULL || node->death[rank] != 1;
}

/* The homes that have been lost, and may have had notes of others. If there was one beyond
 * those that all ranks together would have as homes, one of these had been lost before it.
 */
static unsigned notes_lost(const struct dht_node *node, const struct publish *op,
                           uint32_t lost[DHT_REPLICAS_MAX])
{
    uint32_t homes[DHT_REPLICAS_MAX];
    struct dht_ring ring = node->ring;
    unsigned n = 0;

    ring.live = was_ever_live;
    ring.arg = node;
    ring.nfew = 0;
    for (unsigned i = dht_homes_find(&ring, &op->key, homes); i > 0; i--)
        if (node->death != NULL && node->death[homes[i - 1]] >> 1 > 0)
            lost[n++] = homes[i - 1];
    return n;
}

/* Any holder may be stopped. Its homes have noted it (node_copies.c), and when these are
 * lost the notes are, until the holder renews them. So if a rank that was or would be a
 * home of the name has been lost since we know it, every missing rank counts as a holder.
 * (Not covered: a stopped rank that does not count as missing yet; and notes of a home
 * whose place another has taken by joining.) */
static void proxy_add_missing(struct dht_node *node, struct publish *op)
{
    const uint32_t *at = node->config.node;
    uint32_t lost[DHT_REPLICAS_MAX], cut_off = UINT32_MAX;
    unsigned n = notes_lost(node, op, lost), left = MISSING_MAX;

    if (n == 0 || at == NULL)
        return;
    for (uint32_t r = 0; r < node->config.nranks && left > 0; r++) {
        struct proxied proxied = {.rank = r, .instead = DYAD_RANK_NONE};
        if (at[r] == cut_off || node_rank_live(node, r) || node_rank_gone(node, r) ||
            (n == 1 && lost[0] == r))
            continue;
        if (neighbour_next(node, &proxied) == DYAD_RANK_NONE) {
            cut_off = at[r]; /* nobody of it can be asked: nor for its other ranks */
            continue;
        }
        left--;
        proxy_add(node, op, r);
    }
}

/* A home may be a holder, too; then it is noted by itself and by the other home
 * (node_copies.c). If it is stopped when that other home dies, no live home has the note:
 * the holder cannot renew it, and the homes that follow never had it. So the publisher
 * counts a home that did not acknowledge, or would be a home if it could be reached, as a
 * holder; proxy_add_missing() adds others.
 *
 * That is one message more for each stopped rank, if one of the name's homes was lost or
 * is itself such a rank, and none if no rank of its node can be reached, or no rank is
 * lost. */
bool proxy_see_to(struct dht_node *node, struct publish *op)
{
    uint32_t homes[DHT_REPLICAS_MAX];
    bool pending = false;

    if (op->repair) /* nothing is newer by it */
        return false;
    for (unsigned i = 0; i < op->asks.n; i++)
        if (op->asks.ask[i].failed)
            proxy_add(node, op, op->asks.ask[i].rank);
    for (unsigned i = node->missing != NULL ? node_homes_all(node, &op->key, homes) : 0;
         i > 0; i--)
        if (!node_rank_live(node, homes[i - 1]))
            proxy_add(node, op, homes[i - 1]);
    if (node->nmissing > 0)
        proxy_add_missing(node, op);
    for (unsigned i = 0; i < op->nproxied; i++)
        pending |= op->proxied[i].pending > 0;
    if (pending && !op->proxy_timer.active)
        node_timer_start(node, &op->proxy_timer,
                         op->proxy_step == 0 ? TIMER_INVALIDATE : TIMER_INSTEAD);
    return pending;
}

void proxy_forget(struct dht_node *node, struct publish *op)
{
    node_timer_stop(node, &op->proxy_timer);
    op->nproxied = op->proxy_step = 0;
}

void proxy_timeout(struct dht_node *node, struct publish *op)
{
    bool over = op->proxy_step++ >= DHT_INSTEAD_MAX;

    for (unsigned i = 0; i < op->nproxied; i++) {
        struct proxied *proxied = &op->proxied[i];
        if (proxied->pending == 0)
            continue;
        if (!over) {
            proxy_ask(node, op, proxied);
            continue;
        }
        proxied->pending = 0;
        log_warn(
            "rank %u cannot be told of the new version of %s, and nobody of its node "
            "has confirmed in time that it has nothing older",
            proxied->rank, op->entry.upath);
    }
}

/* One that was asked has died, or sees another disk. */
static void proxy_next(struct dht_node *node, struct publish *op, struct proxied *proxied)
{
    proxied->pending--;
    if (proxied->pending == 0)
        proxy_ask(node, op, proxied);
}

bool proxy_rank_dead(struct dht_node *node, struct publish *op, uint32_t rank)
{
    bool any = false;

    for (unsigned i = 0; i < op->nproxied; i++) {
        if (op->proxied[i].pending == 0 || op->proxied[i].instead != rank)
            continue;
        any = true;
        proxy_next(node, op, &op->proxied[i]);
    }
    return any;
}

bool proxy_reply(struct dht_node *node, struct publish *op, const struct net_msg *msg)
{
    struct proxied *proxied;

    if (msg->rank >= node->config.nranks || (proxied = proxy_find(op, msg->rank)) == NULL ||
        proxied->pending == 0)
        return false;
    if (msg->status == 0)
        proxied->pending = 0;
    else
        proxy_next(node, op, proxied);
    return true;
}
