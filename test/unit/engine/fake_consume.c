/*
 * fake_consume.c - a wait for a file of this node's rank 1 of 2, without a network
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "boot/procs.h"
#include "engine/core/completion.h"
#include "engine/core/local_file.h"
#include "engine/core/member_impl.h"
#include "engine/fetch/ancestors.h"
#include "engine/fetch/bring.h"
#include "engine/fetch/consume.h"
#include "engine/fetch/consume_impl.h"
#include "engine/fetch/consume_probe.h"
#include "engine/fetch/transfer.h"
#include "engine/membership/exit_barrier.h"
#include "engine/membership/servers.h"
#include "engine/membership/unreachable.h"
#include "engine/publish/produce.h"
#include "engine/publish/shared_storage.h"
#include "engine/recovery/takeover.h"
#include "store/superseded.h"
#include "fake_consume.h"

struct fake_consume *fake;
static struct dht_lookup *lookups[4];

/* --- the table --- */

struct dht_lookup *dht_node_lookup(struct dht_node *node, const char *upath, uint8_t flags,
                                   const struct dyad_version *newer_than, dht_lookup_fn fn,
                                   void *arg)
{
    struct dht_lookup *lookup = calloc(1, sizeof(*lookup));
    size_t i = 0;

    (void)node;
    (void)upath;
    while (lookups[i])
        i++;
    assert_true(i < 4);
    *lookup = (struct dht_lookup){.waits = flags & NET_LOOKUP_WAIT,
                                  .copies = flags & NET_LOOKUP_COPY,
                                  .newer_than = newer_than ? newer_than->counter : 0,
                                  .fn = fn,
                                  .arg = arg};
    return lookups[i] = lookup;
}

struct dht_lookup *fake_take(bool waits, const struct dht_lookup *which)
{
    for (size_t i = 0; i < 4; i++) {
        struct dht_lookup *lookup = lookups[i];
        if (lookup && (which ? lookup == which : lookup->waits == waits)) {
            lookups[i] = NULL;
            return lookup;
        }
    }
    return NULL;
}

void *dht_lookup_take_bytes(struct dht_lookup *lookup)
{
    (void)lookup;
    return NULL;
}

uint32_t dht_node_neighbour(const struct dht_node *node, uint32_t rank, uint32_t last)
{
    (void)node;
    (void)rank;
    (void)last;
    return DYAD_RANK_NONE;
}

void dht_node_cancel(struct dht_node *node, struct dht_lookup *lookup)
{
    (void)node;
    assert_non_null(fake_take(false, lookup));
    free(lookup);
}

void fake_answer_with(bool waits, int status, const struct dyad_entry *entry)
{
    struct dht_lookup *lookup = fake_take(waits, NULL);

    assert_non_null(lookup);
    assert_true(status != 0 || lookup->copies); /* what is found is fetched */
    lookup->fn(lookup->arg, status, entry);
    free(lookup);
}

struct dyad_entry fake_entry(uint64_t counter, uint32_t owner)
{
    return (struct dyad_entry){.upath = "f",
                               .version.counter = counter,
                               .owner = owner,
                               .mode = S_IFREG | 0644,
                               .storage = {0xff}};
}

void fake_answer(bool waits)
{
    struct dyad_entry entry = fake_entry(1, 0);

    memcpy(entry.storage, store_dir_id(fake->scratch->dir), sizeof(entry.storage));
    fake_answer_with(waits, 0, &entry);
}

/* --- what else a consume needs, and does not here --- */

uint32_t dht_lookup_home(const struct dht_lookup *lookup)
{
    (void)lookup;
    return 0;
}

struct dht_writing_ask *dht_node_ask_writers(struct dht_node *node, const char *upath,
                                             bool wait, dht_writing_ask_fn fn, void *arg)
{
    static char ask_writers;

    (void)node;
    (void)upath;
    fake->writers_wait = wait;
    fake->ask_writers = fn;
    fake->writers_arg = arg;
    return (struct dht_writing_ask *)(void *)&ask_writers;
}

void dht_node_ask_writers_cancel(struct dht_node *node, struct dht_writing_ask *ask_writers)
{
    (void)node;
    (void)ask_writers;
    fake->ask_writers = NULL;
}

uint32_t dht_writing_ask_writer(const struct dht_writing_ask *ask_writers)
{
    (void)ask_writers;
    return DYAD_RANK_NONE;
}

int ancestor_start(struct member *member, const char *upath, uint8_t flags, consume_fn fn,
                   void *arg, struct ancestor **ancestor)
{
    (void)member;
    (void)upath;
    (void)flags;
    static char made;

    if (!fake->is_below)
        return ENOENT;
    fake->above = fn;
    fake->above_arg = arg;
    *ancestor = (struct ancestor *)(void *)&made;
    return 0;
}

void ancestor_stop(struct ancestor *ancestor)
{
    (void)ancestor;
    fake->above = NULL;
}

const char *ancestor_upath(const struct ancestor *ancestor)
{
    (void)ancestor;
    return "d";
}

void ancestor_check(struct ancestor *ancestor)
{
    (void)ancestor;
}

struct consume_probe *consume_probe_start(struct member *member, const char *upath,
                                          pid_t pid, consume_probe_fn fn, void *arg)
{
    (void)member;
    (void)upath;
    (void)pid;
    (void)fn;
    (void)arg;
    return NULL; /* nothing is expected */
}

bool completion_holds(const struct member *member, const char *upath)
{
    (void)member;
    (void)upath;
    return false;
}

bool consume_failed_like(const struct member *m, const char *name)
{
    (void)m;
    (void)name;
    return false;
}

void consume_failed_note(struct member *member, const char *upath)
{
    (void)member;
    (void)upath;
}

void consume_probe_cancel(struct consume_probe *probe)
{
    (void)probe;
    fail_msg("none was started");
}

struct bring *bring_start(struct member *member, const char *upath, bool parents, pid_t pid,
                          consume_fn fn, void *arg)
{
    (void)member;
    (void)upath;
    (void)parents;
    (void)pid;
    (void)fn;
    (void)arg;
    return NULL;
}

void bring_cancel(struct bring *bring)
{
    (void)bring;
}

bool bring_parent_here(struct member *member, const char *upath)
{
    (void)member;
    (void)upath;
    return true;
}

int transfer_start(struct member *member, const struct dyad_entry *entry,
                   struct transfer_wait *wait)
{
    (void)member;
    (void)entry;
    fake->transfer = wait;
    return 0;
}

bool local_file_is_pending(const struct member_dmd *dmd, const char *upath,
                           const struct stat *st)
{
    return store_superseded(store_dir_real_path(dmd->dir), dmd->session, upath,
                            STORE_PENDING, st->st_ino);
}

void local_file_set_pending(const struct member_dmd *dmd, const char *upath,
                            const struct store_identity *identity)
{
    store_superseded_set(dmd->dir, dmd->session, upath, STORE_PENDING, identity);
}

bool local_file_is_unsettled(const struct member_dmd *dmd, const char *upath,
                             const struct stat *st)
{
    return store_superseded(store_dir_real_path(dmd->dir), dmd->session, upath,
                            STORE_UNSETTLED, st->st_ino);
}

bool local_file_is_superseded(const struct member_dmd *dmd, const char *upath,
                              const struct stat *st)
{
    (void)dmd;
    (void)upath;
    (void)st;
    return false;
}

void local_file_withdrawn(struct member_dmd *dmd, const char *upath)
{
    (void)dmd;
    (void)upath;
    fake->withdrawn++;
}

bool local_file_is_abandoned(struct member_dmd *dmd, const char *upath)
{
    (void)dmd;
    (void)upath;
    return false;
}

void transfer_leave(struct transfer_wait *wait)
{
    if (fake->transfer == wait)
        fake->transfer = NULL;
}

void unreachable_ask(struct member *member, uint32_t rank)
{
    (void)member;
    (void)rank;
}

bool servers_have(struct member *member, const uint8_t storage[DYAD_STORAGE_ID_LEN])
{
    (void)member;
    (void)storage;
    return fake->server;
}

uint64_t unreachable_since(const struct member *member, uint32_t rank)
{
    (void)member;
    (void)rank;
    return 0;
}

bool unreachable_may_return(const struct member *member, uint32_t rank)
{
    (void)member;
    (void)rank;
    return fake->returns;
}

bool dht_node_is_live(const struct dht_node *node, uint32_t rank)
{
    (void)node;
    (void)rank;
    return fake->live;
}

uint32_t unreachable_missing(const struct member *member, bool long_ago)
{
    (void)member;
    (void)long_ago;
    return DYAD_RANK_NONE;
}

const char *member_describe(struct member *member, uint32_t rank)
{
    (void)member;
    (void)rank;
    return "rank";
}

const char *member_node_name(struct member *member, uint32_t rank)
{
    (void)member;
    (void)rank;
    return "node";
}

enum member_end member_session_end(const struct member *member, uint32_t slot)
{
    (void)member;
    (void)slot;
    return MEMBER_NOT_ENDED;
}

const char *member_session_empty_nodes(struct member *member)
{
    (void)member;
    return "";
}

void member_find_again(struct member *member, uint32_t rank)
{
    (void)member;
    (void)rank;
}

const struct net_peer *net_worker_peer(struct net_worker *worker, uint32_t rank)
{
    (void)worker;
    (void)rank;
    return NULL;
}

int engine_io_spawn(struct engine_iopool *pool, struct engine_io *io, net_loop_fn work,
                    net_loop_fn done, void *arg)
{
    (void)pool;
    (void)io;
    (void)work;
    (void)done;
    (void)arg;
    return -1;
}

bool shared_storage(const struct member *member, enum engine_role role)
{
    (void)member;
    (void)role;
    return true;
}

/* --- the barrier --- */

/* As exit_barrier.c, without its look at /proc: that is the test's to take, fake_look(). */
int consume_writers_ask(struct consume *c,
                        void (*fn)(struct consume *c, const char *writer))
{
    (void)c;
    (void)fn;
    return -1;
}

void consume_writers_stop(struct consume *c)
{
    (void)c;
}

void exit_barrier_activity(struct member *member)
{
    boot_wave_set(member->wave, 0, ++fake->activity);
}

void fake_look(void)
{
    struct boot_blocked blocked;

    boot_wave_set(fake->member.wave,
                  consume_blocked(&fake->member, &blocked, 1) == 1 ? QUIET : 0,
                  ++fake->activity);
}

static int wave_send(void *arg, uint32_t rank, struct net_msg *msg)
{
    (void)arg;
    assert_int_equal(rank, 0);
    if (msg->wave.state >> 8 == 3) { /* ANSWER */
        fake->answers++;
        fake->answer = msg->wave.state & QUIET;
    } else {
        fake->report = msg->wave.state & QUIET;
    }
    return 0;
}

static bool wave_live(void *arg, uint32_t rank)
{
    (void)arg;
    (void)rank;
    return true;
}

static bool wave_confirm(void *arg, uint64_t number)
{
    return consume_confirm(arg, number);
}

static void wave_verdict(void *arg, enum boot_wave_verdict verdict)
{
    (void)arg;
    (void)verdict;
}

static const struct boot_wave_ops wave_ops = {
    .send = wave_send,
    .live = wave_live,
    .confirm = wave_confirm,
    .verdict = wave_verdict,
};

void fake_ask(uint64_t number)
{
    struct net_msg msg = {.type = NET_MSG_WAVE, .source = 0};

    msg.wave.number = number;
    msg.wave.state = 2 << 8; /* CONFIRM */
    boot_wave_receive(fake->member.wave, &msg);
}

/* --- */

static void consumed(void *arg, int status)
{
    (void)arg;
    fake->status = status;
}

static void stop(void *arg)
{
    net_loop_stop(arg);
}

/* Until what was due by then is done. */
static int run_until(uint64_t when)
{
    struct net_timer *end = net_timer_create(fake->member.loop, stop, fake->member.loop);
    int rc = -1;

    if (end) {
        net_timer_start(end, when);
        rc = net_loop_run(fake->member.loop);
    }
    net_timer_destroy(end);
    return rc;
}

void fake_run_until(uint64_t when)
{
    assert_int_equal(run_until(when), 0);
}

void fake_look_again(struct consume *c)
{
    net_timer_start(c->again, 1);
    fake_run_until(2);
}

void fake_run(void)
{
    fake_run_until(util_clock_now());
}

struct consume *fake_start(const char *upath, uint8_t flags, uint64_t timeout_ms)
{
    struct consume *c = consume_start(&fake->member, upath, flags, timeout_ms, getpid(),
                                      getpid(), consumed, NULL);

    assert_non_null(c);
    return c;
}

extern const struct member_module consume_said_module, consume_module, waits_module;
static const struct member_module *const modules[] = {&consume_said_module, &consume_module,
                                                      &waits_module, NULL};

int fake_set_up(void **state)
{
    struct member_dmd *dmd;
    uint32_t incarnation;
    void *scratch;

    if (!(fake = calloc(1, sizeof(*fake))) || scratch_setup(&scratch) < 0)
        return -1;
    fake->scratch = scratch;
    store_dir_set_shared(fake->scratch->dir, true);
    fake->config.join_timeout = 60;
    fake->config.shared_storage = -1;
    if (modules_create(&fake->member, modules) < 0)
        return -1;
    fake->member.modules = modules;
    fake->member.config = &fake->config;
    dmd = &fake->member.dmd[ENGINE_CONSUMER];
    dmd->dir = fake->scratch->dir;
    fake->status = -1;
    *state = fake;
    if (!(dmd->marks = store_marks_create(dmd->dir)) ||
        !(dmd->journal = store_journal_create(dmd->dir, "1", &incarnation)) ||
        !(fake->member.loop = net_loop_create()) ||
        !(fake->member.wave = boot_wave_create(1, 2, &wave_ops, &fake->member)))
        return -1;
    fake->consume = consume_start(&fake->member, "f", NET_LOOKUP_WAIT, 0, getpid(),
                                  getpid(), consumed, NULL);
    if (!fake->consume)
        return -1;
    return run_until(util_clock_now()); /* its first step */
}

int fake_tear_down(void **state)
{
    (void)state;
    modules_destroy(&fake->member);
    modules_free(&fake->member);
    boot_wave_destroy(fake->member.wave);
    net_loop_destroy(fake->member.loop);
    store_journal_destroy(fake->member.dmd[ENGINE_CONSUMER].journal);
    store_marks_destroy(fake->member.dmd[ENGINE_CONSUMER].marks);
    scratch_teardown((void **)&fake->scratch);
    free(fake);
    return 0;
}
