/*
 * test_consume_wave.c - a wave of the barrier meets a wait whose answer is just coming
 *
 * Real: the consume, the wave of rank 1 of 2, the loop, the directory. The table, the
 * transfer and rank 0 are played by the test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "boot/procs.h"
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
#include "unit/store/scratch.h"

#define QUIET BOOT_WAVE_QUIET

struct dht_lookup {
    bool waits; /* else it is a wave's */
    uint64_t newer_than;
    dht_lookup_fn fn;
    void *arg;
};

struct fixture {
    struct member member;
    struct engine_config config;
    struct scratch *scratch;
    struct consume *consume;
    uint64_t activity;
    unsigned answers;        /* of this rank to CONFIRM */
    uint32_t answer, report; /* state in the last of each */
    int status;              /* of the consume; -1: it goes on */
    bool live, returns;      /* its owner: is there, may yet be */
    bool server;             /* one is on its owner's node */
    consume_fn above;        /* of the directories above, if `is_below` */
    void *above_arg;
    bool is_below;
};

static struct fixture *f;
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
                                  .newer_than = newer_than ? newer_than->counter : 0,
                                  .fn = fn,
                                  .arg = arg};
    return lookups[i] = lookup;
}

static struct dht_lookup *take(bool waits, const struct dht_lookup *which)
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
    assert_non_null(take(false, lookup));
    free(lookup);
}

/* Version 1 of it is published. In our storage, where it cannot be seen yet. */
static void answer(bool waits)
{
    struct dht_lookup *lookup = take(waits, NULL);
    struct dyad_entry entry = {.upath = "f", .version.counter = 1, .mode = S_IFREG | 0644};

    assert_non_null(lookup);
    memcpy(entry.storage, store_dir_id(f->scratch->dir), sizeof(entry.storage));
    lookup->fn(lookup->arg, 0, &entry);
    free(lookup);
}

/* --- what else a consume needs, and does not here --- */

uint32_t dht_lookup_home(const struct dht_lookup *lookup)
{
    (void)lookup;
    return 0;
}

struct dht_settle *dht_node_settle(struct dht_node *node, const char *upath, bool wait,
                                   dht_settle_fn fn, void *arg)
{
    static char settle;

    (void)node;
    (void)upath;
    (void)wait;
    (void)fn;
    (void)arg;
    return (struct dht_settle *)(void *)&settle; /* no answer comes */
}

void dht_node_settle_cancel(struct dht_node *node, struct dht_settle *settle)
{
    (void)node;
    (void)settle;
}

uint32_t dht_settle_writer(const struct dht_settle *settle)
{
    (void)settle;
    return DYAD_RANK_NONE;
}

int ancestor_start(struct member *member, const char *upath, uint8_t flags, consume_fn fn,
                   void *arg, struct ancestor **ancestor)
{
    (void)member;
    (void)upath;
    (void)flags;
    static char made;

    if (!f->is_below)
        return ENOENT;
    f->above = fn;
    f->above_arg = arg;
    *ancestor = (struct ancestor *)(void *)&made;
    return 0;
}

void ancestor_stop(struct ancestor *ancestor)
{
    (void)ancestor;
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
                                          consume_probe_fn fn, void *arg)
{
    (void)member;
    (void)upath;
    (void)fn;
    (void)arg;
    return NULL; /* nothing is expected */
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

void consume_failed_stop(struct member *member)
{
    (void)member;
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
    (void)wait;
    fail_msg("nothing is fetched in one storage");
    return -1;
}

bool local_file_is_superseded(const struct member_dmd *dmd, const char *upath,
                              const struct stat *st)
{
    (void)dmd;
    (void)upath;
    (void)st;
    return false;
}

void transfer_leave(struct transfer_wait *wait)
{
    (void)wait;
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
    return f->server;
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
    return f->returns;
}

bool dht_node_is_live(const struct dht_node *node, uint32_t rank)
{
    (void)node;
    (void)rank;
    return f->live;
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

/* As exit_barrier.c, without its look at /proc: that is the test's to take, look(). */
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
    boot_wave_set(member->wave, 0, ++f->activity);
}

static void look(void)
{
    struct boot_blocked blocked;

    boot_wave_set(f->member.wave, consume_blocked(&f->member, &blocked, 1) == 1 ? QUIET : 0,
                  ++f->activity);
}

static int wave_send(void *arg, uint32_t rank, struct net_msg *msg)
{
    (void)arg;
    assert_int_equal(rank, 0);
    if (msg->wave.state >> 8 == 3) { /* ANSWER */
        f->answers++;
        f->answer = msg->wave.state & QUIET;
    } else {
        f->report = msg->wave.state & QUIET;
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

/* Rank 0 asks whether this rank is quiet still. */
static void ask(uint64_t number)
{
    struct net_msg msg = {.type = NET_MSG_WAVE, .source = 0};

    msg.wave.number = number;
    msg.wave.state = 2 << 8; /* CONFIRM */
    boot_wave_receive(f->member.wave, &msg);
}

/* --- */

static void consumed(void *arg, int status)
{
    (void)arg;
    f->status = status;
}

static void stop(void *arg)
{
    net_loop_stop(arg);
}

static int set_up(void **state)
{
    struct member_dmd *dmd;
    struct net_post post;
    void *scratch;

    if (!(f = calloc(1, sizeof(*f))) || scratch_setup(&scratch) < 0)
        return -1;
    f->scratch = scratch;
    store_dir_set_shared(f->scratch->dir, true);
    f->config.join_timeout = 60;
    f->config.shared_storage = -1;
    f->member.config = &f->config;
    dmd = &f->member.dmd[ENGINE_CONSUMER];
    dmd->dir = f->scratch->dir;
    f->status = -1;
    *state = f;
    if (!(dmd->marks = store_marks_create(dmd->dir)) ||
        !(f->member.loop = net_loop_create()) ||
        !(f->member.wave = boot_wave_create(1, 2, &wave_ops, &f->member)))
        return -1;
    f->consume =
        consume_start(&f->member, "f", NET_LOOKUP_WAIT, 0, getpid(), getpid(), consumed, f);
    if (!f->consume)
        return -1;
    net_loop_post(f->member.loop, &post, stop, f->member.loop); /* behind its first step */
    return net_loop_run(f->member.loop);
}

static int tear_down(void **state)
{
    (void)state;
    consume_stop(&f->member);
    boot_wave_destroy(f->member.wave);
    net_loop_destroy(f->member.loop);
    store_marks_destroy(f->member.dmd[ENGINE_CONSUMER].marks);
    scratch_teardown((void **)&f->scratch);
    free(f);
    return 0;
}

static void test_quiet(void **state)
{
    (void)state;
    look();
    assert_int_equal(f->report, QUIET);
    ask(1);
    assert_int_equal(f->answers, 0); /* not before the table has said so */
    struct dht_lookup *check = take(false, NULL);
    assert_non_null(check);
    check->fn(check->arg, ENOENT, NULL);
    free(check);
    assert_int_equal(f->answers, 1);
    assert_int_equal(f->answer, QUIET);
    assert_int_equal(f->status, -1);
}

/* The wave's own look-up is the one that finds it: the wave is answered with that, and not
 * left to be repeated. */
static void test_found_by_the_wave(void **state)
{
    (void)state;
    look();
    ask(1);
    answer(false);
    assert_int_equal(f->answers, 1);
    assert_int_equal(f->answer, 0);
    assert_int_equal(f->status, -1); /* until it is seen */
}

/* It was told of the publish, and waits for the file to be seen: nobody may be told that
 * this rank's processes will do nothing any more. */
static void test_published_but_not_seen(void **state)
{
    (void)state;
    look();
    assert_int_equal(f->report, QUIET);
    answer(true);
    assert_int_equal(f->report, 0);
    ask(1);
    assert_int_equal(f->answers, 1);
    assert_int_equal(f->answer, 0);
}

/* The same where others may join, and so an owner that is gone is waited for without end:
 * this is not such a wait. */
static void test_not_seen_in_a_session(void **state)
{
    struct boot_blocked blocked;

    (void)state;
    f->member.ring = (void *)f;
    look();
    assert_int_equal(f->report, QUIET);
    answer(true);
    assert_int_equal(consume_blocked(&f->member, &blocked, 1), 0);
    consume_say_waiting(&f->member); /* nobody is told that nobody has published it */
    assert_false(f->consume->say.alone);
    consume_fail_waiting(&f->member, false); /* nor does it end when the launcher is gone */
    assert_null(take(false, NULL));
    assert_int_equal(f->status, -1);
    f->member.ring = NULL;
}

/* Its timer. */
static void look_again(void)
{
    struct net_timer *end = net_timer_create(f->member.loop, stop, f->member.loop);

    assert_non_null(end);
    net_timer_start(f->consume->again, 1);
    net_timer_start(end, 2);
    assert_int_equal(net_loop_run(f->member.loop), 0);
    net_timer_destroy(end);
}

/* How long it was not seen counts from that time, not from one before it was there. */
static void test_seen_and_gone(void **state)
{
    int fd;

    (void)state;
    answer(true);
    assert_true(f->consume->unseen_since > 0);
    assert_true((fd = store_dir_open(f->scratch->dir, "f", O_CREAT | O_WRONLY, 0600)) >= 0);
    close(fd);
    look_again();
    assert_non_null(f->consume->settle); /* it is seen; does anybody write it? */
    assert_int_equal(f->consume->unseen_since, 0);
    assert_false(consume_is_waiting(f->consume));
}

/* In a session: version 1 of it was found, and `first` has gone. A wave asks, and the table
 * says that it is `then`'s. */
static void lose(uint32_t first, uint32_t then)
{
    struct dyad_entry entry = {
        .upath = "f", .version.counter = 1, .mode = S_IFREG | 0644, .owner = then};
    struct consume *c = f->consume;
    struct dht_lookup *lookup = take(true, NULL);

    f->member.ring = (void *)f;
    assert_ptr_equal(lookup, c->lookup);
    free(lookup);
    c->lookup = NULL;
    c->seen.counter = 1;
    c->entry.owner = DYAD_RANK_NONE;
    consume_enter(c, CONSUME_OWNER);
    consume_owner_lost(c, first);
    look();
    assert_int_equal(f->report, QUIET);
    ask(1);
    lookup = take(false, NULL);
    assert_non_null(lookup);
    assert_int_equal(lookup->newer_than, 0); /* or this version would be none */
    memcpy(entry.storage, store_dir_id(f->scratch->dir), sizeof(entry.storage));
    lookup->fn(lookup->arg, 0, &entry);
    free(lookup);
    f->member.ring = NULL;
    assert_int_equal(f->answers, 1);
    assert_int_equal(f->status, -1);
}

/* Nobody has it any more: who comes to its node will. */
static void test_owner_gone(void **state)
{
    (void)state;
    lose(7, 7);
    assert_int_equal(f->answer, QUIET);
    assert_int_equal(f->consume->state, CONSUME_OWNER);
}

/* Somebody has taken it over, and may be at his exit: he must not leave. */
static void test_owner_followed(void **state)
{
    (void)state;
    f->live = true;
    lose(7, 8);
    assert_int_equal(f->answer, 0);
    assert_int_equal(f->consume->state, CONSUME_SIGHT); /* it goes on by itself */
    assert_int_equal(f->consume->entry.owner, 8);
}

/* Who had taken it over is gone, too: or two homes that name two dead owners would keep all
 * from leaving. */
static void test_heir_gone(void **state)
{
    (void)state;
    lose(7, 8);
    assert_int_equal(f->answer, QUIET);
    assert_int_equal(f->consume->state, CONSUME_OWNER);
}

/* It must not if the owner is back from exec, or may be on its way. */
static void test_owner_back(void **state)
{
    (void)state;
    f->live = true;
    lose(7, 7);
    assert_int_equal(f->answer, 0);
}

static void test_owner_in_exec(void **state)
{
    (void)state;
    f->returns = true;
    lose(7, 7);
    assert_int_equal(f->answer, 0);
}

/* A server is about to take it over: nobody may leave for this wait, as long as that may
 * take. */
static void test_server_takes_over(void **state)
{
    struct consume *c = f->consume;
    struct dht_lookup *lookup = take(true, NULL);
    unsigned looks = 0;

    (void)state;
    free(lookup);
    c->lookup = NULL;
    c->entry.owner = 7;
    f->member.ring = (void *)f;
    f->server = true;
    consume_enter(c, CONSUME_OWNER);
    consume_owner_lost(c, 7);
    while (!consume_is_waiting(c)) {
        assert_int_equal(c->state, CONSUME_OWNER);
        assert_true(++looks < 10);
        consume_owner_lost(c, 7); /* looked up again: it is his still */
    }
    assert_true(looks > 3);
    f->member.ring = NULL;
}

/* Nobody is left: it ends after one more look that does not wait. */
static void test_last_look(void **state)
{
    struct dht_lookup *last;

    (void)state;
    consume_fail_waiting(&f->member, false);
    assert_null(take(true, NULL));
    assert_int_equal(f->consume->state, CONSUME_LAST_LOOK);
    assert_true(consume_is_failing(&f->member));
    last = f->consume->lookup;
    consume_fail_waiting(&f->member, false); /* told again: that look goes on */
    assert_ptr_equal(f->consume->lookup, last);
    assert_ptr_equal(take(false, NULL), last);
    last->fn(last->arg, ENOENT, NULL);
    free(last);
    assert_int_equal(f->status, ENOENT);
    assert_null(f->member.consumes);
}

/* ... which may find it. */
static void test_last_look_finds(void **state)
{
    (void)state;
    consume_fail_waiting(&f->member, false);
    answer(false);
    assert_int_equal(f->status, -1);
    assert_int_equal(f->consume->state, CONSUME_SIGHT);
    assert_false(consume_is_failing(&f->member));
}

static struct consume *start(const char *upath)
{
    struct consume *c = consume_start(&f->member, upath, NET_LOOKUP_WAIT, 0, getpid(),
                                      getpid(), consumed, f);

    assert_non_null(c);
    return c;
}

static void run_posts(void)
{
    struct net_post post;

    net_loop_post(f->member.loop, &post, stop, f->member.loop);
    assert_int_equal(net_loop_run(f->member.loop), 0);
}

/* The loop has its node: what becomes of it then is told when that has come, or is not. */
static void test_over_at_once(void **state)
{
    struct consume *c = start("g");

    (void)state;
    consume_end(c, ETIMEDOUT);
    assert_int_equal(c->state, CONSUME_OVER);
    assert_int_equal(f->status, -1);
    consume_cancel(start("h"));
    run_posts();
    assert_int_equal(f->status, ETIMEDOUT);
    assert_ptr_equal(f->member.consumes, f->consume);
    assert_null(f->consume->next);
}

/* A link is above it: that is brought, and the wait is none for a publish any more. The end
 * of the member may come then. */
static void test_link_above(void **state)
{
    struct consume *c;

    (void)state;
    f->is_below = true;
    c = start("d/f");
    run_posts();
    assert_int_equal(c->state, CONSUME_LOOK_UP);
    assert_non_null(f->above);
    f->above(f->above_arg, EINPROGRESS);
    assert_int_equal(c->state, CONSUME_LINK);
    assert_null(c->lookup);
    assert_false(consume_is_waiting(c));
    run_posts();
    assert_int_equal(c->link->state, CONSUME_LOOK_UP);
    consume_stop(&f->member); /* it stands before its link in the list */
    assert_null(f->member.consumes);
    assert_int_equal(f->status, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_quiet, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_found_by_the_wave, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_published_but_not_seen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_not_seen_in_a_session, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_seen_and_gone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_owner_gone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_owner_followed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_heir_gone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_owner_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_owner_in_exec, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_server_takes_over, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_last_look, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_last_look_finds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_over_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_link_above, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
