/*
 * test_lost.c - fetches that are not served, from a rank that answers
 *
 * lost.c with a clock of our own. Rank 1 is heard of at any time; is its connection taken
 * for one that carries small messages only?
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

#define KIB 1024ull
#define MIB (1024 * KIB)

static uint64_t now = UTIL_NSEC_PER_SEC;
static unsigned ndown;
static struct net_peer peer;
static struct boot_pmix_job job = {.nranks = 2, .nnodes = 2};
static struct engine_config config = {.join_timeout = 10, .peer_timeout = 1};
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

void net_worker_peer_down(struct net_worker *worker, uint32_t rank, int error)
{
    (void)worker;
    (void)error;
    assert_int_equal(rank, 1);
    ndown++;
}

uint64_t net_worker_heard_at(struct net_worker *worker, uint32_t rank)
{
    (void)worker;
    (void)rank;
    return now;
}

const struct net_peer *net_worker_peer(struct net_worker *worker, uint32_t rank)
{
    (void)worker;
    (void)rank;
    return &peer;
}

/* Nothing of what follows is looked at here. */
int net_worker_probe(struct net_worker *worker, uint32_t rank)
{
    (void)worker;
    (void)rank;
    return 0;
}

int net_worker_send(struct net_worker *worker, uint32_t rank, struct net_msg *msg,
                    const void *payload, size_t payload_len, net_send_fn fn, void *arg)
{
    (void)worker;
    (void)rank;
    (void)msg;
    (void)payload;
    (void)payload_len;
    (void)fn;
    (void)arg;
    return 0;
}

struct net_timer *net_timer_create(struct net_loop *loop, net_loop_fn fn, void *arg)
{
    (void)loop;
    (void)fn;
    (void)arg;
    return (struct net_timer *)&run; /* not NULL */
}

void net_timer_destroy(struct net_timer *timer)
{
    (void)timer;
}

void net_timer_start(struct net_timer *timer, uint64_t when_ns)
{
    (void)timer;
    (void)when_ns;
}

void dht_node_set_missing(struct dht_node *node, uint32_t rank, enum dht_missing missing)
{
    (void)node;
    (void)rank;
    (void)missing;
}

void side_lost(struct member *m, uint32_t rank)
{
    (void)m;
    (void)rank;
}

void side_changed(struct member *m)
{
    (void)m;
}

void side_pong(struct member *m)
{
    (void)m;
}

void linger_rank_changed(struct member *m)
{
    (void)m;
}

void list_rank_changed(struct member *m)
{
    (void)m;
}

void revalidate_rank(struct member *m, uint32_t rank)
{
    (void)m;
    (void)rank;
}

const char *member_describe(struct member *m, uint32_t rank)
{
    (void)m;
    (void)rank;
    return "rank 1";
}

void member_links_set_live(struct member *m, uint32_t rank, bool live)
{
    (void)m;
    (void)rank;
    (void)live;
}

void boot_wave_rank_changed(struct boot_wave *wave, uint32_t rank)
{
    (void)wave;
    (void)rank;
}

void util_log(enum util_log_level level, const char *fmt, ...)
{
    (void)level;
    (void)fmt;
}

static int setup(void **state)
{
    (void)state;
    memset(&run, 0, sizeof(run));
    member->job = &job;
    member->config = &config;
    ndown = 0;
    return lost_start(member);
}

static int teardown(void **state)
{
    (void)state;
    lost_stop(member);
    return 0;
}

static void unserved(uint64_t size)
{
    now += 2 * UTIL_NSEC_PER_SEC;
    lost_unserved(member, 1, size);
}

static void test_two_in_a_row(void **state)
{
    (void)state;
    unserved(MIB);
    lost_unserved(member, 1, MIB); /* one beside it is no news */
    assert_int_equal(ndown, 0);
    unserved(MIB);
    assert_int_equal(ndown, 1);
    unserved(MIB); /* the count begins anew */
    assert_int_equal(ndown, 1);
}

static void test_small_in_between(void **state)
{
    (void)state;
    unserved(MIB);
    lost_served(member, 1, 4 * KIB);
    unserved(MIB);
    assert_int_equal(ndown, 1);
    /* The largest of those that did not come counts. */
    unserved(MIB);
    lost_unserved(member, 1, 4 * KIB);
    lost_served(member, 1, 8 * KIB);
    unserved(MIB);
    assert_int_equal(ndown, 2);
}

static void test_served_in_between(void **state)
{
    (void)state;
    unserved(MIB);
    lost_served(member, 1, MIB);
    unserved(64 * KIB);
    assert_int_equal(ndown, 0);
    lost_served(member, 1, 64 * KIB); /* what was larger before is forgotten */
    unserved(MIB);
    assert_int_equal(ndown, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_two_in_a_row, setup, teardown),
        cmocka_unit_test_setup_teardown(test_small_in_between, setup, teardown),
        cmocka_unit_test_setup_teardown(test_served_in_between, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
