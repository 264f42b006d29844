/*
 * links.c - between the network, the table and the barrier
 *
 * What arrives is handed to whom it concerns; what they send goes to the worker, or, for
 * this rank itself, round through the loop, so that a reply never comes from inside the
 * call that caused it. Here it is also known which ranks are there: the worker says who
 * came and who broke off, and a rank that broke off may be on its way through exec.
 */
#include "engine/core/member_impl.h"
#include "engine/core/module.h"
#include "engine/membership/exit_barrier.h"
#include "engine/membership/nested.h"
#include "engine/membership/partition.h"
#include "engine/membership/servers.h"
#include "engine/membership/session_member.h"
#include "engine/membership/unjoined.h"
#include "engine/membership/unreachable.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "net/devices.h"
#include "net/door.h"
#include "util/log.h"

static int table_send(void *arg, uint32_t rank, struct net_msg *msg)
{
    return member_send(arg, rank, msg);
}

static uint64_t table_now(void *arg)
{
    (void)arg;
    return util_clock_now();
}

static uint64_t table_wall(void *arg)
{
    (void)arg;
    return util_clock_wall();
}

static void table_set_timer(void *arg, uint64_t when)
{
    struct member *member = arg;

    if (when == UINT64_MAX)
        net_timer_stop(member->dht_timer);
    else
        net_timer_start(member->dht_timer, when);
}

static void table_tick(void *arg)
{
    struct member *member = arg;
    dht_node_tick(member->dht);
    modules_table_changed(member);
}

static void wave_verdict(void *arg, enum boot_wave_verdict verdict)
{
    struct member *member = arg;

    if (verdict != BOOT_WAVE_ALL_EXIT && member->ring) {
        /* A launch may still come that has the file. Until then no rank needs a member at
         * its exit: the next member of its node takes its files over. */
        if (member->state == MEMBER_EXITING && exit_barrier_may_leave(member)) {
            if (verdict != BOOT_WAVE_OUTER_BUSY || nested_is_inner(member))
                member_stop(member);
        } else if (verdict != BOOT_WAVE_OUTER_BUSY) {
            member->waits->say(member);
        }
    } else if (verdict != BOOT_WAVE_ALL_EXIT) {
        exit_barrier_nobody_left(member);
        member->waits->fail_chosen(member, verdict == BOOT_WAVE_NOBODY_IN_REACH);
    } else if (member->state == MEMBER_EXITING) {
        member->job_ended = true;
        member->passed_over = boot_wave_missing(member->wave);
        member_stop(member);
    }
}

static bool wave_live(void *arg, uint32_t rank)
{
    struct member *member = arg;

    if (servers_is_one(member, rank)) /* it is neither waited for nor asked (servers.c) */
        return false;
    return dht_node_is_live(member->dht, rank) || unreachable_may_return(member, rank);
}

/* The barrier takes a failed send for a death; what is lost on the way is sent again. A
 * send may fail before we are told that the connection broke: the rank may return then as
 * well. */
static int wave_send(void *arg, uint32_t rank, struct net_msg *msg)
{
    if (member_send(arg, rank, msg) == 0 || wave_live(arg, rank))
        return 0;
    return -1;
}

static void worker_receive(void *arg, const struct net_msg *msg, void *payload, size_t len)
{
    member_receive(arg, msg, payload, len);
}

static void worker_need_peer(void *arg, uint32_t rank)
{
    struct member *member = arg;

    if (member->state == MEMBER_LEAVING)
        return;
    if (member->ring)
        member_session_get(member, rank);
    else if (unjoined_ask(member, rank) < 0)
        net_worker_peer_down(member->worker, rank, ENOMEM);
}

static void worker_peer_down(void *arg, uint32_t rank, int error)
{
    struct member *member = arg;

    if (member->state == MEMBER_LEAVING)
        return;
    if (net_is_guest(rank)) {
        modules_peer_down(member, rank);
        return;
    }
    log_info("%s is gone: %s", member_describe(member, rank), strerror(error));
    bool dead = member->ring && member_session_peer_down(member, rank);
    if (!dead && member->dht && dht_node_is_live(member->dht, rank))
        unreachable_add(member, rank);
    if (dead)
        member_set_live(member, rank, false);
    modules_peer_down(member, rank);
}

static void worker_peer_up(void *arg, const struct net_peer *peer)
{
    struct member *member = arg;

    if (member->state == MEMBER_LEAVING || net_is_guest(peer->rank))
        return;
    if (member->ring)
        member_session_peer_up(member, peer);
    unreachable_found(member, peer);
    member_set_live(member, peer->rank, true);
    unreachable_back(member, peer->rank);
    modules_peer_up(member, peer);
    partition_pong(member); /* one more that we are not cut off from */
}

static void worker_unanswered(void *arg, uint32_t rank)
{
    struct member *member = arg;

    if (member->state != MEMBER_LEAVING && !net_is_guest(rank))
        unreachable_unanswered(member, rank);
}

static void worker_heard(void *arg, uint32_t rank)
{
    struct member *member = arg;

    if (member->state != MEMBER_LEAVING && !net_is_guest(rank))
        unreachable_heard(member, rank);
}

static void table_silent(void *arg, uint32_t rank)
{
    unreachable_suspect(arg, rank);
}

static const struct net_worker_ops worker_ops = {
    .unanswered = worker_unanswered,
    .heard = worker_heard,
    .receive = worker_receive,
    .need_peer = worker_need_peer,
    .peer_down = worker_peer_down,
    .peer_up = worker_peer_up,
};

/* A stop as long as a request may take is not overlooked: it makes the pulse late by half
 * of its period. */
static uint64_t pulse_of(const struct member *member)
{
    return seconds_ns(member->config->peer_timeout) / 2;
}

/* Ranks that have found us silent for so long have published without us, and bring us
 * that when they notice that we are back, or a retry interval later. Until then our
 * answers as a home may be out of date: ask all ranks that know us for a RESYNCED. */
static void ask_for_words(struct member *member)
{
    for (uint32_t r = 0; r < member->job->nranks; r++)
        if (r != member->self.rank && dht_node_is_live(member->dht, r) &&
            net_worker_heard_at(member->worker, r))
            dht_node_set_unsynced(member->dht, r, true);
}

/* Others may have taken us for dead, or been lost. What they sent is still unread. */
static void stood_still(void *arg, uint64_t ns)
{
    struct member *member = arg;

    if (member->state == MEMBER_LEAVING || !member->dht)
        return;
    log_debug("this process did not run for %.1f s", (double)ns / 1e9);
    member->still += ns;
    dht_node_stood_still(member->dht, ns);
    modules_resumed(member, ns);
    if (ns + pulse_of(member) >= seconds_ns(member->config->peer_timeout))
        ask_for_words(member);
}

static bool wave_confirm(void *arg, uint64_t number)
{
    struct member *member = arg;
    return member->waits->confirm(member, number);
}

static uint64_t wave_candidate(void *arg, uint64_t *name)
{
    struct member *member = arg;
    return member->waits->candidate(member, name);
}

static const struct boot_wave_ops wave_ops = {
    .send = wave_send,
    .live = wave_live,
    .confirm = wave_confirm,
    .candidate = wave_candidate,
    .verdict = wave_verdict,
};

/* Where the launcher's server listens on loopback who has reached it is in its network namespace, as are the ranks of
 * its node. To a session directory others come later. */
static bool is_local(const struct member *member)
{
    return member->pmix && !member->config->session_dir && member->job->nnodes == 1 &&
           boot_pmix_server_is_local();
}

/* One rank of each node says what is of the node. */
static bool speaks_for_node(const struct member *member)
{
    const uint32_t *node = member->job->node;

    for (uint32_t r = 0; r < member->self.rank; r++)
        if (node[r] == node[member->self.rank])
            return false;
    return true;
}

/* That some are missing is no error: one list may be for nodes that differ. False: EINVAL. */
static bool has_devices(struct member *member)
{
    const char *devices = member->config->net_devices;
    const char *node = member_node_name(member, member->self.rank);
    enum net_devices_there found = NET_DEVICES_ALL;
    char missing[64], there[1024];

    if (devices)
        found = net_devices_look(devices, missing, sizeof(missing), there, sizeof(there));
    if (found == NET_DEVICES_NONE)
        log_error("DYAD_NET_DEVICES=%s: %s has no device \"%s\"; it has %s", devices, node,
                  missing, there);
    else if (found == NET_DEVICES_SOME && speaks_for_node(member))
        log_warn("DYAD_NET_DEVICES=%s: %s has no device \"%s\"; it has %s", devices, node,
                 missing, there);
    errno = EINVAL;
    return found != NET_DEVICES_NONE;
}

/* If it was not chosen. */
static void warn_of_public(const struct member *member)
{
    struct net_device_address first;

    if (member->local || member->config->net_devices || getenv("UCX_NET_DEVICES") ||
        !speaks_for_node(member))
        return;
    if (net_devices_public(NULL, member->config->encrypt ? NULL : getenv("UCX_TLS"), &first,
                           1) > 0)
        log_warn(
            "UCX listens on the public address %s of %s: set DYAD_NET_DEVICES to the "
            "private devices by which the nodes reach each other, or to this one, if it is "
            "to "
            "be so",
            first.address, first.device);
}

/* The size of the job is known: everything that needs it. */
static int links_open(struct member *member)
{
    const struct engine_config *config = member->config;
    struct dht_node_config table = {
        .self = member->self.rank,
        .nranks = member->job->nranks,
        .incarnation = member->self.incarnation,
        .depth = member->self.depth,
        .bins = member->self.bins,
        .replicas = member->self.replicas,
        .listing = config->listing,
        .absent = member->ring != NULL,
        .restores = true,
        .node = member->job->node,
        .request_timeout = seconds_ns(config->peer_timeout),
        .retry_interval = seconds_ns(MEMBER_ASK_AGAIN),
        .invalidate_timeout = seconds_ns(config->peer_timeout) / 2,
        .keep_time = seconds_ns(MEMBER_KEEP),
        .lease = member_lease(member),
        .inlined_max = MEMBER_INLINED,
        .refresh_interval = seconds_ns(MEMBER_REFRESH),
    };

    if (member->self.rank >= member->job->nranks) {
        log_error("the launcher says rank %u of a job of %u ranks", member->self.rank,
                  member->job->nranks);
        errno = EINVAL;
        return -1;
    }
    member->table_ops.send = table_send;
    member->table_ops.now = table_now;
    member->table_ops.wall = table_wall;
    member->table_ops.set_timer = table_set_timer;
    member->table_ops.silent = table_silent;
    member->self.encrypt = config->encrypt;
    member->self.integrity = config->integrity && !config->encrypt; /* which covers them */
    if (!member->config->port_guard)
        net_door_leave_open();
    member->local = is_local(member);
    net_worker_use_devices(config->net_devices, member->local);
    if (!has_devices(member) ||
        !(member->worker = net_worker_create(member->loop, &member->self,
                                             member->job->nranks, &worker_ops, member)) ||
        !(member->dht_timer = net_timer_create(member->loop, table_tick, member)) ||
        !(member->dht = dht_node_create(&table, &member->table_ops, member)) ||
        !(member->wave =
              boot_wave_create(member->self.rank, member->job->nranks, &wave_ops, member)))
        return -1;
    warn_of_public(member);
    if (member->job->nranks > 1)
        net_loop_set_pulse(member->loop, pulse_of(member), stood_still, member);
    return modules_start(member);
}

/* --- messages that are nobody's else --- */

static bool ping_received(struct member *member, const struct net_msg *msg, void **payload,
                          size_t len)
{
    struct net_msg pong = {.type = NET_MSG_PONG,
                           .id = msg->id,
                           .losses = dht_node_losses(member->dht, msg->source),
                           .lease_ns = member_lease(member)};

    (void)payload;
    (void)len;
    if (dht_node_is_tentative(member->dht))
        pong.flags |= NET_PONG_UNSURE;
    if (!dht_node_is_live(member->dht, msg->source))
        pong.flags |= NET_PONG_UNKNOWN;
    member_send(member, msg->source, &pong);
    return true;
}

static bool wave_received(struct member *member, const struct net_msg *msg, void **payload,
                          size_t len)
{
    (void)payload;
    (void)len;
    boot_wave_receive(member->wave, msg);
    return true;
}

/* Tell PMIx which ranks are there: an address that a server has kept may be a dead
 * rank's. */
static void links_void_promises(struct member *member)
{
    for (uint32_t r = 0;
         member->pmix && member->worker && member->dht && r < member->job->nranks; r++) {
        uint64_t heard_at = net_worker_heard_at(member->worker, r);
        boot_pmix_there(
            member->pmix, r,
            heard_at && dht_node_is_live(member->dht, r) ? BOOT_PMIX_THERE : heard_at);
    }
}

const struct member_module links_module = {
    .sized = links_open,
    .messages =
        (const struct member_message[]){
            {NET_MSG_PING, ping_received},
            {NET_MSG_WAVE, wave_received},
            {0},
        },
    .void_promises = links_void_promises,
};
