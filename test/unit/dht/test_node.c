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
    struct dyad_version v = fake_publish_ok(net, rank, key, size, state);

    if (version != NULL)
        *version = v;
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

/* A living rank that is none of the key's homes or `other`. */
static uint32_t stranger(struct fake_net *net, unsigned key, uint32_t other)
{
    uint32_t first = fake_stranger(net, key, 0);
    return first != other ? first : fake_stranger(net, key, 1);
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

static uint64_t no_time(void *arg)
{
    (void)arg;
    return 0;
}

static void no_timer(void *arg, uint64_t when)
{
    (void)arg;
    (void)when;
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
    /* By the notice; and homes[1], which had it from itself, and says so to the other. */
    assert_int_equal(fake_record(net, homes[0], 0)->nholders, 2);

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

/* Published while a home was away, and another one stood in for it; all is as before again.
 */
struct stand_in {
    struct fake_net *net;
    uint32_t homes[DHT_REPLICAS_MAX], rank, owner;
};

static struct stand_in stand_in_begin(void)
{
    struct stand_in s = {.net = fake_net_create(12, 2, 1)};
    uint32_t homes[DHT_REPLICAS_MAX];

    fake_homes(s.net, 0, s.homes);
    s.owner = stranger(s.net, 0, DYAD_RANK_NONE);
    fake_net_kill(s.net, s.homes[0], true);
    fake_homes(s.net, 0, homes);
    assert_int_equal(homes[0], s.homes[1]);
    s.rank = homes[1];
    if (s.owner == s.rank)
        s.owner = stranger(s.net, 0, s.owner);
    publish_ok(s.net, s.owner, 0, 5, PUB, NULL);
    fake_net_revive(s.net, s.homes[0], true);
    fake_net_run(s.net, 30 * SEC);
    return s;
}

/* It keeps what it had then. It is a home again when that one and the owner have died, and
 * nobody has brought it what came after: the other home knows. */
static void test_dead_owner_and_stand_in(void **state)
{
    struct stand_in s = stand_in_begin();

    (void)state;
    publish_ok(s.net, s.owner, 0, 0, GONE, NULL);
    assert_int_equal(fake_record(s.net, s.homes[0], 0)->entry.state, GONE);
    assert_int_equal(fake_record(s.net, s.homes[1], 0)->entry.state, GONE);
    assert_int_equal(fake_record(s.net, s.rank, 0)->entry.state, PUB);
    fake_net_kill(s.net, s.owner, true);
    fake_net_kill(s.net, s.homes[0], true);
    lookup_is(s.net, s.rank, 0, ENOENT, 0);
    fake_net_destroy(s.net);
}

/* The same, and it was told, as one that has a copy: it knows when all others are dead. */
static void test_stand_in_was_told(void **state)
{
    struct stand_in s = stand_in_begin();
    struct result r;

    (void)state;
    fake_lookup(s.net, s.rank, 0, NET_LOOKUP_COPY, NULL, &r);
    assert_true(fake_net_run_until(s.net, &r.calls, SEC));
    publish_ok(s.net, s.owner, 0, 0, GONE, NULL);
    assert_int_equal(fake_record(s.net, s.rank, 0)->entry.state, GONE);
    fake_net_kill(s.net, s.owner, true);
    fake_net_kill(s.net, s.homes[0], true);
    fake_net_kill(s.net, s.homes[1], true);
    lookup_is(s.net, s.rank, 0, ENOENT, 0);
    fake_net_destroy(s.net);
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
    assert_int_equal(net->rank[reader].nheld, 2); /* by both homes */
    assert_int_equal(net->rank[reader].invalidated.size, 6);
    lookup_is(net, reader, 0, 0, 6); /* readers get the new one meanwhile */

    /* The next version waits for the same holder, though it has only the first's copy. */
    fake_publish(net, homes[1], 0, 7, PUB, &r2);
    fake_net_run(net, SEC / 10);
    assert_int_equal(r.calls + r2.calls, 0);
    assert_true(net->rank[reader].nheld >= 4);
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

/* All homes die, and come back as other incarnations (exec): the wait goes back to them. */
static void test_homes_back_with_waiters(void **state)
{
    struct fake_net *net = fake_net_create(12, 2, 1);
    uint32_t homes[DHT_REPLICAS_MAX], stand_in[DHT_REPLICAS_MAX];
    struct dht_lookup *lookup;
    struct result r;

    (void)state;
    fake_homes(net, 0, homes);
    uint32_t owner = stranger(net, 0, DYAD_RANK_NONE), reader = stranger(net, 0, owner);
    lookup = fake_lookup(net, reader, 0, WAIT, NULL, &r);
    fake_net_run(net, MSEC);
    for (int i = 0; i < 2; i++) {
        fake_net_kill(net, homes[i], true);
        fake_net_run(net, MSEC);
    }
    fake_homes(net, 0, stand_in);
    assert_int_equal(dht_lookup_home(lookup), stand_in[0]);
    for (int i = 1; i >= 0; i--) {
        fake_net_revive(net, homes[i], true);
        fake_net_run(net, MSEC);
        assert_int_equal(dht_lookup_home(lookup), homes[i]);
    }
    fake_publish(net, owner, 0, 5, PUB, &(struct result){0});
    assert_true(fake_net_run_until(net, &r.calls, MSEC));
    assert_int_equal(r.status, 0);
    assert_int_equal(r.entry.size, 5);
    fake_net_destroy(net);
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

/* Both homes are beyond a cut: that the stand-ins have nothing does not mean that nothing
 * is published. */
static void test_negative_in_a_cut(void **state)
{
    struct fake_net *net = fake_net_create(16, 2, 1);
    uint32_t homes[DHT_REPLICAS_MAX];
    struct result r;

    (void)state;
    fake_homes(net, 0, homes);
    uint32_t owner = stranger(net, 0, DYAD_RANK_NONE), reader = stranger(net, 0, owner);
    struct dht_node *node = net->rank[reader].node;
    publish_ok(net, owner, 0, 5, PUB, NULL);

    /* Silent, so far. */
    net->cut[reader][homes[0]] = net->cut[reader][homes[1]] = true;
    uint64_t start = net->now;
    lookup_is(net, reader, 0, EHOSTUNREACH, 0);
    assert_in_range(net->now - start, SEC, 3 * SEC);

    /* Taken for dead: asked for while they may be back, and then not any more. */
    fake_lookup(net, reader, 0, 0, NULL, &r);
    fake_net_run(net, SEC / 2);
    for (int i = 0; i < 2; i++) {
        dht_node_set_missing(node, homes[i], DHT_MISSING);
        dht_node_set_live(node, homes[i], false);
    }
    assert_true(fake_net_run_until(net, &r.calls, 2 * SEC));
    assert_int_equal(r.status, EHOSTUNREACH);
    start = net->now;
    lookup_is(net, reader, 0, EHOSTUNREACH, 0);
    assert_in_range(net->now - start, SEC, SEC + 200 * MSEC);
    for (int i = 0; i < 2; i++)
        dht_node_set_missing(node, homes[i], DHT_MISSING_LONG);
    start = net->now;
    lookup_is(net, reader, 0, EHOSTUNREACH, 0);
    assert_in_range(net->now - start, 0, 10 * MSEC);

    /* One is back while it is asked for. */
    dht_node_set_missing(node, homes[1], DHT_MISSING);
    fake_lookup(net, reader, 0, 0, NULL, &r);
    fake_net_run(net, SEC / 2);
    assert_int_equal(r.calls, 0);
    net->cut[reader][homes[1]] = false;
    dht_node_set_live(node, homes[1], true);
    assert_true(fake_net_run_until(net, &r.calls, SEC / 2));
    assert_int_equal(r.status, 0);
    assert_int_equal(r.entry.size, 5);
    lookup_is(net, reader, 0, 0, 5);
    dht_node_set_live(node, homes[1], false);

    /* Known to be dead, both: who is a home now may be believed. */
    dht_node_set_missing(node, homes[0], DHT_GONE);
    lookup_is(net, reader, 0, ENOENT, 0);

    /* A look-up that is given up while it asks leaves nothing. */
    dht_node_set_missing(node, homes[0], DHT_MISSING);
    dht_node_set_missing(node, homes[1], DHT_MISSING);
    struct dht_lookup *lookup = fake_lookup(net, reader, 0, 0, NULL, &r);
    fake_net_run(net, SEC / 2);
    dht_node_cancel(node, lookup);
    fake_net_run(net, 3 * SEC);
    assert_int_equal(r.calls, 0);
    assert_true(dht_node_concerns(node, fake_key(0), homes[0]));
    assert_true(dht_node_concerns(node, fake_key(0), homes[1]));
    assert_false(dht_node_concerns(node, fake_key(0), owner));
    fake_net_destroy(net);
}

/* The first home has died, and the owner: its stand-in keeps our waiter and knows nothing,
 * but the other home does. */
static void test_stand_in_knows_nothing(void **state)
{
    struct fake_net *net = fake_net_create(16, 2, 1);
    uint32_t homes[DHT_REPLICAS_MAX];
    struct result r;

    (void)state;
    fake_homes(net, 0, homes);
    uint32_t owner = stranger(net, 0, DYAD_RANK_NONE), other = homes[1];
    publish_ok(net, owner, 0, 5, PUB, NULL);
    fake_net_kill(net, owner, true);
    fake_net_kill(net, homes[0], true);
    for (int i = 0; i < 2; i++) { /* a stranger, and whoever is the stand-in */
        fake_homes(net, 0, homes);
        uint32_t reader = i == 0              ? stranger(net, 0, owner)
                          : homes[0] == other ? homes[1]
                                              : homes[0];
        fake_lookup(net, reader, 0, NET_LOOKUP_WAIT, NULL, &r);
        assert_true(fake_net_run_until(net, &r.calls, 100 * MSEC));
        assert_int_equal(r.status, 0);
        assert_int_equal(r.entry.size, 5);
    }
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

/* Who waits, and would be a home itself in the place of one that is silent, has nothing:
 * the other home does. Nobody is known to be dead. */
static void test_stand_in_waits(void **state)
{
    uint32_t homes[DHT_REPLICAS_MAX], next[DHT_REPLICAS_MAX];

    (void)state;
    for (int published = 0; published < 2; published++) {
        struct fake_net *net = fake_net_create(16, 2, 1);
        struct fake_net *without = fake_net_create(16, 2, 1);
        struct result r, p;

        fake_homes(net, 0, homes);
        fake_net_kill(without, homes[0], true);
        fake_homes(without, 0, next);
        assert_int_equal(next[0], homes[1]);
        uint32_t owner = stranger(net, 0, next[1]), reader = next[1];
        assert_false(reader == homes[0] || reader == homes[1]);
        if (published)
            fake_publish_ok(net, owner, 0, 5, PUB);
        net->refuse = false;
        for (uint32_t i = 0; i < net->nranks; i++)
            net->cut[i][homes[0]] = net->cut[homes[0]][i] = true;
        uint64_t start = net->now;
        fake_lookup(net, reader, 0, WAIT, NULL, &r);
        if (!published) {
            fake_net_run(net, SEC / 2);
            fake_publish(net, owner, 0, 5, PUB, &p);
        }
        assert_true(fake_net_run_until(net, &r.calls, 10 * SEC));
        assert_int_equal(r.status, 0);
        assert_in_range(net->now - start, SEC, SEC + MSEC);
        fake_net_destroy(net);
        fake_net_destroy(without);
    }
}

/* Who had withdrawn a name brings that to a new home, at which moment it takes over the
 * file that was published under it since: that goes to the homes afterwards. */
static void test_taken_over_over_own(void **state)
{
    (void)state;
    for (uint64_t ns = 0; ns < 200 * 1000; ns += 10 * 1000) {
        struct fake_net *net = fake_net_create(16, 2, 1);
        uint32_t homes[DHT_REPLICAS_MAX];
        unsigned n = fake_homes(net, 0, homes);
        uint32_t owner = stranger(net, 0, DYAD_RANK_NONE), heir = stranger(net, 0, owner);
        struct dyad_entry entry;

        fake_publish_ok(net, owner, 0, 5, PUB);
        fake_publish_ok(net, heir, 0, 0, GONE);
        fake_publish_ok(net, owner, 0, 6, PUB);
        entry = fake_record(net, homes[1], 0)->entry;
        assert_int_equal(entry.owner, owner);
        entry.owner = heir;
        entry.upath = fake_key(0);
        fake_net_kill(net, homes[0], true);
        fake_net_kill(net, owner, true);
        fake_net_run(net, ns);
        assert_int_equal(dht_node_restore(net->rank[heir].node, &entry), 0);
        fake_net_run(net, 20 * SEC);
        n = fake_homes(net, 0, homes);
        for (unsigned i = 0; i < n; i++) {
            struct dht_record *record = fake_record(net, homes[i], 0);
            assert_non_null(record);
            assert_int_equal(record->entry.owner, heir);
            assert_int_equal(record->entry.size, 6);
        }
        fake_net_destroy(net);
    }
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
    assert_int_equal(net->rank[reader].ninvalidated, 2); /* by both homes */
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

static void hand_over(struct fake_net *net, uint32_t leaver)
{
    assert_int_equal(dht_node_hand_over(net->rank[leaver].node), 0);
    for (int i = 0; i < 100 && !dht_node_handed_over(net->rank[leaver].node); i++)
        fake_net_run(net, 10 * MSEC);
    assert_true(dht_node_handed_over(net->rank[leaver].node));
    dht_node_retire(net->rank[leaver].node);
}

/* Ranks leave one after the other, with one replica and with two, until two are left, and
 * the owners have gone first: at no moment is an entry, a tombstone or what was published
 * meanwhile not found, by askers who know of the leave and by those who do not. */
static void test_leave(void **state)
{
    (void)state;
    for (uint32_t replicas = 1; replicas <= 2; replicas++) {
        for (uint64_t seed = 1; seed <= 5; seed++) {
            struct fake_net *net = fake_net_create(10, replicas, seed);
            uint32_t order[8];
            struct result late;

            net->refuse = true;
            for (unsigned k = 0; k < FAKE_KEYS; k++)
                publish_ok(net, k % 3, k, k + 1, PUB, NULL);
            publish_ok(net, 0, 3, 0, GONE, NULL);
            for (uint32_t i = 0; i < 8; i++)
                order[i] = i;
            for (uint32_t i = 3; i < 8; i++) { /* the owners 0, 1, 2 first */
                uint32_t j = 3 + fake_net_random(net, 5), was = order[i];
                order[i] = order[j];
                order[j] = was;
            }
            for (uint32_t i = 0; i < 8; i++) {
                uint32_t leaver = order[i];
                assert_int_equal(dht_node_hand_over(net->rank[leaver].node), 0);
                /* while it hands over: to it, for all the others know */
                fake_publish(net, 8 + i % 2, i, 100 + i, PUB, &late);
                lookup_is(net, 9, 10, 0, 11);
                hand_over(net, leaver);
                assert_true(fake_net_run_until(net, &late.calls, 60 * SEC));
                assert_int_equal(late.status, 0);
                for (int known = 0; known < 2; known++) { /* before they know, and after */
                    for (unsigned k = 8; k < FAKE_KEYS; k++)
                        lookup_is(net, 8 + k % 2, k, 0, k + 1);
                    for (unsigned k = 0; k <= i; k++)
                        lookup_is(net, 8 + k % 2, k, 0, 100 + k);
                    if (i < 3)
                        lookup_is(net, 8, 3, ENOENT, 0);
                    if (!known) {
                        publish_ok(net, 8, i, 100 + i, PUB, NULL);
                        fake_net_kill(net, leaver, true);
                    }
                }
            }
            fake_net_destroy(net);
        }
    }
}

/* A newcomer, and when the others say that what belongs to it is with it. */
static void test_in_place(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct fake_net *net = fake_net_create(6, 1, seed);
        uint32_t newcomer = fake_net_random(net, 6);
        uint64_t moment[6];
        bool settled = false;

        fake_net_kill(net, newcomer, true);
        for (unsigned k = 0; k < FAKE_KEYS; k++)
            publish_ok(net, (newcomer + 1 + k % 5) % 6, k, k + 1, PUB, NULL);
        fake_net_revive(net, newcomer, true);
        for (uint32_t i = 0; i < 6; i++)
            moment[i] = dht_node_moment(net->rank[i].node);
        while (!settled) {
            fake_net_run(net, MSEC / 10);
            settled = true;
            for (uint32_t i = 0; i < 6; i++)
                settled = settled && dht_node_in_place(net->rank[i].node, moment[i]);
        }
        for (unsigned k = 0; k < FAKE_KEYS; k++) {
            uint32_t homes[DHT_REPLICAS_MAX];
            fake_homes(net, k, homes);
            if (homes[0] == newcomer)
                assert_non_null(fake_record(net, newcomer, k));
            lookup_is(net, newcomer, k, 0, k + 1);
        }
        fake_net_destroy(net);
    }
}

static void restore_as(struct fake_net *net, uint32_t rank, unsigned key,
                       const struct dyad_version *version, uint8_t storage)
{
    struct dyad_entry entry = {.upath = fake_key(key),
                               .version = *version,
                               .owner = rank,
                               .state = PUB,
                               .size = 5,
                               .mode = 0100644};

    entry.storage[0] = storage;
    assert_int_equal(dht_node_restore(net->rank[rank].node, &entry), 0);
}

/* Who passes an entry of a dead owner on becomes its owner in the midst of that. */
static void test_restore_during_relay(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct fake_net *net = fake_net_create(5, 5, seed);
        struct dyad_version v;
        uint32_t heir = 1, newcomer = 4;

        fake_net_kill(net, newcomer, true);
        publish_ok(net, 0, 0, 5, PUB, &v);
        fake_net_kill(net, 0, true);
        fake_net_revive(net, newcomer, true);
        assert_int_equal(dht_node_pass_on(net->rank[heir].node, newcomer), 0);
        fake_net_run(net, fake_net_random(net, 4) * MSEC / 4);
        restore_as(net, heir, 0, &v, 0);
        fake_net_run(net, SEC);
        for (uint32_t i = 1; i < 5; i++) {
            assert_non_null(fake_record(net, i, 0));
            assert_int_equal(fake_record(net, i, 0)->entry.owner, heir);
        }
        fake_net_destroy(net);
    }
}

static void owner_is(struct fake_net *net, unsigned key, uint32_t owner, uint64_t counter)
{
    uint32_t homes[DHT_REPLICAS_MAX];
    unsigned n = fake_homes(net, key, homes);

    for (unsigned i = 0; i < n; i++) {
        struct dht_record *record = fake_record(net, homes[i], key);
        assert_non_null(record);
        assert_int_equal(record->entry.state, PUB);
        assert_int_equal(record->entry.version.counter, counter);
        assert_int_equal(record->entry.owner, owner);
    }
}

/* The owner dies, and a neighbour takes its file over: the version stays, nobody is told,
 * nobody's wait ends. It does not help a rank of another storage, nor an old message. */
static void test_taken_over(void **state)
{
    struct fake_net *net = fake_net_create(12, 2, 1);
    uint32_t homes[DHT_REPLICAS_MAX];
    struct result r, w;
    struct dyad_version v1, v2;

    (void)state;
    fake_homes(net, 0, homes);
    uint32_t owner = stranger(net, 0, DYAD_RANK_NONE), reader = stranger(net, 0, owner);
    uint32_t successor = homes[1] == 11 ? 10 : 11; /* none of the two */
    assert_true(successor != owner && successor != reader);
    publish_ok(net, owner, 0, 5, PUB, &v1);
    fake_lookup(net, reader, 0, COPY, NULL, &r);
    assert_true(fake_net_run_until(net, &r.calls, SEC));
    fake_lookup(net, reader, 0, WAIT, &v1, &w);
    fake_net_run(net, SEC);
    fake_net_kill(net, owner, true);

    /* Of another storage: refused. */
    uint32_t foreign = 0;
    while (foreign == owner || foreign == reader || foreign == successor ||
           foreign == homes[0] || foreign == homes[1])
        foreign++;
    restore_as(net, foreign, 0, &v1, (uint8_t)(owner + 100));
    fake_net_run(net, 20 * SEC);
    owner_is(net, 0, owner, 1);

    restore_as(net, successor, 0, &v1, (uint8_t)owner);
    fake_net_run(net, SEC);
    owner_is(net, 0, successor, 1);
    assert_int_equal(w.calls, 0);
    assert_int_equal(net->rank[reader].ninvalidated, 0);
    assert_int_equal(fake_record(net, homes[0], 0)->nholders, 1);
    lookup_is(net, reader, 0, 0, 5);

    /* What the old owner had sent before it died comes late: acknowledged, not believed. */
    struct net_msg late = {
        .type = NET_MSG_PUBLISH,
        .id = 12345,
        .source = owner,
        .source_incarnation = v1.incarnation,
        .entry = {
            .upath = fake_key(0), .version = v1, .owner = owner, .state = PUB, .size = 5}};
    late.entry.storage[0] = (uint8_t)owner;
    unsigned replies = net->sent[NET_MSG_PUBLISH_REPLY];
    assert_true(dht_node_receive(net->rank[homes[0]].node, &late));
    owner_is(net, 0, successor, 1);
    assert_int_equal(net->sent[NET_MSG_PUBLISH_REPLY], replies + 1);
    /* Nor is a tombstone of that version, or an entry that somebody passes on. */
    late.source_incarnation++;
    late.source = reader;
    assert_true(dht_node_receive(net->rank[homes[0]].node, &late));
    late.source = owner;
    late.entry.state = GONE;
    assert_true(dht_node_receive(net->rank[homes[0]].node, &late));
    owner_is(net, 0, successor, 1);

    /* The old owner comes back with its journal: both serve the same file. */
    fake_net_revive(net, owner, true);
    fake_net_run(net, 20 * SEC);
    owner_is(net, 0, owner, 1);
    assert_int_equal(w.calls, 0);
    /* Whoever of them writes it anew, the other hears of it before the close returns. */
    publish_ok(net, successor, 0, 7, PUB, &v2);
    assert_true(net->rank[owner].ninvalidated > 0);
    assert_true(fake_net_run_until(net, &w.calls, SEC));
    assert_int_equal(w.status, 0);
    assert_int_equal(w.entry.owner, successor);
    fake_net_run(net, 20 * SEC);
    owner_is(net, 0, successor, 2);
    publish_ok(net, owner, 0, 8, PUB, NULL);
    fake_net_run(net, 20 * SEC);
    owner_is(net, 0, owner, 3);
    for (uint32_t i = 0; i < 12; i++)
        lookup_is(net, i, 0, 0, 8);
    fake_net_destroy(net);
}

/* The tombstone of a file that its owner had removed before it died, and did not say so. */
static void bury_as(struct fake_net *net, uint32_t rank, unsigned key,
                    const struct dyad_version *version)
{
    struct dyad_entry gone = {
        .upath = fake_key(key), .version = *version, .owner = rank, .state = GONE};

    gone.version.incarnation++; /* as engine/recovery/takeover.c has it */
    assert_int_equal(dht_node_restore(net->rank[rank].node, &gone), 0);
}

/* It ends the version that the dead had published, and its copies; not what somebody else
 * has published under the name since, whatever his rank. */
static void test_taken_over_removal(void **state)
{
    (void)state;
    for (unsigned newer = 0; newer < 3; newer++) { /* none; of a lower rank; of a higher */
        struct fake_net *net = fake_net_create(12, 2, 3 + newer);
        uint32_t homes[DHT_REPLICAS_MAX], free[12], nfree = 0;
        struct result r;
        struct dyad_version v1, v2;

        fake_homes(net, 0, homes);
        for (uint32_t i = 0; i < 12; i++)
            if (i != homes[0] && i != homes[1])
                free[nfree++] = i;
        uint32_t owner = free[4], successor = free[5], reader = free[6];
        uint32_t other = newer == 1 ? free[0] : free[9];
        publish_ok(net, owner, 0, 5, PUB, &v1);
        fake_lookup(net, reader, 0, COPY, NULL, &r);
        assert_true(fake_net_run_until(net, &r.calls, SEC));
        fake_net_kill(net, owner, true);
        if (newer) {
            publish_ok(net, other, 0, 7, PUB, &v2);
            assert_true(dyad_version_cmp(&v2, &v1) > 0);
        }
        unsigned told = net->rank[reader].ninvalidated;
        bury_as(net, successor, 0, &v1);
        fake_net_run(net, 20 * SEC);
        assert_int_equal(net->rank[reader].ninvalidated, told + (newer ? 0 : 2));
        if (newer) {
            owner_is(net, 0, other, v2.counter);
            lookup_is(net, reader, 0, 0, 7);
        } else {
            lookup_is(net, reader, 0, ENOENT, 0);
        }
        /* It holds up nobody who comes after it. */
        publish_ok(net, reader, 0, 9, PUB, NULL);
        fake_net_run(net, 20 * SEC);
        lookup_is(net, successor, 0, 0, 9);
        fake_net_destroy(net);
    }
}

/* The successor writes it anew while the old owner's message is the last the homes
 * believed: the one that was superseded is a holder. */
static void test_taken_over_holder(void **state)
{
    struct fake_net *net = fake_net_create(12, 2, 2);
    struct dyad_version v1;

    (void)state;
    uint32_t owner = stranger(net, 0, DYAD_RANK_NONE), successor = stranger(net, 0, owner);
    publish_ok(net, owner, 0, 5, PUB, &v1);
    /* Both live, and the successor is believed last. */
    restore_as(net, successor, 0, &v1, (uint8_t)owner);
    fake_net_run(net, SEC);
    owner_is(net, 0, successor, 1);
    publish_ok(net, stranger(net, 0, owner), 0, 6, PUB, NULL);
    assert_true(net->rank[owner].ninvalidated > 0);
    fake_net_destroy(net);
}

/* A holder that is dead, or dies over the question, may have left its copy on its node: a
 * live rank there answers for it, before the publisher has its answer. */
static void test_left_behind(void **state)
{
    static const uint32_t nodes[12] = {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5};

    (void)state;
    for (int when = 0; when < 3; when++) {
        struct fake_net *net = fake_net_create_on(12, 2, 1, nodes);
        uint32_t homes[DHT_REPLICAS_MAX], holder = 0;
        struct result r;

        fake_homes(net, 0, homes);
        uint32_t owner = stranger(net, 0, DYAD_RANK_NONE);
        /* A node with none of them. */
        while (holder / 2 == owner / 2 || holder / 2 == homes[0] / 2 ||
               holder / 2 == homes[1] / 2)
            holder += 2;
        uint32_t neighbour = holder + 1;
        publish_ok(net, owner, 0, 5, PUB, NULL);
        fake_lookup(net, holder, 0, COPY, NULL, &r);
        assert_true(fake_net_run_until(net, &r.calls, SEC));
        net->rank[neighbour].hold = net->rank[holder].hold = true;
        if (when == 0)
            fake_net_kill(net, holder, true);
        fake_publish(net, owner, 0, 6, PUB, &r);
        fake_net_run(net, SEC / 10);
        if (when > 0) {
            assert_int_equal(net->rank[neighbour].nheld, 0);
            if (when == 2)
                fake_net_kill(net, neighbour, true);
            fake_net_kill(net, holder, true);
            fake_net_run(net, SEC / 10);
        }
        if (when == 2) { /* nobody is left there */
            assert_int_equal(r.calls, 1);
        } else {
            assert_int_equal(r.calls, 0);
            assert_true(net->rank[neighbour].nleft > 0);
            assert_int_equal(net->rank[neighbour].invalidated.size, 6);
            confirm(net, neighbour);
            fake_net_run(net, SEC / 10);
            assert_int_equal(r.calls, 1);
        }
        assert_int_equal(r.status, 0);
        fake_net_destroy(net);
    }
}

/* Waiters of the dead go; so do the records that were made for them. */
static bool in_table(const void *arg, uint32_t rank)
{
    return ((const bool *)arg)[rank];
}

/* A ring of slots that fills and empties: the node's homes are those of the rule. */
static void test_slots(void **state)
{
    enum { SLOTS = 1000 };
    static bool live[SLOTS];
    struct fake_net *net = fake_net_create(2, 3, 5); /* for its random numbers */
    struct dht_node_ops ops = {.now = no_time, .set_timer = no_timer};
    struct dht_node_config config = net->config;
    struct dht_ring ring = {.nranks = SLOTS, .replicas = 3, .live = in_table, .arg = live};
    uint32_t n = 1, self = 77;

    (void)state;
    config.nranks = SLOTS;
    config.self = self;
    config.absent = true;
    struct dht_node *node = dht_node_create(&config, &ops, NULL);
    assert_non_null(node);
    live[self] = true;
    for (unsigned i = 0; i < 4000; i++) {
        uint32_t homes[DHT_REPLICAS_MAX], expect[DHT_REPLICAS_MAX];
        uint32_t rank = fake_net_random(net, SLOTS), most = i / 1000 % 2 ? 5 : 60;
        char upath[32];
        struct dht_key key;
        if (rank != self && (live[rank] || n < most)) {
            n += live[rank] ? -1 : 1;
            live[rank] = !live[rank];
            dht_node_set_live(node, rank, live[rank]);
        }
        for (uint32_t r = 0; r < SLOTS && n > most; r++) {
            if (live[r] && r != self) {
                n--;
                live[r] = false;
                dht_node_set_live(node, r, false);
                assert_false(dht_node_is_absent(node, r));
            }
        }
        snprintf(upath, sizeof(upath), "k/%u", i);
        dht_key_init(&key, upath, config.depth);
        unsigned found = dht_homes_find(&ring, &key, expect);
        assert_int_equal(dht_node_homes(node, upath, homes), found);
        assert_memory_equal(homes, expect, found * sizeof(homes[0]));
    }
    dht_node_destroy(node);
    fake_net_destroy(net);
}

/* Copies stay known: whichever home dies, or is displaced, the next version reaches who was
 * given a copy. */
static void test_copies(void **state)
{
    (void)state;
    for (unsigned how = 0; how < 4; how++) {
        struct fake_net *net = fake_net_create(12, 2, how);
        uint32_t homes[DHT_REPLICAS_MAX];
        struct dyad_version v1, v2;
        struct result r;

        fake_homes(net, 0, homes);
        uint32_t owner = stranger(net, 0, DYAD_RANK_NONE), reader = stranger(net, 0, owner);
        if (how == 1) { /* its first home is not there yet */
            fake_net_kill(net, homes[0], true);
            fake_net_run(net, SEC);
        } else if (how == 3) { /* the second cannot be told of the copy */
            net->cut[reader][homes[1]] = true;
        }
        publish_ok(net, owner, 0, 5, PUB, &v1);
        fake_lookup(net, reader, 0, COPY, NULL, &r);
        assert_true(fake_net_run_until(net, &r.calls, SEC));
        assert_int_equal(dyad_version_cmp(&net->rank[reader].copy[0], &v1), 0);
        if (how == 0) { /* the home that knows of it dies */
            assert_int_equal(fake_record(net, homes[0], 0)->nholders, 1);
            fake_net_kill(net, homes[0], true);
        } else if (how == 1) { /* the second home, which knows of it, is pushed aside */
            fake_net_revive(net, homes[0], true);
            fake_net_run(net, SEC);
            fake_homes(net, 0, homes);
        } else if (how == 2) { /* all homes die, and the owner brings it back later */
            fake_net_kill(net, homes[0], true);
            fake_net_kill(net, homes[1], true);
            net->cut[owner][reader] = true;
        } else { /* a version that comes while nobody knows of it is found by asking */
            net->cut[homes[0]][reader] = net->cut[reader][homes[0]] = true;
            fake_net_kill(net, homes[0], false);
            dht_node_set_live(net->rank[owner].node, homes[0], false);
            publish_ok(net, owner, 0, 6, PUB, &v2);
            assert_int_equal(dyad_version_cmp(&net->rank[reader].copy[0], &v1), 0);
            net->cut[reader][homes[1]] = false;
            dht_node_set_live(net->rank[reader].node, homes[0], false);
            fake_net_run(net, SEC);
            assert_int_equal(net->rank[reader].copy[0].counter, 0);
            fake_net_destroy(net);
            continue;
        }
        fake_net_run(net, 10 * SEC);
        assert_int_equal(dyad_version_cmp(&net->rank[reader].copy[0], &v1), 0);
        publish_ok(net, owner, 0, 6, PUB, &v2); /* acknowledged: it is gone */
        assert_int_equal(net->rank[reader].copy[0].counter, 0);
        fake_net_destroy(net);
    }
}

/* A publisher dies when one home has its version: who owned the file until then passes it
 * on, so the homes agree. */
static void test_half_published(void **state)
{
    struct fake_net *net = fake_net_create(12, 2, 1);
    uint32_t homes[DHT_REPLICAS_MAX], other = 0;
    struct dyad_version v1;
    struct result r;

    (void)state;
    fake_homes(net, 0, homes);
    uint32_t owner = stranger(net, 0, DYAD_RANK_NONE), writer = stranger(net, 0, owner);
    while (other == owner || other == writer || other == homes[0] || other == homes[1])
        other++;
    fake_net_kill(net, other, true);
    publish_ok(net, owner, 0, 5, PUB, &v1);
    /* The writer has read it, so it begins above v1. */
    net->refuse = false;
    net->cut[writer][homes[1]] = true;
    fake_lookup(net, writer, 0, 0, NULL, &r);
    assert_true(fake_net_run_until(net, &r.calls, SEC));
    struct dyad_entry entry = {
        .upath = "key0", .owner = writer, .state = PUB, .mode = 0100644, .version = v1};
    assert_int_equal(dht_node_publish(net->rank[writer].node, &entry, NULL, NULL), 0);
    fake_net_run(net, 100 * 1000); /* homes[0] has it */
    fake_net_kill(net, writer, true);
    fake_net_run(net, 10 * SEC);
    for (unsigned i = 0; i < 2; i++) {
        struct dht_record *record = fake_record(net, homes[i], 0);
        assert_non_null(record);
        assert_int_equal(record->entry.version.rank, writer);
        assert_int_equal(record->entry.version.counter, v1.counter + 1);
    }
    assert_int_equal(dht_node_pending(net->rank[owner].node), 0);
    fake_net_destroy(net);
}

struct ahead {
    struct fake_net *net;
    unsigned calls, published; /* PUBLISHes sent before the last call */
    struct dyad_version version[4];
    unsigned only; /* how many it agrees to; 0: all */
    uint64_t size; /* as it is by now; 0: as it was */
    int done, status;
};

static enum dht_ahead ahead(void *arg, const struct dyad_version *version,
                            const struct dyad_entry *refused, struct dyad_entry *entry,
                            struct dyad_base *base)
{
    struct ahead *a = arg;

    (void)base;

    assert_true((refused != NULL) == (a->calls > 0));
    if (refused != NULL) {
        assert_int_equal(refused->version.counter + 1, version->counter);
        assert_int_equal(refused->size, 6);
    }
    if (a->size > 0)
        entry->size = a->size;

    assert_in_range(a->calls, 0, 3);
    a->version[a->calls++] = *version;
    a->published = a->net->sent[NET_MSG_PUBLISH];
    return a->only > 0 && a->calls > a->only ? DHT_AHEAD_STOP
           : a->size > 0                     ? DHT_AHEAD_CHANGED
                                             : DHT_AHEAD_GO;
}

static void ahead_done(void *arg, int status, const struct dyad_version *version)
{
    struct ahead *a = arg;

    a->status = status;
    assert_int_equal(
        dyad_version_cmp(version, &a->version[a->calls - 1 - (status == ECANCELED)]), 0);
    a->done++;
}

/* Who publishes hears of each version before any home does: also of the next one, when the
 * homes know a higher one. */
static void test_ahead(void **state)
{
    struct fake_net *net = fake_net_create(8, 2, 3);
    uint32_t owner = stranger(net, 0, DYAD_RANK_NONE), writer = stranger(net, 0, owner);
    struct ahead a = {.net = net};
    struct dyad_version v1, v2;
    unsigned sent;

    (void)state;
    publish_ok(net, owner, 0, 5, PUB, &v1);
    publish_ok(net, owner, 0, 6, PUB, &v2);
    struct dyad_entry entry = {
        .upath = "key0", .owner = writer, .state = PUB, .mode = 0100644};
    sent = net->sent[NET_MSG_PUBLISH];
    assert_int_equal(dht_node_publish_ahead(net->rank[writer].node, &entry, NULL, NULL,
                                            ahead, ahead_done, &a),
                     0);
    assert_int_equal(a.calls, 1);
    assert_int_equal(a.published, sent);
    assert_true(fake_net_run_until(net, &a.done, SEC));
    assert_int_equal(a.status, 0);
    assert_int_equal(a.calls, 2);
    assert_int_equal(a.published,
                     sent + 2); /* refused by both homes, or one and on its way */
    assert_in_range(a.version[0].counter, 1, v2.counter);
    assert_int_equal(a.version[1].counter, v2.counter + 1);
    assert_int_equal(net->sent[NET_MSG_PUBLISH], sent + 4);
    fake_net_destroy(net);
}

/* A publisher whose version is refused does not go on with the next, if what it was going
 * to publish is not there any more. What comes after it is not held up. */
static void test_ahead_stops(void **state)
{
    struct fake_net *net = fake_net_create(8, 2, 3);
    uint32_t owner = stranger(net, 0, DYAD_RANK_NONE), writer = stranger(net, 0, owner);
    struct ahead a = {.net = net, .only = 1};
    struct dyad_entry entry = {
        .upath = "key0", .owner = writer, .state = PUB, .mode = 0100644};
    struct dyad_version v2;

    (void)state;
    publish_ok(net, owner, 0, 5, PUB, NULL);
    publish_ok(net, owner, 0, 6, PUB, &v2);
    assert_int_equal(dht_node_publish_ahead(net->rank[writer].node, &entry, NULL, NULL,
                                            ahead, ahead_done, &a),
                     0);
    assert_true(fake_net_run_until(net, &a.done, SEC));
    assert_int_equal(a.calls, 2);
    assert_int_equal(a.status, ECANCELED);
    fake_net_run(net, 60 * SEC);
    lookup_is(net, writer, 0, 0, 6);
    a = (struct ahead){.net = net, .size = 9}; /* ... or with what is there */
    entry.size = 8;
    assert_int_equal(dht_node_publish_ahead(net->rank[writer].node, &entry, NULL,
                                            "12345678", ahead, ahead_done, &a),
                     0);
    assert_true(fake_net_run_until(net, &a.done, SEC));
    assert_int_equal(a.status, 0);
    lookup_is(net, owner, 0, 0, 9);
    publish_ok(net, writer, 0, 7, PUB, NULL);
    lookup_is(net, owner, 0, 0, 7);
    assert_int_equal(dht_node_pending(net->rank[writer].node), 0);
    fake_net_destroy(net);
}

/* A home that has not heard yet that a rank lives does not count on telling it: it says so,
 * and is asked again. */
static void test_copy_of_unknown(void **state)
{
    (void)state;
    for (unsigned wait = 0; wait < 2; wait++) {
        struct fake_net *net = fake_net_create(12, 2, 1);
        uint32_t homes[DHT_REPLICAS_MAX];
        struct result r;

        fake_homes(net, 0, homes);
        uint32_t owner = stranger(net, 0, DYAD_RANK_NONE), reader = stranger(net, 0, owner);
        for (unsigned i = 0; i < 2; i++)
            dht_node_set_live(net->rank[homes[i]].node, reader, false);
        if (!wait)
            publish_ok(net, owner, 0, 5, PUB, NULL);
        fake_net_run(net, 2 * SEC);
        fake_lookup(net, reader, 0, wait ? COPY | WAIT : COPY, NULL, &r);
        fake_net_run(net, SEC);
        if (wait)
            publish_ok(net, owner, 0, 5, PUB, NULL);
        assert_true(fake_net_run_until(net, &r.calls, SEC));
        assert_int_equal(fake_record(net, homes[0], 0)->nholders, 0);
        publish_ok(net, owner, 0, 6, PUB, NULL); /* does not wait for it */
        assert_int_not_equal(net->rank[reader].copy[0].counter, 0);
        for (unsigned i = 0; i < 2; i++)
            dht_node_set_live(net->rank[homes[i]].node, reader, true);
        fake_net_run(net, 6 * SEC);
        assert_int_equal(net->rank[reader].copy[0].counter, 0);
        fake_net_destroy(net);
    }
}

/* As one that an earlier member fetched. It is asked for until the homes have it, not for
 * ever, and a change of membership begins that anew. */
static void test_hold(void **state)
{
    struct fake_net *net = fake_net_create(12, 2, 1);
    uint32_t homes[DHT_REPLICAS_MAX];
    struct dyad_version v, none = {0}, first = {.counter = 1, .rank = 9};

    (void)state;
    fake_homes(net, 0, homes);
    uint32_t owner = stranger(net, 0, DYAD_RANK_NONE), reader = stranger(net, 0, owner);
    assert_int_equal(dht_node_hold(net->rank[reader].node, "key0", &none), -1);
    assert_int_equal(errno, EINVAL);
    net->rank[reader].copy[0] = first;
    assert_int_equal(dht_node_hold(net->rank[reader].node, "key0", &first), 0);
    fake_net_run(net, 600 * SEC);
    unsigned asked = net->sent[NET_MSG_LOOKUP];
    assert_in_range(asked, 2, 40);
    fake_net_run(net, 600 * SEC);
    assert_int_equal(net->sent[NET_MSG_LOOKUP], asked);
    publish_ok(net, owner, 0, 5, PUB, NULL);
    publish_ok(net, owner, 0, 5, PUB, &v); /* above what the reader has */
    uint32_t third = 0;
    while (third == owner || third == reader || third == homes[0] || third == homes[1])
        third++;
    fake_net_kill(net, third, true);
    fake_net_run(net, SEC);
    assert_int_equal(net->rank[reader].copy[0].counter, 0);

    /* The same version: it is known now. */
    net->rank[reader].copy[0] = v;
    assert_int_equal(dht_node_hold(net->rank[reader].node, "key0", &v), 0);
    fake_net_run(net, SEC);
    assert_int_equal(dyad_version_cmp(&net->rank[reader].copy[0], &v), 0);
    publish_ok(net, owner, 0, 7, PUB, NULL);
    assert_int_equal(net->rank[reader].copy[0].counter, 0);

    /* What is under way when the node goes is let go of. */
    assert_int_equal(dht_node_hold(net->rank[reader].node, "key1", &first), 0);
    fake_net_run(net, 20000);
    fake_net_destroy(net);
}

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
                    type == NET_MSG_WRITING_REPLY || type == NET_MSG_RESYNC ||
                    type == NET_MSG_RESYNCED;
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
        cmocka_unit_test(test_dead_owner_and_stand_in),
        cmocka_unit_test(test_stand_in_was_told),
        cmocka_unit_test(test_version_race),
        cmocka_unit_test(test_same_rank_in_order),
        cmocka_unit_test(test_invalidate_before_ack),
        cmocka_unit_test(test_duplicate_waits_too),
        cmocka_unit_test(test_invalidate_during_publish),
        cmocka_unit_test(test_home_dies_with_waiters),
        cmocka_unit_test(test_homes_back_with_waiters),
        cmocka_unit_test(test_disjoint_views),
        cmocka_unit_test(test_negative_needs_all),
        cmocka_unit_test(test_negative_in_a_cut),
        cmocka_unit_test(test_stand_in_knows_nothing),
        cmocka_unit_test(test_silent_home),
        cmocka_unit_test(test_stand_in_waits),
        cmocka_unit_test(test_taken_over_over_own),
        cmocka_unit_test(test_unreachable),
        cmocka_unit_test(test_homes_die_and_return),
        cmocka_unit_test(test_restore),
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_hold),
        cmocka_unit_test(test_taken_over),
        cmocka_unit_test(test_taken_over_removal),
        cmocka_unit_test(test_taken_over_holder),
        cmocka_unit_test(test_left_behind),
        cmocka_unit_test(test_copy_of_unknown),
        cmocka_unit_test(test_half_published),
        cmocka_unit_test(test_dead_waiters_swept),
        cmocka_unit_test(test_refresh),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_destroy_busy),
        cmocka_unit_test(test_leave),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_restore_during_relay),
        cmocka_unit_test(test_listing),
        cmocka_unit_test(test_ahead),
        cmocka_unit_test(test_ahead_stops),
        cmocka_unit_test(test_random_coherence),
        cmocka_unit_test(test_random),
    };
    util_log_setup(UTIL_LOG_ERROR, NULL, "test"); /* silent holders are meant */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
