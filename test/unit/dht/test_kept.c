/*
 * test/unit/dht/test_kept.c - answers of look-ups that are kept: few messages, never a
 * stale one
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fake_net.h"
#include "util/log.h"

#define PUB  DYAD_ENTRY_PUBLISHED
#define GONE DYAD_ENTRY_WITHDRAWN
#define KEEP NET_LOOKUP_KEEP

static void publish_ok(struct fake_net *net, uint32_t rank, unsigned key, uint64_t size,
                       enum dyad_entry_state state)
{
    struct result r;

    fake_publish(net, rank, key, size, state, &r);
    assert_true(fake_net_run_until(net, &r.calls, 60 * SEC));
    assert_int_equal(r.status, 0);
}

static struct result poll_flags(struct fake_net *net, uint32_t rank, unsigned key,
                                uint8_t flags)
{
    struct result r;

    fake_lookup(net, rank, key, flags, NULL, &r);
    assert_true(fake_net_run_until(net, &r.calls, 60 * SEC));
    return r;
}

static struct result poll(struct fake_net *net, uint32_t rank, unsigned key)
{
    return poll_flags(net, rank, key, KEEP);
}

/* The LOOKUPs that a poll costs. */
static unsigned cost(struct fake_net *net, uint32_t rank, unsigned key, uint8_t flags,
                     int status)
{
    unsigned before = net->sent[NET_MSG_LOOKUP];

    assert_int_equal(poll_flags(net, rank, key, flags).status, status);
    return net->sent[NET_MSG_LOOKUP] - before;
}

static bool is_home(struct fake_net *net, unsigned key, uint32_t rank)
{
    uint32_t homes[DHT_REPLICAS_MAX];
    unsigned n = fake_homes(net, key, homes);

    for (unsigned i = 0; i < n; i++)
        if (homes[i] == rank)
            return true;
    return false;
}

/* The nth rank that is no home of the key. */
static uint32_t stranger(struct fake_net *net, unsigned key, unsigned nth)
{
    for (uint32_t i = 0; i < net->nranks; i++)
        if (!is_home(net, key, i) && nth-- == 0)
            return i;
    abort();
}

static uint64_t occupied(struct fake_net *net)
{
    struct dht_shard_stats stats;
    uint64_t n = 0;

    for (uint32_t i = 0; i < net->nranks; i++) {
        dht_shard_get_stats(dht_node_shard(net->rank[i].node), &stats);
        n += stats.occupied;
    }
    return n;
}

static void test_polls_cost_nothing(void **state)
{
    struct fake_net *net = fake_net_create(8, 2, 1);
    uint32_t reader = stranger(net, 0, 0), writer = stranger(net, 0, 1);

    (void)state;
    assert_int_equal(cost(net, reader, 0, KEEP, ENOENT), 2);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(cost(net, reader, 0, KEEP, ENOENT), 0);
    assert_int_equal(dht_node_get_stats(net->rank[reader].node)->asked, 2);
    assert_int_equal(dht_node_get_stats(net->rank[reader].node)->kept, 1000);
    assert_int_equal(cost(net, reader, 0, 0, ENOENT), 2); /* who does not want it */

    publish_ok(net, writer, 0, 7, PUB);
    assert_int_equal(poll(net, reader, 0).entry.size, 7); /* at the first look */
    assert_int_equal(cost(net, reader, 0, KEEP, 0), 0);   /* that there is one, too */
    publish_ok(net, writer, 0, 8, PUB);
    assert_int_equal(poll(net, reader, 0).entry.size, 8);
    publish_ok(net, writer, 0, 0, GONE);
    assert_int_equal(poll(net, reader, 0).status, ENOENT);
    assert_int_equal(cost(net, reader, 0, KEEP, ENOENT), 0); /* a tombstone */
    publish_ok(net, writer, 0, 9, PUB);
    assert_int_equal(poll(net, reader, 0).entry.size, 9);
    fake_net_destroy(net);
}

/* close() at the publisher does not return before the poller has forgotten. */
static void test_acknowledged_after(void **state)
{
    struct fake_net *net = fake_net_create(8, 2, 1);
    uint32_t reader = stranger(net, 0, 0), writer = stranger(net, 0, 1);
    struct result r;

    (void)state;
    poll(net, reader, 0);
    net->rank[reader].hold = true; /* it does not answer the INVALIDATE */
    fake_publish(net, writer, 0, 7, PUB, &r);
    fake_net_run(net, SEC);
    assert_int_equal(r.calls, 0);
    assert_int_equal(net->rank[reader].nheld, 2);
    assert_int_equal(poll(net, reader, 0).entry.size, 7);
    net->rank[reader].hold = false;
    for (unsigned i = 0; i < net->rank[reader].nheld; i++)
        dht_node_invalidated(net->rank[reader].node, net->rank[reader].held[i]);
    assert_true(fake_net_run_until(net, &r.calls, SEC));
    fake_net_destroy(net);
}

static void test_own_publish(void **state)
{
    (void)state;
    for (uint32_t n = 1; n < 6; n++) {
        struct fake_net *net = fake_net_create(n, 2, n);
        for (uint32_t rank = 0; rank < n; rank++) {
            struct result r, early;
            assert_int_equal(poll(net, rank, rank).status, ENOENT);
            fake_publish(net, rank, rank, 5, PUB, &r);
            fake_lookup(net, rank, rank, KEEP, NULL, &early); /* may see either */
            assert_true(fake_net_run_until(net, &r.calls, SEC));
            assert_int_equal(poll(net, rank, rank).status, 0);
            publish_ok(net, rank, rank, 0, GONE);
            assert_int_equal(poll(net, rank, rank).status, ENOENT);
            fake_net_run(net, SEC);
            assert_int_equal(early.calls, 1);
        }
        fake_net_destroy(net);
    }
}

/* The rank asks again now and then, and the homes forget names that nobody asks for. */
static void test_expires(void **state)
{
    struct fake_net *net = fake_net_create(8, 2, 1);
    uint32_t reader = stranger(net, 0, 0);

    (void)state;
    poll(net, reader, 0);
    assert_int_equal(occupied(net), 2);
    fake_net_run(net, net->config.keep_time - MSEC);
    assert_int_equal(cost(net, reader, 0, KEEP, ENOENT), 0);
    fake_net_run(net, MSEC);
    assert_int_equal(cost(net, reader, 0, KEEP, ENOENT), 2);
    fake_net_run(net, net->config.keep_time);
    assert_int_equal(occupied(net), 2);
    fake_net_run(net, net->config.keep_time);
    assert_int_equal(occupied(net), 0);
    fake_net_destroy(net);
}

/* What is acknowledged while the reader is beyond a cut: by then it does not go by what it
 * keeps, however long it was told to. */
static void test_cut_off(void **state)
{
    struct fake_net *net = fake_net_create(8, 2, 1);
    uint32_t reader = stranger(net, 0, 0), writer = stranger(net, 0, 1);

    (void)state;
    net->refuse = false;
    net->config.keep_time = 60 * SEC;
    for (uint32_t i = 0; i < net->nranks; i++) {
        fake_net_kill(net, i, false);
        fake_net_revive(net, i, false);
    }
    assert_int_equal(poll(net, reader, 0).status, ENOENT);
    assert_int_equal(cost(net, reader, 0, KEEP, ENOENT), 0);
    for (uint32_t i = 0; i < net->nranks; i++)
        net->cut[i][reader] = net->cut[reader][i] = true;
    publish_ok(net, writer, 0, 5, PUB);
    assert_int_equal(poll(net, reader, 0).status, EHOSTUNREACH);
    for (uint32_t i = 0; i < net->nranks; i++)
        net->cut[i][reader] = net->cut[reader][i] = false;
    assert_int_equal(poll(net, reader, 0).status, 0);
    fake_net_destroy(net);
}

/* A home that is gone, and one that is silent. */
static void test_homes_move(void **state)
{
    struct fake_net *net = fake_net_create(8, 2, 1);
    uint32_t reader = stranger(net, 0, 0), writer = stranger(net, 0, 1);
    uint32_t homes[DHT_REPLICAS_MAX];

    (void)state;
    fake_homes(net, 0, homes);
    poll(net, reader, 0);
    fake_net_kill(net, homes[0], true);
    assert_int_equal(cost(net, reader, 0, KEEP, ENOENT), 2);
    assert_int_equal(cost(net, reader, 0, KEEP, ENOENT), 0);
    fake_net_revive(net, homes[0], true);
    assert_int_equal(cost(net, reader, 0, KEEP, ENOENT), 2);

    fake_net_run(net, 10 * SEC);
    net->cut[reader][homes[1]] = true; /* passed over: not all homes will tell */
    assert_int_equal(poll(net, reader, 0).status, ENOENT);
    assert_true(cost(net, reader, 0, KEEP, ENOENT) > 0);
    net->cut[reader][homes[1]] = false;
    publish_ok(net, writer, 0, 3, PUB);
    assert_int_equal(poll(net, reader, 0).entry.size, 3);
    fake_net_destroy(net);
}

/* A look-up that leads to a copy is one that the homes know of. */
static void test_copies(void **state)
{
    struct fake_net *net = fake_net_create(8, 2, 1);
    uint32_t reader = stranger(net, 0, 0), writer = stranger(net, 0, 1);

    (void)state;
    assert_int_equal(cost(net, reader, 0, KEEP | NET_LOOKUP_COPY, ENOENT), 2);
    assert_int_equal(cost(net, reader, 0, KEEP | NET_LOOKUP_COPY, ENOENT), 0);
    publish_ok(net, writer, 0, 3, PUB);
    assert_int_equal(cost(net, reader, 0, KEEP, 0), 1);
    assert_int_equal(cost(net, reader, 0, KEEP | NET_LOOKUP_COPY, 0), 1);
    /* A wait is never answered from here. */
    assert_int_equal(cost(net, reader, 0, KEEP | NET_LOOKUP_WAIT, 0), 1);
    fake_net_destroy(net);
}

/* The guest that asked has gone: nobody brings the answer, the next asks again. */
static void test_cancelled(void **state)
{
    struct fake_net *net = fake_net_create(8, 2, 1);
    uint32_t reader = stranger(net, 0, 0);
    struct result r;

    (void)state;
    struct dht_lookup *lookup = fake_lookup(net, reader, 0, KEEP, NULL, &r);
    dht_node_cancel(net->rank[reader].node, lookup);
    assert_int_equal(cost(net, reader, 0, KEEP, ENOENT), 2);
    assert_int_equal(cost(net, reader, 0, KEEP, ENOENT), 0);
    lookup = fake_lookup(net, reader, 0, KEEP, NULL, &r); /* a kept one, not yet told */
    dht_node_cancel(net->rank[reader].node, lookup);
    assert_int_equal(cost(net, reader, 0, KEEP, ENOENT), 0);
    fake_lookup(net, reader, 0, KEEP, NULL, &r); /* and at the end of all */
    fake_net_destroy(net);
}

static int ends;

static void ended(void *arg, int status, const struct dyad_entry *entry)
{
    (void)arg;
    (void)entry;
    assert_int_equal(status, ENOENT);
    ends++;
}

/* So many names: the oldest are asked for again, and all is forgotten. */
static void test_bounded(void **state)
{
    struct fake_net *net = fake_net_create(2, 1, 1);
    struct dht_node *node = net->rank[0].node;
    char name[32];
    uint64_t asked;

    (void)state;
    ends = 0;
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof(name), "k%d", i);
        assert_non_null(dht_node_lookup(node, name, KEEP, NULL, ended, NULL));
        fake_net_run(net, MSEC / 10);
    }
    fake_net_run(net, MSEC);
    assert_int_equal(ends, 3000);
    asked = dht_node_get_stats(node)->asked;
    for (int i = 0; i < 3000; i += 2999) {
        snprintf(name, sizeof(name), "k%d", i);
        assert_non_null(dht_node_lookup(node, name, KEEP, NULL, ended, NULL));
        fake_net_run(net, MSEC);
    }
    assert_int_equal(ends, 3002);
    assert_true(dht_node_get_stats(node)->kept == 1 ||
                dht_node_get_stats(node)->asked > asked); /* "k0" is ours or not */
    assert_in_range(dht_node_get_stats(node)->kept, 1, 1);
    fake_net_run(net, 10 * SEC);
    assert_int_equal(occupied(net), 0);
    fake_net_destroy(net);
}

/* Whatever comes in whatever order: what was acknowledged before a look-up began is seen by
 * it. */
static void random_world(uint64_t seed)
{
    enum { ROUNDS = 300, KEYS = 3 };
    uint32_t n = 1 + (uint32_t)(seed % 9);
    struct fake_net *net = fake_net_create(n, 1 + (uint32_t)(seed % 3), seed);
    static struct result pub[ROUNDS], look[ROUNDS][4];
    static struct dyad_version least[ROUNDS][4];
    struct dyad_version acked[KEYS] = {{0}};
    unsigned key[ROUNDS], look_key[ROUNDS][4];

    net->reorder = seed % 2;
    net->duplicates = seed % 4 < 2 ? 0 : 100;
    for (unsigned i = 0; i < ROUNDS; i++) {
        key[i] = fake_net_random(net, KEYS);
        if (fake_net_random(net, 4) == 0) {
            fake_publish(net, fake_net_random(net, n), key[i], i,
                         fake_net_random(net, 3) ? PUB : GONE, &pub[i]);
        } else {
            memset(&pub[i], 0, sizeof(pub[i]));
            pub[i].calls = -1;
        }
        for (unsigned l = 0; l < 4; l++) {
            look_key[i][l] = fake_net_random(net, KEYS);
            least[i][l] = acked[look_key[i][l]];
            fake_lookup(net, fake_net_random(net, n), look_key[i][l], KEEP, NULL,
                        &look[i][l]);
        }
        uint64_t end = net->now + fake_net_random(net, 3) * fake_net_random(net, 1000000);
        do {
            fake_net_run(net, 1000);
            for (unsigned j = 0; j <= i; j++)
                if (pub[j].calls == 1 &&
                    dyad_version_cmp(&pub[j].version, &acked[key[j]]) > 0)
                    acked[key[j]] = pub[j].version;
        } while (net->now < end);
    }
    fake_net_run(net, 10 * SEC);
    for (unsigned i = 0; i < ROUNDS; i++) {
        for (unsigned l = 0; l < 4; l++) {
            const struct result *r = &look[i][l];
            assert_int_equal(r->calls, 1);
            if (least[i][l].counter > 0) {
                assert_true(r->has_entry);
                assert_true(dyad_version_cmp(&r->entry.version, &least[i][l]) >= 0);
            }
        }
    }
    fake_net_destroy(net);
}

static void test_random(void **state)
{
    const char *env = getenv("TEST_SEED");

    (void)state;
    if (env != NULL) {
        random_world(strtoull(env, NULL, 0));
        return;
    }
    uint64_t seeds = getenv("DYAD_TEST_VALGRIND") != NULL ? 12 : 200;
    for (uint64_t seed = 0; seed < seeds; seed++) {
        printf("seed %llu (TEST_SEED)\r", (unsigned long long)seed);
        fflush(stdout);
        random_world(seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_polls_cost_nothing),
        cmocka_unit_test(test_acknowledged_after),
        cmocka_unit_test(test_own_publish),
        cmocka_unit_test(test_expires),
        cmocka_unit_test(test_cut_off),
        cmocka_unit_test(test_homes_move),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_bounded),
        cmocka_unit_test(test_random),
    };
    util_log_setup(UTIL_LOG_ERROR, NULL, "test");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
