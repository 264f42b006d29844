/*
 * unjoined.c - ranks that the launcher knows no address of
 *
 * PMIx has no answer about a rank that has not joined, nor about one whose node is cut
 * off (boot/pmix.c). The first never joins if its program is static or was started
 * without the library: it is waited for once, for DYAD_JOIN_TIMEOUT, and then counts as
 * never joined. The second may have published what we do not know: it is lost
 * (unreachable.c), so it is missing, as one whose connection broke. silence_counts()
 * tells the one from the other.
 *
 * What could go wrong: no rank of another node is known. Then nobody can tell, and all
 * count as never joined, which is wrong if the cut came very early. An address may be
 * that of an earlier member (unjoined_ask()).
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

/* True if "no answer" about the rank means that it has never joined, because the network
 * has been seen to work since the rank was asked for.
 * - A rank of this node has never joined: our own server answers for it.
 * - A member that follows another of its rank may join on a node that is cut off by then.
 *   Our server knows the others' earlier addresses, as a rule, so they are found and lost
 *   as any rank is. For those that nobody of this node had asked for, or got an answer
 *   about, "no answer" counts only if a rank of another node was heard of since they were
 *   asked for. Known ranks have been asked to speak (run.c when they were found, and
 *   unjoined_ask_again()).
 * - If no rank of another node is known at all, all of them may be ones that never join,
 *   and must not be waited for at each exec. So they count as never joined, which is
 *   wrong if the cut came just before anybody of this node had got an answer.
 * - The first member of a rank was started over the network a moment ago. So there
 *   silence counts, unless half of the nodes is known to be missing (partition.c). */
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

/* An address that the server has kept may be that of an earlier member: the rank is asked
 * for until the newest has come, and a refusal there does not prove that nobody lives
 * (unreachable.c). */
int unjoined_ask(struct member *member, uint32_t rank)
{
    return boot_pmix_get(member->pmix, rank,
                         member->self.incarnation > 0 ? BOOT_PMIX_BOTH : BOOT_PMIX_ANY);
}

/* A rank that is lost because nobody can say whether it has joined is asked for again,
 * with the pauses of unreachable.c, and judged again: it joins, or, once the network
 * works again, counts as never joined. */
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
