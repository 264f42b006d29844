/*
 * fake_links.c - see fake_links.h
 */
#include "fake_links.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "boot/fdtable.h"
#include "engine/core/module.h"
#include "engine/membership/exit_barrier.h"
#include "engine/membership/nested.h"
#include "engine/membership/servers.h"
#include "engine/membership/session_member.h"
#include "engine/membership/unreachable.h"
#include "net/devices.h"
#include "net/door.h"
#include "util/log.h"

/* Much of what follows looks at none of its arguments. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

struct links_rank links_rank[LINKS_RANKS_MAX];
enum dht_partition links_partition;
unsigned links_nlasts;

static struct member_run run;
struct member *const links_member = &run.member;
static const struct net_worker_ops *ops;
static bool live[LINKS_RANKS_MAX];
static uint32_t node_of[LINKS_RANKS_MAX] = {0, 1, 2, 3, 4, 5, 6, 7};
static struct boot_pmix_job job = {.node = node_of};
static struct engine_config config = {.join_timeout = LINKS_JOIN,
                                      .peer_timeout = LINKS_PEER};

/* --- time --- */

static net_loop_still_fn still_fn;
static void *still_arg;

void net_loop_set_pulse(struct net_loop *loop, uint64_t period, net_loop_still_fn fn,
                        void *arg)
{
    still_fn = fn;
    still_arg = arg;
}

void links_stood_still(double seconds)
{
    still_fn(still_arg, seconds_ns(seconds));
}

void links_turn(double seconds)
{
    fake_clock_pass(seconds_ns(seconds) + 1);
}

/* --- the worker --- */

struct net_worker *net_worker_create(struct net_loop *loop, struct net_peer *self,
                                     uint32_t nranks, const struct net_worker_ops *o,
                                     void *arg)
{
    assert_ptr_equal(arg, links_member);
    ops = o;
    return (struct net_worker *)&run; /* not NULL; never looked into */
}

bool links_local;
const char *links_devices;
void net_worker_use_devices(const char *chosen, bool local)
{
    links_devices = chosen;
    links_local = local;
}

int net_worker_send(struct net_worker *worker, uint32_t rank, struct net_msg *msg,
                    const void *payload, size_t payload_len, net_send_fn fn, void *arg)
{
    links_rank[rank].pings += msg->type == NET_MSG_PING;
    return 0;
}

void net_worker_peer_down(struct net_worker *worker, uint32_t rank, int error)
{
    links_rank[rank].downs++;
}

int net_worker_probe(struct net_worker *worker, uint32_t rank)
{
    links_rank[rank].probes++;
    return 0;
}

const struct net_peer *net_worker_peer(struct net_worker *worker, uint32_t rank)
{
    return links_rank[rank].known ? &links_rank[rank].peer : NULL;
}

uint64_t net_worker_heard_at(struct net_worker *worker, uint32_t rank)
{
    return links_rank[rank].heard;
}

void links_found(uint32_t rank)
{
    links_rank[rank].known = true;
    links_rank[rank].peer.rank = rank;
    ops->peer_up(links_member, &links_rank[rank].peer);
}

void links_up(uint32_t rank)
{
    links_rank[rank].heard = ++fake_now;
    links_found(rank);
}

void links_down(uint32_t rank)
{
    fake_now++;
    ops->peer_down(links_member, rank, ECONNRESET);
}

void links_leave(uint32_t rank)
{
    live[rank] = false;
    unreachable_forget(links_member, rank);
}

void links_pong(uint32_t rank)
{
    struct net_msg msg = {.type = NET_MSG_PONG, .source = rank};

    links_rank[rank].heard = ++fake_now;
    ops->receive(links_member, &msg, NULL, 0);
}

/* --- the table --- */

struct dht_node *dht_node_create(const struct dht_node_config *c,
                                 const struct dht_node_ops *o, void *arg)
{
    return (struct dht_node *)&run; /* not NULL; never looked into */
}

bool dht_node_is_live(const struct dht_node *node, uint32_t rank)
{
    return live[rank];
}

void dht_node_set_live(struct dht_node *node, uint32_t rank, bool is)
{
    live[rank] = is;
}

void dht_node_set_partition(struct dht_node *node, enum dht_partition side)
{
    links_partition = side;
}

void dht_node_partition_lasts(struct dht_node *node)
{
    assert_int_equal(links_partition, DHT_PARTITION_MAJORITY);
    links_nlasts++;
}

void dht_node_set_missing(struct dht_node *node, uint32_t rank, enum dht_missing missing)
{
    links_rank[rank].missing = missing;
}

bool dht_node_receive(struct dht_node *node, const struct net_msg *msg)
{
    return false;
}

void dht_node_stood_still(struct dht_node *node, uint64_t ns)
{
}

void dht_node_set_unsynced(struct dht_node *node, uint32_t rank, bool unsynced)
{
    assert_true(unsynced);
    links_rank[rank].asked++;
}

uint32_t dht_node_losses(const struct dht_node *node, uint32_t rank)
{
    return 0;
}

bool dht_node_is_tentative(const struct dht_node *node)
{
    return false;
}

void dht_node_joined(struct dht_node *node)
{
}

void dht_node_tick(struct dht_node *node)
{
}

/* --- the rest of a member, which has nothing to do --- */

struct boot_wave *boot_wave_create(uint32_t self, uint32_t nranks,
                                   const struct boot_wave_ops *o, void *arg)
{
    return (struct boot_wave *)&run; /* not NULL; never looked into */
}

bool boot_wave_missing(const struct boot_wave *wave)
{
    return false;
}

void boot_wave_receive(struct boot_wave *wave, const struct net_msg *msg)
{
}

void boot_wave_rank_changed(struct boot_wave *wave, uint32_t rank)
{
}

void boot_pmix_there(struct boot_pmix *pmix, uint32_t rank, uint64_t heard_at)
{
    links_rank[rank].there = heard_at == BOOT_PMIX_THERE;
}

int boot_pmix_get(struct boot_pmix *pmix, uint32_t rank, enum boot_pmix_wanted wanted)
{
    links_rank[rank].wanted = wanted;
    links_rank[rank].gets++;
    return 0;
}

void net_loop_post(struct net_loop *loop, struct net_post *node, net_loop_fn fn, void *arg)
{
}

void member_session_get(struct member *member, uint32_t slot)
{
}

bool member_session_peer_down(struct member *member, uint32_t slot)
{
    return false;
}

void member_session_peer_up(struct member *member, const struct net_peer *peer)
{
}

void exit_barrier_nobody_left(struct member *member)
{
    (void)member;
}

bool exit_barrier_may_leave(const struct member *member)
{
    return false;
}

bool nested_is_inner(struct member *member)
{
    return false;
}

void net_loop_stop(struct net_loop *loop)
{
}

bool servers_is_one(struct member *member, uint32_t rank)
{
    return false;
}

void boot_fdtable_drop(int fd)
{
}

/* --- the member --- */

extern const struct member_module links_module, unreachable_module, partition_module;

static const struct member_module *const modules[] = {&links_module, &unreachable_module,
                                                      &partition_module, NULL};

static bool server_is_local;

bool boot_pmix_server_is_local(void)
{
    return server_is_local;
}

int net_devices_public(const char *devices, const char *transports,
                       struct net_device_address *found, int max)
{
    return 0;
}

enum net_devices_there net_devices_look(const char *devices, char *missing, size_t size,
                                        char *there, size_t there_size)
{
    return NET_DEVICES_ALL;
}

static void begin(uint32_t nranks, uint32_t nnodes, bool pmix)
{
    assert_true(nranks <= LINKS_RANKS_MAX);
    memset(&run, 0, sizeof(run));
    memset(links_rank, 0, sizeof(links_rank));
    memset(live, 1, sizeof(live)); /* as long as nothing else is known */
    job.nranks = nranks;
    job.nnodes = nnodes;
    links_member->job = &job;
    links_member->config = &config;
    links_member->pmix =
        pmix ? (struct boot_pmix *)links_member : NULL; /* never looked into */
    assert_int_equal(modules_create(links_member, modules), 0);
    links_member->modules = modules;
    links_member->state = MEMBER_JOINED;
    fake_clock_begin(UTIL_NSEC_PER_SEC);
    links_nlasts = 0;
    links_partition = DHT_PARTITION_MAJORITY;
    assert_int_equal(modules_sized(links_member), 0);
}

void links_begin(uint32_t nranks)
{
    server_is_local = false;
    config.session_dir = config.net_devices = NULL;
    begin(nranks, nranks, false);
}

void links_begin_one_node(const char *session_dir, const char *devices, bool local)
{
    server_is_local = local;
    config.session_dir = session_dir;
    config.net_devices = devices;
    begin(2, 1, true);
}

void links_end(void)
{
    modules_destroy(links_member);
    modules_free(links_member);
    net_timer_destroy(links_member->dht_timer);
    fake_clock_end();
}

void net_door_leave_open(void)
{
}

uint64_t net_worker_declined_at(struct net_worker *worker, uint32_t rank)
{
    (void)worker;
    return links_rank[rank].declined;
}
