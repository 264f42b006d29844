/*
 * test/unit/dht/test_later.c - of two changes that no home could order the later one stays
 *
 * Six ranks on three nodes, with wall clocks; node 2 (ranks 4 and 5) is cut off at times.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "dht/base.h"
#include "fake_net.h"

#define RANKS 6
#define FAR   4
#define PUB   DYAD_ENTRY_PUBLISHED
#define GONE  DYAD_ENTRY_WITHDRAWN

static const uint32_t nodes[RANKS] = {0, 0, 1, 1, 2, 2};

static struct fake_net *net_create(void)
{
    struct fake_net *net = fake_net_create_on(RANKS, 2, 1, nodes);

    net->refuse = false;
    net->wall = true;
    return net;
}

static void cut(struct fake_net *net, bool is_cut)
{
    for (uint32_t a = 0; a < FAR; a++)
        for (uint32_t b = FAR; b < RANKS; b++) {
            net->cut[a][b] = net->cut[b][a] = is_cut;
            if (is_cut) {
                dht_node_set_missing(net->rank[a].node, b, DHT_MISSING);
                dht_node_set_missing(net->rank[b].node, a, DHT_MISSING);
            }
            dht_node_set_live(net->rank[a].node, b, !is_cut);
            dht_node_set_live(net->rank[b].node, a, !is_cut);
        }
    for (uint32_t rank = 0; rank < RANKS; rank++)
        dht_node_set_partition(net->rank[rank].node, is_cut && rank >= FAR
                                                         ? DHT_PARTITION_MINORITY
                                                         : DHT_PARTITION_MAJORITY);
}

/* All say so: it is published with this size, or (0) it is not published. */
static void assert_all_see(struct fake_net *net, unsigned key, uint64_t size)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        struct result r;
        fake_lookup(net, rank, key, 0, NULL, &r);
        assert_true(fake_net_run_until(net, &r.calls, 60 * SEC));
        assert_int_equal(r.status, size > 0 ? 0 : ENOENT);
        if (size > 0)
            assert_int_equal(r.entry.size, size);
    }
}

/* Many changes on one side, then one on the other: what came last stays, not what has more
 * changes behind it. */
static void test_two_sides(void **state)
{
    struct fake_net *net = net_create();

    (void)state;
    for (unsigned key = 0; key < FAKE_KEYS; key++)
        fake_publish_ok(net, key % RANKS, key, 5, PUB);
    cut(net, true);
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        uint32_t many = key % 2 ? 0 : FAR, one = key % 2 ? FAR : 0;
        for (uint64_t i = 0; i < 10; i++)
            fake_publish_ok(net, many, key, 10 + i, PUB);
        fake_net_run(net, MSEC);
        fake_publish_ok(net, one, key, 99, key % 4 < 2 ? PUB : GONE);
    }
    fake_net_run(net, SEC);
    cut(net, false);
    fake_net_run(net, 20 * SEC);
    for (unsigned key = 0; key < FAKE_KEYS; key++)
        assert_all_see(net, key, key % 4 < 2 ? 99 : 0);
    fake_net_destroy(net);
}

struct change {
    uint32_t rank;
    int calls, status, refused;
};

/* Of two that were refused for each other the one with the lower rank goes on, with what the other has written. */
static enum dht_ahead goes(void *arg, const struct dyad_version *version,
                           const struct dyad_entry *refused, struct dyad_entry *entry,
                           struct dyad_base *base)
{
    struct change *change = arg;

    if (version == NULL || refused == NULL ||
        !dht_base_is_overtaken(base, refused, entry->storage))
        return DHT_AHEAD_GO;
    change->refused++;
    *base = dht_base_version(&refused->version);
    return change->rank < refused->owner ? DHT_AHEAD_CHANGED : DHT_AHEAD_STOP;
}

static void changed(void *arg, int status, const struct dyad_version *version)
{
    struct change *change = arg;

    (void)version;
    change->calls++;
    change->status = status;
}

/* Of the published file of 5 bytes. */
static void change(struct fake_net *net, uint32_t rank, unsigned key, uint64_t size,
                   struct change *change)
{
    const struct dyad_base base = {.kind = DYAD_BASE_FROM, .size = 5};
    struct dyad_entry entry = {.upath = fake_key(key),
                               .owner = rank,
                               .state = PUB,
                               .size = size,
                               .mode = 0100644,
                               .storage = {(uint8_t)(100 + rank)}};

    *change = (struct change){.rank = rank};
    assert_int_equal(dht_node_publish_ahead(net->rank[rank].node, &entry, &base, NULL, goes,
                                            changed, change),
                     0);
}

/* Both sides change the same version. Neither ends before its homes beyond the cut are back, or are not waited for any
 * more: one of the two is refused then. */
static void test_changes(void **state)
{
    struct fake_net *net = net_create();
    struct change near[FAKE_KEYS], far[FAKE_KEYS];
    unsigned waited = 0;

    (void)state;
    for (unsigned key = 0; key < FAKE_KEYS; key++)
        fake_publish_ok(net, key % RANKS, key, 5, PUB);
    cut(net, true);
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        change(net, 0, key, 6, &near[key]);
        change(net, FAR, key, 7, &far[key]);
    }
    fake_net_run(net, 60 * SEC);
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        assert_false(far[key].calls > 0 && far[key].status == 0 && near[key].calls > 0 &&
                     near[key].status == 0);
        waited += near[key].calls == 0 && far[key].calls == 0;
    }
    assert_true(waited > 0);
    cut(net, false);
    fake_net_run(net, 20 * SEC);
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        assert_int_equal(near[key].calls, 1);
        assert_int_equal(far[key].calls, 1);
        assert_int_equal(near[key].status, 0);
        assert_true(near[key].refused > 0 || far[key].status == ECANCELED);
        assert_all_see(net, key, 6);
    }

    /* Those that have been missing for long are passed over, as by what replaces a file. */
    for (unsigned key = 0; key < FAKE_KEYS; key++)
        fake_publish_ok(net, key % RANKS, key, 5, PUB);
    cut(net, true);
    for (unsigned key = 0; key < FAKE_KEYS; key++)
        change(net, 0, key, 6, &near[key]);
    fake_net_run(net, 60 * SEC);
    for (uint32_t rank = FAR; rank < RANKS; rank++)
        for (uint32_t other = 0; other < FAR; other++)
            dht_node_set_missing(net->rank[other].node, rank, DHT_MISSING_LONG);
    fake_net_run(net, SEC);
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        assert_int_equal(near[key].calls, 1);
        assert_int_equal(near[key].status, 0);
    }
    fake_net_destroy(net);
}

/* A home that has died is followed by one that knows nothing of the name, and takes a change that the other home refuses.
 * That one hears of it as a holder: it takes it from its publisher only, unless that is dead. */
static void test_told_of_change(void **state)
{
    struct fake_net *net = net_create();

    (void)state;
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        uint32_t homes[DHT_REPLICAS_MAX], by = fake_stranger(net, key, 0);
        struct net_msg msg = {.type = NET_MSG_INVALIDATE,
                              .source = fake_stranger(net, key, 1),
                              .id = 1,
                              .entry = {.upath = fake_key(key),
                                        .owner = by,
                                        .state = PUB,
                                        .size = 7,
                                        .mode = 0100644}};

        assert_int_equal(fake_homes(net, key, homes), 2);
        fake_publish_ok(net, homes[1], key, 6, PUB);
        msg.entry.version = fake_record(net, homes[0], key)->entry.version;
        msg.entry.version.counter++;
        msg.entry.version.rank = by;
        msg.entry.change = true;
        dht_node_receive(net->rank[homes[0]].node, &msg);
        fake_net_run(net, SEC);
        assert_int_equal(fake_record(net, homes[0], key)->entry.size, 6);
        fake_net_kill(net, by, true);
        dht_node_receive(net->rank[homes[0]].node, &msg);
        assert_int_equal(fake_record(net, homes[0], key)->entry.size, 7);
        fake_net_revive(net, by, true);
        fake_net_run(net, 20 * SEC);
        msg.entry.version = fake_record(net, homes[0], key)->entry.version;
        msg.entry.version.counter++;
        msg.entry.version.rank = by;
        msg.entry.size = 8;
        msg.entry.change = false;
        dht_node_receive(net->rank[homes[0]].node, &msg);
        assert_int_equal(fake_record(net, homes[0], key)->entry.size, 8);
    }
    fake_net_destroy(net);
}

enum passed { CHANGE, CHANGE_OF_DEAD, NO_CHANGE, WAYS };

/* `first` publishes; `asked` gets the next version of `by`, which the homes have afterwards, unless it is a change of a rank that lives. */
static void assert_passed_on(struct fake_net *net, unsigned key, enum passed way,
                             enum net_msg_type type, uint32_t first, uint32_t asked,
                             uint32_t by)
{
    struct net_msg msg = {.type = type,
                          .source = by,
                          .id = 1,
                          .entry = {.upath = fake_key(key),
                                    .owner = by,
                                    .state = PUB,
                                    .size = 7 + 2 * way,
                                    .mode = 0100644,
                                    .change = way != NO_CHANGE}};
    uint32_t homes[DHT_REPLICAS_MAX];

    assert_int_equal(fake_homes(net, key, homes), 2);
    fake_publish_ok(net, first, key, 6 + 2 * way, PUB);
    msg.entry.version = fake_record(net, homes[0], key)->entry.version;
    msg.entry.version.counter++;
    msg.entry.version.rank = by;
    if (way == CHANGE_OF_DEAD)
        fake_net_kill(net, by, true);
    dht_node_receive(net->rank[asked].node, &msg);
    fake_net_run(net, SEC);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(fake_record(net, homes[i], key)->entry.size,
                         way == CHANGE ? 6 : 7 + 2 * way);
    if (way == CHANGE_OF_DEAD)
        fake_net_revive(net, by, true);
}

/* An owner that is told of a newer version passes it on to the homes, since its publisher may have died before it was at all of them:
 * a change only if it has. The homes would refuse it from its publisher. */
static void test_change_passed_on(void **state)
{
    struct fake_net *net = net_create();

    (void)state;
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        uint32_t owner = fake_stranger(net, key, 1), dead = fake_stranger(net, key, 2);

        fake_net_kill(net, dead, true);
        for (enum passed way = 0; way < WAYS; way++)
            assert_passed_on(net, key, way, NET_MSG_INVALIDATE, owner, owner,
                             fake_stranger(net, key, 0));
        fake_net_revive(net, dead, true);
        fake_net_run(net, 20 * SEC);
    }
    fake_net_destroy(net);
}

/* A rank that is no home, and gets a version while another rank is missing, passes it on to the homes: a change only if its publisher
 * is dead. */
static void test_change_stood_in_for(void **state)
{
    struct fake_net *net = net_create();

    (void)state;
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        uint32_t homes[DHT_REPLICAS_MAX], asked = fake_stranger(net, key, 1),
                                          missing = fake_stranger(net, key, 2);

        assert_int_equal(fake_homes(net, key, homes), 2);
        for (enum passed way = 0; way < WAYS; way++) {
            dht_node_set_missing(net->rank[asked].node, missing, DHT_MISSING);
            dht_node_set_live(net->rank[asked].node, missing, false);
            assert_passed_on(net, key, way, NET_MSG_PUBLISH, homes[0], asked,
                             fake_stranger(net, key, 0));
            dht_node_set_live(net->rank[asked].node, missing, true);
            fake_net_run(net, 20 * SEC);
        }
    }
    fake_net_destroy(net);
}

/* A home comes back as another process, which knows nothing of what it withdrew, while the
 * other home is silent. What it publishes then is not taken for older than that. */
static void test_empty_shard(void **state)
{
    struct fake_net *net = net_create();
    unsigned shown = 0;

    (void)state;
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        uint32_t homes[DHT_REPLICAS_MAX];
        struct result r = {0};

        assert_int_equal(fake_homes(net, key, homes), 2);
        for (uint64_t i = 0; i < 5; i++)
            fake_publish_ok(net, homes[0], key, 5 + i, PUB);
        fake_publish_ok(net, homes[0], key, 0, GONE);
        net->rank[homes[0]].journal[key].state = DYAD_ENTRY_NONE; /* it has no tombstones */
        net->rank[homes[1]].stopped = true;
        fake_net_kill(net, homes[0], false);
        fake_net_revive(net, homes[0], false);
        for (uint32_t rank = 0; rank < RANKS; rank++)
            if (rank != homes[0]) {
                dht_node_set_live(net->rank[rank].node, homes[0], false);
                dht_node_set_live(net->rank[rank].node, homes[0], true);
            }
        fake_publish(net, homes[0], key, 77, PUB, &r);
        assert_true(fake_net_run_until(net, &r.calls, 60 * SEC));
        shown += r.status == 0;
        net->rank[homes[1]].stopped = false;
        fake_net_run(net, 20 * SEC);
        if (r.status == 0)
            assert_all_see(net, key, 77);
    }
    assert_in_range(shown, 1, FAKE_KEYS);
    fake_net_destroy(net);
}

/* A clock that is behind changes nothing where homes answer. */
static void test_clock_is_behind(void **state)
{
    struct fake_net *net = net_create();

    (void)state;
    net->rank[1].behind = 500000000;
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        fake_publish_ok(net, 0, key, 5, PUB);
        fake_publish_ok(net, 1, key, 6, PUB);
        assert_all_see(net, key, 6);
        fake_publish_ok(net, 1, key, 0, GONE);
        assert_all_see(net, key, 0);
        fake_publish_ok(net, 2, key, 7, PUB);
        assert_all_see(net, key, 7);
    }
    fake_net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_sides),           cmocka_unit_test(test_changes),
        cmocka_unit_test(test_told_of_change),      cmocka_unit_test(test_change_passed_on),
        cmocka_unit_test(test_change_stood_in_for), cmocka_unit_test(test_empty_shard),
        cmocka_unit_test(test_clock_is_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
