/*
 * test/unit/dht/test_lookup_cache.c - answers of look-ups that are kept: few messages,
 * never a stale one
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
    uint32_t reader = fake_stranger(net, 0, 0), writer = fake_stranger(net, 0, 1);

    (void)state;
    assert_int_equal(cost(net, reader, 0, KEEP, ENOENT), 2);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(cost(net, reader, 0, KEEP, ENOENT), 0);
    assert_int_equal(dht_node_get_stats(net->rank[reader].node)->asked, 2);
    assert_int_equal(dht_node_get_stats(net->rank[reader].node)->kept, 1000);
    assert_int_equal(cost(net, reader, 0, 0, ENOENT), 2); /* who does not want it */

    fake_publish_ok(net, writer, 0, 7, PUB);
    assert_int_equal(poll(net, reader, 0).entry.size, 7); /* at the first look */
    assert_int_equal(cost(net, reader, 0, KEEP, 0), 0);   /* that there is one, too */
    fake_publish_ok(net, writer, 0, 8, PUB);
    assert_int_equal(poll(net, reader, 0).entry.size, 8);
    fake_publish_ok(net, writer, 0, 0, GONE);
    assert_int_equal(poll(net, reader, 0).status, ENOENT);
    assert_int_equal(cost(net, reader, 0, KEEP, ENOENT), 0); /* a tombstone */
    fake_publish_ok(net, writer, 0, 9, PUB);
    assert_int_equal(poll(net, reader, 0).entry.size, 9);
    fake_net_destroy(net);
}

/* close() at the publisher does not return before the poller has forgotten. */
static void test_acknowledged_after(void **state)
{
    struct fake_net *net = fake_net_create(8, 2, 1);
    uint32_t reader = fake_stranger(net, 0, 0), writer = fake_stranger(net, 0, 1);
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
            fake_publish_ok(net, rank, rank, 0, GONE);
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
    uint32_t reader = fake_stranger(net, 0, 0);

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
    uint32_t reader = fake_stranger(net, 0, 0), writer = fake_stranger(net, 0, 1);

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
    fake_publish_ok(net, writer, 0, 5, PUB);
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
    uint32_t reader = fake_stranger(net, 0, 0), writer = fake_stranger(net, 0, 1);
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
    fake_publish_ok(net, writer, 0, 3, PUB);
    assert_int_equal(poll(net, reader, 0).entry.size, 3);
    fake_net_destroy(net);
}

/* A look-up that leads to a copy is one that the homes know of. */
static void test_copies(void **state)
{
    struct fake_net *net = fake_net_create(8, 2, 1);
    uint32_t reader = fake_stranger(net, 0, 0), writer = fake_stranger(net, 0, 1);

    (void)state;
    assert_int_equal(cost(net, reader, 0, KEEP | NET_LOOKUP_COPY, ENOENT), 2);
    assert_int_equal(cost(net, reader, 0, KEEP | NET_LOOKUP_COPY, ENOENT), 0);
    fake_publish_ok(net, writer, 0, 3, PUB);
    assert_int_equal(cost(net, reader, 0, KEEP, 0), 1);
    assert_int_equal(cost(net, reader, 0, KEEP | NET_LOOKUP_COPY, 0), 2); /* all of them */
    /* A wait is never answered from here. */
    assert_int_equal(cost(net, reader, 0, KEEP | NET_LOOKUP_WAIT, 0), 1);
    fake_net_destroy(net);
}

/* The guest that asked has gone: nobody brings the answer, the next asks again. */
static void test_cancelled(void **state)
{
    struct fake_net *net = fake_net_create(8, 2, 1);
    uint32_t reader = fake_stranger(net, 0, 0);
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

/* ---- answers that the members of a node share ---- */

static struct fake_net *one_machine(uint32_t nranks, uint32_t replicas)
{
    struct fake_net *net = fake_net_create(nranks, replicas, 1);
    net->machines = 1;
    return net;
}

static void test_node_asks_once(void **state)
{
    struct fake_net *net = one_machine(8, 2);
    uint32_t first = fake_stranger(net, 0, 0), second = fake_stranger(net, 0, 1);
    uint32_t writer = fake_stranger(net, 0, 2);

    (void)state;
    assert_int_equal(cost(net, first, 0, KEEP, ENOENT), 2);
    for (int i = 0; i < 100; i++)
        assert_int_equal(cost(net, second, 0, KEEP, ENOENT), 0);
    assert_int_equal(dht_node_get_stats(net->rank[second].node)->node, 100);
    assert_int_equal(dht_node_get_stats(net->rank[second].node)->kept, 0);
    assert_int_equal(cost(net, second, 0, 0, ENOENT), 2); /* who does not want it */
    assert_int_equal(cost(net, second, 0, KEEP | NET_LOOKUP_COPY, ENOENT), 0);

    fake_publish_ok(net, writer, 0, 7, PUB);
    assert_int_equal(poll(net, second, 0).entry.size, 7); /* keeps it now */
    assert_int_equal(cost(net, first, 0, KEEP, 0), 0);
    assert_int_equal(poll(net, first, 0).entry.size, 7);
    assert_int_equal(dht_node_get_stats(net->rank[first].node)->node, 2);
    /* For a copy the homes must know of each rank, and wait for those that ask. */
    assert_int_equal(cost(net, first, 0, KEEP | NET_LOOKUP_COPY, 0), 2);
    assert_int_equal(cost(net, first, 0, NET_LOOKUP_WAIT, 0), 1);
    fake_publish_ok(net, writer, 0, 0, GONE);
    assert_int_equal(poll(net, first, 0).status, ENOENT);
    assert_true(poll(net, second, 0).has_entry); /* the tombstone, too */

    /* It has its time, whoever looks how often. */
    fake_net_run(net, net->config.keep_time);
    assert_int_equal(cost(net, second, 0, KEEP, ENOENT), 2);
    fake_net_destroy(net);
}

static void test_node_other_machine(void **state)
{
    struct fake_net *net = fake_net_create(8, 2, 1);

    (void)state;
    net->machines = 8;
    assert_int_equal(cost(net, fake_stranger(net, 0, 0), 0, KEEP, ENOENT), 2);
    assert_int_equal(cost(net, fake_stranger(net, 0, 1), 0, KEEP, ENOENT), 2);
    fake_net_destroy(net);
}

/* It is gone when the keeper is told, before anybody has acknowledged anything. */
static void test_node_keeper_is_told(void **state)
{
    struct fake_net *net = one_machine(8, 2);
    uint32_t keeper = fake_stranger(net, 0, 0), other = fake_stranger(net, 0, 1);
    struct result r;

    (void)state;
    poll(net, keeper, 0);
    net->rank[keeper].hold = true;
    fake_publish(net, fake_stranger(net, 0, 2), 0, 7, PUB, &r);
    fake_net_run(net, SEC);
    assert_int_equal(r.calls, 0);
    assert_int_equal(poll(net, other, 0).entry.size, 7);
    fake_net_destroy(net);
}

/* The keeper publishes: nobody tells it. */
static void test_node_keeper_publishes(void **state)
{
    struct fake_net *net = one_machine(8, 2);
    uint32_t keeper = fake_stranger(net, 0, 0), other = fake_stranger(net, 0, 1);
    struct result r, early;

    (void)state;
    poll(net, keeper, 0);
    assert_int_equal(cost(net, other, 0, KEEP, ENOENT), 0);
    fake_publish(net, keeper, 0, 7, PUB, &r);
    fake_lookup(net, keeper, 0, KEEP, NULL, &early); /* not kept */
    assert_true(fake_net_run_until(net, &r.calls, SEC));
    assert_int_equal(poll(net, other, 0).entry.size, 7);
    /* And who publishes while another keeps an answer sees its own, from the first. */
    fake_net_run(net, net->config.keep_time);
    poll(net, keeper, 0);
    assert_int_equal(cost(net, other, 0, KEEP, 0), 0);
    fake_publish(net, other, 0, 8, PUB, &r);
    fake_lookup(net, other, 0, KEEP, NULL, &early);
    assert_true(fake_net_run_until(net, &early.calls, SEC));
    assert_int_equal(early.entry.size, 8);
    assert_true(fake_net_run_until(net, &r.calls, SEC));
    assert_int_equal(poll(net, other, 0).entry.size, 8);
    assert_int_equal(poll(net, keeper, 0).entry.size, 8);
    fake_net_destroy(net);
}

/* Nobody waits for a dead holder: its answers are dead, too, whoever knows of it. */
static void test_node_keeper_dies(void **state)
{
    for (int told = 0; told < 2; told++) {
        struct fake_net *net = one_machine(8, 2);
        uint32_t keeper = fake_stranger(net, 0, 0), other = fake_stranger(net, 0, 1);
        uint32_t writer = fake_stranger(net, 0, 2);
        (void)state;
        poll(net, keeper, 0);
        assert_int_equal(cost(net, other, 0, KEEP, ENOENT), 0);
        fake_net_kill(net, keeper, told);
        fake_publish_ok(net, writer, 0, 7, PUB);
        assert_int_equal(poll(net, other, 0).entry.size, 7);
        fake_net_destroy(net);
    }
}

/* The keeper is silent; the homes go on without it after a bound that is shorter than
 * keep_time. */
static void test_node_keeper_is_silent(void **state)
{
    struct fake_net *net = one_machine(8, 2);
    uint32_t keeper = fake_stranger(net, 0, 0), other = fake_stranger(net, 0, 1);
    uint32_t writer = fake_stranger(net, 0, 2);
    uint64_t start;

    (void)state;
    net->config.invalidate_timeout = SEC / 2;
    for (uint32_t i = 0; i < net->nranks; i++) {
        fake_net_kill(net, i, false);
        fake_net_revive(net, i, false);
    }
    poll(net, keeper, 0);
    assert_int_equal(cost(net, other, 0, KEEP, ENOENT), 0);
    net->refuse = false;
    for (uint32_t i = 0; i < net->nranks; i++)
        net->cut[i][keeper] = true;
    start = net->now;
    fake_publish_ok(net, writer, 0, 7, PUB);
    assert_in_range(net->now - start, SEC / 2, SEC);
    assert_int_equal(poll(net, other, 0).entry.size, 7);
    fake_net_destroy(net);
}

/* While a publish is under way its homes say one thing, and what is kept another. Whoever
 * has been told by the homes is not told otherwise afterwards, nor are others of its node,
 * the keeper included. */
static void told_by_homes(bool there)
{
    struct fake_net *net = one_machine(8, 2);
    uint32_t keeper = fake_stranger(net, 0, 0), other = fake_stranger(net, 0, 1);
    uint32_t writer = fake_stranger(net, 0, 2), third = fake_stranger(net, 0, 3);
    int before = there ? ENOENT : 0, after = there ? 0 : ENOENT;
    struct result r;

    net->refuse = false;
    if (!there)
        fake_publish_ok(net, writer, 0, 7, PUB);
    poll(net, keeper, 0);
    assert_int_equal(cost(net, third, 0, KEEP, before), 0);
    for (uint32_t rank = 0; rank < net->nranks; rank++)
        net->cut[rank][keeper] = true;
    fake_publish(net, writer, 0, 8, there ? PUB : GONE, &r);
    fake_net_run(net, SEC / 20);
    assert_int_equal(r.calls, 0);
    assert_int_equal(cost(net, third, 0, KEEP, before), 0);
    assert_int_equal(poll_flags(net, other, 0, 0).status, after);
    assert_int_equal(poll(net, other, 0).status, after);
    assert_int_equal(poll(net, third, 0).status, after);
    for (uint32_t rank = 0; rank < net->nranks; rank++)
        net->cut[rank][keeper] = false;
    assert_int_equal(poll(net, keeper, 0).status, after);
    assert_true(fake_net_run_until(net, &r.calls, 60 * SEC));
    fake_net_destroy(net);
}

static void test_node_was_told(void **state)
{
    (void)state;
    told_by_homes(true);
    told_by_homes(false);
}

/* For a random while; what is acknowledged meanwhile, and so must not be missed by a
 * look-up that begins later. */
static void run_and_note(struct fake_net *net, const struct result *pub,
                         const unsigned *key, unsigned n, struct dyad_version *acked)
{
    uint64_t end = net->now + fake_net_random(net, 3) * fake_net_random(net, 1000000);

    do {
        fake_net_run(net, 1000);
        for (unsigned j = 0; j < n; j++)
            if (pub[j].calls == 1 && dyad_version_cmp(&pub[j].version, &acked[key[j]]) > 0)
                acked[key[j]] = pub[j].version;
    } while (net->now < end);
}

/* Homes have moved, and the keeper has not heard of it. */
static void test_node_homes_move(void **state)
{
    struct fake_net *net = one_machine(8, 2);
    uint32_t keeper = fake_stranger(net, 0, 0), other = fake_stranger(net, 0, 1);
    uint32_t writer = fake_stranger(net, 0, 2), homes[DHT_REPLICAS_MAX];

    (void)state;
    fake_homes(net, 0, homes);
    fake_publish_ok(net, writer, 0, 7, PUB);
    assert_int_equal(poll(net, keeper, 0).entry.size, 7); /* the first home said so */
    fake_net_kill(net, homes[0], false);
    dht_node_set_live(net->rank[writer].node, homes[0], false);
    dht_node_set_live(net->rank[other].node, homes[0], false);
    fake_publish_ok(net, writer, 0, 8, PUB);
    assert_int_equal(poll(net, other, 0).entry.size, 8);
    fake_net_destroy(net);

    /* The home is another one under the same number: what it was asked is forgotten. */
    net = one_machine(8, 2);
    fake_publish_ok(net, writer, 0, 7, PUB);
    assert_int_equal(poll(net, keeper, 0).entry.size, 7);
    fake_net_kill(net, homes[0], false);
    fake_net_revive(net, homes[0], false);
    for (int live = 0; live < 2; live++) {
        dht_node_set_live(net->rank[writer].node, homes[0], live);
        dht_node_set_live(net->rank[other].node, homes[0], live);
    }
    fake_publish_ok(net, writer, 0, 8, PUB);
    assert_int_equal(poll(net, other, 0).entry.size, 8);
    fake_net_destroy(net);

    /* The keeper believes the only home dead and asks the one that would come after it. */
    net = one_machine(8, 1);
    fake_homes(net, 0, homes);
    keeper = fake_stranger(net, 0, 0);
    dht_node_set_live(net->rank[keeper].node, homes[0], false);
    assert_int_equal(poll(net, keeper, 0).status, ENOENT);
    uint32_t substitute[DHT_REPLICAS_MAX];
    dht_node_homes(net->rank[keeper].node, fake_key(0), substitute);
    for (uint32_t i = 0; i < net->nranks; i++) {
        if (i == keeper || i == homes[0] || i == substitute[0])
            continue;
        fake_publish_ok(net, i, 0, 9 + i, PUB);
        assert_int_equal(poll(net, homes[0], 0).entry.size, 9 + i);
        assert_int_equal(poll(net, i, 0).entry.size, 9 + i);
    }
    fake_net_destroy(net);
}

/* As random_world(), with answers that are shared and readers that die. */
static uint64_t random_node_world(uint64_t seed)
{
    enum { ROUNDS = 300, KEYS = 3 };
    uint32_t n = 10 + (uint32_t)(seed % 6), readers[FAKE_RANKS], nreaders = 0;
    struct fake_net *net = fake_net_create(n, 2, seed);
    static struct result pub[ROUNDS], look[ROUNDS][6];
    static struct dyad_version least[ROUNDS][6];
    struct dyad_version acked[KEYS] = {{0}};
    unsigned key[ROUNDS], look_key[ROUNDS][6];
    uint32_t rank[ROUNDS][6], incarnation[ROUNDS][6];
    uint64_t used = 0;

    net->machines = 1 + (uint32_t)(seed % 3);
    net->reorder = seed % 2;
    for (uint32_t i = 0; i < n; i++) {
        bool home = false;
        for (unsigned k = 0; k < KEYS; k++)
            home = home || fake_is_home(net, k, i);
        if (!home)
            readers[nreaders++] = i;
    }
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (fake_net_random(net, 5) == 0) {
            uint32_t r = readers[fake_net_random(net, nreaders)];
            if (net->rank[r].node == NULL)
                fake_net_revive(net, r, true);
            else
                fake_net_kill(net, r, fake_net_random(net, 2) == 0);
        }
        key[i] = fake_net_random(net, KEYS);
        pub[i] = (struct result){.calls = -1};
        if (fake_net_random(net, 4) == 0) {
            uint32_t homes[DHT_REPLICAS_MAX];
            fake_homes(net, fake_net_random(net, KEYS), homes); /* one that does not die */
            fake_publish(net, homes[0], key[i], i, fake_net_random(net, 3) ? PUB : GONE,
                         &pub[i]);
        }
        for (unsigned l = 0; l < 6; l++) {
            do
                rank[i][l] = fake_net_random(net, n);
            while (net->rank[rank[i][l]].node == NULL);
            incarnation[i][l] = net->rank[rank[i][l]].incarnation;
            look_key[i][l] = fake_net_random(net, KEYS);
            least[i][l] = acked[look_key[i][l]];
            fake_lookup(net, rank[i][l], look_key[i][l], KEEP, NULL, &look[i][l]);
        }
        run_and_note(net, pub, key, i + 1, acked);
    }
    fake_net_run(net, 10 * SEC);
    for (unsigned i = 0; i < ROUNDS; i++) {
        for (unsigned l = 0; l < 6; l++) {
            const struct result *r = &look[i][l];
            const struct fake_rank *by = &net->rank[rank[i][l]];
            if (r->calls == 0 && (by->node == NULL || by->incarnation != incarnation[i][l]))
                continue; /* it died over it */
            assert_int_equal(r->calls, 1);
            if (least[i][l].counter > 0) {
                assert_true(r->has_entry);
                assert_true(dyad_version_cmp(&r->entry.version, &least[i][l]) >= 0);
            }
        }
    }
    for (uint32_t i = 0; i < n; i++)
        if (net->rank[i].node != NULL)
            used += dht_node_get_stats(net->rank[i].node)->node;
    fake_net_destroy(net);
    return used;
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
        run_and_note(net, pub, key, i + 1, acked);
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

static void test_random_node(void **state)
{
    const char *env = getenv("TEST_SEED");
    uint64_t seeds = getenv("DYAD_TEST_VALGRIND") != NULL ? 12 : 150, used = 0;

    (void)state;
    if (env != NULL) {
        random_node_world(strtoull(env, NULL, 0));
        return;
    }
    for (uint64_t seed = 0; seed < seeds; seed++) {
        printf("seed %llu (TEST_SEED)\r", (unsigned long long)seed);
        fflush(stdout);
        used += random_node_world(seed);
    }
    assert_true(used > 20 * seeds); /* it was of use */
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
        cmocka_unit_test(test_node_asks_once),
        cmocka_unit_test(test_node_other_machine),
        cmocka_unit_test(test_node_keeper_is_told),
        cmocka_unit_test(test_node_keeper_publishes),
        cmocka_unit_test(test_node_keeper_dies),
        cmocka_unit_test(test_node_keeper_is_silent),
        cmocka_unit_test(test_node_was_told),
        cmocka_unit_test(test_node_homes_move),
        cmocka_unit_test(test_random_node),
    };
    util_log_setup(UTIL_LOG_ERROR, NULL, "test");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
