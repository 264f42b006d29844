/*
 * partition.c - whether this rank is on the majority or the minority of a partition
 *
 * The minority must not answer "not published"; the majority must be able to, because a
 * job that has lost a node goes on (dht/node_tentative.c). A rank cannot see a cut, only
 * which ranks are missing (unreachable.c). Nodes are counted (weigh()): those of which a
 * rank is missing and none has been heard of since the last loss, against those that were
 * heard of since, with our own. Unless the latter are more we may be on the minority. If
 * no rank is lost nothing is done and nothing sent.
 *
 * What could go wrong: the first loss of a cut counts as that of a single rank, or a
 * single one as a cut (weigh()); we were stopped, or joined anew, and do not know whom we
 * have lost (begin_anew()).
 */
#include <stdlib.h>
#include <string.h>

#include "engine/core/member_impl.h"
#include "engine/core/module.h"
#include "engine/membership/partition.h"
#include "engine/membership/unreachable.h"
#include "util/log.h"

#define AT_ONCE 8 /* ranks that are asked, of as many nodes */

/* Bits for a node: what is known of its ranks since the last loss. */
enum { HEARD = 1, MISSING = 2, ASKED = 4, KNOWN = 8 };

struct count {
    uint32_t heard, missing; /* nodes */
    uint32_t open;           /* of those that were not heard of: may be yet */
    uint32_t lost;           /* missing and not open */
    uint32_t unproven;       /* none is missing, and nobody was heard */
};

struct partition {
    struct net_timer *timer;
    uint64_t last; /* when somebody on another node was lost, or we had stood still */
    bool proving;  /* not enough was heard since we stood still, or joined anew */
    bool anew;     /* we joined anew: who is known was known to another before us */
    enum dht_partition is;
    uint64_t since;      /* it is */
    bool was_minority;   /* and has not been the majority for long since */
    unsigned char *node; /* [nnodes]: in weigh() */
};

static struct partition *of(const struct member *member)
{
    return OWN(member, partition);
}

static void set(struct member *member, enum dht_partition is)
{
    struct partition *side = of(member);

    if (is == DHT_PARTITION_MINORITY && side->is != is)
        log_info(
            "half of the nodes or more cannot be reached: this may be the minority of a "
            "partition");
    if (side->is != is)
        side->since = util_clock_now();
    side->is = is;
    side->was_minority |= is == DHT_PARTITION_MINORITY;
    dht_node_set_partition(member->dht, is);
}

/* When our side has been the majority for DYAD_JOIN_TIMEOUT after it was not, the table
 * is notified: ranks that have not come back by then are not waited for. */
static void tell_if_it_lasts(struct member *member)
{
    struct partition *side = of(member);
    uint64_t when = side->since + seconds_ns(member->config->join_timeout);

    if (!side->was_minority || side->is != DHT_PARTITION_MAJORITY)
        return;
    if (util_clock_now() < when) {
        net_timer_start(side->timer, when);
        return;
    }
    side->was_minority = false;
    dht_node_partition_lasts(member->dht);
}

/* Of the others none can have lost us. */
static bool was_in_touch(const struct member *member, uint32_t rank)
{
    return dht_node_is_live(member->dht, rank) &&
           (net_worker_heard_at(member->worker, rank) != 0 ||
            (of(member)->anew && net_worker_peer(member->worker, rank)));
}

static void look(struct member *member)
{
    const struct boot_pmix_job *job = member->job;
    struct partition *side = of(member);

    memset(side->node, 0, job->nnodes);
    for (uint32_t r = 0; r < job->nranks; r++) {
        unsigned char *node = &side->node[job->node[r]];

        if (r == member->self.rank || net_worker_heard_at(member->worker, r) > side->last)
            *node |= HEARD;
        else if (unreachable_is_missing(member, r))
            *node |= MISSING;
        else if (unreachable_is_suspect(member, r))
            *node |= ASKED;
        else if (side->proving && was_in_touch(member, r))
            *node |= KNOWN;
    }
}

static struct count count(struct member *member)
{
    const struct partition *side = of(member);
    struct count count = {0};

    for (uint32_t n = 0; n < member->job->nnodes; n++) {
        unsigned char is = side->node[n];
        count.heard += (is & HEARD) != 0;
        count.missing += (is & (HEARD | MISSING)) == MISSING;
        count.open += !(is & HEARD) && (is & (ASKED | KNOWN));
        count.unproven += !(is & (HEARD | MISSING)) && (is & (ASKED | KNOWN));
        count.lost += is == MISSING;
    }
    return count;
}

static bool is_asked(unsigned char node)
{
    return (node & ASKED) && !(node & MISSING);
}

/* Send a PING to one rank of each node of which nothing is known, and to ranks of a node
 * of which one is missing. */
static void have_them_speak(struct member *member)
{
    const struct boot_pmix_job *job = member->job;
    struct partition *side = of(member);
    unsigned left = AT_ONCE;

    for (uint32_t i = 1; left > 0 && i < job->nranks; i++) {
        uint32_t r = (member->self.rank + i) % job->nranks;
        unsigned char *node = &side->node[job->node[r]];

        if (side->proving && !(*node & MISSING) && !was_in_touch(member, r))
            continue;
        if ((*node & HEARD) == 0 && !is_asked(*node) && unreachable_prove(member, r)) {
            *node |= ASKED;
            left--;
        }
    }
}

/* Half and half is no majority: of two nodes neither knows its side. As a rule the
 * messages that come anyway decide. If not, ranks of other nodes get a PING, a few at a
 * time. As long as their answers can change the result the side is unknown: so the first
 * loss of a cut does not count as that of a single rank, and a single one not as a cut. A
 * rank that does not answer the PING is lost in the end, and the nodes are counted again.
 * A dead rank is missing until it is asked (unreachable.c), which is not done sooner for
 * this purpose: it may be on its way through exec, and the entries of which it is a home
 * are not here before it, or the owners, have brought them. */
static void weigh(void *arg)
{
    struct member *member = arg;
    struct partition *side = of(member);
    struct count nodes;

    if (member->state == MEMBER_LEAVING || !member->dht)
        return;
    look(member);
    nodes = count(member);
    if (side->proving && nodes.missing + nodes.unproven < nodes.heard)
        side->proving = false;
    if (side->proving || nodes.missing >= nodes.heard) {
        have_them_speak(member);
        nodes = count(member);
    }
    set(member, !side->proving && nodes.missing < nodes.heard ? DHT_PARTITION_MAJORITY
                : nodes.lost < nodes.heard + nodes.open       ? DHT_PARTITION_UNKNOWN
                                                              : DHT_PARTITION_MINORITY);
    tell_if_it_lasts(member);
}

void partition_changed(struct member *member)
{
    net_timer_start(of(member)->timer, util_clock_now());
}

void partition_lost(struct member *member, uint32_t rank)
{
    struct partition *side = of(member);

    if (member->job->node[rank] == member->job->node[member->self.rank])
        return;
    side->last = util_clock_now();
    if (side->is == DHT_PARTITION_MAJORITY)
        set(member, DHT_PARTITION_UNKNOWN);
    partition_changed(member);
}

/* Nothing that was known of the others need hold any more. A member that was stopped does
 * not know which links were cut meanwhile, or which ranks have taken it for dead: until
 * it has heard again from more than half of the nodes that it was in touch with, its own
 * included, its side is unknown, too. Ranks that have lost it say so when they hear from
 * it. The same holds for a member that has followed another of its rank, and does not
 * find a rank which that one knew (partition_joined_anew()). */
static void begin_anew(struct member *member)
{
    struct partition *side = of(member);

    if (member->job->nnodes < 2)
        return;
    side->last = util_clock_now();
    side->proving = true;
    if (side->is == DHT_PARTITION_MAJORITY)
        set(member, DHT_PARTITION_UNKNOWN);
    partition_changed(member);
}

void partition_joined_anew(struct member *member)
{
    of(member)->anew = true;
    begin_anew(member);
}

void partition_pong(struct member *member)
{
    if (of(member)->is != DHT_PARTITION_MAJORITY)
        partition_changed(member);
}

bool partition_is_unsure(const struct member *member)
{
    return of(member)->is != DHT_PARTITION_MAJORITY;
}

static int partition_start(struct member *member)
{
    struct partition *side = of(member);

    side->node = calloc(member->job->nnodes, sizeof(*side->node));
    side->timer = net_timer_create(member->loop, weigh, member);
    return side->node && side->timer ? 0 : -1;
}

static void partition_destroy(struct member *member)
{
    net_timer_destroy(of(member)->timer);
    free(of(member)->node);
}

static void resumed(struct member *member, uint64_t ns)
{
    (void)ns;
    begin_anew(member);
}

const struct member_module partition_module = {
    .own = MODULE_OWN(partition),
    .start = partition_start,
    .resumed = resumed,
    .destroy = partition_destroy,
};
