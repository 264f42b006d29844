/*
 * dht/node_resync.c - resync after a broken link: each end publishes its entries again,
 * and reports to the other when that has all
 *
 * Each end of a link that was broken and is whole again asks the other (RESYNC). The
 * other answers (RESYNCED) when a review of its own entries, begun after it knew of us
 * again, is over and every entry of which we are a home has been acknowledged. A rank
 * that joins when others have published before (a new image, or one that comes into a
 * session) has an empty shard: there, too, each rank owes a RESYNCED. Until then we
 * answer with NET_LOOKUP_UNSURE (node_tentative.c). A RESYNCED that came too early would
 * make us say "not published" of what is; one that never comes must not keep answers
 * tentative for ever: resync_timer(), resync_rank_lost().
 */
#include <stdlib.h>

#include "dht/node_leave.h"
#include "dht/node_module.h"
#include "dht/node_own.h"
#include "dht/node_tentative.h"

/* A rank that has asked us. Reviews have numbers: many ranks ask, one after the other,
 * and each waits for the end of the review that begins next, whatever begins after that.
 */
struct resync {
    struct resync *prev, *next;
    uint32_t rank;
    uint64_t id;
    uint64_t review; /* that is to end */
    uint64_t relays; /* and what is to be passed on: leave_mark() */
    uint64_t until;  /* 0: they have not; else what had begun then is to end (less 1) */
    uint64_t moment; /* of the last review that has begun: our last message before it */
};

struct resyncs {
    struct resync *asked; /* by others */
    bool ask_soon;        /* others, at the end of this turn */
    bool tell_soon;       /* those who have asked, if all is there: at the end of it, too */
    struct timer timer;
    bool restoring; /* dht_node_restored() has not been called */
};

/* RESYNC has as its id the number of the death that the asker counted, so an answer from
 * before another loss is not taken for one from after it. */
static void resync_ask(struct dht_node *node, uint32_t rank, uint8_t flags)
{
    struct net_msg msg = {
        .type = NET_MSG_RESYNC, .flags = flags, .id = dht_node_losses(node, rank)};

    node_send(node, rank, &msg); /* if it fails: resync_timer() */
    if (!node->resyncs->timer.active)
        node_timer_start(node, &node->resyncs->timer, TIMER_RETRY);
}

/* A rank that owes RESYNCED only to us has missed none of our entries. */
static void ask_all(struct dht_node *node)
{
    for (uint32_t r = 0; tentative_any_asked(node) && r < node->config.nranks; r++)
        if ((tentative_owed(node, r) & OWED_ASKED) != 0 && node_rank_live(node, r))
            resync_ask(node, r,
                       (tentative_owed(node, r) & OWED_BACK) != 0 ? 0 : NET_RESYNC_TOO);
}

/* Nothing waits for a RESYNCED without end: it is asked for again every retry interval,
 * and a lookup asks for request_timeout at most. What else ends a debt:
 * resync_rank_lost(). */
static void resync_timer(struct dht_node *node, struct timer *timer)
{
    (void)timer;
    /* One that is merely slow answers the PING that follows. */
    for (uint32_t r = 0; tentative_any_asked(node) && r < node->config.nranks; r++)
        if ((tentative_owed(node, r) & OWED_ASKED) != 0 && node_rank_live(node, r))
            node_silent(node, r);
    ask_all(node);
}

static struct resync *resync_find(struct dht_node *node, uint32_t rank)
{
    struct resync *s;

    DL_FOREACH(node->resyncs->asked, s)
    {
        if (s->rank == rank)
            return s;
    }
    return NULL;
}

static void resync_drop(struct dht_node *node, uint32_t rank)
{
    struct resync *s = resync_find(node, rank);

    if (s == NULL)
        return;
    DL_DELETE(node->resyncs->asked, s);
    free(s);
}

/* Not before the next review is over. */
static void resync_again(struct dht_node *node, struct resync *s)
{
    s->review = own_next_review(node);
    s->until = 0;
}

static void resync_begin(struct dht_node *node, struct resync *s)
{
    s->moment = node->last_id;
    resync_again(node, s);
    dht_node_pass_on(node, s->rank);
    s->relays = leave_mark(node);
    own_review(node, false); /* what failed to get there before has its turn now */
    node_rearm(node);
}

/* --- what is known of a rank --- */

static void resync_missing_changed(struct dht_node *node, uint32_t rank,
                                   enum dht_missing was)
{
    (void)was;
    if (node->missing[rank] == DHT_GONE)
        resync_drop(node, rank);
}

/* A rank that went without having sent its RESYNCED, and comes back, is asked now, as
 * whichever incarnation (OWED_LATER): others may have joined anew meanwhile as well, and
 * then the files on its disk are known nowhere else. */
static void resync_rank_back(struct dht_node *node, uint32_t rank)
{
    struct resync *s = resync_find(node, rank);

    if ((tentative_owed(node, rank) & OWED_LATER) != 0) {
        tentative_set_owed(node, rank, OWED_JOINED);
        resync_ask(node, rank, NET_RESYNC_TOO);
    }
    if (!tentative_not_missing(node, rank))
        return;
    if (s != NULL)
        resync_begin(node, s);
    node->resyncs->tell_soon |= s != NULL;
    tentative_set_owed(node, rank, tentative_owed(node, rank) | OWED_BACK);
    if ((tentative_owed(node, rank) & OWED_BACK) != 0)
        resync_ask(node, rank, 0);
}

/* A rank that is known to be gone, has left, or comes as another incarnation owes nothing
 * to a rank that has had its RESYNCED before (its entries are here). One that is missing
 * again owes it only if we are, or were, on the minority. */
static void resync_rank_lost(struct dht_node *node, uint32_t rank)
{
    bool was = tentative_is(node);
    bool gone = !node_rank_missing(node, rank);

    /* Its own RESYNC stays: it may have noticed the loss before us, and not ask again. */
    if (gone) {
        resync_drop(node, rank);
        tentative_put_off(node, rank);
    } else {
        tentative_set_owed(node, rank, tentative_owed(node, rank) & ~(unsigned)OWED_BACK);
    }
    tentative_look(node, was);
}

/* RESYNC is sent at the end of this turn: an unsynced rank is often about to be dead. */
void dht_node_set_unsynced(struct dht_node *node, uint32_t rank, bool unsynced)
{
    bool was = tentative_is(node);
    unsigned others;

    if (rank >= node->config.nranks || rank == node->config.self)
        return;
    others = tentative_owed(node, rank) & ~(unsigned)(OWED_JOINED | OWED_LATER);
    tentative_set_owed(node, rank, others | (unsynced ? OWED_JOINED : 0));
    node->resyncs->ask_soon |= unsynced;
    tentative_look(node, was);
    node_rearm(node);
}

void dht_node_restored(struct dht_node *node)
{
    node->resyncs->restoring = false;
    node->resyncs->tell_soon = true;
    node_rearm(node);
}

/* --- RESYNC and its answer --- */

static bool resync_request(struct dht_node *node, const struct net_msg *msg)
{
    uint32_t rank = msg->source;
    struct resync *s = resync_find(node, rank);

    /* It has taken us for dead. Mostly we know; if not, we may have missed something, too.
     */
    if ((msg->flags & NET_RESYNC_TOO) == 0 && node_rank_live(node, rank) &&
        (tentative_owed(node, rank) & OWED_BACK) == 0 && s == NULL) {
        tentative_set_owed(node, rank, tentative_owed(node, rank) | OWED_BACK);
        resync_ask(node, rank, NET_RESYNC_TOO);
    }
    if (s == NULL) {
        s = calloc(1, sizeof(*s));
        if (s == NULL)
            return true; /* it asks again */
        DL_APPEND(node->resyncs->asked, s);
        s->rank = rank;
        resync_begin(node, s);
    }
    s->id = msg->id;
    return true;
}

static bool resync_done(struct dht_node *node, const struct net_msg *msg)
{
    if ((tentative_owed(node, msg->source) & (OWED_ASKED | OWED_LATER)) == 0 ||
        msg->id != dht_node_losses(node, msg->source))
        return true;
    tentative_set_owed(node, msg->source, 0);
    tentative_look(node, true);
    return true;
}

static void resync_publish_failed(struct dht_node *node, uint32_t rank, uint64_t id)
{
    struct resync *s;

    DL_FOREACH(node->resyncs->asked, s)
    {
        if (rank != s->rank && rank != DYAD_RANK_NONE)
            continue;
        resync_again(node, s);
        /* Begun before it was lost: nothing else need happen now that begins a review. What
         * the review begins is later, so this comes to an end. */
        if (id <= s->moment && node_rank_live(node, s->rank)) {
            own_review(node, false);
            node_rearm(node);
        }
    }
}

static void resync_review_begins(struct dht_node *node)
{
    struct resync *s;

    DL_FOREACH(node->resyncs->asked, s)
    {
        s->moment = node->last_id;
    }
}

/* It has all. What begins after its review has ended is not waited for. */
static bool resync_is_over(struct dht_node *node, struct resync *s)
{
    if (s->until == 0 && own_reviewed(node, s->review) && leave_passed(node, s->relays))
        s->until = node->last_id + 1;
    return s->until > 0 && own_published(node, s->until - 1);
}

/* No RESYNCED is sent before the entries of earlier incarnations have been restored
 * (dht_node_restored()). */
static void resync_step(struct dht_node *node)
{
    struct resync *s, *tmp;

    if (node->resyncs->ask_soon) {
        node->resyncs->ask_soon = false;
        ask_all(node);
    }
    node->resyncs->tell_soon = false;
    DL_FOREACH_SAFE(node->resyncs->asked, s, tmp)
    {
        struct net_msg msg = {.type = NET_MSG_RESYNCED, .id = s->id};
        if (node->resyncs->restoring || !node_rank_live(node, s->rank) ||
            !resync_is_over(node, s))
            continue;
        DL_DELETE(node->resyncs->asked, s);
        node_send(node, s->rank, &msg); /* if it fails it asks again */
        free(s);
    }
}

static bool resync_has_step(const struct dht_node *node)
{
    return node->resyncs->ask_soon || node->resyncs->tell_soon;
}

static int resync_create(struct dht_node *node)
{
    node->resyncs = calloc(1, sizeof(*node->resyncs));
    if (node->resyncs == NULL)
        return -1;
    node->resyncs->timer.fn = resync_timer;
    node->resyncs->restoring = node->config.restores;
    return 0;
}

static void resync_destroy(struct dht_node *node)
{
    struct resync *s, *tmp;

    if (node->resyncs == NULL)
        return;
    DL_FOREACH_SAFE(node->resyncs->asked, s, tmp)
    {
        free(s);
    }
    free(node->resyncs);
}

static const struct node_message messages[] = {
    {NET_MSG_RESYNC, false, resync_request},
    {NET_MSG_RESYNCED, false, resync_done},
    {0},
};

const struct node_module node_resync_module = {
    .messages = messages,
    .create = resync_create,
    .destroy = resync_destroy,
    .rank_lost = resync_rank_lost,
    .rank_back = resync_rank_back,
    .missing_changed = resync_missing_changed,
    .has_step = resync_has_step,
    .step = resync_step,
    .review_begins = resync_review_begins,
    .publish_failed = resync_publish_failed,
};
