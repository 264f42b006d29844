/*
 * unjoined.c - ranks that the launcher knows no address of
 *
 * PMIx says nothing of a rank that has not joined, and nothing of one whose node is cut off
 * (boot/pmix.c). The first never will, if its program is static or was started without the
 * library: it is waited for once, for DYAD_JOIN_TIMEOUT, and then nothing is expected of
 * it. Of the second nothing may be said that it could know better: it is lost
 * (unreachable.c), so it is missing, as one whose connection broke.
 *
 * - A rank of this node is one that never joins: our own server speaks for it.
 * - Who follows another member of its rank may join on a node that is cut off by then. What
 *   the others' addresses were our server knows, as a rule, so they are found and lost as
 *   any rank is. What is left are those that nobody of this node had asked for, or been
 *   answered about: of these "no answer" counts only if the network has been seen to work
 *   since they were asked for. That it has, if a rank of another node was heard of; who is
 *   known has been asked to speak (run.c when it was found, and here).
 * - Nobody of another node is known at all: all of them may be such as never join, and must
 *   not be waited for at each exec. So nothing is expected of them, which is wrong if the
 *   cut came in the moments before anybody of this node had been answered.
 * - The first member of a rank was started over the network a moment ago. So there silence
 *   counts, unless half of the nodes is known to be missing (partition.c).
 *
 * An address that the server has kept may be that of an earlier member: the rank is asked
 * for until the newest has come, and a refusal there does not prove that nobody lives
 * (unreachable.c).
 *
 * Who is lost so is asked for again, with the pauses of unreachable.c, and the same is
 * decided again: it comes, or, with the network there again, is one that never joins.
 */
#include "engine/core/member_impl.h"
#include "engine/membership/partition.h"
#include "engine/membership/session_member.h"
#include "engine/membership/unjoined.h"
#include "engine/membership/unreachable.h"

#include <errno.h>
#include <string.h>

#include "util/log.h"

#define AT_ONCE 8 /* ranks that are asked to speak */
/* An answer over the network takes some milliseconds, up to 0.13 s were seen while 64 ranks
 * started on two cores. And nobody is believed to have nothing before DYAD_PEER_TIMEOUT. */
#define PATIENCE_MAX UTIL_NSEC_PER_SEC

static bool is_elsewhere(const struct member *member, uint32_t rank)
{
    return member->job->node[rank] != member->job->node[member->self.rank];
}

/* Has the network been seen to work since the rank was asked for? */
static bool silence_counts(const struct member *member, uint32_t rank)
{
    bool known = false;

    if (!is_elsewhere(member, rank))
        return true;
    if (partition_is_unsure(member))
        return false;
    if (member->self.incarnation == 0 && !unreachable_since(member, rank))
        return true;
    for (uint32_t r = 0; r < member->job->nranks; r++) {
        if (!is_elsewhere(member, r) || !net_worker_peer(member->worker, r))
            continue;
        if (net_worker_heard_at(member->worker, r) > unreachable_asked_at(member, rank))
            return true;
        known = true;
    }
    return !known;
}

uint64_t unjoined_patience(const struct member *member)
{
    uint64_t half = seconds_ns(member->config->peer_timeout) / 2;

    return half < PATIENCE_MAX ? half : PATIENCE_MAX;
}

int unjoined_ask(struct member *member, uint32_t rank)
{
    return boot_pmix_get(member->pmix, rank,
                         member->self.incarnation > 0 ? BOOT_PMIX_BOTH : BOOT_PMIX_ANY);
}

void unjoined_ask_again(struct member *member, uint32_t rank)
{
    unsigned left = AT_ONCE;

    member_find_again(member, rank);
    for (uint32_t r = 0; left > 0 && r < member->job->nranks; r++)
        if (is_elsewhere(member, r) && !unreachable_since(member, r) &&
            unreachable_prove(member, r))
            left--;
}

void unjoined_unanswered(struct member *member, uint32_t rank, int error)
{
    bool lost = unreachable_since(member, rank) != 0;

    if (net_worker_peer(member->worker, rank))
        return; /* we asked whether it has a new member: not as far as PMIx knows */
    if (!silence_counts(member, rank)) {
        if (lost)
            return;
        log_warn(
            "whether rank %u has joined nobody can say: nothing is heard of other nodes",
            rank);
        net_worker_peer_down(member->worker, rank,
                             error); /* told later: unreachable_add() */
        return;
    }
    log_warn(
        "rank %u has not joined (%s): going on without it; is its program static, or "
        "started without LD_PRELOAD?",
        rank, strerror(error));
    if (lost) {
        unreachable_gone(member, rank);
        return;
    }
    member_set_live(member, rank,
                    false); /* first: it is not one that may return from exec */
    net_worker_peer_down(member->worker, rank, error);
}

void member_find_again(struct member *member, uint32_t rank)
{
    if (member->ring)
        member_session_get(member, rank);
    else if (net_worker_peer(member->worker, rank))
        boot_pmix_get(member->pmix, rank, BOOT_PMIX_NEWEST);
    else
        unjoined_ask(member, rank);
}
