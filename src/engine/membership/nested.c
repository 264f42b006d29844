/*
 * nested.c - launches that were started by a member: `dyad-run sh -c "mpirun ..."`
 *
 * In a session directory a launch within another shares files with it. The outer member
 * is busy until its script has ended, and that waits for the launcher, which waits for
 * its ranks: these must not linger for it (exit_barrier.c), nor for one another's. A rank
 * looks for its outer member when it is at its exit (outer()). If that member is of this
 * node and has the same directories, it serves what we leave (takeover.c), and we need
 * not linger (nested_is_served()). Else we linger as usual, but not for busy outer
 * members (nested_has_inner()).
 *
 * What could go wrong: the outer member is not found (is_outer()). Once a launch is known
 * to be nested in us this is never wrong: names of launches are not given twice.
 */
#include "engine/core/member_impl.h"
#include "engine/core/module.h"
#include "engine/membership/exit_barrier.h"
#include "engine/membership/nested.h"
#include "engine/membership/servers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boot/procs.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/proc.h"

#define ANCESTORS_MAX 256
#define TELL_AGAIN    (5 * UTIL_NSEC_PER_SEC)

struct inner { /* a launch nested in ours */
    struct inner *next;
    char launch[NET_PEER_LAUNCH_MAX + 1];
};

struct nested {
    uint32_t outer;                       /* DYAD_RANK_NONE: none is known */
    char launch[NET_PEER_LAUNCH_MAX + 1]; /* of outer: the place may be another's later */
    bool found;                           /* this rank found it, and notifies it */
    uint64_t told_at;                     /* last */
    struct inner *inner;
};

/* The live member of the session that has the slot, if we know it; else NULL. */
static const struct net_peer *live_peer(struct member *member, uint32_t slot)
{
    if (slot == member->self.rank || slot >= member->job->nranks ||
        !dht_node_is_live(member->dht, slot))
        return NULL;
    return net_worker_peer(member->worker, slot);
}

static bool is_our_outer(const struct nested *w, const struct net_peer *peer)
{
    return w->outer == peer->rank && strcmp(w->launch, peer->launch) == 0;
}

static void tell(struct member *member, uint32_t to, uint32_t outer)
{
    struct net_msg msg = {.type = NET_MSG_NESTED, .rank = outer};

    member_send(member, to, &msg);
}

static void tell_outer(struct member *member)
{
    struct nested *w = OWN(member, nested);

    w->told_at = util_clock_now();
    tell(member, w->outer, w->outer);
}

/* --- the outer one --- */

static bool is_inner(const struct member *member, const struct net_peer *peer)
{
    const struct inner *inner = OWN(member, nested)->inner;

    while (inner && strcmp(inner->launch, peer->launch) != 0)
        inner = inner->next;
    return inner != NULL;
}

bool nested_has_started(const struct member *member)
{
    return OWN(member, nested)->inner != NULL;
}

/* A member says BOOT_WAVE_OUTER as long as a rank lives of a launch that is nested in it:
 * ranks that linger do not wait for it, though it is busy. */
bool nested_has_inner(struct member *member)
{
    const struct net_peer *peer;

    if (!OWN(member, nested)->inner)
        return false;
    for (uint32_t r = 0; r < member->job->nranks; r++)
        if ((peer = live_peer(member, r)) && is_inner(member, peer))
            return true;
    return false;
}

static void nested_peer_up(struct member *member, const struct net_peer *peer)
{
    /* Our outer member after exec, which knows nothing, or after a cut. */
    if (is_our_outer(OWN(member, nested), peer) && OWN(member, nested)->found)
        tell_outer(member);
    if (!is_inner(member, peer))
        return;
    tell(member, peer->rank, member->self.rank);
    exit_barrier_look_soon(member);
}

static void add_inner(struct member *member, uint32_t slot)
{
    const struct net_peer *peer = net_worker_peer(member->worker, slot), *mate;
    struct nested *w = OWN(member, nested);
    struct inner *inner;

    if (!w || !peer || strcmp(peer->launch, member->self.launch) == 0 ||
        is_inner(member, peer) || !(inner = calloc(1, sizeof(*inner))))
        return;
    strcpy(inner->launch, peer->launch);
    inner->next = w->inner;
    w->inner = inner;
    log_info("launch %s is nested in this process's: its ranks do not linger for it",
             inner->launch);
    for (uint32_t r = 0; r < member->job->nranks; r++)
        if ((mate = live_peer(member, r)) && strcmp(mate->launch, inner->launch) == 0)
            tell(member, r, member->self.rank);
    exit_barrier_look_soon(member);
}

/* --- the inner ones --- */

static void set_outer(struct member *member, uint32_t slot)
{
    struct nested *w = OWN(member, nested);
    const struct net_peer *peer = live_peer(member, slot);

    if (!w || !peer)
        return;
    w->outer = slot;
    strcpy(w->launch, peer->launch);
    log_info("this launch is nested in that of %s", member_describe(member, slot));
    exit_barrier_look_soon(member);
}

/* NESTED goes from a rank that has found its outer member to that one, and from there to
 * all ranks of the launch, also later ones, which on other nodes cannot find that member
 * themselves. */
static bool nested_receive(struct member *member, const struct net_msg *msg, void **payload,
                           size_t len)
{
    (void)payload;
    (void)len;
    if (!member->ring)
        return true;
    if (msg->rank == member->self.rank)
        add_inner(member, msg->source);
    else if (msg->rank == msg->source)
        set_outer(member, msg->source);
    return true;
}

static size_t ancestors(pid_t *pids, size_t max)
{
    pid_t pid = getpid();
    size_t n = 0;

    while (n < max && (pid = util_proc_parent(pid)) > 1)
        pids[n++] = pid;
    return n;
}

/* Numbers of processes mean something on one node only. A process that no launcher started
 * says in its launch's name where it runs, also where DYAD_NODE says otherwise. */
static bool is_of_this_host(const struct member *member, const struct net_peer *peer)
{
    char host[80], name[NET_PEER_LAUNCH_MAX + 1];

    if (strcmp(peer->node, member->self.node) == 0)
        return true;
    if (gethostname(host, sizeof(host)) < 0)
        return false;
    host[sizeof(host) - 1] = '\0';
    snprintf(name, sizeof(name), BOOT_SOLO "%s.%d.", host, (int)peer->pid);
    return strncmp(peer->launch, name, strlen(name)) == 0;
}

/* The outer member is one of our ancestors (mpirun starts the ranks of its node itself),
 * or DYAD_GUEST_OF names it, which srun passes on with the rest of the environment, or
 * another variable does, which mpirun passes on if it was preloaded (boot/identity.h). If
 * no rank of a launch runs on the node of its launcher, and the launcher passes nothing
 * on, the outer member is not found. */
static bool is_outer(const struct member *member, const struct net_peer *peer,
                     const pid_t *pids, size_t n)
{
    const struct boot_identity *identity = member->identity;

    if (strcmp(peer->launch, member->self.launch) == 0)
        return false;
    if (identity->outer[0] && strcmp(peer->launch, identity->outer) == 0 &&
        peer->launch_rank == identity->outer_rank)
        return true;
    for (size_t i = 0; i < n; i++)
        if (peer->pid == pids[i])
            return is_of_this_host(member, peer);
    return false;
}

/* The outer member; DYAD_RANK_NONE: there is none, or it has gone. */
static uint32_t outer(struct member *member)
{
    struct nested *w = OWN(member, nested);
    pid_t pids[ANCESTORS_MAX];
    const struct net_peer *peer;
    size_t n;

    if (!w)
        return DYAD_RANK_NONE;
    if (w->outer != DYAD_RANK_NONE) {
        peer = live_peer(member, w->outer);
        if (!peer || !is_our_outer(w, peer))
            return DYAD_RANK_NONE;
        /* A message may be lost with its connection. */
        if (w->found && util_clock_now() - w->told_at > TELL_AGAIN)
            tell_outer(member);
        return w->outer;
    }
    n = ancestors(pids, ANCESTORS_MAX);
    for (uint32_t r = 0; r < member->job->nranks; r++) {
        if (!(peer = live_peer(member, r)) || !is_outer(member, peer, pids, n))
            continue;
        set_outer(member, r);
        if (w->outer != r)
            return DYAD_RANK_NONE;
        w->found = true;
        tell_outer(member);
        return r;
    }
    return DYAD_RANK_NONE;
}

bool nested_is_inner(struct member *member)
{
    return member->ring && outer(member) != DYAD_RANK_NONE;
}

bool nested_is_served(struct member *member)
{
    uint32_t slot = member->ring ? outer(member) : DYAD_RANK_NONE;
    const struct net_peer *peer;

    return slot != DYAD_RANK_NONE && (peer = live_peer(member, slot)) &&
           servers_has_ours(member, peer);
}

/* --- */

static int nested_start(struct member *member)
{
    OWN(member, nested)->outer = DYAD_RANK_NONE;
    return 0;
}

static void nested_destroy(struct member *member)
{
    struct nested *w = OWN(member, nested);

    while (w->inner) {
        struct inner *inner = w->inner;
        w->inner = inner->next;
        free(inner);
    }
}

const struct member_module nested_module = {
    .own = MODULE_OWN(nested),
    .messages = (const struct member_message[]){{NET_MSG_NESTED, nested_receive}, {0}},
    .start = nested_start,
    .peer_up = nested_peer_up,
    .destroy = nested_destroy,
};
