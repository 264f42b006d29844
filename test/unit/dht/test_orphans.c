/*
 * test/unit/dht/test_orphans.c - what the dead have published or removed, when homes die
 *
 * Eight ranks on four nodes. Nobody takes over what a dead rank had; the other of its node
 * is asked to.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "fake_net.h"

#define RANKS 8
#define PUB   DYAD_ENTRY_PUBLISHED
#define GONE  DYAD_ENTRY_WITHDRAWN

static const uint32_t nodes[RANKS] = {0, 1, 2, 3, 0, 1, 2, 3};

static struct fake_net *net_create(void)
{
    return fake_net_create_on(RANKS, 2, 1, nodes);
}

static int look_up(struct fake_net *net, uint32_t rank, unsigned key, uint64_t *size)
{
    struct result r;

    fake_lookup(net, rank, key, 0, NULL, &r);
    assert_true(fake_net_run_until(net, &r.calls, 60 * SEC));
    *size = r.status == 0 ? r.entry.size : 0;
    return r.status;
}

/* Kill a home and then the next, `times`, with 2 s between. */
static void kill_homes(struct fake_net *net, unsigned key, unsigned times)
{
    while (times-- > 0) {
        uint32_t homes[DHT_REPLICAS_MAX];
        fake_homes(net, key, homes);
        fake_net_kill(net, homes[0], true);
        fake_net_run(net, 2 * SEC);
    }
}

static uint32_t living(const struct fake_net *net)
{
    for (uint32_t rank = 0; rank < RANKS; rank++)
        if (net->rank[rank].node != NULL)
            return rank;
    return RANKS;
}

/* Who stood in for a home once has an older version, and becomes one. The one that removed
 * the file is dead, and so are, one after the other, those that knew of that: it does not
 * come back. */
static void test_removed(void **state)
{
    (void)state;
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        struct fake_net *net = net_create();
        uint32_t homes[DHT_REPLICAS_MAX], next[DHT_REPLICAS_MAX], owner;
        uint64_t size;

        fake_homes(net, key, homes);
        owner = homes[1];
        dht_node_set_live(net->rank[owner].node, homes[0], false);
        dht_node_homes(net->rank[owner].node, fake_key(key), next);
        fake_publish_ok(net, owner, key, 5, PUB); /* at a stand-in */
        dht_node_set_live(net->rank[owner].node, homes[0], true);
        fake_publish_ok(net, owner, key, 6, PUB);
        fake_publish_ok(net, owner, key, 0, GONE);
        fake_net_kill(net, owner, true);
        fake_net_run(net, 2 * SEC);
        kill_homes(net, key, 1);
        assert_int_equal(fake_is_home(net, key, next[0]) || fake_is_home(net, key, next[1]),
                         true);
        assert_int_equal(look_up(net, living(net), key, &size), ENOENT);
        fake_net_destroy(net);
    }
}

/* What the dead one has published stays known: who waits is told where it lies. */
static void test_published(void **state)
{
    (void)state;
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        struct fake_net *net = net_create();
        uint32_t owner = fake_stranger(net, key, 0);
        uint64_t size;

        fake_publish_ok(net, owner, key, 6, PUB);
        fake_net_kill(net, owner, true);
        fake_net_run(net, 2 * SEC);
        kill_homes(net, key, 3);
        assert_int_equal(look_up(net, living(net), key, &size), 0);
        assert_int_equal(size, 6);
        fake_net_destroy(net);
    }
}

static void take_over(struct fake_net *net, uint32_t rank, unsigned key, uint32_t dead)
{
    struct dyad_entry entry = net->rank[dead].journal[key];

    entry.upath = fake_key(key);
    entry.owner = rank;
    assert_int_equal(dht_node_restore(net->rank[rank].node, &entry), 0);
    fake_net_run(net, SEC);
}

/* Two have taken over the same file, one after the other, for what says that it is done
 * could not be written. The one that the homes know dies: the other one says again that it
 * has the file, also if both homes live on. */
static void test_two_heirs(void **state)
{
    (void)state;
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        struct fake_net *net = net_create();
        uint32_t dead = fake_stranger(net, key, 0), first, second;
        struct result r;

        fake_publish_ok(net, dead, key, 6, PUB);
        fake_net_kill(net, dead, true);
        first = fake_stranger(net, key, 0);
        second = fake_stranger(net, key, 1);
        take_over(net, first, key, dead);
        take_over(net, second, key, dead);
        fake_net_kill(net, second, true);
        take_over(net, first, key, dead);
        fake_lookup(net, living(net), key, 0, NULL, &r);
        assert_true(fake_net_run_until(net, &r.calls, 60 * SEC));
        assert_int_equal(r.status, 0);
        assert_int_equal(r.entry.owner, first);
        fake_net_destroy(net);
    }
}

/* Killed in the midst of a publish, when one home knew of it, and the other has something
 * older: that hears of it, too. Also if the other rank of the writer's node is the home
 * that knows, or has withdrawn the name itself. */
static void test_half_published(void **state)
{
    (void)state;
    for (unsigned key = 0; key < FAKE_KEYS * 4; key++) {
        struct fake_net *net = net_create();
        uint32_t homes[DHT_REPLICAS_MAX], owner, other, knows;
        unsigned k = key % FAKE_KEYS, sent;
        struct result r;
        uint64_t size;

        fake_homes(net, k, homes);
        knows = homes[key / FAKE_KEYS % 2];
        if (nodes[homes[0]] == nodes[homes[1]]) {
            fake_net_destroy(net);
            continue;
        }
        /* Of the node of the home that knows, or of the other's. */
        other = homes[key / FAKE_KEYS / 2];
        owner = (other + 4) % RANKS;
        fake_publish_ok(net, other, k, 5, PUB);
        fake_publish_ok(net, other, k, 0, GONE);
        fake_net_run(net, SEC);
        net->cut[owner][homes[0]] = knows != homes[0];
        net->cut[owner][homes[1]] = knows != homes[1];
        fake_publish(net, owner, k, 6, PUB, &r);
        fake_net_run(net, MSEC);
        assert_int_equal(fake_record(net, knows, k)->entry.size, 6);
        fake_net_kill(net, owner, true);
        sent = net->rank[other].nleft;
        fake_net_run(net, 3 * SEC);
        for (int i = 0; i < 2; i++)
            assert_int_equal(fake_record(net, homes[i], k)->entry.size, 6);
        assert_int_equal(net->rank[other].nleft, sent); /* who needs it asks that one */
        assert_int_equal(look_up(net, living(net), k, &size), 0);
        fake_net_destroy(net);
    }
}

/* A death costs messages for what it concerns only. */
static void test_costs(void **state)
{
    struct fake_net *net = net_create();
    unsigned before, cost[2];

    (void)state;
    for (unsigned key = 0; key < FAKE_KEYS; key++)
        fake_publish_ok(net, 0, key, 6, key % 2 ? PUB : GONE);
    for (int i = 0; i < 2; i++) {
        before = net->sent[NET_MSG_PUBLISH];
        fake_net_kill(net, i == 0 ? 0 : 1, true);
        fake_net_run(net, 20 * SEC);
        cost[i] = net->sent[NET_MSG_PUBLISH] - before;
        before = net->sent[NET_MSG_PUBLISH];
        fake_net_run(net, 60 * SEC);
        assert_int_equal(net->sent[NET_MSG_PUBLISH], before);
    }
    assert_in_range(cost[0], 1,
                    2 * FAKE_KEYS); /* all are orphans now: each from each home */
    assert_in_range(cost[1], 0, 2 * FAKE_KEYS - 1);
    fake_net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_removed),   cmocka_unit_test(test_published),
        cmocka_unit_test(test_two_heirs), cmocka_unit_test(test_half_published),
        cmocka_unit_test(test_costs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
