/*
 * unsynced.c - a member that follows another one of its rank, with an empty table
 *
 * exec takes a rank's part of the table with it. The owners of what was in it bring it to
 * the new image as soon as they hear of that. But somebody else may have heard of it
 * before and ask the new image; and where all homes of a name have become others at the
 * same time (every rank is a script that ends in exec) nobody else would contradict. So
 * from the start on the table is told that everybody's word is missing
 * (dht_node_set_unsynced()): each rank is asked, and until it has said that all it owns
 * is with us we are unsure.
 *
 * What could go wrong: a rank does not answer at all (over()); in jobs of more than
 * PREFETCH_RANKS ranks nobody is asked (unsynced_start()).
 */
#include "engine/core/member_impl.h"
#include "engine/core/module.h"
#include "engine/membership/unjoined.h"

struct unsynced {
    struct net_timer *timer; /* NULL: nobody need be asked */
};

/* We are not unsure for long because of those who do not answer at all, neither by PMIx
 * nor by a message: ranks that never join, or have ended, or that are on their way
 * through exec as we were. They are asked when they come, and nobody is told meanwhile
 * that nobody is left who could publish, for they count as busy (exit_barrier.c). */
static void over(void *arg)
{
    struct member *member = arg;

    for (uint32_t r = 0; r < member->job->nranks; r++)
        if (!dht_node_is_live(member->dht, r) ||
            net_worker_heard_at(member->worker, r) == 0)
            dht_node_not_awaited(member->dht, r);
}

/* In a session directory a member that joins is told by JOINED (session_member.c). In
 * jobs of more than PREFETCH_RANKS a rank does not make itself known to all others, and
 * does not ask them. A second member in one process, after a fault in UCX (`table_own`),
 * waits for all without a timer: that happens when links fail. */
static int unsynced_start(struct member *member)
{
    if (member->ring || member->self.incarnation == 0 ||
        member->job->nranks > PREFETCH_RANKS)
        return 0;
    for (uint32_t r = 0; r < member->job->nranks; r++)
        dht_node_set_unsynced(member->dht, r, true);
    if (run_of(member)->table_own)
        return 0;
    OWN(member, unsynced)->timer = net_timer_create(member->loop, over, member);
    return OWN(member, unsynced)->timer ? 0 : -1;
}

/* The others learn where we are from now on. */
static void unsynced_joined(struct member *member)
{
    if (OWN(member, unsynced)->timer)
        net_timer_start(OWN(member, unsynced)->timer,
                        util_clock_now() + unjoined_patience(member));
}

static void unsynced_destroy(struct member *member)
{
    net_timer_destroy(OWN(member, unsynced)->timer);
}

const struct member_module unsynced_module = {
    .own = MODULE_OWN(unsynced),
    .start = unsynced_start,
    .joined = unsynced_joined,
    .destroy = unsynced_destroy,
};
