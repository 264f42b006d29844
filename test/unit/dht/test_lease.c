/*
 * test/unit/dht/test_lease.c - what a holder's lease rests upon
 *
 * Six ranks, each on a node of its own; a lease of a second, where a silent holder is
 * waited for for longer.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "fake_net.h"
#include "net/msg.h"

#define RANKS 6
#define LEASE SEC
#define PUB   DYAD_ENTRY_PUBLISHED
#define GONE  DYAD_ENTRY_WITHDRAWN

static const uint32_t nodes[RANKS] = {0, 1, 2, 3, 4, 5};

struct scene {
    struct fake_net *net;
    uint32_t homes[DHT_REPLICAS_MAX], owner, holder;
    struct dyad_version version;
    struct result r;
};

static struct scene scene_of(unsigned holder)
{
    struct scene s = {.net = fake_net_create_on(RANKS, 2, 1, nodes)};

    assert_true(s.net->config.invalidate_timeout > LEASE);
    s.net->config.lease = LEASE;
    for (uint32_t r = 0; r < RANKS; r++) {
        fake_net_kill(s.net, r, true);
        fake_net_revive(s.net, r, true);
    }
    fake_net_run(s.net, 60 * SEC);
    fake_homes(s.net, 0, s.homes);
    s.owner = fake_stranger(s.net, 0, 0);
    s.holder = fake_stranger(s.net, 0, holder);
    s.version = fake_publish_ok(s.net, s.owner, 0, 5, PUB);
    fake_lookup(s.net, s.holder, 0, NET_LOOKUP_COPY, NULL, &s.r);
    assert_true(fake_net_run_until(s.net, &s.r.calls, SEC));
    fake_net_run(s.net, SEC);
    return s;
}

static struct scene scene_begin(void)
{
    return scene_of(1);
}

static void lose(struct scene *s, uint32_t at, uint32_t rank, enum dht_missing missing)
{
    dht_node_set_missing(s->net->rank[at].node, rank, missing);
    dht_node_set_live(s->net->rank[at].node, rank, false);
}

/* The rank is beyond a cut, and all others know. */
static void cut_off(struct scene *s, uint32_t rank, enum dht_missing missing)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        if (r == rank)
            continue;
        s->net->cut[r][rank] = s->net->cut[rank][r] = true;
        lose(s, r, rank, missing);
    }
}

static uint64_t publish(struct scene *s)
{
    uint64_t begin = s->net->now;

    memset(&s->r, 0, sizeof(s->r));
    fake_publish(s->net, s->owner, 0, 6, PUB, &s->r);
    assert_true(fake_net_run_until(s->net, &s->r.calls, 60 * SEC));
    assert_int_equal(s->r.status, 0);
    return s->net->now - begin;
}

/* One that was lost just now may still open its copy: a publish is not over before. */
static void test_lost_holder(void **state)
{
    struct scene s = scene_begin();
    uint64_t took;

    (void)state;
    cut_off(&s, s.holder, DHT_MISSING);
    fake_net_run(s.net, SEC / 2);
    took = publish(&s);
    assert_in_range(took, LEASE - SEC / 2, s.net->config.invalidate_timeout + SEC / 10);
    assert_in_range(publish(&s), 0, SEC / 10); /* it is none any more */
    fake_net_destroy(s.net);

    s = scene_begin();
    cut_off(&s, s.holder, DHT_MISSING);
    fake_net_run(s.net, LEASE);
    assert_in_range(publish(&s), 0, SEC / 10);
    fake_net_destroy(s.net);

    s = scene_begin();
    cut_off(&s, s.holder, DHT_GONE); /* it opens nothing */
    assert_in_range(publish(&s), 0, SEC / 10);
    fake_net_destroy(s.net);
}

/* What told it is lost with its connection, and it is back before its lease is over: it is
 * told again, and its own answer ends the wait. */
static void test_back_at_once(void **state)
{
    struct scene s = scene_begin();
    struct result r = {0};
    uint64_t begin;

    (void)state;
    s.net->refuse = false;
    for (unsigned i = 0; i < 2; i++)
        s.net->cut[s.homes[i]][s.holder] = true;
    begin = s.net->now;
    fake_publish(s.net, s.owner, 0, 6, PUB, &r);
    fake_net_run(s.net, SEC / 10);
    assert_int_equal(r.calls, 0);
    for (unsigned i = 0; i < 2; i++) {
        lose(&s, s.homes[i], s.holder, DHT_MISSING);
        s.net->cut[s.homes[i]][s.holder] = false;
        dht_node_set_live(s.net->rank[s.homes[i]].node, s.holder, true);
    }
    assert_true(fake_net_run_until(s.net, &r.calls, 60 * SEC));
    assert_int_equal(r.status, 0);
    assert_in_range(s.net->now - begin, 0, SEC / 5);
    assert_int_equal(s.net->rank[s.holder].copy[0].counter, 0);
    fake_net_destroy(s.net);
}

/* So do those that nobody but lost homes knows of. */
static void test_lost_homes(void **state)
{
    struct scene s = scene_begin();

    (void)state;
    cut_off(&s, s.homes[0], DHT_MISSING);
    assert_in_range(publish(&s), 0, SEC / 10);
    fake_net_run(s.net, SEC);
    cut_off(&s, s.homes[1], DHT_MISSING);
    assert_in_range(publish(&s), LEASE, LEASE + LEASE / 4);
    fake_net_run(s.net, SEC);
    assert_in_range(publish(&s), 0, SEC / 10);
    fake_net_destroy(s.net);

    s = scene_begin();
    cut_off(&s, s.homes[0], DHT_GONE);
    cut_off(&s, s.homes[1], DHT_GONE);
    assert_in_range(publish(&s), 0, SEC / 10);
    fake_net_destroy(s.net);
}

static int is_newest(struct scene *s, uint64_t *took)
{
    struct result r = {.calls = 0};
    uint64_t begin = s->net->now;

    fake_lookup(s->net, s->holder, 0, DHT_LOOKUP_SURE, &s->version, &r);
    assert_true(fake_net_run_until(s->net, &r.calls, 60 * SEC));
    *took = s->net->now - begin;
    return r.status == ENOENT && r.has_entry ? 0 : r.status;
}

static void test_sure(void **state)
{
    struct scene s = scene_begin();
    uint64_t took;

    (void)state;
    assert_int_equal(is_newest(&s, &took), ENOENT);
    assert_in_range(took, 0, SEC / 10);
    /* One of its homes is silent: it may be we who are cut off, with the other. */
    s.net->cut[s.holder][s.homes[1]] = s.net->cut[s.homes[1]][s.holder] = true;
    assert_int_equal(is_newest(&s, &took), EHOSTUNREACH);
    assert_true(took >= s.net->config.request_timeout);
    /* It is known to be lost, and that we are on the majority. */
    lose(&s, s.holder, s.homes[1], DHT_MISSING);
    assert_int_equal(is_newest(&s, &took), ENOENT);
    assert_in_range(took, 0, SEC / 10);
    dht_node_set_partition(s.net->rank[s.holder].node, DHT_PARTITION_MINORITY);
    assert_int_equal(is_newest(&s, &took), EHOSTUNREACH);
    dht_node_set_partition(s.net->rank[s.holder].node, DHT_PARTITION_MAJORITY);
    /* Both are lost: who stands in for them does not know. */
    s.net->cut[s.holder][s.homes[0]] = s.net->cut[s.homes[0]][s.holder] = true;
    lose(&s, s.holder, s.homes[0], DHT_MISSING_LONG);
    assert_int_equal(is_newest(&s, &took), EHOSTUNREACH);
    fake_net_destroy(s.net);

    s = scene_begin();
    publish(&s);
    assert_int_equal(is_newest(&s, &took), 0); /* there is something newer */
    fake_net_destroy(s.net);

    /* Its owner is dead: the homes know as well as before that nothing is newer. */
    s = scene_begin();
    fake_net_kill(s.net, s.owner, true);
    assert_int_equal(is_newest(&s, &took), ENOENT);
    assert_in_range(took, 0, SEC / 10);
    fake_net_destroy(s.net);
}

static void test_copies(void **state)
{
    struct scene s = scene_begin();
    struct dht_node *node = s.net->rank[s.holder].node;
    bool unsure[RANKS] = {false}, home[RANKS], known;
    const struct dyad_version some = {.counter = 1};

    (void)state;
    assert_int_equal(dht_node_copy_homes(node, unsure, home, &known), 1);
    assert_true(known);
    for (uint32_t r = 0; r < RANKS; r++)
        assert_int_equal(home[r], r == s.homes[0] || r == s.homes[1]);
    unsure[s.homes[0]] = true;
    dht_node_copy_homes(node, unsure, home, &known);
    assert_true(known);
    unsure[s.homes[1]] = true;
    dht_node_copy_homes(node, unsure, home, &known);
    assert_false(known);
    unsure[s.homes[0]] = unsure[s.homes[1]] = false;
    /* What nobody has its homes wait for, and will tell us what comes after it. */
    assert_int_equal(dht_node_hold(node, "other", &some), 0);
    assert_int_equal(dht_node_copy_homes(node, unsure, home, &known), 2);
    assert_false(known);
    fake_net_run(s.net, 60 * SEC);
    dht_node_copy_homes(node, unsure, home, &known);
    assert_true(known);
    for (uint32_t r = 0; r < RANKS; r++)
        unsure[r] = true;
    dht_node_copy_homes(node, unsure, home, &known);
    assert_false(known);
    memset(unsure, false, sizeof(unsure));
    /* It is given up: what is left is known, and no home waits to tell us. */
    const struct dyad_entry up_to[] = {
        {.upath = "other", .version = {.counter = 0, .rank = 1}},
        {.upath = "other", .version = {.counter = 1, .rank = 1}, .state = GONE}};
    dht_node_let_go(node, &up_to[0]); /* not the one that is here */
    assert_int_equal(dht_node_copy_homes(node, unsure, home, &known), 2);
    s.net->sent[NET_MSG_LOOKUP_CANCEL] = 0;
    dht_node_let_go(node, &up_to[1]);
    assert_int_equal(dht_node_copy_homes(node, unsure, home, &known), 1);
    assert_true(known);
    assert_int_equal(s.net->sent[NET_MSG_LOOKUP_CANCEL], 2);
    fake_net_destroy(s.net);

    s = scene_begin();
    publish(&s); /* the holder was told */
    assert_int_equal(dht_node_copy_homes(s.net->rank[s.holder].node, unsure, home, &known),
                     0);
    fake_net_destroy(s.net);
}

/* Its owner and all homes are dead: those that are homes now are to tell its holder. */
static void test_nobody_knows(void **state)
{
    struct scene s = scene_begin();
    struct fake_rank *holder = &s.net->rank[s.holder];
    bool unsure[RANKS] = {false}, home[RANKS], known;
    uint32_t writer = 0;

    (void)state;
    fake_net_kill(s.net, s.owner, true);
    fake_net_kill(s.net, s.homes[0], true);
    fake_net_kill(s.net, s.homes[1], true);
    assert_int_equal(dht_node_copy_homes(holder->node, unsure, home, &known), 1);
    assert_false(known);
    fake_net_run(s.net, 10 * SEC);
    assert_int_equal(dht_node_copy_homes(holder->node, unsure, home, &known), 1);
    assert_true(known);
    assert_int_equal(home[s.homes[0]] + home[s.homes[1]], 0);
    while (s.net->rank[writer].node == NULL || writer == s.holder)
        writer++;
    holder->hold = true;
    memset(&s.r, 0, sizeof(s.r));
    fake_publish(s.net, writer, 0, 6, PUB, &s.r);
    fake_net_run(s.net, SEC / 10);
    assert_true(holder->nheld > 0);
    assert_int_equal(s.r.calls, 0); /* its close returns when the holder has answered */
    assert_int_equal(dht_node_copy_homes(holder->node, unsure, home, &known), 0);
    fake_net_destroy(s.net);
}

/* A home that waits for the version, and has taken the holder for gone since. */
static void test_forgotten(void **state)
{
    struct fake_rank *holder;
    bool unsure[RANKS] = {false}, home[RANKS], known;
    unsigned nth = 0;
    struct scene s;

    (void)state;
    for (;;) { /* a holder that does not become a home */
        s = scene_of(++nth);
        fake_net_kill(s.net, s.owner, true);
        fake_net_kill(s.net, s.homes[0], true);
        fake_net_kill(s.net, s.homes[1], true);
        if (!fake_is_home(s.net, 0, s.holder))
            break;
        fake_net_destroy(s.net);
    }
    holder = &s.net->rank[s.holder];
    fake_homes(s.net, 0, s.homes);
    fake_net_run(s.net, 10 * SEC);
    dht_node_copy_homes(holder->node, unsure, home, &known);
    assert_true(known);
    for (int i = 0; i < 2; i++) {
        lose(&s, s.homes[i], s.holder, DHT_GONE);
        dht_node_set_live(s.net->rank[s.homes[i]].node, s.holder, true);
        dht_node_forgotten(holder->node, s.homes[i]);
    }
    dht_node_copy_homes(holder->node, unsure, home, &known);
    assert_false(known);
    fake_net_run(s.net, 10 * SEC);
    dht_node_copy_homes(holder->node, unsure, home, &known);
    assert_true(known);
    holder->hold = true;
    memset(&s.r, 0, sizeof(s.r));
    fake_publish(s.net, s.homes[0], 0, 6, PUB, &s.r);
    fake_net_run(s.net, SEC / 10);
    assert_true(holder->nheld > 0);
    fake_net_destroy(s.net);
}

/* A home that may have missed something is asked until it is sure. */
static void test_unsure_home(void **state)
{
    struct scene s = scene_begin();
    struct dht_node *node = s.net->rank[s.holder].node;
    bool unsure[RANKS] = {false}, home[RANKS], known;
    const struct dyad_version some = {.counter = 1};

    (void)state;
    for (uint32_t r = 0; r < RANKS; r++)
        if (r != s.holder)
            dht_node_set_partition(s.net->rank[r].node, DHT_PARTITION_UNKNOWN);
    assert_int_equal(dht_node_hold(node, "other", &some), 0);
    fake_net_run(s.net, SEC);
    dht_node_copy_homes(node, unsure, home, &known);
    assert_false(known);
    for (uint32_t r = 0; r < RANKS; r++)
        dht_node_set_partition(s.net->rank[r].node, DHT_PARTITION_MAJORITY);
    fake_net_run(s.net, 60 * SEC);
    dht_node_copy_homes(node, unsure, home, &known);
    assert_true(known);
    fake_net_destroy(s.net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lost_holder), cmocka_unit_test(test_back_at_once),
        cmocka_unit_test(test_lost_homes),  cmocka_unit_test(test_sure),
        cmocka_unit_test(test_copies),      cmocka_unit_test(test_nobody_knows),
        cmocka_unit_test(test_forgotten),   cmocka_unit_test(test_unsure_home),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
