/*
 * dht/node_doubt.c - when this rank's "not published" may not be true
 *
 * A home answers from its shard, and its shard has what publishers could bring. What a rank
 * published while it took us for dead is not there before it has published that again. So
 * each end of a link that was broken and is whole again asks the other (SETTLE), and is
 * told (SETTLED) when a review of what the other owns, begun after it knew of us again, is
 * over and every entry of which we are a home has been acknowledged. Until then we answer
 * with NET_LOOKUP_UNSURE, and lookups do not believe the "no" (node_lookup.c).
 *
 * While a rank is missing its side of the cut and ours differ. Both cannot say "unknown" of
 * every name for as long as that lasts: a job that has lost a node for good must go on. The
 * bigger side goes on; who may be on the smaller one is unsure (dht_node_set_side(): the
 * user knows of nodes). Such a rank has missed not only what those publish that come back
 * first: so whoever is missing while it is on the smaller side is owed a SETTLED, which
 * outlasts the moment in which the first of them come back and the side is the bigger one
 * again. Not for ever: it may have died meanwhile. When our side has been the bigger one
 * for long (dht_node_side_lasts()), who is still missing counts as one that was lost on
 * this side. What it had told homes that live they have passed on before their SETTLED.
 *
 * A rank that joins when others have published before (a new image, or one that comes into
 * a session) has an empty shard: there, too, everybody's word is missing until it is given
 * (dht_node_set_untold()). Who goes without having given it, and comes back, is asked then,
 * as whichever incarnation (DOUBT_LATER): others may have joined anew meanwhile as well,
 * and then what is on its disk is nowhere else.
 *
 * Nothing waits for a SETTLED without end. It is asked for again every retry interval; a
 * rank that is known to be gone, has left, or comes as another incarnation owes nothing
 * to who has had its word before (what it had published is here); one that is missing again
 * owes it only if we are, or were, the smaller side. And a lookup asks for request_timeout
 * at most. No SETTLED is said as long as what an earlier incarnation had published is not
 * known to be ours (dht_node_restored()).
 *
 * What a rank that died beyond the cut had published there, and whose homes are none any
 * more, nobody brings: docs/dht.md. The state is one byte for each rank, made when the
 * first one comes back, and counters: where nobody was lost a lookup costs one comparison,
 * and no message more.
 *
 * SETTLE has as its id the number of the death that the asker counted, so an answer from
 * before another loss is not taken for one from after it.
 */
#include "dht/node_impl.h"

#include <stdlib.h>

#include "util/log.h"

enum doubt {
    DOUBT_BACK = 1,   /* live again: it has our SETTLE */
    DOUBT_MISSED = 2, /* it was missing while we may have been the smaller side */
    DOUBT_UNTOLD = 4, /* dht_node_set_untold(); asked as soon as it is live */
    DOUBT_LATER = 8,  /* not waited for; DOUBT_UNTOLD when it is live again */
};

#define DOUBT_ASKED (DOUBT_BACK | DOUBT_UNTOLD)
#define DOUBTED     (DOUBT_ASKED | DOUBT_MISSED)

/* A rank that has asked us. */
struct settling {
    struct settling *prev, *next;
    uint32_t rank;
    uint64_t id, moment;
    bool again; /* something of ours did not get there: after the next review */
};

bool doubt_is(const struct dht_node *node)
{
    return node->ndoubted > 0 || node->side != DHT_SIDE_BIGGER;
}

bool doubt_may_end(const struct dht_node *node)
{
    return node->nback > 0 || node->nmissing_short > 0 || node->side == DHT_SIDE_UNKNOWN;
}

static void doubt_set(struct dht_node *node, uint32_t rank, unsigned bits)
{
    uint8_t *doubt;
    bool is, was;

    if (node->doubt == NULL && bits != 0)
        node->doubt = calloc(node->config.nranks, sizeof(*node->doubt));
    if (node->doubt == NULL)
        return; /* out of memory: as if it had never been lost */
    doubt = &node->doubt[rank];
    is = (bits & DOUBTED) != 0;
    was = (*doubt & DOUBTED) != 0;
    if (is != was)
        log_debug("rank %u %s, for what is not published", (unsigned)rank,
                  is ? "is to give its word" : "need not be asked any more");
    node->ndoubted += is - was;
    node->nback += ((bits & DOUBT_ASKED) != 0) - ((*doubt & DOUBT_ASKED) != 0);
    *doubt = (uint8_t)bits;
    buried_look(node);
}

static unsigned doubt_get(const struct dht_node *node, uint32_t rank)
{
    return node->doubt != NULL ? node->doubt[rank] : 0;
}

/* It is gone, as far as is known. */
static void doubt_put_off(struct dht_node *node, uint32_t rank)
{
    bool untold = (doubt_get(node, rank) & (DOUBT_UNTOLD | DOUBT_LATER)) != 0;

    doubt_set(node, rank, untold ? DOUBT_LATER : 0);
}

static uint64_t loss_number(const struct dht_node *node, uint32_t rank)
{
    return node->death != NULL ? node->death[rank] >> 1 : 0;
}

static void settle_ask(struct dht_node *node, uint32_t rank, uint8_t flags)
{
    struct net_msg msg = {
        .type = NET_MSG_SETTLE, .flags = flags, .id = loss_number(node, rank)};

    node_send(node, rank, &msg); /* if it fails: doubt_timer() */
    if (!node->doubt_timer.active)
        node_timer_start(node, &node->doubt_timer, TIMER_RETRY);
}

/* Whose word is missing only here has missed nothing of ours. */
static void ask_all(struct dht_node *node)
{
    for (uint32_t r = 0; node->nback > 0 && r < node->config.nranks; r++)
        if ((node->doubt[r] & DOUBT_ASKED) != 0 && node_rank_live(node, r))
            settle_ask(node, r, (node->doubt[r] & DOUBT_BACK) != 0 ? 0 : NET_SETTLE_TOO);
}

void doubt_timer(struct dht_node *node, struct timer *timer)
{
    (void)timer;
    /* One that is merely slow answers the PING that follows. */
    for (uint32_t r = 0; node->nback > 0 && r < node->config.nranks; r++)
        if ((node->doubt[r] & DOUBT_ASKED) != 0 && node_rank_live(node, r))
            node_silent(node, r);
    ask_all(node);
}

static struct settling *settling_find(struct dht_node *node, uint32_t rank)
{
    struct settling *s;

    DL_FOREACH(node->settling, s)
    {
        if (s->rank == rank)
            return s;
    }
    return NULL;
}

static void settling_drop(struct dht_node *node, uint32_t rank)
{
    struct settling *s = settling_find(node, rank);

    if (s == NULL)
        return;
    DL_DELETE(node->settling, s);
    free(s);
}

static void settling_begin(struct dht_node *node, struct settling *s)
{
    s->moment = node->last_id;
    dht_node_pass_on(node, s->rank);
    own_review(node, false); /* what failed to get there before has its turn now */
    node_rearm(node);
}

/* --- what is known of a rank --- */

void doubt_missing(struct dht_node *node, uint32_t rank, enum dht_missing missing)
{
    bool was = doubt_is(node), was_missing;

    if (node->missing == NULL && missing != DHT_GONE)
        node->missing = calloc(node->config.nranks, sizeof(*node->missing));
    if (node->missing == NULL)
        return; /* it is as dead as the others */
    node->nmissing_short += (missing == DHT_MISSING) - (node->missing[rank] == DHT_MISSING);
    was_missing = node->missing[rank] != DHT_GONE;
    node->nmissing += (missing != DHT_GONE) - was_missing;
    node->missing[rank] = (uint8_t)missing;
    if (was_missing && missing == DHT_GONE) {
        buried_died(node, rank);
        if (!node->sweep_timer
                 .active) /* what it held was kept as that of one who may return */
            node_timer_start(node, &node->sweep_timer, TIMER_SWEEP);
    } else if (!was_missing && missing != DHT_GONE)
        buried_missing(node);
    if (missing == DHT_GONE) {
        settling_drop(node, rank);
        doubt_put_off(node, rank);
    } else if (node->side == DHT_SIDE_SMALLER) {
        doubt_set(node, rank, doubt_get(node, rank) | DOUBT_MISSED);
    }
    if (missing == DHT_MISSING_LONG) { /* the job goes on without its word */
        if (node->side_lasts)
            doubt_set(node, rank, doubt_get(node, rank) & ~(unsigned)DOUBT_MISSED);
        dht_node_not_awaited(node, rank);
    }
    buried_look(node);
    if (was && !doubt_is(node))
        lookup_wake(node);
}

void doubt_rank_live(struct dht_node *node, uint32_t rank)
{
    struct settling *s = settling_find(node, rank);

    if ((doubt_get(node, rank) & DOUBT_LATER) != 0) {
        doubt_set(node, rank, DOUBT_UNTOLD);
        settle_ask(node, rank, NET_SETTLE_TOO);
    }
    if (node->missing == NULL || node->missing[rank] == DHT_GONE)
        return;
    node->nmissing_short -= node->missing[rank] == DHT_MISSING;
    node->nmissing--;
    node->missing[rank] = DHT_GONE;
    if (s != NULL)
        settling_begin(node, s);
    doubt_set(node, rank, doubt_get(node, rank) | DOUBT_BACK);
    if ((doubt_get(node, rank) & DOUBT_BACK) != 0)
        settle_ask(node, rank, 0);
}

void doubt_rank_dead(struct dht_node *node, uint32_t rank)
{
    bool was = doubt_is(node);
    bool gone = node->missing == NULL || node->missing[rank] == DHT_GONE;

    /* What it has asked stays asked: it may have noticed before we do, and not ask again.
     */
    if (gone) {
        settling_drop(node, rank);
        doubt_put_off(node, rank);
    } else {
        doubt_set(node, rank, doubt_get(node, rank) & ~(unsigned)DOUBT_BACK);
    }
    if (was && !doubt_is(node))
        lookup_wake(node);
}

/* Asked at the end of this turn: who is said to be untold is often about to be dead. */
void dht_node_set_untold(struct dht_node *node, uint32_t rank, bool untold)
{
    bool was = doubt_is(node);
    unsigned others;

    if (rank >= node->config.nranks || rank == node->config.self)
        return;
    others = doubt_get(node, rank) & ~(unsigned)(DOUBT_UNTOLD | DOUBT_LATER);
    doubt_set(node, rank, others | (untold ? DOUBT_UNTOLD : 0));
    node->ask_untold |= untold;
    if (was && !doubt_is(node))
        lookup_wake(node);
    node_rearm(node);
}

void dht_node_not_awaited(struct dht_node *node, uint32_t rank)
{
    bool was = doubt_is(node);
    unsigned doubt = rank < node->config.nranks ? doubt_get(node, rank) : 0;

    if ((doubt & DOUBT_UNTOLD) == 0)
        return;
    doubt_set(node, rank, (doubt & ~(unsigned)DOUBT_UNTOLD) | DOUBT_LATER);
    if (was && !doubt_is(node))
        lookup_wake(node);
    node_rearm(node);
}

void dht_node_restored(struct dht_node *node)
{
    node->restoring = false;
    node_rearm(node);
}

void dht_node_set_side(struct dht_node *node, enum dht_side side)
{
    bool was = doubt_is(node);

    if (node->side == side)
        return;
    node->side = side;
    node->side_lasts = false;
    for (uint32_t r = 0;
         side == DHT_SIDE_SMALLER && node->missing != NULL && r < node->config.nranks; r++)
        if (node->missing[r] != DHT_GONE)
            doubt_set(node, r, doubt_get(node, r) | DOUBT_MISSED);
    if (was && !doubt_is(node))
        lookup_wake(node);
    node_rearm(node);
}

void dht_node_side_lasts(struct dht_node *node)
{
    bool was = doubt_is(node);

    if (node->side != DHT_SIDE_BIGGER)
        return;
    node->side_lasts = true;
    for (uint32_t r = 0; node->missing != NULL && r < node->config.nranks; r++)
        if (node->missing[r] == DHT_MISSING_LONG)
            doubt_set(node, r, doubt_get(node, r) & ~(unsigned)DOUBT_MISSED);
    if (was && !doubt_is(node))
        lookup_wake(node);
    node_rearm(node);
}

/* --- SETTLE and its answer --- */

void doubt_settle(struct dht_node *node, const struct net_msg *msg)
{
    uint32_t rank = msg->source;
    struct settling *s = settling_find(node, rank);

    /* It has taken us for dead. Mostly we know; if not, we may have missed something, too.
     */
    if ((msg->flags & NET_SETTLE_TOO) == 0 && node_rank_live(node, rank) &&
        (doubt_get(node, rank) & DOUBT_BACK) == 0 && s == NULL) {
        doubt_set(node, rank, doubt_get(node, rank) | DOUBT_BACK);
        settle_ask(node, rank, NET_SETTLE_TOO);
    }
    if (s == NULL) {
        s = calloc(1, sizeof(*s));
        if (s == NULL)
            return; /* it asks again */
        DL_APPEND(node->settling, s);
        s->rank = rank;
        settling_begin(node, s);
    }
    s->id = msg->id;
}

void doubt_settled(struct dht_node *node, const struct net_msg *msg)
{
    if ((doubt_get(node, msg->source) & (DOUBT_ASKED | DOUBT_LATER)) == 0 ||
        msg->id != loss_number(node, msg->source))
        return;
    doubt_set(node, msg->source, 0);
    if (!doubt_is(node))
        lookup_wake(node);
}

void doubt_publish_failed(struct dht_node *node, uint32_t rank, uint64_t id)
{
    struct settling *s = settling_find(node, rank);

    if (s == NULL)
        return;
    s->again = true;
    /* Begun before it was lost: nothing else need happen now that begins a review. What the
     * review begins is later, so this comes to an end. */
    if (id <= s->moment && node_rank_live(node, rank)) {
        own_review(node, false);
        node_rearm(node);
    }
}

void doubt_review_begins(struct dht_node *node)
{
    struct settling *s;

    DL_FOREACH(node->settling, s)
    {
        s->again = false;
        s->moment = node->last_id;
    }
}

void doubt_step(struct dht_node *node)
{
    struct settling *s, *tmp;

    if (node->ask_untold) {
        node->ask_untold = false;
        ask_all(node);
    }
    DL_FOREACH_SAFE(node->settling, s, tmp)
    {
        struct net_msg msg = {.type = NET_MSG_SETTLED, .id = s->id};
        if (node->restoring || s->again || !node_rank_live(node, s->rank) ||
            leave_has_more(node) || !own_all_in_place(node, s->moment))
            continue;
        DL_DELETE(node->settling, s);
        node_send(node, s->rank, &msg); /* if it fails it asks again */
        free(s);
    }
}

void doubt_destroy(struct dht_node *node)
{
    struct settling *s, *tmp;

    DL_FOREACH_SAFE(node->settling, s, tmp)
    {
        free(s);
    }
    free(node->doubt);
}
