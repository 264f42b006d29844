/*
 * copy_lease.c - until when this rank's copies may be opened without asking their homes
 *
 * The homes of a copy send us each newer version, and wait for us before its writer's
 * close returns; but not for longer than half of DYAD_PEER_TIMEOUT if we do not answer,
 * and not at all if a cut link loses the message. So copies are used only as long as all
 * their homes have answered a PING of ours that was sent within `term`, which is less
 * than that. The time stands in the table of the marks (store/lease_table.h). The clock
 * decides, not this loop: after a stop the time is over. docs/dht.md, "Leases" (Gray,
 * Cheriton: Leases, SOSP 1989).
 *
 * What could go wrong: nobody can tell us of a newer version (update()), or it has not
 * been taken in yet (may_be_renewed()); a home has taken us for dead (lease_pong()).
 */
#include "engine/coherence/copy_lease.h"
#include "engine/coherence/copy_lease_impl.h"
#include "engine/coherence/revalidate.h"
#include "engine/core/module.h"

#include <stdlib.h>

#include "store/lease_table.h"
#include "util/log.h"

#define SOON (5 * UTIL_NSEC_PER_MSEC)

static void tell(struct lease *lease, uint64_t until)
{
    struct store_marks *marks = lease->member->dmd[ENGINE_CONSUMER].marks;

    lease->until = until;
    if (marks)
        store_lease_set(marks, lease->member->line, until);
}

bool lease_is_on(const struct member *member)
{
    const struct lease *lease = OWN(member, lease);

    return !lease->timer || util_clock_now() < lease->until;
}

/* True if nothing is known to be missing that a home's answer does not say. The lease is
 * not renewed while we may be of the minority, while copies are to be looked at again
 * (revalidate.c), or while one that is out of date has not been removed yet: it may wait
 * for a publish of ours, for longer than its home does (dht/node_incoming.c). */
static bool may_be_renewed(struct member *member)
{
    return (member->state == MEMBER_JOINED || member->state == MEMBER_EXITING) &&
           dht_node_is_majority(member->dht) && !revalidate_pending(member) &&
           !dht_node_is_invalidating(member->dht);
}

/* When the first of the answers was asked for that are needed; 0: one is missing. */
static uint64_t oldest_answer(const struct lease *lease, uint64_t now)
{
    uint64_t oldest = now;

    for (uint32_t r = 0; r < lease->nranks; r++)
        if (lease->home[r] && r != lease->member->self.rank && lease->rank[r].good < oldest)
            oldest = lease->rank[r].good;
    return oldest;
}

/* Compute the present lease from the answers. A home that takes us for dead gives none
 * (NET_PONG_UNKNOWN). The lease is not renewed either (`known` is false) while no home of
 * a copy would tell us of a newer version (dht/node_copies.c), or while all homes of a
 * copy may have missed something themselves (NET_PONG_UNSURE: they may be of the
 * minority, or others have not told them all yet).
 *
 * Which ranks are homes is looked up again when what is known is an eighth of
 * member_lease() old. What was fetched since has homes that may not have been asked, but
 * they were when it was looked up: so the term is an eighth less. */
static void update(struct lease *lease, uint64_t now)
{
    struct member *member = lease->member;
    uint64_t oldest;

    if (now - lease->collected >= lease->length / 8 || !lease->collected) {
        lease->ncopies =
            dht_node_copy_homes(member->dht, lease->unsure, lease->home, &lease->known);
        lease->collected = now;
    }
    if (lease->ncopies == 0) {
        if (!dht_node_is_invalidating(member->dht))
            tell(lease, STORE_LEASE_NONE);
        return;
    }
    oldest = oldest_answer(lease, now);
    if (lease->known && oldest && oldest + lease->term > lease->until &&
        oldest + lease->term > now && may_be_renewed(member))
        tell(lease, oldest + lease->term);
}

/* The lease is renewed on demand. An open that finds less than three quarters of it left
 * says so in the table of the marks, one that finds it over asks (copy_lease_ask.c). With
 * neither nothing is sent, and there is no timer. */
static bool is_wanted(struct lease *lease, uint64_t now)
{
    const struct member *member = lease->member;
    struct store_marks *marks = member->dmd[ENGINE_CONSUMER].marks;

    if (marks && store_lease_wanted(marks, member->line)) {
        lease->wanted_at = now;
        tell(lease, lease->until); /* to hear of it when it is wanted again */
    }
    return lease->wanted_at + lease->term > now;
}

/* One PING goes to each home of copies in half a term, and so at most one to each rank.
 */
static void renew(struct lease *lease, uint64_t now)
{
    struct member *member = lease->member;

    update(lease, now);
    if (lease->until == STORE_LEASE_NONE)
        return;
    for (uint32_t r = 0; r < lease->nranks; r++) {
        struct lease_home *home = &lease->rank[r];
        struct net_msg ping = {.type = NET_MSG_PING, .id = member->next_id};
        if (!lease->home[r] || r == member->self.rank ||
            home->good + lease->term / 2 > now ||
            (home->id && home->sent + lease->term / 2 > now))
            continue;
        member->next_id += 2;
        home->id = ping.id;
        home->sent = now;
        member_send(member, r, &ping); /* if it fails there is no answer */
    }
}

static void set_timer(struct lease *lease, uint64_t now)
{
    uint64_t when = now + lease->term / 4;

    if (lease->until == STORE_LEASE_NONE)
        return;
    if (lease->until > now + lease->term / 2)
        when = lease->until - lease->term / 2;
    else if (dht_node_is_invalidating(lease->member->dht))
        when = now + SOON;
    net_timer_start(lease->timer, when);
}

static void tick(void *arg)
{
    struct lease *lease = arg;
    uint64_t now = util_clock_now();

    if (lease->member->state == MEMBER_LEAVING || !is_wanted(lease, now))
        return;
    renew(lease, now);
    set_timer(lease, now);
}

void lease_want(struct member *member)
{
    struct lease *lease = OWN(member, lease);
    uint64_t now = util_clock_now();

    if (!lease->timer || member->state == MEMBER_LEAVING)
        return;
    lease->wanted_at = now;
    if (lease->until > now + lease->term / 2)
        return;
    renew(lease, now);
    set_timer(lease, now);
}

static void lease_held(void *arg)
{
    struct member *member = arg;
    struct lease *lease = OWN(member, lease);

    if (!lease->timer)
        return;
    lease->collected = 0;
    lease->wanted_at = util_clock_now();
    tell(lease, STORE_LEASE_OUT);
    net_timer_start(lease->timer, lease->wanted_at); /* when the table has it */
}

static void lease_joined(struct member *member)
{
    struct lease *lease = OWN(member, lease);

    tell(lease, lease->until);
}

/* Ranks may have another DYAD_PEER_TIMEOUT (in a session directory): a PONG says how long
 * its home waits. A home with less patience than ours has answered as if that were longer
 * ago. */
static uint64_t as_of(const struct lease *lease, const struct lease_home *home,
                      uint64_t length)
{
    uint64_t less = length < lease->length ? lease->length - length : 0;

    return home->sent > less ? home->sent - less : 0;
}

/* A PONG comes after every INVALIDATE that its home had sent before it. A home that has
 * taken us for dead meanwhile, of which we may know nothing, has not told us what was
 * published then. It says how often it has (`losses`): if that is not what it said last
 * the lease is over, and its copies are looked up. */
static bool lease_pong(struct member *member, const struct net_msg *msg, void **payload,
                       size_t len)
{
    struct lease *lease = OWN(member, lease);
    uint64_t now = util_clock_now();
    struct lease_home *home;

    (void)payload;
    (void)len;
    if (msg->source >= lease->nranks)
        return false;
    home = &lease->rank[msg->source];
    if (!home->id || msg->id != home->id)
        return false;
    home->id = 0;
    if (msg->losses != home->losses) {
        log_info("%s had taken this rank for dead: its copies are looked up again",
                 member_describe(member, msg->source));
        home->losses = msg->losses;
        home->good = 0;
        tell(lease, STORE_LEASE_OUT);
        dht_node_forgotten(member->dht, msg->source);
        lease->collected = 0;
        revalidate_rank(member, msg->source);
    } else {
        home->good = msg->flags & NET_PONG_UNKNOWN ? 0 : as_of(lease, home, msg->lease_ns);
        if (lease->unsure[msg->source] != ((msg->flags & NET_PONG_UNSURE) != 0))
            lease->collected = 0;
        lease->unsure[msg->source] = (msg->flags & NET_PONG_UNSURE) != 0;
    }
    update(lease, now);
    set_timer(lease, now);
    return true;
}

static void lease_destroy(struct member *member)
{
    struct lease *lease = OWN(member, lease);

    lease_ask_free(member);
    net_timer_destroy(lease->timer);
    free(lease->unsure);
    free(lease->home);
    free(lease->rank);
}

static int lease_start(struct member *member)
{
    uint32_t nranks = member->job->nranks;
    struct lease *lease = OWN(member, lease);

    member->table_ops.held = lease_held;
    lease->member = member;
    lease->nranks = nranks;
    lease->until = STORE_LEASE_NONE;
    lease->length = member_lease(member);
    lease->term = lease->length - lease->length / 8;
    return (lease->rank = calloc(nranks, sizeof(*lease->rank))) &&
                   (lease->home = calloc(nranks, sizeof(*lease->home))) &&
                   (lease->unsure = calloc(nranks, sizeof(*lease->unsure))) &&
                   (lease->timer = net_timer_create(member->loop, tick, lease))
               ? lease_ask_start(member)
               : -1;
}

const struct member_module lease_module = {
    .own = MODULE_OWN(lease),
    .messages = (const struct member_message[]){{NET_MSG_PONG, lease_pong}, {0}},
    .start = lease_start,
    .joined = lease_joined,
    .destroy = lease_destroy,
};
