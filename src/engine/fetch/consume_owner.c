/*
 * consume_owner.c - a consume whose owner cannot be reached
 *
 * The owner may come back (exec, a cut link), or another rank take the file over. So the
 * rank is asked and the file looked up anew, once a second and when a rank comes up
 * (consume_peer_up()), within a bound; where others may join, for as long as the wait
 * lasts, with growing pauses. The look-up then begins at the version that was seen before
 * the one which could not be fetched, or it would wait for a newer one.
 *
 * Where a server is on the owner's node (servers.c) that one takes the file over as soon as
 * the owner has ended, in milliseconds: so first the file is looked up a few times soon.
 *
 * All of its node that can be reached were asked for the file by then (transfer.c).
 */
#include <errno.h>
#include <utlist.h>

#include "engine/core/module.h"
#include "engine/fetch/consume_impl.h"
#include "engine/membership/exit_barrier.h"
#include "engine/membership/servers.h"
#include "engine/membership/unreachable.h"
#include "util/clock.h"
#include "util/log.h"

/* An owner that comes and goes, or with which no connection holds, does not make a wait
 * endless. */
#define RETURNS_MAX   1
#define LOST_MAX      (5 * UTIL_NSEC_PER_SEC)
#define TAKEOVER_SOON (10 * UTIL_NSEC_PER_MSEC)

void consume_unsee(struct consume *c)
{
    c->lost.version = c->entry.version;
    c->seen = c->lost.before;
}

/* A home that was out of reach itself when the version was published which its owner cannot
 * give us now may still say what was so before: that the name had been removed, or never
 * was. It is not so. */
bool consume_owner_awaited(const struct consume *c, int status,
                           const struct dyad_entry *entry)
{
    return status == ENOENT && c->lost.owner != DYAD_RANK_NONE && c->lost.version.counter &&
           !(entry && dyad_version_cmp(&entry->version, &c->lost.version) >= 0);
}

/* In a session directory a process may come to the owner's node that takes the file over:
 * that is waited for, as for a publish. */
static bool waits_for_takeover(const struct consume *c)
{
    return c->member->ring && (c->flags & NET_LOOKUP_WAIT) && !c->deadline.late;
}

/* The owner is gone. It may come back (exec, a cut link), or the file with another owner;
 * within a bound, which begins when the rank was lost, or fell silent. It is asked and the
 * file looked up once more in any case, however long ago that was. */
int consume_owner_lost(struct consume *c, uint32_t owner)
{
    struct member *member = c->member;
    uint64_t now = util_clock_now();
    uint64_t bound = (uint64_t)(member->config->join_timeout * (double)UTIL_NSEC_PER_SEC);
    uint64_t lost = unreachable_since(member, owner);
    /* Lost since we began to wait: so that it is connected anew (unreachable_unserved()),
     * perhaps by our own last try. That has to have its chance. */
    bool first = !c->lost.since || c->lost.owner != owner ||
                 (lost > c->lost.since && c->lost.returns < RETURNS_MAX);

    if (c->deadline.late && member->ring) { /* the time of its wait is over */
        c->lost.owner = owner;
        return ETIMEDOUT;
    }
    if (first) {
        c->lost.since = lost;
        if (!c->lost.since)
            c->lost.since =
                now - (uint64_t)(member->config->peer_timeout * (double)UTIL_NSEC_PER_SEC);
        c->lost.owner = owner;
        c->lost.interval = CONSUME_LOOK_AGAIN;
        if (c->entry.owner == owner && servers_have(member, c->entry.storage))
            c->lost.interval = TAKEOVER_SOON;
    }
    if (!first && now - c->lost.since >= bound && !waits_for_takeover(c)) {
        log_error("\"%s\" cannot be fetched: its owner, %s, has been gone for %.0f s",
                  c->upath, member_describe(member, owner),
                  (double)(now - c->lost.since) / 1e9);
        return EHOSTUNREACH;
    }
    if (first || c->lost.interval >= CONSUME_LOOK_AGAIN) {
        member_find_again(member, owner);
        unreachable_ask(member, owner);
    }
    net_timer_start(c->again, now + c->lost.interval);
    if ((c->lost.interval < CONSUME_LOOK_AGAIN || waits_for_takeover(c)) &&
        (c->lost.interval *= 2) > LOST_MAX)
        c->lost.interval = LOST_MAX;
    exit_barrier_activity(member); /* it waits, and does not fetch */
    return 0;
}

void consume_peer_up(struct member *member, const struct net_peer *peer)
{
    uint32_t rank = peer->rank;
    struct consume *c, *tmp;

    DL_FOREACH_SAFE(member->consumes, c, tmp)
    {
        bool waits = c->state == CONSUME_OWNER || c->state == CONSUME_SIGHT;
        if (c->lost.owner == rank) {
            if (c->lost.returns++ < RETURNS_MAX)
                c->lost.since = 0; /* if it goes again, that is another time */
        } else if (!waits || !waits_for_takeover(c)) {
            continue;
        }
        c->lost.interval = CONSUME_LOOK_AGAIN; /* it may be one that takes the file over */
        if (waits)
            net_timer_start(c->again,
                            util_clock_now()); /* not from inside the worker's callback */
    }
}
