/*
 * test/unit/dht/test_node.c - homes, publishers and waiters in a world that loses messages
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
#define WAIT NET_LOOKUP_WAIT
#define COPY NET_LOOKUP_COPY
#define KEEP NET_LOOKUP_KEEP

static void publish_ok(struct fake_net *net, uint32_t rank, unsigned key, uint64_t size,
                       enum dyad_entry_state state, struct dyad_version *version)
{
    struct result r;

    fake_publish(net, rank, key, size, state, &r);
    assert_true(fake_net_run_until(net, &r.calls, 60 * SEC));
    assert_int_equal(r.status, 0);
    if (version != NULL)
        *version = r.version;
}

static void lookup_is(struct fake_net *net, uint32_t rank, unsigned key, int status,
                      uint64_t size)
{
    struct result r;

    fake_lookup(net, rank, key, 0, NULL, &r);
    assert_true(fake_net_run_until(net, &r.calls, 60 * SEC));
    assert_int_equal(r.status, status);
    if (status == 0)
        assert_int_equal(r.entry.size, size);
}

/* A rank that is none of the key's first n homes or `other`. */
static uint32_t stranger(struct fake_net *net, unsigned key, uint32_t other)
{
    uint32_t homes[DHT_REPLICAS_MAX];
    unsigned n = fake_homes(net, key, homes);

    for (uint32_t i = 0; i < net->nranks; i++) {
        bool ok = i != other && net->rank[i].node != NULL;
        for (unsigned j = 0; j < n; j++)
            ok = ok && homes[j] != i;
        if (ok)
            return i;
    }
    abort();
}

static unsigned waiters(struct fake_net *net, uint32_t rank)
{
    struct dht_shard_stats stats;

    if (net->rank[rank].node == NULL)
        return 0;
    dht_shard_get_stats(dht_node_shard(net->rank[rank].node), &stats);
    return (unsigned)stats.waiters;
}

static unsigned all_waiters(struct fake_net *net)
{
    unsigned n = 0;

    for (uint32_t i = 0; i < net->nranks; i++)
        n += waiters(net, i);
    return n;
}

static void test_create(void **state)
{
    struct dht_node_ops ops = {0};
    struct dht_node_config config = {.nranks = 2,
                                     .self = 2,
                                     .depth = 2,
                                     .bins = 16,
                                     .replicas = 1,
                                     .request_timeout = 1,
                                     .retry_interval = 1,
                                     .invalidate_timeout = 1};

    (void)state;
    assert_null(dht_node_create(&config, &ops, NULL));
    assert_int_equal(errno, EINVAL);
    config.self = 1;
    config.depth = 17;
    assert_null(dht_node_create(&config, &ops, NULL));
    assert_int_equal(errno, EINVAL);
}

static void test_publish_lookup(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 9; n++) {
        for (uint32_t r = 1; r <= 4; r++) {
            struct fake_net *net = fake_net_create(n, r, n);
            for (unsigned k = 0; k < 10; k++) {
                struct dyad_version v;
                uint32_t homes[DHT_REPLICAS_MAX];
                lookup_is(net, (k + 1) % n, k, ENOENT, 0);
                publish_ok(net, k % n, k, 100 + k, PUB, &v);
                assert_int_equal(v.counter, 1);
                assert_int_equal(v.rank, k % n);
                assert_int_equal(dht_node_pending(net->rank[k % n].node), 0);
                unsigned nhomes = fake_homes(net, k, homes);
                assert_int_equal(nhomes, r < n ? r : n);
                for (unsigned i = 0; i < nhomes; i++) { /* acknowledged means: by all */
                    struct dht_record *record = fake_record(net, homes[i], k);
                    assert_non_null(record);
                    assert_int_equal(record->entry.size, 100 + k);
                    assert_int_equal(record->entry.owner, k % n);
                }
                for (uint32_t i = 0; i < n; i++)
                    lookup_is(net, i, k, 0, 100 + k);
                publish_ok(net, k % n, k, 7, PUB, &v);
                assert_int_equal(v.counter, 2);
                lookup_is(net, (k + 1) % n, k, 0, 7);
            }
            fake_net_destroy(net);
        }
    }
}

/* The latest holders, in one look: who asks to copy is noted, who only asks is not. */
static void test_holders(void **state)
{
    struct fake_net *net = fake_net_create(12, 2, 1);
    uint32_t homes[DHT_REPLICAS_MAX];
    struct result r;

    (void)state;
    fake_homes(net, 0, homes);
    uint32_t owner = stranger(net, 0, DYAD_RANK_NONE), reader = stranger(net, 0, owner);
    publish_ok(net, owner, 0, 5, PUB, NULL);
    fake_lookup(net, reader, 0, 0, NULL, &r);
    assert_true(fake_net_run_until(net, &r.calls, SEC));
    fake_lookup(net, owner, 0, COPY, NULL, &r); /* the owner's is no copy */
    assert_true(fake_net_run_until(net, &r.calls, SEC));
    assert_int_equal(fake_record(net, homes[0], 0)->nholders, 0);
    fake_lookup(net, reader, 0, COPY, NULL, &r);
    assert_true(fake_net_run_until(net, &r.calls, SEC));
    assert_int_equal(fake_record(net, homes[0], 0)->nholders, 1);
    assert_int_equal(fake_record(net, homes[0], 0)->holders[0], reader);
    fake_net_destroy(net);
}

static void test_wait(void **state)
{
    struct fake_net *net = fake_net_create(12, 2, 1);
    uint32_t homes[DHT_REPLICAS_MAX];
    struct result a, b, c;
    struct dht_lookup *cancelled;
    struct dyad_version v;

    (void)state;
    fake_homes(net, 0, homes);
    uint32_t owner = stranger(net, 0, DYAD_RANK_NONE), reader = stranger(net, 0, owner);
    struct dht_lookup *la = fake_lookup(net, reader, 0, WAIT | COPY, NULL, &a);
    cancelled = fake_lookup(net, reader, 0, WAIT, NULL, &b);
    fake_lookup(net, homes[1], 0, WAIT | COPY, NULL, &c); /* a home waits at itself */
    assert_int_equal(dht_lookup_home(la), DYAD_RANK_NONE);
    fake_net_run(net, SEC);
    assert_int_equal(dht_lookup_home(la), homes[0]);
    assert_int_equal(waiters(net, homes[0]), 2);
    assert_int_equal(waiters(net, homes[1]), 1);
    fake_net_run(net, 60 * SEC); /* asks again and again: still one waiter each */
    assert_int_equal(all_waiters(net), 3);
    assert_int_equal(a.calls + b.calls + c.calls, 0);
    dht_node_cancel(net->rank[reader].node, cancelled);
    fake_net_run(net, SEC);
    assert_int_equal(all_waiters(net), 2);

    uint64_t start = net->now;
    publish_ok(net, owner, 0, 5, PUB, &v);
    assert_true(fake_net_run_until(net, &a.calls, SEC));
    assert_true(fake_net_run_until(net, &c.calls, SEC));
    assert_true(net->now - start < MSEC);
    fake_net_run(net, SEC);
    assert_int_equal(a.calls, 1);
    assert_int_equal(a.status, 0);
    assert_int_equal(a.entry.size, 5);
    assert_int_equal(b.calls, 0);
    assert_int_equal(all_waiters(net), 0);
    assert_int_equal(fake_record(net, homes[0], 0)->nholders, 1); /* by the notice */

    /* Published before: at once. Waiting for a newer one: when it comes. */
    fake_lookup(net, reader, 0, WAIT, NULL, &a);
    fake_lookup(net, reader, 0, WAIT, &v, &b);
    fake_net_run(net, SEC);
    assert_int_equal(a.calls, 1);
    assert_int_equal(b.calls, 0);
    publish_ok(net, owner, 0, 6, PUB, &v);
    assert_true(fake_net_run_until(net, &b.calls, SEC));
    assert_int_equal(b.entry.version.counter, 2);
    fake_lookup(net, reader, 0, 0, &v, &a); /* nothing newer: no */
    assert_true(fake_net_run_until(net, &a.calls, SEC));
    assert_int_equal(a.status, ENOENT);
    assert_false(a.has_entry);
    fake_net_destroy(net);
}

/* A waiter for a path that never comes leaves nothing behind. */
static void test_cancel_leaves_nothing(void **state)
{
    struct fake_net *net = fake_net_create(5, 2, 1);
    struct result r;

    (void)state;
    for (uint32_t i = 0; i < 5; i++) {
        for (int when = 0; when < 3; when++) {
            struct dht_lookup *lookup = fake_lookup(net, i, 3, WAIT, NULL, &r);
            fake_net_run(net, when == 0 ? 0 : when == 1 ? 60000 : 12 * SEC);
            dht_node_cancel(net->rank[i].node, lookup);
            fake_net_run(net, SEC);
            assert_int_equal(r.calls, 0);
            for (uint32_t j = 0; j < 5; j++)
                assert_null(fake_record(net, j, 3));
        }
    }
    /* Done but not yet told: cancelling is still in time. */
    publish_ok(net, 0, 3, 1, PUB, NULL);
    struct dht_lookup *lookup = fake_lookup(net, 0, 3, 0, NULL, &r);
    dht_node_cancel(net->rank[0].node, lookup);
    fake_net_run(net, SEC);
    assert_int_equal(r.calls, 0);
    fake_net_destroy(net);
}

static void test_tombstone(void **state)
{
    struct fake_net *net = fake_net_create(12, 3, 1);
    uint32_t homes[DHT_REPLICAS_MAX];
    struct dyad_version v1, v2;
    struct result r;

    (void)state;
    fake_homes(net, 0, homes);
    uint32_t owner = stranger(net, 0, DYAD_RANK_NONE), other = stranger(net, 0, owner);
    publish_ok(net, owner, 0, 5, PUB, &v1);
    struct dyad_entry old = net->rank[owner].journal[0];
    publish_ok(net, other, 0, 0, GONE, &v2); /* unlinked on another node */
    assert_true(dyad_version_cmp(&v2, &v1) > 0);
    assert_int_equal(net->rank[owner].ninvalidated,
                     3); /* by each home, before it acknowledged */
    assert_int_equal(net->rank[owner].invalidated.state, GONE);

    for (int flags = 0; flags < 4; flags++) {
        fake_lookup(net, owner, 0, (uint8_t)flags, NULL, &r);
        assert_true(fake_net_run_until(net, &r.calls, SEC));
        assert_int_equal(r.status, ENOENT);
        assert_true(r.has_entry);
        assert_int_equal(r.entry.state, GONE);
    }

    /* A late republish of the old owner: refused everywhere, and it learns why. */
    net->rank[owner].ninvalidated = 0;
    old.upath = fake_key(0);
    assert_int_equal(dht_node_restore(net->rank[owner].node, &old), 0);
    fake_net_run(net, 30 * SEC);
    for (int i = 0; i < 3; i++)
        assert_int_equal(fake_record(net, homes[i], 0)->entry.state, GONE);
    assert_int_equal(net->rank[owner].ninvalidated, 1);
    assert_int_equal(dyad_version_cmp(&net->rank[owner].invalidated.version, &v2), 0);
    assert_int_equal(dht_node_pending(net->rank[owner].node), 0);

    /* Who knows of the tombstone can wait for what comes after it. */
    fake_lookup(net, owner, 0, WAIT, &v2, &r);
    fake_net_run(net, 20 * SEC);
    assert_int_equal(r.calls, 0);
    publish_ok(net, owner, 0, 9, PUB, &v1);
    assert_true(dyad_version_cmp(&v1, &v2) > 0);
    assert_true(fake_net_run_until(net, &r.calls, SEC));
    assert_int_equal(r.status, 0);
    assert_int_equal(r.entry.size, 9);
    fake_net_destroy(net);
}

/* Homes that die take the tombstone with them; who withdrew brings it to the new ones, so
 * the old owner cannot bring the file back, whoever of the two comes first. */
static void test_tombstone_moves(void **state)
{
    (void)state;
    for (int first = 0; first < 2; first++) {
        struct fake_net *net = fake_net_create(12, 2, 1);
        uint32_t homes[DHT_REPLICAS_MAX];
        struct dyad_entry old;
        fake_homes(net, 0, homes);
        uint32_t owner = stranger(net, 0, DYAD_RANK_NONE), other = stranger(net, 0, owner);
        publish_ok(net, owner, 0, 5, PUB, NULL);
        old = net->rank[owner].journal[0];
        old.upath = fake_key(0);
        publish_ok(net, other, 0, 0, GONE, NULL);
        fake_net_kill(net, homes[0], true);
        fake_net_kill(net, homes[1], true);
        if (first)
            fake_net_run(net, SEC);
        dht_node_restore(net->rank[owner].node, &old);
        fake_net_run(net, 30 * SEC);
        fake_homes(net, 0, homes);
        for (int i = 0; i < 2; i++)
            assert_int_equal(fake_record(net, homes[i], 0)->entry.state, GONE);
        lookup_is(net, owner, 0, ENOENT, 0);
        fake_net_destroy(net);
    }
}

static void test_version_race(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct fake_net *net = fake_net_create(10, 3, seed);
        uint32_t homes[DHT_REPLICAS_MAX];
        struct result r[4];
        net->reorder = true;
        net->duplicates = 200;
        fake_homes(net, 0, homes);
        for (uint32_t w = 0; w < 4; w++) {
            fake_publish(net, w, 0, 100 + w, seed % 5 == w ? GONE : PUB, &r[w]);
            if (seed % 2)
                fake_net_run(net, fake_net_random(net, 500000));
        }
        fake_net_run(net, 20 * SEC);
        struct dyad_version best = {0};
        uint32_t winner = 0;
        for (uint32_t w = 0; w < 4; w++) {
            assert_int_equal(r[w].calls, 1);
            assert_int_equal(r[w].status, 0);
            if (dyad_version_cmp(&r[w].version, &best) > 0) {
                best = r[w].version;
                winner = w;
            }
        }
        for (int i = 0; i < 3; i++) {
            struct dht_record *record = fake_record(net, homes[i], 0);
            assert_int_equal(dyad_version_cmp(&record->entry.version, &best), 0);
            assert_int_equal(record->entry.size, 100 + winner);
            assert_null(record->user);
        }
        /* Every loser with a file was told; the winner's was never taken away. */
        for (uint32_t w = 0; w < 4; w++)
            if (w == winner || seed % 5 != w)
                assert_int_equal(net->rank[w].journal[0].state != DYAD_ENTRY_NONE,
                                 w == winner);
        fake_net_destroy(net);
    }
}

/* Calls of one rank take effect in their order, each with a version of its own. */
static void test_same_rank_in_order(void **state)
{
    struct fake_net *net = fake_net_create(10, 2, 3);
    struct result r[6];

    (void)state;
    net->reorder = true;
    for (int i = 0; i < 6; i++)
        fake_publish(net, 4, 0, (uint64_t)i, i == 3 ? GONE : PUB, &r[i]);
    assert_int_equal(dht_node_pending(net->rank[4].node), 6);
    fake_net_run(net, SEC);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(r[i].calls, 1);
        assert_int_equal(r[i].status, 0);
        assert_int_equal(r[i].version.counter, i + 1);
    }
    assert_int_equal(dht_node_pending(net->rank[4].node), 0);
    lookup_is(net, 7, 0, 0, 5);
    fake_net_destroy(net);
}

static void confirm(struct fake_net *net, uint32_t rank)
{
    struct fake_rank *r = &net->rank[rank];

    for (unsigned i = 0; i < r->nheld; i++)
        dht_node_invalidated(r->node, r->held[i]);
    r->nheld = 0;
}

static void test_invalidate_before_ack(void **state)
{
    struct fake_net *net = fake_net_create(12, 2, 1);
    uint32_t homes[DHT_REPLICAS_MAX];
    struct result r, r2;

    (void)state;
    fake_homes(net, 0, homes);
    uint32_t owner = stranger(net, 0, DYAD_RANK_NONE), reader = stranger(net, 0, owner);
    publish_ok(net, owner, 0, 5, PUB, NULL);
    fake_lookup(net, reader, 0, COPY, NULL, &r);
    assert_true(fake_net_run_until(net, &r.calls, SEC));

    /* The publisher is not told of its own publish, and waits for the holder. */
    net->rank[reader].hold = true;
    fake_publish(net, owner, 0, 6, PUB, &r);
    fake_net_run(net, SEC);
    assert_int_equal(r.calls, 0);
    assert_int_equal(net->rank[owner].ninvalidated, 0);
    assert_int_equal(net->rank[reader].nheld, 1);
    assert_int_equal(net->rank[reader].invalidated.size, 6);
    lookup_is(net, reader, 0, 0, 6); /* readers get the new one meanwhile */

    /* The next version waits for the same holder, though it has only the first's copy. */
    fake_publish(net, homes[1], 0, 7, PUB, &r2);
    fake_net_run(net, SEC / 10);
    assert_int_equal(r.calls + r2.calls, 0);
    assert_true(net->rank[reader].nheld >= 2);
    confirm(net, reader);
    fake_net_run(net, SEC / 10);
    assert_int_equal(r.calls, 1);
    assert_int_equal(r.status, 0);
    assert_int_equal(r2.calls, 1);
    assert_int_equal(r2.status, 0);
    assert_int_equal(r2.version.counter, 3);
    assert_true(net->rank[owner].ninvalidated >= 1); /* superseded by homes[1] */

    /* A silent holder holds nobody up for longer than the bound, a dead one not at all. */
    for (int dies = 0; dies < 2; dies++) {
        net->rank[reader].nheld = 0;
        net->rank[reader].hold = false;
        fake_lookup(net, reader, 0, COPY, NULL, &r);
        assert_true(fake_net_run_until(net, &r.calls, SEC));
        net->rank[reader].hold = true;
        uint64_t start = net->now;
        fake_publish(net, owner, 0, 8, PUB, &r);
        fake_net_run(net, SEC / 10);
        assert_int_equal(r.calls, 0);
        if (dies)
            fake_net_kill(net, reader, true);
        assert_true(fake_net_run_until(net, &r.calls, 10 * SEC));
        assert_int_equal(r.status, 0);
        if (dies)
            assert_true(net->now - start < SEC);
        else
            assert_in_range(net->now - start, 2 * SEC, 2 * SEC + MSEC);
    }
    fake_net_destroy(net);
}

/* An equal version that comes twice while holders are waited for is not acknowledged early.
 */
static void test_duplicate_waits_too(void **state)
{
    struct fake_net *net = fake_net_create(12, 2, 1);
    struct result r;

    (void)state;
    uint32_t owner = stranger(net, 0, DYAD_RANK_NONE), reader = stranger(net, 0, owner);
    publish_ok(net, owner, 0, 5, PUB, NULL);
    fake_lookup(net, reader, 0, COPY, NULL, &r);
    assert_true(fake_net_run_until(net, &r.calls, SEC));
    net->rank[reader].hold = true;
    net->duplicates = 1000;
    fake_publish(net, owner, 0, 6, PUB, &r);
    fake_net_run(net, SEC);
    assert_int_equal(r.calls, 0);
    confirm(net, reader);
    fake_net_run(net, SEC);
    assert_int_equal(r.calls, 1);
    fake_net_destroy(net);
}

/* INVALIDATE for a version above ours while ours is on its way waits for the end of ours.
 */
static void test_invalidate_during_publish(void **state)
{
    struct fake_net *net = fake_net_create(20, 2, 1);
    uint32_t homes[DHT_REPLICAS_MAX];
    struct result r;

    (void)state;
    fake_homes(net, 0, homes);
    uint32_t w = stranger(net, 0, DYAD_RANK_NONE);
    struct dyad_entry newer = {.upath = fake_key(0),
                               .version = {.counter = 50, .rank = homes[0]},
                               .owner = homes[0],
                               .state = PUB};
    struct net_msg msg = {
        .type = NET_MSG_INVALIDATE, .source = homes[0], .id = 1, .entry = newer};
    fake_publish(net, w, 0, 5, PUB, &r);
    assert_true(dht_node_receive(net->rank[w].node, &msg));
    assert_int_equal(net->rank[w].ninvalidated, 0);
    fake_net_run(net, SEC);
    assert_int_equal(r.status, 0);
    assert_int_equal(net->rank[w].ninvalidated, 1);
    assert_int_equal(net->sent[NET_MSG_INVALIDATE_REPLY], 1);

    /* ... and if ours ends above it, it was nothing. */
    fake_publish(net, w, 0, 6, PUB, &r);
    newer.version.counter = 51; /* ours took 51 too, but our rank decides */
    newer.version.rank = w > 0 ? w - 1 : 0;
    msg.entry = newer;
    assert_true(dht_node_receive(net->rank[w].node, &msg));
    fake_net_run(net, SEC);
    assert_int_equal(r.version.counter, 51);
    assert_int_equal(net->rank[w].ninvalidated, 1);
    assert_int_equal(net->sent[NET_MSG_INVALIDATE_REPLY], 2);
    fake_net_destroy(net);
}

static void test_home_dies_with_waiters(void **state)
{
    (void)state;
    for (int told = 0; told < 2; told++) {
        struct fake_net *net = fake_net_create(12, 2, 1);
        uint32_t homes[DHT_REPLICAS_MAX], after[DHT_REPLICAS_MAX];
        struct result r;
        fake_homes(net, 0, homes);
        uint32_t owner = stranger(net, 0, DYAD_RANK_NONE), reader = stranger(net, 0, owner);
        struct dht_lookup *lookup = fake_lookup(net, reader, 0, WAIT, NULL, &r);
        fake_net_run(net, SEC);
        net->refuse = false;
        fake_net_kill(net, homes[0], told);
        fake_net_kill(net, homes[1], told);
        fake_net_run(net, told ? MSEC : 30 * SEC);
        if (told) { /* moved at once; without news by the silence of both, each in its turn
                     */
            fake_homes(net, 0, after);
            assert_int_equal(dht_lookup_home(lookup), after[0]);
        }
        fake_publish(net, owner, 0, 5, PUB, &(struct result){0});
        assert_true(fake_net_run_until(net, &r.calls, told ? MSEC : 15 * SEC));
        assert_int_equal(r.status, 0);
        assert_int_equal(r.entry.size, 5);
        fake_net_run(net, 60 * SEC);
        fake_net_destroy(net);
    }
}

/* Publisher and reader disagree on who is alive: their homes are disjoint. */
static void test_disjoint_views(void **state)
{
    (void)state;
    for (int before = 0; before < 2; before++) {
        struct fake_net *net = fake_net_create(16, 2, 1);
        uint32_t homes[DHT_REPLICAS_MAX], used[DHT_REPLICAS_MAX];
        struct result r;
        fake_homes(net, 0, homes);
        uint32_t owner = stranger(net, 0, DYAD_RANK_NONE), reader = stranger(net, 0, owner);
        dht_node_set_live(net->rank[owner].node, homes[0], false);
        dht_node_set_live(net->rank[owner].node, homes[1], false);
        dht_node_homes(net->rank[owner].node, fake_key(0), used);
        if (reader == used[0] || reader == used[1])
            reader = homes[0];
        if (before)
            publish_ok(net, owner, 0, 5, PUB, NULL);
        fake_lookup(net, reader, 0, WAIT, NULL, &r);
        fake_net_run(net, SEC);
        assert_int_equal(r.calls, 0);
        if (!before)
            publish_ok(net, owner, 0, 5, PUB, NULL);
        assert_true(fake_net_run_until(net, &r.calls, 5 * SEC)); /* retry_interval */
        assert_int_equal(r.status, 0);

        /* The publisher learns the truth: the entry moves to where all look. */
        dht_node_set_live(net->rank[owner].node, homes[0], true);
        dht_node_set_live(net->rank[owner].node, homes[1], true);
        fake_net_run(net, SEC);
        assert_int_equal(fake_record(net, homes[0], 0)->entry.size, 5);
        assert_int_equal(fake_record(net, homes[1], 0)->entry.size, 5);
        lookup_is(net, reader, 0, 0, 5);
        fake_net_destroy(net);
    }
}

/* No: only if all homes say so. */
static void test_negative_needs_all(void **state)
{
    struct fake_net *net = fake_net_create(16, 3, 1);
    uint32_t homes[DHT_REPLICAS_MAX];
    struct dyad_version v;

    (void)state;
    fake_homes(net, 0, homes);
    uint32_t owner = stranger(net, 0, DYAD_RANK_NONE), reader = stranger(net, 0, owner);
    net->refuse = true;
    net->cut[owner][homes[0]] = net->cut[owner][homes[1]] = true;
    publish_ok(net, owner, 0, 5, PUB, &v); /* reaches the third, and two more */
    assert_null(fake_record(net, homes[0], 0));
    assert_null(fake_record(net, homes[1], 0));
    lookup_is(net, reader, 0, 0, 5);
    net->sent[NET_MSG_LOOKUP] = 0;
    lookup_is(net, reader, 1, ENOENT, 0);
    assert_in_range(net->sent[NET_MSG_LOOKUP], 2, 3); /* one of them may be the reader */

    /* When the way is open again the homes that were passed over get it by themselves. */
    net->cut[owner][homes[0]] = net->cut[owner][homes[1]] = false;
    fake_net_run(net, 6 * SEC);
    assert_int_equal(fake_record(net, homes[0], 0)->entry.size, 5);
    assert_int_equal(fake_record(net, homes[1], 0)->entry.size, 5);
    assert_int_equal(dyad_version_cmp(&fake_record(net, homes[1], 0)->entry.version, &v),
                     0);
    fake_net_destroy(net);
}

static void test_silent_home(void **state)
{
    struct fake_net *net = fake_net_create(16, 2, 1);
    uint32_t homes[DHT_REPLICAS_MAX];
    struct result r;

    (void)state;
    fake_homes(net, 0, homes);
    uint32_t owner = stranger(net, 0, DYAD_RANK_NONE), reader = stranger(net, 0, owner);
    net->refuse = false;
    fake_net_kill(net, homes[0], false);
    uint64_t start = net->now;
    fake_publish(net, owner, 0, 5, PUB, &r);
    assert_true(fake_net_run_until(net, &r.calls, 10 * SEC));
    assert_int_equal(r.status, 0);
    assert_in_range(net->now - start, 3 * SEC, 3 * SEC + MSEC); /* request + invalidate */
    start = net->now;
    lookup_is(net, reader, 0, 0, 5);
    assert_in_range(net->now - start, SEC, SEC + MSEC);
    fake_net_destroy(net);
}

static void test_unreachable(void **state)
{
    struct fake_net *net = fake_net_create(100, 2, 1);
    struct result r;
    unsigned key;

    (void)state;
    /* A key for whose homes rank 0 itself is no stand-in. */
    for (key = 0; key < FAKE_KEYS; key++) {
        struct dht_key k;
        struct dht_ring ring = {.nranks = 100, .replicas = 2};
        bool near = false;
        dht_key_init(&k, fake_key(key), 1);
        for (uint32_t j = 0; j < 40; j++)
            near |= dht_homes_probe(&ring, &k, j) == 0;
        if (!near)
            break;
    }
    assert_true(key < FAKE_KEYS);
    memset(net->cut[0], 1, sizeof(net->cut[0]));
    fake_publish(net, 0, key, 5, PUB, &r);
    fake_net_run(net, MSEC);
    assert_int_equal(r.calls, 1);
    assert_int_equal(r.status, EHOSTUNREACH);
    for (int flags = 0; flags < 2; flags++) {
        fake_lookup(net, 0, key, (uint8_t)flags, NULL, &r);
        fake_net_run(net, MSEC);
        assert_int_equal(r.calls, 1);
        assert_int_equal(r.status, EHOSTUNREACH);
        assert_false(r.has_entry);
    }
    /* It was kept: it is there when the network is. */
    memset(net->cut[0], 0, sizeof(net->cut[0]));
    fake_net_run(net, 6 * SEC);
    lookup_is(net, 50, key, 0, 5);
    fake_net_destroy(net);
}

static void test_homes_die_and_return(void **state)
{
    struct fake_net *net = fake_net_create(16, 2, 1);
    uint32_t homes[DHT_REPLICAS_MAX], next[DHT_REPLICAS_MAX];

    (void)state;
    for (unsigned k = 0; k < FAKE_KEYS; k++)
        publish_ok(net, 1, k, k, PUB, NULL);
    fake_homes(net, 0, homes);
    for (int i = 0; i < 2; i++)
        if (homes[i] != 1)
            fake_net_kill(net, homes[i], true);
    assert_true(dht_node_pending(net->rank[1].node) > 0);
    fake_net_run(net, SEC);
    assert_int_equal(dht_node_pending(net->rank[1].node), 0);
    fake_homes(net, 0, next);
    assert_int_equal(fake_record(net, next[0], 0)->entry.version.counter, 1);
    assert_int_equal(fake_record(net, next[1], 0)->entry.version.counter, 1);
    /* Back with an empty shard, before anybody asked. */
    for (int i = 0; i < 2; i++)
        if (homes[i] != 1)
            fake_net_revive(net, homes[i], true);
    fake_net_run(net, SEC);
    for (unsigned k = 0; k < FAKE_KEYS; k++) {
        fake_homes(net, k, homes);
        for (int i = 0; i < 2; i++)
            assert_int_equal(fake_record(net, homes[i], k)->entry.size, k);
    }
    /* A bounce that is over before anything was sent is noticed too. */
    fake_homes(net, 0, homes);
    for (int i = 0; i < 2; i++) {
        if (homes[i] == 1)
            continue;
        fake_net_kill(net, homes[i], true);
        fake_net_revive(net, homes[i], true);
        fake_net_run(net, SEC);
        assert_int_equal(fake_record(net, homes[i], 0)->entry.version.counter, 1);
    }
    fake_net_destroy(net);
}

/* The owner execs: its next incarnation puts its entries back; copies elsewhere stay good.
 */
static void test_restore(void **state)
{
    struct fake_net *net = fake_net_create(12, 2, 1);
    uint32_t homes[DHT_REPLICAS_MAX];
    struct result r, w;
    struct dyad_version v1;

    (void)state;
    fake_homes(net, 0, homes);
    uint32_t owner = stranger(net, 0, DYAD_RANK_NONE), reader = stranger(net, 0, owner);
    publish_ok(net, owner, 0, 5, PUB, &v1);
    fake_lookup(net, reader, 0, COPY, NULL, &r);
    assert_true(fake_net_run_until(net, &r.calls, SEC));
    fake_lookup(net, reader, 0, WAIT, &v1, &w);
    fake_net_kill(net, owner, true);
    fake_net_revive(net, owner, true);
    fake_net_run(net, 20 * SEC);
    assert_int_equal(net->rank[reader].ninvalidated, 0);
    assert_int_equal(w.calls, 0);
    struct dht_record *record = fake_record(net, homes[0], 0);
    assert_int_equal(dyad_version_cmp(&record->entry.version, &v1), 0);
    assert_int_equal(record->owner_incarnation, 1);
    publish_ok(net, owner, 0, 6, PUB, &v1);
    assert_int_equal(v1.counter, 2);
    assert_int_equal(v1.incarnation, 1);
    assert_int_equal(net->rank[reader].ninvalidated, 1);
    assert_true(fake_net_run_until(net, &w.calls, SEC));
    assert_int_equal(w.status, 0);

    /* All members exec at once. */
    for (uint32_t i = 0; i < 12; i++)
        fake_net_kill(net, i, true);
    for (uint32_t i = 0; i < 12; i++)
        fake_net_revive(net, i, false);
    fake_net_run(net, SEC);
    lookup_is(net, reader, 0, 0, 6);

    struct dyad_entry bad = {.upath = "key0", .state = PUB};
    assert_int_equal(dht_node_restore(net->rank[0].node, &bad), -1);
    assert_int_equal(errno, EINVAL);
    bad.version.counter = 1;
    bad.state = DYAD_ENTRY_NONE;
    assert_int_equal(dht_node_restore(net->rank[0].node, &bad), -1);
    fake_net_destroy(net);
}

/* Waiters of the dead go; so do the records that were made for them. */
static void test_dead_waiters_swept(void **state)
{
    struct fake_net *net = fake_net_create(12, 2, 1);
    uint32_t homes[DHT_REPLICAS_MAX];
    struct result r;

    (void)state;
    fake_homes(net, 0, homes);
    uint32_t owner = stranger(net, 0, DYAD_RANK_NONE), reader = stranger(net, 0, owner);
    fake_lookup(net, reader, 0, WAIT, NULL, &r);
    publish_ok(net, owner, 1, 1, PUB, NULL);
    fake_lookup(net, reader, 1, COPY, NULL, &r);
    fake_net_run(net, SEC);
    assert_int_equal(all_waiters(net), 1);
    fake_net_kill(net, reader, true);
    fake_net_run(net, 2 * SEC);
    assert_int_equal(all_waiters(net), 0);
    assert_null(fake_record(net, homes[0], 0));
    fake_homes(net, 1, homes);
    for (int i = 0; i < 2; i++)
        if (homes[i] != reader)
            assert_int_equal(fake_record(net, homes[i], 1)->nholders, 0);
    fake_net_destroy(net);
}

static void test_refresh(void **state)
{
    struct fake_net *net = fake_net_create(8, 2, 1);
    struct dht_shard_stats stats;
    uint32_t homes[DHT_REPLICAS_MAX];

    (void)state;
    net->config.refresh_interval = 60 * SEC;
    for (uint32_t i = 0; i < 8; i++) {
        fake_net_kill(net, i, false);
        fake_net_revive(net, i, false);
    }
    publish_ok(net, 3, 0, 5, PUB, NULL);
    fake_homes(net, 0, homes);
    /* A home that lost its shard without anybody's notice. */
    uint32_t home = homes[0] == 3 ? homes[1] : homes[0];
    fake_net_kill(net, home, false);
    fake_net_revive(net, home, false);
    dht_shard_get_stats(dht_node_shard(net->rank[home].node), &stats);
    assert_int_equal(stats.entries, 0);
    fake_net_run(net, 61 * SEC);
    dht_shard_get_stats(dht_node_shard(net->rank[home].node), &stats);
    assert_int_equal(stats.entries, 1);
    fake_net_destroy(net);
}

static void test_hostile(void **state)
{
    struct fake_net *net = fake_net_create(6, 2, 1);
    struct dht_node *node = net->rank[0].node;
    struct dht_shard_stats stats;
    struct dyad_entry good = {
        .upath = "key0", .version = {.counter = 1, .rank = 1}, .owner = 1, .state = PUB};
    struct result r;

    (void)state;
    for (int type = 0; type < NET_MSG_TYPE_END + 3; type++) {
        struct net_msg msg = {.type = type, .entry = good, .id = 77};
        bool ours = (type >= NET_MSG_PUBLISH && type <= NET_MSG_INVALIDATE_REPLY) ||
                    type == NET_MSG_ERROR || type == NET_MSG_WRITING ||
                    type == NET_MSG_WRITING_REPLY;
        msg.source = 6; /* out of range */
        assert_int_equal(dht_node_receive(node, &msg), ours);
        msg.source = DYAD_RANK_NONE;
        assert_int_equal(dht_node_receive(node, &msg), ours);
        msg.source = 0; /* ourselves */
        assert_int_equal(dht_node_receive(node, &msg), ours);
        msg.source = 1;
        msg.entry.upath = NULL;
        assert_int_equal(dht_node_receive(node, &msg), ours);
    }
    dht_shard_get_stats(dht_node_shard(node), &stats);
    assert_int_equal(stats.occupied, 0);

    for (int bad = 0; bad < 6; bad++) {
        struct net_msg msg = {.type = NET_MSG_PUBLISH, .entry = good, .source = 1};
        if (bad == 0)
            msg.entry.owner = 6;
        else if (bad == 1)
            msg.entry.version.rank = 6;
        else if (bad == 2)
            msg.entry.version.counter = 0;
        else if (bad == 3)
            msg.entry.version.counter = UINT64_MAX;
        else if (bad == 4)
            msg.entry.state = DYAD_ENTRY_NONE;
        else
            msg.entry.state = 99;
        assert_true(dht_node_receive(node, &msg));
    }
    dht_shard_get_stats(dht_node_shard(node), &stats);
    assert_int_equal(stats.occupied, 0);

    /* Answers to questions that were not asked, or from ranks that were not. */
    struct dht_lookup *lookup = fake_lookup(net, 0, 0, WAIT, NULL, &r);
    fake_net_run(net, SEC);
    for (uint64_t id = 0; id < 50; id++) {
        for (uint32_t source = 1; source < 6; source++) {
            if (source == dht_lookup_home(lookup))
                continue;
            struct net_msg msg = {
                .type = NET_MSG_NOTIFY, .id = id, .source = source, .entry = good};
            dht_node_receive(node, &msg);
            msg.type = NET_MSG_LOOKUP_REPLY;
            dht_node_receive(node, &msg);
            msg.type = NET_MSG_PUBLISH_REPLY;
            dht_node_receive(node, &msg);
            msg.type = NET_MSG_INVALIDATE_REPLY;
            dht_node_receive(node, &msg);
        }
    }
    /* The home, but another file, or a version that is not wanted. */
    if (dht_lookup_home(lookup) != 0) {
        for (uint64_t id = 0; id < 50; id++) {
            struct net_msg msg = {.type = NET_MSG_NOTIFY,
                                  .id = id,
                                  .source = dht_lookup_home(lookup),
                                  .entry = good};
            msg.entry.upath = "key9";
            dht_node_receive(node, &msg);
            msg.entry = good;
            msg.entry.version = (struct dyad_version){0};
            dht_node_receive(node, &msg);
        }
    }
    fake_net_run(net, SEC);
    assert_int_equal(r.calls, 0);
    dht_node_set_live(node, 6, false);
    dht_node_set_live(node, 0, false);
    assert_true(dht_node_is_live(node, 0));
    assert_false(dht_node_is_live(node, 6));
    dht_node_invalidated(node, 12345);
    fake_net_destroy(net);
}

/* A home whose highest version leaves no next one: an error, not a version that wraps. */
static void test_overflow(void **state)
{
    struct fake_net *net = fake_net_create(1, 1, 1);
    struct dyad_entry entry = {
        .upath = fake_key(0), .version = {.counter = 1ull << 62}, .state = PUB};
    struct result r;

    (void)state;
    assert_int_equal(dht_node_restore(net->rank[0].node, &entry), 0);
    fake_net_run(net, SEC);
    fake_publish(net, 0, 0, 1, PUB, &r);
    fake_net_run(net, SEC);
    assert_int_equal(r.calls, 1);
    assert_int_equal(r.status, EOVERFLOW);
    fake_net_destroy(net);
}

/* Destroy at any moment: no callback, no leak (asan, valgrind). */
static void test_destroy_busy(void **state)
{
    (void)state;
    for (uint64_t when = 0; when < 40; when++) {
        struct fake_net *net = fake_net_create(6, 3, when);
        struct result r[24];
        for (uint32_t i = 0; i < 6; i++) {
            net->rank[i].hold = true;
            fake_publish(net, i, i % 2, i, PUB, &r[i]);
            fake_publish(net, i, i % 3, i, GONE, &r[6 + i]);
            fake_lookup(net, i, i % 3, COPY, NULL, &r[12 + i]);
            fake_lookup(net, i, 7, WAIT | COPY, NULL, &r[18 + i]);
        }
        fake_net_run(net, when * 11000);
        fake_net_destroy(net);
    }
}

/* Without loss, and with channels that keep their order: when a publish is acknowledged,
 * nobody uses an older version. */
static void check_coherent(struct fake_net *net, unsigned key,
                           const struct dyad_version *acked)
{
    for (uint32_t i = 0; i < net->nranks; i++)
        if (net->rank[i].copy[key].counter != 0)
            assert_true(dyad_version_cmp(&net->rank[i].copy[key], acked) >= 0);
}

static void test_random_coherence(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        uint32_t n = 2 + (uint32_t)(seed % 9);
        struct fake_net *net = fake_net_create(n, 1 + (uint32_t)(seed % 3), seed);
        static struct result pub[200], look[200];
        struct dyad_version acked[FAKE_KEYS] = {{0}};
        bool seen[200] = {false};
        unsigned key[200];
        for (unsigned i = 0; i < 200; i++) {
            uint32_t rank = fake_net_random(net, n);
            key[i] = fake_net_random(net, 3);
            fake_publish(net, rank, key[i], i, fake_net_random(net, 6) ? PUB : GONE,
                         &pub[i]);
            fake_lookup(net, fake_net_random(net, n), fake_net_random(net, 3), COPY, NULL,
                        &look[i]);
            uint64_t end = net->now + fake_net_random(net, 400000);
            while (net->now < end) {
                fake_net_run(net, 1000);
                for (unsigned j = 0; j <= i; j++) {
                    if (pub[j].calls == 0 || seen[j])
                        continue;
                    seen[j] = true;
                    assert_int_equal(pub[j].status, 0);
                    if (dyad_version_cmp(&pub[j].version, &acked[key[j]]) > 0)
                        acked[key[j]] = pub[j].version;
                }
                for (unsigned k = 0; k < 3; k++)
                    check_coherent(net, k, &acked[k]);
            }
        }
        fake_net_run(net, 10 * SEC);
        for (unsigned i = 0; i < 200; i++) {
            assert_int_equal(pub[i].calls, 1);
            assert_int_equal(look[i].calls, 1);
        }
        fake_net_destroy(net);
    }
}

/* Loss, duplicates, reordering, deaths: at the end, with the network whole again, all homes
 * of each key have the same entry, and every waiter has been served. Without deaths that
 * entry is the highest that was acknowledged; with deaths versions may start anew (a home,
 * the last that knew of a version, and its publisher die together), which is why copies
 * carry the whole version and not its counter alone. */
static unsigned all_listed(struct fake_net *net);

static void random_world(uint64_t seed)
{
    uint32_t n = 3 + (uint32_t)(seed % 12);
    struct fake_net *net = fake_net_create(n, 1 + (uint32_t)(seed % 4), seed);
    bool deaths = seed % 3 != 0;
    static struct result pub[120], look[120];
    struct dht_lookup *lookup[120];
    uint32_t lookup_rank[120], lookup_incarnation[120];
    unsigned pub_key[120];
    uint32_t pub_rank[120], pub_incarnation[120];

    net->loss = 50;
    net->duplicates = 100;
    net->reorder = true;
    net->refuse = seed % 2;
    for (unsigned i = 0; i < 120; i++) {
        uint32_t rank = fake_net_random(net, n);
        if (deaths && fake_net_random(net, 12) == 0) {
            if (net->rank[rank].node != NULL)
                fake_net_kill(net, rank, fake_net_random(net, 2));
            else
                fake_net_revive(net, rank, false);
        }
        rank = fake_net_random(net, n);
        if (net->rank[rank].node == NULL)
            fake_net_revive(net, rank, fake_net_random(net, 2));
        pub_rank[i] = rank;
        pub_incarnation[i] = net->rank[rank].incarnation;
        pub_key[i] = fake_net_random(net, 4);
        fake_publish(net, rank, pub_key[i], i, PUB, &pub[i]);
        lookup_rank[i] = rank;
        lookup_incarnation[i] = net->rank[rank].incarnation;
        uint8_t flags = fake_net_random(net, 4) | (fake_net_random(net, 2) ? KEEP : 0);
        lookup[i] = fake_lookup(net, rank, fake_net_random(net, 8), flags, NULL, &look[i]);
        fake_net_run(net, fake_net_random(net, 800) * MSEC);
    }
    net->loss = net->duplicates = 0;
    for (uint32_t i = 0; i < n; i++)
        if (net->rank[i].node == NULL)
            fake_net_revive(net, i, false);
    for (uint32_t i = 0; i < n; i++) /* everybody's news are put right */
        for (uint32_t j = 0; j < n; j++)
            if (j != i) {
                dht_node_set_live(net->rank[i].node, j, false);
                dht_node_set_live(net->rank[i].node, j, true);
            }
    fake_net_run(net, 60 * SEC);
    static struct result last[4];
    for (unsigned k = 4; k < 8; k++) { /* for the waiters: these come last */
        fake_publish(net, k % n, k, k, PUB, &last[k - 4]);
        fake_net_run(net, 5 * SEC);
        assert_int_equal(last[k - 4].calls, 1);
        assert_int_equal(last[k - 4].status, 0);
    }
    fake_net_run(net, 60 * SEC);

    for (unsigned k = 0; k < 8; k++) {
        uint32_t homes[DHT_REPLICAS_MAX];
        unsigned nhomes = fake_homes(net, k, homes);
        struct dht_record *first = fake_record(net, homes[0], k);
        bool any = k >= 4;
        for (unsigned i = 0; i < 120; i++)
            any |= pub_key[i] == k && pub[i].calls == 1 && pub[i].status == 0;
        for (unsigned h = 0; h < nhomes; h++) {
            struct dht_record *record = fake_record(net, homes[h], k);
            if (any)
                assert_non_null(record);
            if (record == NULL || first == NULL) {
                assert_ptr_equal(record, first);
                continue;
            }
            assert_int_equal(
                dyad_version_cmp(&record->entry.version, &first->entry.version), 0);
            assert_int_equal(record->entry.size, first->entry.size);
            assert_null(record->user);
        }
        for (unsigned i = 0; i < 120 && !deaths; i++)
            if (pub_key[i] == k && pub[i].calls == 1 && pub[i].status == 0)
                assert_true(dyad_version_cmp(&first->entry.version, &pub[i].version) >= 0);
    }
    for (unsigned i = 0; i < 120; i++) {
        if (pub_incarnation[i] == net->rank[pub_rank[i]].incarnation)
            assert_int_equal(pub[i].calls, 1);
        else
            assert_in_range(pub[i].calls, 0, 1);
        if (lookup_incarnation[i] == net->rank[lookup_rank[i]].incarnation &&
            look[i].calls == 0)
            dht_node_cancel(net->rank[lookup_rank[i]].node, lookup[i]);
        if (lookup_incarnation[i] == net->rank[lookup_rank[i]].incarnation)
            assert_int_equal(look[i].calls, 1);
    }
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(dht_node_pending(net->rank[i].node), 0);
    all_listed(net);
    fake_net_destroy(net);
}

static int count_listed(const char *name, const struct dyad_entry *entry, void *arg)
{
    (void)name;
    assert_int_equal(entry->state, PUB);
    ++*(unsigned *)arg;
    return 0;
}

/* The listing of a shard has what is published in it, and nothing else. */
static unsigned listed(struct fake_net *net, uint32_t rank)
{
    struct dht_list_at at = {0};
    struct dht_shard_stats stats;
    unsigned n = 0;

    if (net->rank[rank].node == NULL)
        return 0;
    assert_false(
        dht_shard_list(dht_node_shard(net->rank[rank].node), "", &at, count_listed, &n));
    dht_shard_get_stats(dht_node_shard(net->rank[rank].node), &stats);
    assert_int_equal(stats.entries, n);
    return n;
}

static unsigned all_listed(struct fake_net *net)
{
    unsigned n = 0;

    for (uint32_t i = 0; i < net->nranks; i++)
        n += listed(net, i);
    return n;
}

static void test_listing(void **state)
{
    struct fake_net *net = fake_net_create(5, 2, 1);
    struct result r;

    (void)state;
    fake_lookup(net, 1, 7, WAIT, NULL, &r); /* a record without an entry */
    for (unsigned k = 0; k < 5; k++)
        publish_ok(net, k, k, k, PUB, NULL);
    assert_int_equal(all_listed(net), 10);
    publish_ok(net, 4, 0, 1, PUB, NULL); /* superseded: as before */
    assert_int_equal(all_listed(net), 10);
    publish_ok(net, 2, 2, 0, GONE, NULL);
    assert_int_equal(all_listed(net), 8);
    publish_ok(net, 3, 2, 9, PUB, NULL);
    assert_int_equal(all_listed(net), 10);
    publish_ok(net, 3, 9, 0, GONE, NULL); /* never published: a tombstone only */
    publish_ok(net, 0, 7, 9, PUB, NULL);
    assert_int_equal(r.calls, 1);
    assert_int_equal(all_listed(net), 12);
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
    for (uint64_t seed = 0; seed < 200; seed++) {
        printf("seed %llu (TEST_SEED)\r", (unsigned long long)seed);
        fflush(stdout);
        random_world(seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create),
        cmocka_unit_test(test_publish_lookup),
        cmocka_unit_test(test_holders),
        cmocka_unit_test(test_wait),
        cmocka_unit_test(test_cancel_leaves_nothing),
        cmocka_unit_test(test_tombstone),
        cmocka_unit_test(test_tombstone_moves),
        cmocka_unit_test(test_version_race),
        cmocka_unit_test(test_same_rank_in_order),
        cmocka_unit_test(test_invalidate_before_ack),
        cmocka_unit_test(test_duplicate_waits_too),
        cmocka_unit_test(test_invalidate_during_publish),
        cmocka_unit_test(test_home_dies_with_waiters),
        cmocka_unit_test(test_disjoint_views),
        cmocka_unit_test(test_negative_needs_all),
        cmocka_unit_test(test_silent_home),
        cmocka_unit_test(test_unreachable),
        cmocka_unit_test(test_homes_die_and_return),
        cmocka_unit_test(test_restore),
        cmocka_unit_test(test_dead_waiters_swept),
        cmocka_unit_test(test_refresh),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_destroy_busy),
        cmocka_unit_test(test_listing),
        cmocka_unit_test(test_random_coherence),
        cmocka_unit_test(test_random),
    };
    util_log_setup(UTIL_LOG_ERROR, NULL, "test"); /* silent holders are meant */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
