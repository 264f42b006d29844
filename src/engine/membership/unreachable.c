/*
 * unreachable.c - which ranks cannot be reached, for how long; asking whether that is so
 *
 * A rank whose connection broke has died, is in exec, or is beyond a cut link; one that
 * is silent may be stopped. A rank that leaves a request unanswered becomes suspect
 * (suspect()), and unreachable if it is silent for as long again. An unreachable rank is
 * asked on a new connection, with growing pauses (ask()); after two in a row that are
 * refused at once it counts as gone (unreachable_unanswered()), which ends what waits for
 * it, and is asked more seldom. One that is lost and not gone is missing, for however long.
 * docs/reliability.md, "Deaths, cuts, stops".
 *
 * What could go wrong: our own stop looks like the others' silence (resumed()); a rank
 * answers, and sends no bytes (unreachable_unserved()); our node is the one that is cut
 * off (unreachable_refused()); a rank's address is out of date (ask()); somebody else has
 * refused the connections in a living rank's name (GONE_MAX).
 */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "engine/core/member_impl.h"
#include "engine/core/module.h"
#include "engine/membership/partition.h"
#include "engine/membership/unjoined.h"
#include "engine/membership/unreachable.h"
#include "util/log.h"

/* A lost rank is asked (net_worker_probe()) ASK_FIRST after its loss, then after pauses
 * that double up to ASK_MAX, at most ASK_AT_ONCE ranks in ASK_SPACE; and when somebody
 * needs it (unreachable_ask()). So a rank that is cut off costs each other one 4 packets
 * a minute, and a healed link is found by whichever end asks first. */
#define ASK_FIRST   (1 * UTIL_NSEC_PER_SEC) /* at a job's end all is over by then */
#define ASK_MAX     (16 * UTIL_NSEC_PER_SEC)
#define ASK_SPACE   (250 * UTIL_NSEC_PER_MSEC)
#define ASK_AT_ONCE 8
/* ... of one that is gone, which costs two packets each time. If it lives it comes back as if
 * it had been missing, at the latest after that. */
#define GONE_MAX (60 * UTIL_NSEC_PER_SEC)
/* A connection that fails as soon as this was refused, if none was under way to that node before:
 * silence takes a second at least, but ends for all that wait for the node's hardware address at
 * once. So a refusal counts if the next one, of a connection that has ASK_ALONE, is as quick. */
#define REFUSED   (500 * UTIL_NSEC_PER_MSEC)
#define ASK_ALONE (5 * UTIL_NSEC_PER_SEC)

struct lost_rank {
    uint64_t since;    /* 0: here */
    uint64_t suspect;  /* since when, or 0 */
    uint64_t patience; /* ... and for so long */
    uint64_t ask_at;   /* 0: not asked */
    uint64_t asked_at; /* last */
    uint64_t pause;
    bool gone, over; /* nobody is there; DYAD_JOIN_TIMEOUT has passed */
    bool refused;    /* the last connection was; the next one decides */
    bool stranger;   /* it was not known: of its incarnation nothing follows */
    bool kept;       /* its address may be that of an earlier member */
    uint32_t incarnation;
    uint64_t unserved; /* when a fetch from it was given up, and none like it was served
                        * since; or 0 */
    uint64_t unserved_size; /* of the largest message that did not come */
};

struct unreachable {
    struct net_timer *timer;
    uint64_t due;   /* the timer is set to it; 0: not */
    uint32_t nlost; /* of these some are gone */
    uint32_t nsuspect;
    bool ask_all;           /* who is missing is to be asked soon */
    struct lost_rank *rank; /* [nranks] */
};

static struct unreachable *of(const struct member *member)
{
    return OWN(member, unreachable);
}

static uint64_t bound(const struct member *member)
{
    return seconds_ns(member->config->join_timeout);
}

static void due(struct unreachable *lost, uint64_t when)
{
    if (lost->due && lost->due <= when)
        return;
    lost->due = when;
    net_timer_start(lost->timer, when);
}

static void tell_table(struct member *member, uint32_t rank)
{
    const struct lost_rank *l = &of(member)->rank[rank];

    dht_node_set_missing(member->dht, rank,
                         l->gone   ? DHT_GONE
                         : l->over ? DHT_MISSING_LONG
                                   : DHT_MISSING);
}

/* --- asking --- */

static bool interface_is_up(void)
{
    struct ifaddrs *list, *i;
    bool up = false;

    if (getifaddrs(&list) < 0)
        return false;
    for (i = list; i && !up; i = i->ifa_next)
        up = (i->ifa_flags & (IFF_UP | IFF_RUNNING | IFF_LOOPBACK)) ==
             (IFF_UP | IFF_RUNNING);
    freeifaddrs(list);
    return up;
}

/* If the address of the rank is not known, or may be out of date (`kept`: we have joined
 * anew beyond a cut), the launcher is asked, too (unjoined.c). */
static void ask(struct member *member, uint32_t rank, uint64_t now)
{
    struct lost_rank *l = &of(member)->rank[rank];
    uint64_t max = l->gone ? GONE_MAX : ASK_MAX;

    l->asked_at = now;
    l->ask_at = now + l->pause;
    l->pause = 2 * l->pause < max ? 2 * l->pause : max;
    if (l->kept || !net_worker_peer(member->worker, rank))
        unjoined_ask_again(member, rank);
    if (net_worker_peer(member->worker, rank))
        net_worker_probe(member->worker, rank); /* if it cannot be, then the next time */
}

void unreachable_ask(struct member *member, uint32_t rank)
{
    struct lost_rank *l = &of(member)->rank[rank];
    uint64_t now = util_clock_now();

    if (!l->since || l->refused || now - l->asked_at < ASK_SPACE)
        return;
    if (!l->gone)
        l->pause = ASK_FIRST;
    ask(member, rank, now);
    due(of(member), l->ask_at);
}

void unreachable_heard(struct member *member, uint32_t rank)
{
    struct lost_rank *l = &of(member)->rank[rank];
    uint64_t soon = util_clock_now() + ASK_SPACE;

    if (!l->since || (l->ask_at && l->ask_at <= soon))
        return;
    l->refused = false;
    l->ask_at = soon;
    l->pause = ASK_FIRST;
    due(of(member), soon);
}

/* A refusal does not count if the rank is on another node and we have no interface that
 * is up: then it is this node that is cut off. Nor if somebody listens there, who does not let us in. */
bool unreachable_refused(const struct member *member, uint32_t rank, uint64_t begun)
{
    const struct net_peer *peer = net_worker_peer(member->worker, rank);

    return util_clock_now() - begun <= REFUSED &&
           net_worker_declined_at(member->worker, rank) < begun &&
           ((peer && strcmp(peer->node, member->self.node) == 0) || interface_is_up());
}

/* Two connections in a row that are refused at once say that nobody listens at the rank's
 * address: the rank is gone for good, or comes back as another incarnation, which
 * introduces itself. What waits for it ends now. But a firewall, or somebody on the way, may
 * have refused them, so it is asked on. A refusal at an address that may be out of date
 * proves nothing. */
void unreachable_unanswered(struct member *member, uint32_t rank)
{
    struct lost_rank *l = &of(member)->rank[rank];

    if (!l->since || l->gone)
        return;
    if (!unreachable_refused(member, rank, l->asked_at)) {
        l->refused = false;
        return;
    }
    if (l->kept && !net_worker_heard_at(member->worker, rank))
        return; /* an earlier member is gone; where the present one is the launcher tells */
    if (!l->refused) {
        l->refused = true;
        l->ask_at = util_clock_now();
        l->pause = ASK_ALONE;
        due(of(member), l->ask_at);
        return;
    }
    log_info("%s is gone: nobody listens at its address", member_describe(member, rank));
    l->gone = true;
    l->refused = false;
    l->pause = ASK_FIRST;
    l->ask_at = l->asked_at + l->pause;
    due(of(member), l->ask_at);
    tell_table(member, rank);
    partition_changed(member);
    modules_rank_changed(member, rank, MEMBER_RANK_GONE);
}

/* --- time --- */

/* A suspect rank from which nothing at all comes in `patience` is taken for dead, as if
 * its connection had broken. So what it was home to moves, and requests do not wait for
 * it one by one. */
static void tick_suspect(struct member *member, uint32_t rank, uint64_t now)
{
    struct unreachable *lost = of(member);
    struct lost_rank *l = &lost->rank[rank];
    uint64_t end = l->suspect + l->patience;

    if (net_worker_heard_at(member->worker, rank) < l->suspect) {
        if (now < end) {
            due(lost, end);
            return;
        }
        log_warn("%s has been silent for %.0f s: going on without it",
                 member_describe(member, rank), 2 * member->config->peer_timeout);
        net_worker_peer_down(member->worker, rank, ETIMEDOUT); /* told later */
    }
    l->suspect = 0;
    lost->nsuspect--;
}

/* A lost rank may return for DYAD_JOIN_TIMEOUT, and counts as busy in the exit barrier
 * until then. After that (`over`) the job goes on without it. */
static void tick_lost(struct member *member, uint32_t rank, uint64_t now, unsigned *asked)
{
    struct unreachable *lost = of(member);
    struct lost_rank *l = &lost->rank[rank];

    if (!l->over && now - l->since >= bound(member)) {
        l->over = true;
        log_info("%s has not come back: going on without it",
                 member_describe(member, rank));
        boot_wave_rank_changed(member->wave, rank);
        tell_table(member, rank);
    }
    if (!l->over)
        due(lost, l->since + bound(member));
    if (!l->ask_at)
        return;
    if (l->ask_at <= now && (*asked)++ >= ASK_AT_ONCE)
        l->ask_at = now + ASK_SPACE;
    if (l->ask_at <= now)
        ask(member, rank, now);
    due(lost, l->ask_at);
}

static void tick(void *arg)
{
    struct member *member = arg;
    struct unreachable *lost = of(member);
    uint64_t now = util_clock_now();
    unsigned asked = 0;

    lost->due = 0;
    if (member->state == MEMBER_LEAVING || (!lost->nlost && !lost->nsuspect))
        return;
    for (uint32_t r = 0; r < member->job->nranks; r++) {
        struct lost_rank *l = &lost->rank[r];
        if (l->suspect)
            tick_suspect(member, r, now);
        if (lost->ask_all)
            unreachable_heard(member, r);
        if (l->since)
            tick_lost(member, r, now, &asked);
    }
    lost->ask_all = false;
}

/* We were stopped: that must not be taken for the silence of the others, so their time
 * begins anew. */
static void resumed(struct member *member, uint64_t ns)
{
    struct unreachable *lost = of(member);
    uint64_t now = util_clock_now();

    if (!lost->nlost && !lost->nsuspect)
        return;
    for (uint32_t r = 0; r < member->job->nranks; r++) {
        struct lost_rank *l = &lost->rank[r];
        if (l->suspect)
            l->suspect = now;
        if (l->since) /* nor could it come back to us */
            l->since = util_clock_moved(l->since, ns, now);
    }
}

/* --- news --- */

/* Send the rank a PING. False: it is lost or suspect already, or cannot be asked. */
static bool suspect(struct member *member, uint32_t rank, uint64_t patience)
{
    struct unreachable *lost = of(member);
    struct lost_rank *l = &lost->rank[rank];
    struct net_msg ping = {.type = NET_MSG_PING, .id = member->next_id};
    uint64_t now = util_clock_now();

    if (l->suspect && !unreachable_is_silent(member, rank)) { /* asked anew */
        l->suspect = 0;
        lost->nsuspect--;
    }
    if (l->since || l->suspect || !net_worker_peer(member->worker, rank)) {
        /* Asked with more patience than there is now. */
        if (l->suspect && l->suspect + l->patience > now + patience) {
            l->patience = now + patience - l->suspect;
            due(lost, now + patience);
        }
        return false;
    }
    member->next_id += 2;
    if (net_worker_send(member->worker, rank, &ping, NULL, 0, NULL, NULL) < 0)
        return false;
    l->suspect = now;
    l->patience = patience;
    lost->nsuspect++;
    due(lost, now + patience);
    return true;
}

void unreachable_suspect(struct member *member, uint32_t rank)
{
    if (!member->hands_over) /* a promoted guest: its member looks after ranks */
        suspect(member, rank, seconds_ns(member->config->peer_timeout));
}

/* The answer may be for another module as well. */
static bool pong_received(struct member *member, const struct net_msg *msg, void **payload,
                          size_t len)
{
    struct unreachable *lost = of(member);

    (void)payload;
    (void)len;
    if (net_is_guest(msg->source) || !lost->rank[msg->source].suspect)
        return false;
    lost->rank[msg->source].suspect = 0; /* else what comes next would not count anew */
    lost->nsuspect--;
    partition_pong(member);
    return false;
}

bool unreachable_prove(struct member *member, uint32_t rank)
{
    return suspect(member, rank, 2 * seconds_ns(member->config->peer_timeout));
}

/* Two fetches in a row that bring no byte from a rank that does answer a PING show that
 * the two ends do not agree which of their connections is the one that lives: small
 * messages arrive while large ones do not. The rank is taken for dead and asked, and both
 * ends make new connections. A fetch of less that was served in between proves nothing
 * about the larger ones (unreachable_served()). */
void unreachable_unserved(struct member *member, uint32_t rank, uint64_t size)
{
    struct lost_rank *l;

    if (member->hands_over)
        return;
    l = &of(member)->rank[rank];
    if (!l->unserved || l->since) {
        l->unserved = util_clock_now();
        l->unserved_size = 0;
    }
    if (l->unserved_size < size)
        l->unserved_size = size;
    /* Fetches that ran beside the first are given up soon after it: no news. */
    if (util_clock_now() - l->unserved < seconds_ns(member->config->peer_timeout) ||
        net_worker_heard_at(member->worker, rank) < l->unserved) {
        unreachable_suspect(member, rank);
        return;
    }
    l->unserved = 0;
    log_info("%s answers, but sends no bytes: connecting anew",
             member_describe(member, rank));
    net_worker_peer_down(member->worker, rank, ETIMEDOUT);
}

void unreachable_served(struct member *member, uint32_t rank, uint64_t size)
{
    struct lost_rank *l;

    if (member->hands_over)
        return;
    l = &of(member)->rank[rank];
    if (size >= l->unserved_size)
        l->unserved = 0;
}

void unreachable_add(struct member *member, uint32_t rank)
{
    struct unreachable *lost = of(member);
    struct lost_rank *l = &lost->rank[rank];
    uint64_t now = util_clock_now();

    if (l->suspect)
        lost->nsuspect--;
    if (!l->since)
        lost->nlost++;
    *l = (struct lost_rank){
        .since = now, .ask_at = now + ASK_FIRST, .pause = ASK_FIRST, .kept = l->kept};
    if (net_worker_peer(member->worker, rank))
        l->incarnation = net_worker_peer(member->worker, rank)->incarnation;
    else
        l->stranger = true;
    l->stranger |= l->kept && !net_worker_heard_at(member->worker, rank);
    due(lost, l->ask_at);
    partition_lost(member, rank);
    tell_table(member, rank);
    member_set_live(member, rank, false); /* the barrier asks if it may return */
    modules_rank_changed(member, rank, MEMBER_RANK_LOST);
}

void unreachable_found(struct member *member, const struct net_peer *peer)
{
    const struct lost_rank *l = &of(member)->rank[peer->rank];

    if (l->since)
        dht_node_set_missing(
            member->dht, peer->rank,
            l->stranger || peer->incarnation == l->incarnation ? DHT_MISSING : DHT_GONE);
}

/* The others that are missing are asked again soon: it may have been the same cut. */
void unreachable_back(struct member *member, uint32_t rank)
{
    struct unreachable *lost = of(member);

    if (!lost || !lost->rank[rank].since)
        return;
    log_info("%s is back after %.1f s", member_describe(member, rank),
             (double)(util_clock_now() - lost->rank[rank].since) / 1e9);
    lost->nlost--;
    lost->rank[rank] = (struct lost_rank){0};
    if (lost->nlost > 0) {
        lost->ask_all = true;
        due(lost, util_clock_now());
    }
    partition_changed(member);
    modules_rank_changed(member, rank, MEMBER_RANK_BACK);
}

bool unreachable_forget(struct member *member, uint32_t rank)
{
    struct unreachable *lost = of(member);
    bool awaited;

    if (!lost || (!lost->rank[rank].since && !lost->rank[rank].suspect))
        return false;
    awaited = lost->rank[rank].since && !lost->rank[rank].over;
    if (lost->rank[rank].since)
        lost->nlost--;
    if (lost->rank[rank].suspect)
        lost->nsuspect--;
    lost->rank[rank] = (struct lost_rank){0};
    dht_node_set_missing(member->dht, rank, DHT_GONE);
    partition_changed(member);
    modules_rank_changed(member, rank, MEMBER_RANK_GONE);
    return awaited;
}

void unreachable_gone(struct member *member, uint32_t rank)
{
    bool awaited = unreachable_forget(member, rank);

    if (member->dht && dht_node_is_live(member->dht, rank))
        member_set_live(member, rank, false);
    else if (awaited)
        boot_wave_rank_changed(member->wave, rank);
}

bool unreachable_may_return(const struct member *member, uint32_t rank)
{
    const struct lost_rank *l = &of(member)->rank[rank];

    return l->since && !l->over && util_clock_now() - l->since < bound(member);
}

uint64_t unreachable_since(const struct member *member, uint32_t rank)
{
    return rank < member->job->nranks ? of(member)->rank[rank].since : 0;
}

/* A rank that is lost and not gone is missing, for however long. Meanwhile the table does
 * not believe negative answers that only its stand-ins give (dht/node_negative.c), and no
 * wait ends with "nobody is left who could publish" if the rank could. Which side of a
 * cut has more ranks does not matter here, because both may be wrong about what the other
 * has. (It does for "not published": partition.c.) */
bool unreachable_is_missing(const struct member *member, uint32_t rank)
{
    const struct lost_rank *l = &of(member)->rank[rank];

    return l->since && !l->gone;
}

void unreachable_kept(struct member *member, uint32_t rank, bool kept)
{
    of(member)->rank[rank].kept = kept;
}

bool unreachable_has_ended(const struct member *member, uint32_t rank)
{
    const struct lost_rank *l = &of(member)->rank[rank];

    return l->since && l->gone && l->over;
}

uint64_t unreachable_asked_at(const struct member *member, uint32_t rank)
{
    return of(member)->rank[rank].asked_at;
}

bool unreachable_is_suspect(const struct member *member, uint32_t rank)
{
    return of(member)->rank[rank].suspect != 0;
}

bool unreachable_is_silent(const struct member *member, uint32_t rank)
{
    return unreachable_is_suspect(member, rank) &&
           net_worker_heard_at(member->worker, rank) < of(member)->rank[rank].suspect;
}

uint32_t unreachable_missing(const struct member *member, bool long_ago)
{
    const struct unreachable *lost = of(member);

    for (uint32_t r = 0; lost->nlost && r < member->job->nranks; r++)
        if (unreachable_is_missing(member, r) && (!long_ago || lost->rank[r].over))
            return r;
    return DYAD_RANK_NONE;
}

static int unreachable_start(struct member *member)
{
    struct unreachable *lost = of(member);

    lost->rank = calloc(member->job->nranks, sizeof(*lost->rank));
    lost->timer = net_timer_create(member->loop, tick, member);
    return lost->rank && lost->timer ? 0 : -1;
}

static void unreachable_destroy(struct member *member)
{
    net_timer_destroy(of(member)->timer);
    free(of(member)->rank);
}

const struct member_module unreachable_module = {
    .own = MODULE_OWN(unreachable),
    .messages = (const struct member_message[]){{NET_MSG_PONG, pong_received}, {0}},
    .start = unreachable_start,
    .resumed = resumed,
    .destroy = unreachable_destroy,
};
