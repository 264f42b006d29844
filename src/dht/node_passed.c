/*
 * dht/node_passed.c - the publisher's part: holders of what is older that no home can know
 *
 * Who holds something older is known to the homes (node_told.c). A home may be a holder,
 * too, and then it is noted by itself and by the other home (node_copies.c). If it is
 * stopped when that other one dies, its word is nowhere: it cannot renew it, and the homes
 * that follow never had it. Its copy lies on its node all the same, where others read it.
 *
 * So a home that did not acknowledge, or would be one if it could be reached, counts as a
 * holder for who publishes: when the other homes have the new version a live rank of its
 * node is asked to see to what it has (NET_INVALIDATE_NODE), as homes ask one in the place
 * of a silent holder. The publish ends when that one has answered. If it is silent, or sees
 * another disk, the next one is asked, DHT_INSTEAD_MAX in all, in invalidate_timeout.
 * Not so of a home that is known to be dead: its neighbours take over what it had, and
 * compare that with the table.
 *
 * The same of any other holder that is stopped: it is noted by its homes (node_copies.c),
 * and when these are lost the notes are, until the holder renews them. So where a rank
 * that was or would be a home of the name has been lost since we know it, whoever is
 * missing counts as a holder. (Who is stopped, and has not been missed yet, is not seen to;
 * nor what was noted by a home in whose place another has come by joining.)
 *
 * That is one message more for each rank that is stopped, where one of the name's homes was
 * lost or is itself such a rank, and none where nobody of its node can be reached, or
 * nobody is lost.
 *
 * An answer is waited for as in node_incoming.c for lower versions only: who is asked puts
 * its answer off as long as a publish of its own with a lower version is under way, and
 * whom that one asks is ahead of it.
 */
#include "dht/node_impl.h"

#include "util/log.h"

static struct passed *passed_find(struct publish *op, uint32_t rank)
{
    for (unsigned i = 0; i < op->npassed; i++)
        if (op->passed[i].rank == rank)
            return &op->passed[i];
    return NULL;
}

/* Of those who are missing: beyond a cut they are many, and mostly nobody of their node can
 * be asked. */
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
static uint32_t neighbour_next(const struct dht_node *node, const struct passed *passed)
{
    uint32_t r = dht_node_neighbour(node, passed->rank, passed->instead);

    return r == node->config.self ? dht_node_neighbour(node, passed->rank, r) : r;
}

/* Ask the next of its neighbours. */
static void passed_ask(struct dht_node *node, struct publish *op, struct passed *passed)
{
    uint32_t r;

    while (passed->asked < DHT_INSTEAD_MAX &&
           (r = neighbour_next(node, passed)) != DYAD_RANK_NONE) {
        struct net_msg msg = {.type = NET_MSG_INVALIDATE,
                              .flags = NET_INVALIDATE_NODE,
                              .id = op->id,
                              .entry = op->entry,
                              .length = passed->rank};
        passed->instead = r;
        passed->asked++;
        if (node_send(node, r, &msg) == 0) {
            passed->pending++;
            log_debug(
                "no home knows what rank %u has of \"%s\", and it cannot be reached: rank "
                "%u sees to that",
                passed->rank, op->entry.upath, r);
            return;
        }
    }
}

static void passed_add(struct dht_node *node, struct publish *op, uint32_t rank)
{
    struct passed *passed;

    if (rank == node->config.self || told_holder_is_gone(node, rank) ||
        passed_find(op, rank) != NULL || op->npassed == DHT_PASSED_MAX)
        return;
    passed = &op->passed[op->npassed++];
    *passed = (struct passed){.rank = rank, .instead = DYAD_RANK_NONE};
    passed_ask(node, op, passed);
    if (op->passed_step > DHT_INSTEAD_MAX) /* others' time is over: this one has its own */
        op->passed_step = 0;
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

static void passed_add_missing(struct dht_node *node, struct publish *op)
{
    const uint32_t *at = node->config.node;
    uint32_t lost[DHT_REPLICAS_MAX], cut_off = UINT32_MAX;
    unsigned n = notes_lost(node, op, lost), left = MISSING_MAX;

    if (n == 0 || at == NULL)
        return;
    for (uint32_t r = 0; r < node->config.nranks && left > 0; r++) {
        struct passed passed = {.rank = r, .instead = DYAD_RANK_NONE};
        if (at[r] == cut_off || node_rank_live(node, r) || told_holder_is_gone(node, r) ||
            (n == 1 && lost[0] == r))
            continue;
        if (neighbour_next(node, &passed) == DYAD_RANK_NONE) {
            cut_off = at[r]; /* nobody of it can be asked: nor for its other ranks */
            continue;
        }
        left--;
        passed_add(node, op, r);
    }
}

bool passed_see_to(struct dht_node *node, struct publish *op)
{
    uint32_t homes[DHT_REPLICAS_MAX];
    bool pending = false;

    if (op->repair) /* nothing is newer by it */
        return false;
    for (unsigned i = 0; i < op->asks.n; i++)
        if (op->asks.ask[i].failed)
            passed_add(node, op, op->asks.ask[i].rank);
    for (unsigned i = node->missing != NULL ? node_homes_all(node, &op->key, homes) : 0;
         i > 0; i--)
        if (!node_rank_live(node, homes[i - 1]))
            passed_add(node, op, homes[i - 1]);
    if (node->nmissing > 0)
        passed_add_missing(node, op);
    for (unsigned i = 0; i < op->npassed; i++)
        pending |= op->passed[i].pending > 0;
    op->passed_timer.fn = passed_timeout;
    if (pending && !op->passed_timer.active)
        node_timer_start(node, &op->passed_timer,
                         op->passed_step == 0 ? TIMER_INVALIDATE : TIMER_INSTEAD);
    return pending;
}

void passed_forget(struct dht_node *node, struct publish *op)
{
    node_timer_stop(node, &op->passed_timer);
    op->npassed = op->passed_step = 0;
}

/* Who was asked before may answer yet. */
void passed_timeout(struct dht_node *node, struct timer *timer)
{
    struct publish *op =
        (struct publish *)((char *)timer - offsetof(struct publish, passed_timer));
    bool over = op->passed_step++ >= DHT_INSTEAD_MAX;

    for (unsigned i = 0; i < op->npassed; i++) {
        struct passed *passed = &op->passed[i];
        if (passed->pending == 0)
            continue;
        if (!over) {
            passed_ask(node, op, passed);
            continue;
        }
        passed->pending = 0;
        log_warn(
            "rank %u cannot be told of the new version of %s, and nobody of its node "
            "has confirmed in time that it has nothing older",
            passed->rank, op->entry.upath);
    }
    publish_advance(node, op);
}

/* One that was asked has died, or sees another disk. */
static void passed_next(struct dht_node *node, struct publish *op, struct passed *passed)
{
    passed->pending--;
    if (passed->pending == 0)
        passed_ask(node, op, passed);
}

bool passed_rank_dead(struct dht_node *node, struct publish *op, uint32_t rank)
{
    bool any = false;

    for (unsigned i = 0; i < op->npassed; i++) {
        if (op->passed[i].pending == 0 || op->passed[i].instead != rank)
            continue;
        any = true;
        passed_next(node, op, &op->passed[i]);
    }
    return any;
}

void passed_reply(struct dht_node *node, const struct net_msg *msg)
{
    struct passed *passed;
    struct publish *op;

    HASH_FIND(hh, node->publishes, &msg->id, sizeof(msg->id), op);
    if (op == NULL || msg->length >= node->config.nranks ||
        (passed = passed_find(op, (uint32_t)msg->length)) == NULL || passed->pending == 0)
        return;
    if (msg->status == 0)
        passed->pending = 0;
    else
        passed_next(node, op, passed);
    publish_advance(node, op);
}
