/*
 * test_lease.c - until when copies may be opened without a question
 *
 * copy_lease.c with a clock, a table and homes of our own: this is rank 0 of four, 1 and 2
 * are homes of its copies.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/coherence/copy_lease.h"
#include "engine/coherence/copy_lease_impl.h"
#include "engine/coherence/revalidate.h"
#include "engine/core/module.h"
#include "fake_clock.h"
#include "store/lease_table.h"
#include "util/log.h"

#define RANKS 4
#define PEER  8 /* s: a home's answer counts for 4, the term is 3.5 */
#define TERM  (seconds_ns(3.5))

static uint64_t until; /* as the line says */
static bool wanted, majority, known, revalidating, invalidating;
static uint64_t patience; /* of the homes */
static unsigned ncopies, npings, nrevalidated;
static struct home {
    uint64_t ping; /* the last, or 0 */
    uint32_t losses;
    bool silent;
    uint8_t flags;
} homes[RANKS];

static struct boot_pmix_job job = {.nranks = RANKS};
static struct engine_config config = {.peer_timeout = PEER};
extern const struct member_module lease_module;
static const struct member_module *const modules[] = {&lease_module, NULL};

static struct member_run run;
static struct member *const member = &run.member;

void util_log(enum util_log_level level, const char *fmt, ...)
{
    (void)level;
    (void)fmt;
}

void store_lease_set(struct store_marks *marks, int line, uint64_t to)
{
    (void)marks;
    (void)line;
    until = to;
    wanted = false;
}

bool store_lease_wanted(const struct store_marks *marks, int line)
{
    (void)marks;
    (void)line;
    return wanted;
}

bool dht_node_is_majority(const struct dht_node *node)
{
    (void)node;
    return majority;
}

unsigned dht_node_copy_homes(struct dht_node *node, const bool *unsure, bool *home,
                             bool *is_known)
{
    (void)node;
    memset(home, 0, RANKS * sizeof(*home));
    home[0] = home[1] = home[2] = ncopies > 0;
    *is_known = known && !(unsure[1] && unsure[2]);
    return ncopies;
}

bool revalidate_pending(struct member *m)
{
    (void)m;
    return revalidating;
}

void revalidate_rank(struct member *m, uint32_t rank)
{
    (void)m;
    assert_int_equal(rank, 1);
    nrevalidated++;
    revalidating = true;
}

void dht_node_forgotten(struct dht_node *node, uint32_t rank)
{
    (void)node;
    (void)rank;
}

bool dht_node_is_invalidating(const struct dht_node *node)
{
    (void)node;
    return invalidating;
}

const char *member_describe(struct member *m, uint32_t rank)
{
    (void)m;
    (void)rank;
    return "a rank";
}

int lease_ask_start(struct member *m)
{
    (void)m;
    return 0;
}

void lease_ask_free(struct member *m)
{
    (void)m;
}

int member_send(struct member *m, uint32_t rank, struct net_msg *msg)
{
    (void)m;
    assert_int_equal(msg->type, NET_MSG_PING);
    assert_true(rank == 1 || rank == 2);
    homes[rank].ping = msg->id;
    npings++;
    return 0;
}

static void answer(uint32_t rank)
{
    struct home *home = &homes[rank];
    struct net_msg pong = {.type = NET_MSG_PONG,
                           .source = rank,
                           .id = home->ping,
                           .flags = home->flags,
                           .losses = home->losses,
                           .lease_ns = patience};

    if (!home->ping || home->silent)
        return;
    home->ping = 0;
    fake_now += UTIL_NSEC_PER_MSEC;
    lease_module.messages[0].fn(member, &pong, NULL, 0);
}

static void open_one(void)
{
    if (until < fake_now + TERM * 3 / 4)
        wanted = true;
}

/* What is due in the next `seconds`; somebody opens files meanwhile if `opens`. */
static void turn(double seconds, bool opens)
{
    uint64_t end = fake_now + seconds_ns(seconds);

    for (;;) {
        uint64_t next = fake_clock_next();
        if (opens)
            open_one();
        if (!next || next > end)
            break;
        if (fake_now < next)
            fake_now = next;
        if (opens)
            open_one();
        fake_clock_step(fake_now);
        answer(1);
        answer(2);
    }
    if (fake_now < end)
        fake_now = end;
}

static bool holds(void)
{
    return fake_now < until;
}

static int setup(void **state)
{
    (void)state;
    memset(&run, 0, sizeof(run));
    assert_int_equal(modules_create(member, modules), 0);
    member->modules = modules;
    memset(homes, 0, sizeof(homes));
    member->job = &job;
    member->config = &config;
    member->state = MEMBER_JOINED;
    member->next_id = 1;
    member->dmd[ENGINE_CONSUMER].marks = (struct store_marks *)&run;
    fake_clock_begin(100 * UTIL_NSEC_PER_SEC);
    until = 0;
    majority = known = true;
    revalidating = invalidating = wanted = false;
    ncopies = npings = nrevalidated = 0;
    patience = seconds_ns(PEER) / 2;
    assert_int_equal(lease_module.start(member), 0);
    lease_module.joined(member);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    modules_destroy(member);
    modules_free(member);
    fake_clock_end();
    return 0;
}

static void fetch(void)
{
    member->table_ops.held(member);
    assert_false(holds());
    ncopies = 1;
    turn(0.01, false);
}

static void test_none(void **state)
{
    (void)state;
    assert_true(until == STORE_LEASE_NONE);
    lease_want(member);
    turn(100, true);
    assert_int_equal(npings, 0);
    fetch();
    assert_true(holds());
    assert_int_equal(npings, 2);
    ncopies = 0;
    turn(10, true);
    assert_true(until == STORE_LEASE_NONE);
    npings = 0;
    turn(100, true);
    assert_int_equal(npings, 0);
}

/* As long as something is opened; from when it was asked, not answered. */
static void test_wanted(void **state)
{
    uint64_t begin;

    (void)state;
    begin = fake_now;
    fetch();
    assert_in_range(until, begin + TERM, begin + TERM);
    for (int i = 0; i < 100; i++) {
        turn(0.5, true);
        assert_true(holds());
    }
    assert_in_range(npings, 2 * 50 / 4, 2 * 50 / 1);
    turn(10, false);
    assert_false(holds());
    npings = 0;
    turn(1000, false);
    assert_int_equal(npings, 0);
    assert_int_equal(fake_clock_next(), 0);
    begin = fake_now;
    lease_want(member);
    answer(1);
    assert_false(holds());
    fake_now += UTIL_NSEC_PER_SEC;
    answer(2);
    assert_in_range(until, begin + TERM, begin + TERM);
}

/* Whatever comes late from before a stop. */
static void test_stopped(void **state)
{
    (void)state;
    fetch();
    turn(2.9, true);
    fake_now += seconds_ns(0.1);
    lease_want(member);
    fake_now += seconds_ns(100);
    answer(1);
    answer(2);
    assert_false(holds());
    turn(1, true);
    assert_true(holds());
}

static void test_silent(void **state)
{
    uint64_t last;

    (void)state;
    fetch();
    last = until;
    homes[2].silent = true;
    turn(20, true);
    assert_int_equal(until, last);
    homes[2].silent = false;
    turn(2, true);
    assert_true(holds());
}

/* What forbids it, one by one, and that it is over by itself then. */
static void test_not_renewed(void **state)
{
    bool *forbids[] = {&revalidating, &invalidating};

    (void)state;
    fetch();
    for (size_t i = 0; i < 2; i++) {
        *forbids[i] = true;
        turn(5, true);
        assert_false(holds());
        *forbids[i] = false;
        turn(2, true);
        assert_true(holds());
    }
    bool *needs[] = {&majority, &known};
    for (size_t i = 0; i < 2; i++) {
        *needs[i] = false;
        turn(5, true);
        assert_false(holds());
        *needs[i] = true;
        turn(2, true);
        assert_true(holds());
    }
    homes[1].flags = NET_PONG_UNSURE; /* the other one is not */
    turn(5, true);
    assert_true(holds());
    homes[2].flags = NET_PONG_UNSURE;
    turn(5, true);
    assert_false(holds());
    homes[1].flags = 0;
    turn(2, true);
    assert_true(holds());
    homes[1].flags = NET_PONG_UNKNOWN;
    turn(5, true);
    assert_false(holds());
    homes[1].flags = 0;
    turn(2, true);
    assert_true(holds());
}

/* A home had given us up, and we did not notice. */
static void test_given_up(void **state)
{
    (void)state;
    fetch();
    turn(1, true);
    homes[1].losses = 3;
    turn(1, true);
    assert_int_equal(nrevalidated, 1);
    assert_false(holds());
    turn(10, true);
    assert_false(holds());
    assert_int_equal(nrevalidated, 1);
    revalidating = false;
    turn(2, true);
    assert_true(holds());
    assert_int_equal(nrevalidated, 1);
}

static void test_less_patient(void **state)
{
    uint64_t begin = fake_now;

    (void)state;
    patience -= UTIL_NSEC_PER_SEC;
    fetch();
    assert_in_range(until, begin + TERM - UTIL_NSEC_PER_SEC,
                    begin + TERM - UTIL_NSEC_PER_SEC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_none, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wanted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stopped, setup, teardown),
        cmocka_unit_test_setup_teardown(test_silent, setup, teardown),
        cmocka_unit_test_setup_teardown(test_not_renewed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_given_up, setup, teardown),
        cmocka_unit_test_setup_teardown(test_less_patient, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
