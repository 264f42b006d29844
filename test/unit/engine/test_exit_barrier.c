/*
 * test_exit_barrier.c - /proc is asked when nothing has changed for a while, and the
 * barrier hears of each change at once
 *
 * exit_barrier.c alone: the rank's processes, its waits and the barrier are played by the
 * test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "boot/procs.h"
#include "boot/wave.h"
#include "engine/core/member.h"
#include "engine/core/module.h"
#include "engine/membership/exit_barrier.h"
#include "engine/membership/nested.h"
#include "engine/membership/servers.h"
#include "engine/membership/unreachable.h"
#include "fake_clock.h"

#define USEC (UTIL_NSEC_PER_MSEC / 1000)
#define MSEC UTIL_NSEC_PER_MSEC
#define SEC  UTIL_NSEC_PER_SEC

extern const struct member_module exit_barrier_module;
static const struct member_module *const modules[] = {&exit_barrier_module, NULL};

static struct member member_made;
static struct member *const member = &member_made;
static const struct boot_identity identity_made = {.solo = true};
static struct boot_wave *const wave = (struct boot_wave *)&member_made;
static size_t nwaiting;
static bool quiet;      /* what /proc says */
static unsigned nwalks; /* how often it was asked */
static unsigned nkicks; /* how often the barrier was asked to begin anew */
static uint32_t told;   /* to the barrier, last */
static uint64_t counter;
static bool stopped, has_inner;
static net_loop_fn posted;
static void *posted_arg;

bool boot_procs_quiet(pid_t root, bool root_exiting, const struct boot_blocked *blocked,
                      size_t nblocked, const pid_t *ignore, size_t nignore)
{
    (void)root_exiting;
    (void)blocked;
    (void)ignore;
    (void)nignore;
    assert_int_equal(root, getpid());
    assert_int_equal(nblocked, nwaiting);
    nwalks++;
    return quiet;
}

size_t boot_procs_descendants(pid_t root, pid_t *pids, size_t max)
{
    (void)root;
    (void)pids;
    (void)max;
    return 0;
}

bool boot_procs_same_rank(pid_t pid, const struct boot_identity *identity)
{
    (void)pid;
    (void)identity;
    return false;
}

void boot_wave_set(struct boot_wave *w, uint32_t state, uint64_t activity)
{
    assert_ptr_equal(w, wave);
    assert_true(activity >= counter);
    told = state;
    counter = activity;
}

void boot_wave_kick(struct boot_wave *w)
{
    (void)w;
    nkicks++;
}

void boot_wave_neighbours(struct boot_wave *w, void (*fn)(void *arg, uint32_t rank),
                          void *arg)
{
    (void)w;
    (void)fn;
    (void)arg;
}

bool dht_node_is_live(const struct dht_node *node, uint32_t rank)
{
    (void)node;
    (void)rank;
    return true;
}

bool dht_node_owns(const struct dht_node *node)
{
    (void)node;
    return true;
}

const char *member_describe(struct member *m, uint32_t rank)
{
    (void)m;
    (void)rank;
    return "";
}

void member_stop(struct member *m)
{
    m->state = MEMBER_LEAVING;
    stopped = true;
}

const struct net_peer *net_worker_peer(struct net_worker *worker, uint32_t rank)
{
    (void)worker;
    (void)rank;
    return NULL;
}

void net_loop_post(struct net_loop *loop, struct net_post *post, net_loop_fn fn, void *arg)
{
    (void)loop;
    (void)post;
    posted = fn;
    posted_arg = arg;
}

struct net_watch *net_loop_watch(struct net_loop *loop, int fd, uint32_t events,
                                 net_watch_fn fn, void *arg)
{
    (void)loop;
    (void)fd;
    (void)events;
    (void)fn;
    (void)arg;
    return NULL;
}

void net_watch_destroy(struct net_watch *watch)
{
    (void)watch;
}

bool nested_is_served(struct member *m)
{
    (void)m;
    return false;
}

bool nested_has_started(const struct member *m)
{
    (void)m;
    return has_inner;
}

bool nested_has_inner(struct member *m)
{
    (void)m;
    return has_inner;
}

bool servers_serve_us(struct member *m)
{
    (void)m;
    return false;
}

bool servers_is_one(struct member *m, uint32_t rank)
{
    (void)m;
    (void)rank;
    return false;
}

void unreachable_suspect(struct member *m, uint32_t rank)
{
    (void)m;
    (void)rank;
}

uint32_t unreachable_missing(const struct member *m, bool long_ago)
{
    (void)m;
    (void)long_ago;
    return DYAD_RANK_NONE;
}

static size_t blocked(struct member *m, struct boot_blocked *to, size_t max)
{
    (void)m;
    assert_true(nwaiting <= max);
    for (size_t i = 0; i < nwaiting; i++)
        to[i] = (struct boot_blocked){1, 1};
    return nwaiting;
}

static bool all_blocked(struct member *m)
{
    (void)m;
    return true;
}

static const struct member_waits waits = {.blocked = blocked, .all_blocked = all_blocked};

static const struct engine_config *config(void)
{
    static struct engine_config made;

    made.linger = 1;
    made.join_timeout = 1;
    return &made;
}

static int setup(void **state)
{
    (void)state;
    memset(member, 0, sizeof(*member));
    member->config = config();
    member->identity = &identity_made;
    member->waits = &waits;
    member->wave = wave;
    member->modules = modules;
    member->state = MEMBER_JOINED;
    nwaiting = 1;
    member->consumes = (struct consume *)&member_made; /* not looked into */
    quiet = stopped = has_inner = false;
    nwalks = nkicks = 0;
    told = BOOT_WAVE_QUIET;
    counter = 0;
    posted = NULL;
    fake_clock_begin(1000 * SEC);
    assert_int_equal(modules_create(member, modules), 0);
    return exit_barrier_module.start(member);
}

static int teardown(void **state)
{
    (void)state;
    modules_destroy(member);
    modules_free(member);
    fake_clock_end();
    return 0;
}

static void turn(void)
{
    net_loop_fn fn = posted;

    posted = NULL;
    if (fn)
        fn(posted_arg);
}

/* A process of the rank is blocked, and others publish and fetch: each change is told when
 * it happens, and none is followed by a walk while another comes soon. */
static void test_changes(void **state)
{
    (void)state;
    quiet = true;
    for (int i = 0; i < 1000; i++) {
        uint64_t before = counter;
        told = BOOT_WAVE_QUIET;
        exit_barrier_activity(member);
        assert_int_equal(told, 0);
        assert_true(counter > before);
        turn();
        fake_clock_pass(500 * USEC);
    }
    assert_int_equal(nwalks, 0);
    fake_clock_pass(500 * USEC);
    assert_int_equal(nwalks, 1);
    assert_int_equal(told, BOOT_WAVE_QUIET);
}

/* As long as the rank's processes go on by themselves /proc is asked at ever longer pauses:
 * some ten times in the first second, then once a second. */
static void test_busy(void **state)
{
    (void)state;
    exit_barrier_activity(member);
    fake_clock_pass(SEC);
    assert_in_range(nwalks, 8, 12);
    nwalks = 0;
    fake_clock_pass(10 * SEC);
    assert_in_range(nwalks, 9, 11);
    assert_int_equal(told, 0);
    quiet = true;
    fake_clock_pass(SEC);
    assert_int_equal(told, BOOT_WAVE_QUIET);
}

/* A rank whose last wait was for a file that nobody makes is looked at sooner, until a look
 * finds it busy. */
static void test_probes(void **state)
{
    (void)state;
    exit_barrier_nobody_left(member);
    for (int i = 0; i < 10; i++) {
        quiet = true;
        exit_barrier_activity(member);
        fake_clock_pass(100 * USEC);
        assert_int_equal(told, BOOT_WAVE_QUIET);
    }
    quiet = false;
    exit_barrier_activity(member);
    fake_clock_pass(MSEC);
    nwalks = 0;
    exit_barrier_activity(member);
    fake_clock_pass(900 * USEC);
    assert_int_equal(nwalks, 0);
    fake_clock_pass(200 * USEC);
    assert_int_equal(nwalks, 1);
}

/* The barrier is asked to begin anew, and its neighbours whether they live, when nothing
 * has changed for five looks of a second each: not because much has changed before. */
static void test_kicks(void **state)
{
    (void)state;
    quiet = true;
    for (int i = 0; i < 20; i++) {
        exit_barrier_activity(member);
        fake_clock_pass(2 * MSEC);
    }
    fake_clock_pass(3 * SEC);
    assert_int_equal(nkicks, 0);
    fake_clock_pass(2 * SEC);
    assert_int_equal(nkicks, 1);
}

/* Where nothing waits for a publish /proc has nothing to say. */
static void test_nothing_waits(void **state)
{
    (void)state;
    exit_barrier_activity(member); /* the wait ends before its look */
    nwaiting = 0;
    member->consumes = NULL;
    exit_barrier_activity(member);
    assert_int_equal(fake_clock_next(), 0); /* not even to find that out */
    fake_clock_pass(10 * SEC);
    assert_int_equal(nwalks, 0);
    assert_int_equal(fake_clock_next(), 0);
}

/* The ranks of a launch that it has started need not stay for it, also after a change. */
static void test_has_inner(void **state)
{
    (void)state;
    nwaiting = 0;
    member->consumes = NULL;
    member->ring = (void *)&member_made;
    has_inner = true;
    exit_barrier_activity(member);
    assert_int_equal(told, 0);
    fake_clock_pass(2 * MSEC);
    assert_int_equal(told, BOOT_WAVE_OUTER);
    exit_barrier_activity(member);
    fake_clock_pass(2 * MSEC);
    assert_int_equal(told, BOOT_WAVE_OUTER);
    member->ring = NULL;
}

/* DYAD_LINGER has passed: it leaves, however often something changes. */
static void test_linger_passes(void **state)
{
    (void)state;
    nwaiting = 0;
    member->consumes = NULL;
    exit_barrier_module.exiting(member, false);
    turn();
    for (int i = 0; i < 1998; i++) {
        exit_barrier_activity(member);
        turn();
        fake_clock_pass(500 * USEC);
    }
    assert_false(stopped);
    for (int i = 0; i < 4; i++) {
        exit_barrier_activity(member);
        turn();
        fake_clock_pass(500 * USEC);
    }
    assert_true(stopped);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_changes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_busy, setup, teardown),
        cmocka_unit_test_setup_teardown(test_probes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kicks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_has_inner, setup, teardown),
        cmocka_unit_test_setup_teardown(test_linger_passes, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
