/*
 * test_side.c - which side of a cut this rank is on
 *
 * side.c with a clock, ranks and a table of our own: eight ranks, each on its own node;
 * this is 0. What is heard, who is missing and who is suspect is what lost.c and the worker
 * would say.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "engine/member_impl.h"
#include "util/log.h"

#define RANKS 8
#define JOIN  10 /* s */

struct net_timer {
    void (*fn)(void *arg);
    void *arg;
};

static struct net_timer timer;
static uint64_t timer_at; /* 0: not set */
static uint64_t now;
static struct rank {
    uint64_t heard;
    bool known, missing, suspect;
} ranks[RANKS];
static enum dht_side side;
static unsigned nlasts;

static uint32_t node_of[RANKS] = {0, 1, 2, 3, 4, 5, 6, 7};
static struct boot_pmix_job job = {.nranks = RANKS, .nnodes = RANKS, .node = node_of};
static struct engine_config config = {.join_timeout = JOIN};
static struct member_run run;
static struct member *const member = &run.member;

/* In place of libc's, for util_clock_now(). */
int clock_gettime(clockid_t clock, struct timespec *ts)
{
    (void)clock;
    ts->tv_sec = (time_t)(now / UTIL_NSEC_PER_SEC);
    ts->tv_nsec = (long)(now % UTIL_NSEC_PER_SEC);
    return 0;
}

void util_log(enum util_log_level level, const char *fmt, ...)
{
    (void)level;
    (void)fmt;
}

struct net_timer *net_timer_create(struct net_loop *loop, void (*fn)(void *arg), void *arg)
{
    (void)loop;
    timer = (struct net_timer){fn, arg};
    return &timer;
}

void net_timer_destroy(struct net_timer *t)
{
    (void)t;
    timer_at = 0;
}

void net_timer_start(struct net_timer *t, uint64_t when)
{
    (void)t;
    timer_at = when;
}

uint64_t net_worker_heard_at(struct net_worker *worker, uint32_t rank)
{
    (void)worker;
    return ranks[rank].heard;
}

bool lost_is_missing(const struct member *m, uint32_t rank)
{
    (void)m;
    return ranks[rank].missing;
}

bool lost_is_suspect(const struct member *m, uint32_t rank)
{
    (void)m;
    return ranks[rank].suspect;
}

bool lost_prove(struct member *m, uint32_t rank)
{
    struct rank *r = &ranks[rank];

    (void)m;
    if (!r->known || r->missing || r->suspect)
        return false;
    return r->suspect = true;
}

bool dht_node_is_live(const struct dht_node *node, uint32_t rank)
{
    (void)node;
    return ranks[rank].known && !ranks[rank].missing;
}

void dht_node_set_side(struct dht_node *node, enum dht_side is)
{
    (void)node;
    side = is;
}

void dht_node_side_lasts(struct dht_node *node)
{
    (void)node;
    assert_int_equal(side, DHT_SIDE_BIGGER);
    nlasts++;
}

/* What is due in the next `seconds`. */
static void turn(double seconds)
{
    uint64_t end = now + seconds_ns(seconds) + 1;

    while (timer_at != 0 && timer_at <= end) {
        if (now < timer_at)
            now = timer_at;
        timer_at = 0;
        timer.fn(timer.arg);
    }
    now = end;
}

/* As worker_peer_up() and lost_back(). */
static void up(uint32_t rank)
{
    ranks[rank] = (struct rank){.known = true, .heard = ++now};
    side_pong(member);
}

static void lose(uint32_t rank)
{
    now++;
    ranks[rank].missing = true;
    ranks[rank].suspect = false;
    side_lost(member, rank);
}

static void pong(uint32_t rank)
{
    ranks[rank].heard = ++now;
    ranks[rank].suspect = false;
    side_pong(member);
}

static int setup(void **state)
{
    (void)state;
    memset(&run, 0, sizeof(run));
    memset(ranks, 0, sizeof(ranks));
    member->job = &job;
    member->config = &config;
    member->dht = (struct dht_node *)&run; /* not NULL; never looked into */
    member->state = MEMBER_JOINED;
    now = UTIL_NSEC_PER_SEC;
    nlasts = 0;
    side = DHT_SIDE_BIGGER;
    return side_start(member);
}

static int teardown(void **state)
{
    (void)state;
    side_stop(member);
    return 0;
}

static void all_up(void)
{
    for (uint32_t rank = 1; rank < RANKS; rank++)
        up(rank);
    turn(1);
}

/* Until it is known whether others are there, nobody knows; their answers tell. */
static void test_one_of_many(void **state)
{
    (void)state;
    all_up();
    assert_int_equal(side, DHT_SIDE_BIGGER);
    lose(1);
    assert_int_equal(side, DHT_SIDE_UNKNOWN);
    turn(0);
    assert_int_equal(side, DHT_SIDE_UNKNOWN);
    for (uint32_t rank = 2; rank < RANKS; rank++)
        assert_true(ranks[rank].suspect); /* asked */
    pong(2);                              /* two nodes against one */
    turn(0);
    assert_int_equal(side, DHT_SIDE_BIGGER);
    turn(2 * JOIN);
    assert_int_equal(nlasts, 0); /* it never was the smaller one */
}

/* The only other that is known is lost, and then six come, who are heard. */
static void test_others_come(void **state)
{
    (void)state;
    up(1);
    turn(0);
    lose(1);
    turn(0);
    assert_int_equal(side, DHT_SIDE_SMALLER);
    for (uint32_t rank = 2; rank < RANKS; rank++)
        up(rank);
    turn(0);
    assert_int_equal(side, DHT_SIDE_BIGGER);
}

static void cut_off(void)
{
    all_up();
    for (uint32_t rank = 1; rank < RANKS; rank++)
        lose(rank);
    turn(0);
    assert_int_equal(side, DHT_SIDE_SMALLER);
}

/* The bigger side again, with two who have not come back: told when it has lasted. */
static void test_lasts(void **state)
{
    (void)state;
    cut_off();
    turn(3 * JOIN);
    assert_int_equal(nlasts, 0);
    for (uint32_t rank = 1; rank < 6; rank++) {
        up(rank);
        turn(0);
        assert_int_equal(side, rank < 4 ? DHT_SIDE_SMALLER : DHT_SIDE_BIGGER);
    }
    turn(JOIN - 2);
    assert_int_equal(nlasts, 0);
    lose(4); /* it has not lasted */
    turn(3);
    assert_int_equal(side, DHT_SIDE_UNKNOWN);
    for (uint32_t rank = 1; rank < 6; rank++)
        if (rank != 4)
            pong(rank);
    turn(JOIN - 2);
    assert_int_equal(side, DHT_SIDE_BIGGER);
    assert_int_equal(nlasts, 0);
    side_changed(member); /* weighed once more: the time does not begin anew */
    turn(3);
    assert_int_equal(nlasts, 1);
    side_changed(member);
    turn(3 * JOIN);
    assert_int_equal(nlasts, 1);
}

/* Who was stopped itself knows nothing until it has heard from more than half of them. */
static void test_stood_still(void **state)
{
    (void)state;
    all_up();
    side_stood_still(member);
    assert_int_equal(side, DHT_SIDE_UNKNOWN);
    turn(0);
    for (uint32_t rank = 1; rank < RANKS; rank++)
        assert_true(ranks[rank].suspect); /* asked */
    for (uint32_t rank = 1; rank < 5; rank++) {
        assert_int_equal(side, DHT_SIDE_UNKNOWN);
        pong(rank);
        turn(0);
    }
    assert_int_equal(side, DHT_SIDE_BIGGER); /* five, with its own, of eight */
    turn(2 * JOIN);

    /* Again, and it is cut off: those that are asked are lost in the end. */
    for (uint32_t rank = 5; rank < RANKS; rank++)
        pong(rank);
    side_stood_still(member);
    turn(1);
    for (uint32_t rank = 1; rank < RANKS; rank++) {
        assert_int_equal(side, DHT_SIDE_UNKNOWN);
        lose(rank);
    }
    turn(0);
    assert_int_equal(side, DHT_SIDE_SMALLER);
    for (uint32_t rank = 1; rank < 5; rank++) {
        assert_int_not_equal(side, DHT_SIDE_BIGGER);
        up(rank);
        turn(0);
    }
    assert_int_equal(side, DHT_SIDE_BIGGER);
}

/* Those who are gone, and those it was never in touch with, are not waited for. */
static void test_stood_still_alone(void **state)
{
    (void)state;
    for (uint32_t rank = 1; rank < 4; rank++)
        up(rank);
    for (uint32_t rank = 4; rank < RANKS; rank++)
        ranks[rank].known = true;
    ranks[1] = (struct rank){.heard = now}; /* it has left */
    turn(1);
    side_stood_still(member);
    turn(0);
    assert_int_equal(side, DHT_SIDE_UNKNOWN);
    for (uint32_t rank = 4; rank < RANKS; rank++)
        assert_false(ranks[rank].suspect);
    pong(2);
    turn(0);
    assert_int_equal(side, DHT_SIDE_BIGGER);
    pong(3);
    turn(0);
    ranks[2].known = ranks[3].known = false; /* they leave, too */
    side_stood_still(member);
    turn(0);
    assert_int_equal(side, DHT_SIDE_BIGGER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_of_many, setup, teardown),
        cmocka_unit_test_setup_teardown(test_others_come, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lasts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stood_still, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stood_still_alone, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
