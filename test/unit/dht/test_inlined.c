/*
 * test/unit/dht/test_inlined.c - the bytes of small files: what a shard keeps, and who gets
 * them
 *
 * Eight ranks on four nodes. The bytes of a publish are those of its size, all alike.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fake_net.h"

#define RANKS 8
#define PUB   DYAD_ENTRY_PUBLISHED
#define GONE  DYAD_ENTRY_WITHDRAWN
#define ROOM  4096

static const uint32_t nodes[RANKS] = {0, 1, 2, 3, 0, 1, 2, 3};

/* --- a shard alone --- */

static struct dht_record *insert(struct dht_shard *shard, unsigned i)
{
    struct dht_key key;

    dht_key_init(&key, fake_key(i), 2);
    return dht_shard_insert(shard, &key, fake_key(i));
}

static void test_bound(void **state)
{
    struct dht_shard *shard = dht_shard_create(2, 16);
    struct dht_record *record[FAKE_KEYS];
    struct dht_shard_stats stats;
    char bytes[ROOM] = "";
    unsigned kept = 0;

    (void)state;
    record[0] = insert(shard, 0);
    dht_shard_set_inlined(shard, record[0], bytes, 10, 0);
    assert_null(record[0]->inlined); /* it keeps none yet */
    dht_shard_keep_inlined(shard, ROOM);
    dht_shard_set_inlined(shard, record[0], bytes, ROOM, 0);
    assert_null(record[0]->inlined); /* it does not fit */

    for (unsigned i = 0; i < FAKE_KEYS; i++) {
        record[i] = insert(shard, i);
        memset(bytes, (int)i, 1000);
        dht_shard_set_inlined(shard, record[i], bytes, 1000, 0);
        dht_shard_get_stats(shard, &stats);
        assert_true(stats.inlined_bytes <= ROOM);
        assert_non_null(record[i]->inlined);
        assert_true(record[i]->inlined->held);
        if (i == 2) { /* there is no room beside what is held */
            record[3] = insert(shard, 3);
            dht_shard_set_inlined(shard, record[3], bytes, 1000, 0);
            assert_null(record[3]->inlined);
            record[1]->inlined->held = false; /* not the oldest: it goes all the same */
            dht_shard_set_inlined(shard, record[3], bytes, 1000, 0);
            assert_non_null(record[3]->inlined);
            assert_null(record[1]->inlined);
            for (unsigned j = 0; j <= 3; j++)
                if (record[j]->inlined != NULL)
                    record[j]->inlined->held = false;
        }
        if (i > 2)
            record[i]->inlined->held = false;
    }
    for (unsigned i = 0; i < FAKE_KEYS; i++) {
        assert_true(!record[i]->inlined || record[i]->inlined->bytes[999] == i);
        kept += record[i]->inlined != NULL;
        assert_true((record[i]->inlined != NULL) == (i >= FAKE_KEYS - 3)); /* the last */
    }
    assert_int_equal(kept, 3);
    assert_int_equal(stats.inlined_files, 3);

    /* Replaced, it is the one that came last. */
    dht_shard_set_inlined(shard, record[13], bytes, 1100, 0);
    dht_shard_set_inlined(shard, record[0], bytes, 900, 0);
    assert_null(record[14]->inlined);
    assert_int_equal(record[13]->inlined->len, 1100);
    dht_shard_remove(shard, record[13]);
    dht_shard_set_inlined(shard, record[0], NULL, 0, 0);
    dht_shard_get_stats(shard, &stats);
    assert_int_equal(stats.inlined_files, 1); /* 15 */
    assert_non_null(record[15]->inlined);
    dht_shard_remove(shard, record[15]);
    dht_shard_get_stats(shard, &stats);
    assert_int_equal(stats.inlined_files, 0);
    assert_int_equal(stats.inlined_bytes, 0);
    dht_shard_set_inlined(shard, record[1], bytes, 5, 0); /* goes with the shard */
    dht_shard_destroy(shard);
}

/* --- ranks --- */

struct got {
    struct result r;
    struct dht_lookup *lookup;
    void *bytes;
};

static struct fake_net *net_create(uint64_t max)
{
    struct fake_net *net = fake_net_create_on(RANKS, 2, 1, nodes);

    for (uint32_t r = 0; r < RANKS; r++)
        dht_shard_keep_inlined(dht_node_shard(net->rank[r].node), max);
    return net;
}

static void published(void *arg, int status, const struct dyad_version *version)
{
    struct result *r = arg;

    r->calls++;
    r->status = status;
    r->version = *version;
}

static struct dyad_entry entry_of(uint32_t rank, unsigned key, uint64_t size)
{
    return (struct dyad_entry){
        .upath = fake_key(key), .owner = rank, .state = PUB, .size = size, .mode = 0100644};
}

/* Publish `size` bytes of `fill`. */
static void publish(struct fake_net *net, uint32_t rank, unsigned key, uint64_t size,
                    int fill)
{
    struct dyad_entry entry = entry_of(rank, key, size);
    struct result r = {0};
    char bytes[ROOM];

    memset(bytes, fill, sizeof(bytes));
    assert_int_equal(dht_node_publish_ahead(net->rank[rank].node, &entry, NULL, bytes, NULL,
                                            published, &r),
                     0);
    memset(bytes, 0, sizeof(bytes)); /* they were copied */
    assert_true(fake_net_run_until(net, &r.calls, 60 * SEC));
    assert_int_equal(r.status, 0);
}

static void found(void *arg, int status, const struct dyad_entry *entry)
{
    struct got *got = arg;

    got->r.calls++;
    got->r.status = status;
    if (entry)
        got->r.entry = *entry;
    got->bytes = dht_lookup_take_bytes(got->lookup);
    assert_null(dht_lookup_take_bytes(got->lookup));
}

static void ask(struct fake_net *net, uint32_t rank, unsigned key, uint8_t flags,
                struct got *got)
{
    memset(got, 0, sizeof(*got));
    got->lookup =
        dht_node_lookup(net->rank[rank].node, fake_key(key), flags, NULL, found, got);
    assert_non_null(got->lookup);
}

/* What came with the entry: its fill, or -1: nothing. */
static int take(struct fake_net *net, struct got *got)
{
    int fill = -1;

    assert_true(fake_net_run_until(net, &got->r.calls, 60 * SEC));
    if (got->bytes) {
        const unsigned char *bytes = got->bytes;
        fill = bytes[0];
        for (uint64_t i = 0; fill < ' ' && i < got->r.entry.size; i++)
            assert_int_equal(bytes[i], fill);
    }
    free(got->bytes);
    return fill;
}

static int look_up(struct fake_net *net, uint32_t rank, unsigned key, uint8_t flags)
{
    struct got got;

    ask(net, rank, key, flags, &got);
    return take(net, &got);
}

#define COPY NET_LOOKUP_COPY

/* Who is going to fetch gets them, in whichever way it learns of the file; they are those
 * of the version. */
static void test_look_up(void **state)
{
    (void)state;
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        struct fake_net *net = net_create(1 << 20);
        uint32_t homes[DHT_REPLICAS_MAX], owner = fake_stranger(net, key, 0);
        uint32_t reader = fake_stranger(net, key, 1);
        struct got waits;

        fake_homes(net, key, homes);
        ask(net, reader, key, COPY | NET_LOOKUP_WAIT, &waits);
        fake_net_run(net, 10 * MSEC);
        assert_int_equal(waits.r.calls, 0);
        publish(net, owner, key, 100, 1);
        assert_int_equal(take(net, &waits), 1);
        assert_int_equal(look_up(net, reader, key, COPY), 1);
        assert_int_equal(look_up(net, homes[0], key, COPY), 1); /* it asks itself */
        assert_int_equal(look_up(net, reader, key, 0), -1);     /* for a stat */
        assert_int_equal(look_up(net, owner, key, COPY), -1);   /* it has them */

        publish(net, owner, key, 300, 2);
        assert_int_equal(look_up(net, reader, key, COPY), 2);
        fake_publish_ok(net, owner, key, 100, PUB); /* too large by now, or not read */
        assert_int_equal(look_up(net, reader, key, COPY), -1);
        publish(net, owner, key, 300, 3);
        fake_publish_ok(net, owner, key, 0, GONE);
        assert_int_equal(look_up(net, reader, key, COPY), -1);
        assert_null(fake_record(net, homes[0], key)->inlined);
        assert_null(fake_record(net, homes[1], key)->inlined);
        publish(net, owner, key, 5, 4);
        assert_int_equal(look_up(net, reader, key, COPY), 4);
        fake_net_destroy(net);
    }
}

/* A home's memory has changed them: they are fetched. */
static void test_changed_at_home(void **state)
{
    struct fake_net *net = net_create(1 << 20);
    uint32_t homes[DHT_REPLICAS_MAX], owner = fake_stranger(net, 0, 0),
                                      reader = fake_stranger(net, 0, 1);

    (void)state;
    fake_homes(net, 0, homes);
    publish(net, owner, 0, 100, 1);
    for (int i = 0; i < 2; i++)
        fake_record(net, homes[i], 0)->inlined->bytes[50] ^= 4;
    assert_int_equal(look_up(net, reader, 0, COPY), -1);
    for (int i = 0; i < 2; i++)
        fake_record(net, homes[i], 0)->inlined->bytes[50] ^= 4;
    assert_int_equal(look_up(net, reader, 0, COPY), 1);
    fake_net_destroy(net);
}

/* Until the publish has ended at all homes none are given, as a GET is not answered: not to
 * those that look it up, and those that wait for it wait for that. `killed`: it does not
 * end, its owner is dead. */
/* Two at once: the bytes of the second were read before the first one was published, in which time other
 * processes of the node may have written, and published, what it does not have. */
static void test_queued(void **state)
{
    struct fake_net *net = net_create(1 << 20);
    uint32_t owner = fake_stranger(net, 0, 0), reader = fake_stranger(net, 0, 1);
    struct dyad_entry entry = entry_of(owner, 0, 5);
    struct result r[2] = {{0}};

    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            dht_node_publish_ahead(net->rank[owner].node, &entry, NULL,
                                   i ? "later" : "first", NULL, published, &r[i]),
            0);
    assert_true(fake_net_run_until(net, &r[1].calls, 60 * SEC));
    assert_int_equal(r[0].calls, 1);
    assert_int_equal(look_up(net, reader, 0, COPY), -1); /* it is fetched */
    fake_net_destroy(net);
}

static void held(bool killed)
{
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        struct fake_net *net = net_create(1 << 20);
        uint32_t homes[DHT_REPLICAS_MAX], owner = fake_stranger(net, key, 0);
        uint32_t reader = fake_stranger(net, key, 1), one;
        struct dyad_entry entry = entry_of(owner, key, 5);
        struct got waits, stats, late;
        struct result r = {0};

        net->refuse = false; /* it is silent then */
        fake_homes(net, key, homes);
        ask(net, reader, key, COPY | NET_LOOKUP_WAIT, &waits);
        ask(net, reader, key, NET_LOOKUP_WAIT, &stats);
        fake_net_run(net, 10 * MSEC);
        one = fake_record(net, homes[0], key) != NULL; /* the other one keeps the waiters */
        net->cut[owner][homes[one]] = true;            /* what it sends to it is lost */
        assert_int_equal(dht_node_publish_ahead(net->rank[owner].node, &entry, NULL,
                                                "bytes", NULL, published, &r),
                         0);
        fake_net_run(net, 100 * MSEC);
        assert_int_equal(r.calls, 0);
        assert_int_equal(fake_record(net, homes[1 - one], key)->entry.state, PUB);
        assert_int_equal(take(net, &stats), -1); /* it does not fetch it */
        assert_int_equal(look_up(net, homes[1 - one], key, COPY), -1);
        ask(net, homes[1 - one], key, COPY | NET_LOOKUP_WAIT, &late);
        fake_net_run(net, MSEC);
        if (killed)
            fake_net_kill(net, owner, true);
        else
            assert_int_equal(waits.r.calls + late.r.calls, 0);
        assert_int_equal(take(net, &waits), 'b');
        assert_int_equal(take(net, &late), 'b');
        assert_int_equal(r.calls, !killed);
        assert_int_equal(look_up(net, reader, key, COPY), 'b');
        fake_net_destroy(net);
    }
}

static void test_held(void **state)
{
    (void)state;
    held(false);
    held(true);
}

/* PUBLISH_ENDED does not come, and the version comes again without bytes: from the rank that
 * has taken the file over before the home knew of the publisher's death, or from the
 * publisher, which had taken the homes for dead. What is held is given. */
static void not_told(bool killed)
{
    unsigned tried = 0;

    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        struct fake_net *net = net_create(1 << 20);
        uint32_t homes[DHT_REPLICAS_MAX], owner = fake_stranger(net, key, 0), mate = 0;
        uint32_t reader = fake_stranger(net, key, 1);
        struct dyad_entry entry = entry_of(owner, key, 5);
        struct got waits;
        struct result r = {0};

        fake_homes(net, key, homes);
        while (mate < RANKS && (mate == owner || nodes[mate] != nodes[owner] ||
                                fake_is_home(net, key, mate) || mate == reader))
            mate++;
        if (killed && mate == RANKS) {
            fake_net_destroy(net);
            continue;
        }
        tried++;
        net->refuse = false;
        ask(net, reader, key, COPY | NET_LOOKUP_WAIT, &waits);
        fake_net_run(net, 10 * MSEC);
        for (unsigned i = 0; i < 2; i++) /* its acknowledgement is lost */
            net->cut[homes[i]][owner] = true;
        assert_int_equal(dht_node_publish_ahead(net->rank[owner].node, &entry, NULL,
                                                "bytes", NULL, published, &r),
                         0);
        fake_net_run(net, 10 * MSEC);
        assert_int_equal(fake_record(net, homes[0], key)->entry.state, PUB);
        entry.version = fake_record(net, homes[0], key)->entry.version;
        if (killed) {
            fake_net_kill(net, owner, false);
            entry.owner = mate;
            assert_int_equal(dht_node_restore(net->rank[mate].node, &entry), 0);
            fake_net_run(net, 10 * MSEC);
            for (uint32_t rank = 0; rank < RANKS; rank++)
                if (rank != owner)
                    dht_node_set_live(net->rank[rank].node, owner, false);
        } else {
            for (unsigned i = 0; i < 2; i++) {
                dht_node_set_live(net->rank[owner].node, homes[i], false);
                net->cut[owner][homes[i]] = true;
            }
            fake_net_run(net, 10 * MSEC);
            assert_int_equal(r.calls, 1);
            for (unsigned i = 0; i < 2; i++) {
                net->cut[owner][homes[i]] = net->cut[homes[i]][owner] = false;
                dht_node_set_live(net->rank[owner].node, homes[i], true);
            }
        }
        fake_net_run(net, SEC);
        assert_int_equal(waits.r.calls, 1);
        assert_int_equal(take(net, &waits), 'b');
        for (unsigned i = 0; i < 2; i++)
            assert_false(fake_record(net, homes[i], key)->inlined->held);
        fake_net_destroy(net);
    }
    assert_in_range(tried, 1, FAKE_KEYS);
}

static void test_not_told(void **state)
{
    (void)state;
    not_told(true);
    not_told(false);
}

/* Where the shard has no room the entry comes alone. */
static void test_evicted(void **state)
{
    struct fake_net *net = net_create(2000);
    struct dht_shard_stats stats;
    unsigned with = 0;

    (void)state;
    for (unsigned key = 0; key < FAKE_KEYS; key++)
        publish(net, fake_stranger(net, key, 0), key, 500, (int)key);
    for (uint32_t r = 0; r < RANKS; r++) {
        dht_shard_get_stats(dht_node_shard(net->rank[r].node), &stats);
        assert_true(stats.inlined_bytes <= 2000);
    }
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        struct got got;
        int fill;

        ask(net, fake_stranger(net, key, 1), key, COPY, &got);
        fill = take(net, &got);
        assert_int_equal(got.r.status, 0);
        assert_int_equal(got.r.entry.size, 500);
        assert_true(fill == -1 || fill == (int)key);
        with += fill != -1;
    }
    assert_in_range(with, 1, FAKE_KEYS - 1);
    fake_net_destroy(net);
}

/* The owner is dead, then a home too, in whose place comes one that never had them: all
 * are asked, and one has. When that is dead, none has. */
static void test_losses(void **state)
{
    (void)state;
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        struct fake_net *net = net_create(1 << 20);
        uint32_t homes[DHT_REPLICAS_MAX], owner = fake_stranger(net, key, 0);
        uint32_t next[DHT_REPLICAS_MAX], reader;
        struct got got;

        fake_homes(net, key, homes);
        publish(net, owner, key, 100, 7);
        fake_net_kill(net, owner, true);
        reader = fake_stranger(net, key, 0);
        assert_int_equal(look_up(net, reader, key, COPY), 7);
        fake_net_kill(net, homes[key % 2], true);
        fake_net_run(net, 5 * SEC); /* its successor has the entry */
        fake_homes(net, key, next);
        assert_true(next[0] != homes[key % 2] && next[1] != homes[key % 2]);
        assert_int_equal(look_up(net, next[0], key, COPY), 7);
        assert_int_equal(look_up(net, next[1], key, COPY), 7);
        fake_net_kill(net, homes[1 - key % 2], true);
        fake_net_run(net, 5 * SEC);
        fake_homes(net, key, next);
        ask(net, next[1], key, COPY, &got);
        assert_int_equal(take(net, &got), -1);
        assert_int_equal(got.r.status, 0); /* the entry is still there */
        assert_int_equal(got.r.entry.size, 100);
        fake_net_destroy(net);
    }
}

/* A home hears of the version from another, without them, before the publish is there. */
static void test_overtaken(void **state)
{
    struct fake_net *net = net_create(1 << 20);
    uint32_t homes[DHT_REPLICAS_MAX], owner = fake_stranger(net, 0, 0);
    struct dyad_entry entry = entry_of(owner, 0, 3);
    struct net_msg msg = {.type = NET_MSG_PUBLISH, .source = owner, .entry = entry};

    (void)state;
    fake_homes(net, 0, homes);
    msg.entry.version = (struct dyad_version){.counter = 9, .rank = owner};
    dht_node_receive(net->rank[homes[0]].node, &msg);
    assert_null(fake_record(net, homes[0], 0)->inlined);
    msg.blob = "abc";
    msg.blob_len = 3;
    dht_node_receive(net->rank[homes[0]].node, &msg);
    assert_non_null(fake_record(net, homes[0], 0)->inlined);
    msg.blob = NULL; /* published again, by whomever: they stay */
    msg.blob_len = 0;
    dht_node_receive(net->rank[homes[0]].node, &msg);
    assert_non_null(fake_record(net, homes[0], 0)->inlined);
    fake_net_destroy(net);
}

/* Who stands in for a home does not hear of what comes after that one is back, and does not
 * keep what it got instead. */
static void test_stand_in(void **state)
{
    struct fake_net *net = net_create(1 << 20);
    uint32_t homes[DHT_REPLICAS_MAX], owner = fake_stranger(net, 0, 0);
    uint32_t next[DHT_REPLICAS_MAX], instead;

    (void)state;
    fake_homes(net, 0, homes);
    fake_net_kill(net, homes[0], true);
    fake_homes(net, 0, next);
    instead = next[0] == homes[1] ? next[1] : next[0];
    publish(net, owner, 0, 100, 1);
    fake_net_run(net, 2 * SEC);
    assert_non_null(fake_record(net, instead, 0)->inlined);
    fake_net_revive(net, homes[0], true);
    fake_net_run(net, 2 * SEC);
    assert_null(fake_record(net, instead, 0)->inlined);
    assert_non_null(fake_record(net, homes[1], 0)->inlined);
    fake_net_destroy(net);
}

/* Homes that may have missed a newer version say which one they have, and do not give it.
 */
static void test_minority(void **state)
{
    struct fake_net *net = net_create(1 << 20);
    uint32_t homes[DHT_REPLICAS_MAX], owner = fake_stranger(net, 0, 0);
    uint32_t reader = fake_stranger(net, 0, 1), away = fake_stranger(net, 0, 2);
    struct got got;

    (void)state;
    fake_homes(net, 0, homes);
    publish(net, owner, 0, 100, 1);
    for (unsigned i = 0; i < 2; i++) {
        struct dht_node *home = net->rank[homes[i]].node;
        dht_node_set_missing(home, away, DHT_MISSING);
        dht_node_set_live(home, away, false);
        dht_node_set_partition(home, DHT_PARTITION_MINORITY);
    }
    ask(net, reader, 0, COPY, &got);
    assert_int_equal(take(net, &got), -1);
    assert_int_equal(got.r.status, 0);
    for (unsigned i = 0; i < 2; i++) { /* they are all there, and say what they have */
        dht_node_set_partition(net->rank[homes[i]].node, DHT_PARTITION_MAJORITY);
        dht_node_set_live(net->rank[homes[i]].node, away, true);
    }
    fake_net_run(net, 20 * SEC);
    assert_int_equal(look_up(net, reader, 0, COPY), 1);
    fake_net_destroy(net);
}

/* The owner is dead, so all homes are asked. One has answered and the other is silent when a
 * newer version comes: that one's INVALIDATE is answered, and its publish ends. */
static void test_overtaken_look_up(void **state)
{
    struct fake_net *net = net_create(1 << 20);
    uint32_t homes[DHT_REPLICAS_MAX], owner = fake_stranger(net, 0, 0), reader, other;
    struct got got;

    (void)state;
    fake_homes(net, 0, homes);
    publish(net, owner, 0, 100, 7);
    fake_net_kill(net, owner, true);
    reader = fake_stranger(net, 0, 0);
    other = fake_stranger(net, 0, 1);
    net->cut[reader][homes[1]] = net->cut[homes[1]][reader] = true;
    net->refuse = false;
    ask(net, reader, 0, COPY, &got);
    fake_net_run(net, 10 * MSEC);
    assert_int_equal(got.r.calls, 0);
    fake_publish_ok(net, other, 0, 200, PUB);
    assert_true(net->rank[reader].ninvalidated > 0);
    assert_int_equal(take(net, &got), -1);
    fake_net_destroy(net);
}

/* Look-ups that have ended, or are dropped, when the rank ends: valgrind sees leaks. */
static void test_dropped(void **state)
{
    struct fake_net *net = net_create(1 << 20);
    uint32_t homes[DHT_REPLICAS_MAX], owner = fake_stranger(net, 0, 0);
    struct got got, dropped;

    (void)state;
    fake_homes(net, 0, homes);
    publish(net, owner, 0, 50, 1);
    ask(net, fake_stranger(net, 0, 1), 0, COPY, &got);
    ask(net, homes[0], 0, COPY, &dropped);
    dht_node_cancel(net->rank[homes[0]].node, dropped.lookup);
    fake_net_run(net, 0);
    fake_net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_look_up),
        cmocka_unit_test(test_changed_at_home),
        cmocka_unit_test(test_queued),
        cmocka_unit_test(test_held),
        cmocka_unit_test(test_not_told),
        cmocka_unit_test(test_evicted),
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_overtaken),
        cmocka_unit_test(test_dropped),
        cmocka_unit_test(test_overtaken_look_up),
        cmocka_unit_test(test_stand_in),
        cmocka_unit_test(test_minority),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
