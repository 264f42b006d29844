/*
 * test/unit/dht/test_tentative.c - "not published" of those who were cut off, or are
 *
 * Six ranks on three nodes; node 2 (ranks 4 and 5) is cut off.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "fake_net.h"

#define RANKS     6
#define PUBLISHED (FAKE_KEYS / 2) /* the keys below are published beyond the cut */
#define PUB       DYAD_ENTRY_PUBLISHED
#define FAR       4

static const uint32_t nodes[RANKS] = {0, 0, 1, 1, 2, 2};

static bool is_far(uint32_t rank)
{
    return rank >= FAR;
}

/* What the members see of each other: `there` or lost. */
static void see(struct fake_net *net, uint32_t a, uint32_t b, bool there)
{
    if (!there)
        dht_node_set_missing(net->rank[a].node, b, DHT_MISSING);
    dht_node_set_live(net->rank[a].node, b, there);
}

static void see_each_other(struct fake_net *net, uint32_t a, uint32_t b)
{
    see(net, a, b, true);
    see(net, b, a, true);
}

static void cut(struct fake_net *net, bool is_cut)
{
    for (uint32_t a = 0; a < RANKS; a++)
        for (uint32_t b = 0; b < RANKS; b++)
            net->cut[a][b] = is_cut && is_far(a) != is_far(b);
}

static void cut_off(struct fake_net *net)
{
    cut(net, true);
    for (uint32_t a = 0; a < RANKS; a++) {
        for (uint32_t b = 0; b < RANKS; b++)
            if (is_far(a) != is_far(b))
                see(net, a, b, false);
        dht_node_set_partition(net->rank[a].node,
                               is_far(a) ? DHT_PARTITION_MINORITY : DHT_PARTITION_MAJORITY);
    }
}

static struct fake_net *net_create(void)
{
    struct fake_net *net = fake_net_create_on(RANKS, 2, 1, nodes);

    net->refuse = false;
    return net;
}

#define BIT(rank) (1u << (rank))

/* Are all ranks of `with` homes of the key, and none of `without` is? (Bits.) */
static bool homes_are(struct fake_net *net, unsigned key, unsigned with, unsigned without)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        bool home = (with & BIT(rank)) != 0;
        if (((with | without) & BIT(rank)) != 0 && fake_is_home(net, key, rank) != home)
            return false;
    }
    return true;
}

/* The first such key from `from` on. */
static unsigned key_of(struct fake_net *net, unsigned from, unsigned with, unsigned without)
{
    while (!homes_are(net, from, with, without))
        assert_in_range(++from, 0, FAKE_KEYS - 1);
    return from;
}

static void publish_near(struct fake_net *net, uint64_t size)
{
    for (unsigned key = 0; key < PUBLISHED; key++)
        fake_publish_ok(net, key % FAR, key, size, PUB);
}

static int look_up(struct fake_net *net, uint32_t rank, unsigned key, uint64_t *took)
{
    struct result r;
    uint64_t start = net->now;

    fake_lookup(net, rank, key, 0, NULL, &r);
    assert_true(fake_net_run_until(net, &r.calls, 60 * SEC));
    if (took != NULL)
        *took = net->now - start;
    return r.status;
}

/* Those who were cut off say that they do not know, and the others that it is not there. */
static void test_during_the_cut(void **state)
{
    struct fake_net *net = net_create();
    uint64_t took;

    (void)state;
    cut_off(net);
    publish_near(net, 5);
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        assert_int_equal(look_up(net, FAR, key, &took), EHOSTUNREACH);
        assert_in_range(took, SEC, 2 * SEC);
        assert_int_equal(look_up(net, 0, key, &took), key < PUBLISHED ? 0 : ENOENT);
        assert_in_range(took, 0, 10 * MSEC);
    }
    /* When that has lasted it is said at once. */
    for (uint32_t rank = 0; rank < FAR; rank++)
        dht_node_set_missing(net->rank[FAR].node, rank, DHT_MISSING_LONG);
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        assert_int_equal(look_up(net, FAR, key, &took), EHOSTUNREACH);
        assert_in_range(took, 0, 10 * MSEC);
    }
    fake_net_destroy(net);
}

/* The link is whole, and one after the other is found: look-ups of each moment. */
static void test_after_the_cut(void **state)
{
    static const uint32_t order[] = {2, 1, 3, 0};
    struct fake_net *net = net_create();
    struct result r[4][2][FAKE_KEYS];
    unsigned sent;

    (void)state;
    cut_off(net);
    publish_near(net, 5);
    fake_net_run(net, 20 * SEC);
    cut(net, false);
    for (int i = 0; i < 4; i++) {
        for (uint32_t far = FAR; far < RANKS; far++) {
            see_each_other(net, order[i], far);
            /* Of three nodes two are there, or three. */
            dht_node_set_partition(net->rank[far].node, DHT_PARTITION_MAJORITY);
        }
        for (unsigned key = 0; key < FAKE_KEYS; key++)
            for (int j = 0; j < 2; j++)
                fake_lookup(net, FAR + (uint32_t)j, key, 0, NULL, &r[i][j][key]);
        fake_net_run(net, 100 * MSEC);
    }
    sent = net->sent[NET_MSG_RESYNC];
    assert_int_equal(sent, 2 * 2 * FAR); /* each once to each */
    fake_net_run(net, SEC);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 2; j++)
            for (unsigned key = 0; key < FAKE_KEYS; key++) {
                assert_int_equal(r[i][j][key].calls, 1);
                assert_int_equal(r[i][j][key].status, key < PUBLISHED ? 0 : ENOENT);
            }

    /* It is over: a look-up costs what it always does. */
    for (uint32_t rank = 0; rank < RANKS; rank++)
        for (unsigned key = 0; key < FAKE_KEYS; key++) {
            uint64_t took;
            sent = net->sent[NET_MSG_LOOKUP];
            assert_int_equal(look_up(net, rank, key, &took), key < PUBLISHED ? 0 : ENOENT);
            assert_in_range(took, 0, 10 * MSEC);
            assert_in_range(net->sent[NET_MSG_LOOKUP] - sent, 0, 2);
        }
    fake_net_run(net, 30 * SEC);
    assert_int_equal(net->sent[NET_MSG_RESYNC], 2 * 2 * FAR);
    assert_int_equal(net->sent[NET_MSG_RESYNCED], 2 * 2 * FAR);
    fake_net_destroy(net);
}

/* The other way round: what was published on the small side is not there for the big one,
 * and is not "not published" from the moment they have found each other. */
static void test_published_when_cut_off(void **state)
{
    struct fake_net *net = net_create();
    struct result r[FAR][PUBLISHED];

    (void)state;
    cut_off(net);
    for (unsigned key = 0; key < PUBLISHED; key++)
        fake_publish_ok(net, FAR + key % 2, key, 5, PUB);
    for (unsigned key = 0; key < PUBLISHED; key++)
        assert_int_equal(look_up(net, 0, key, NULL), ENOENT);
    cut(net, false);
    for (uint32_t a = 0; a < FAR; a++)
        for (uint32_t b = FAR; b < RANKS; b++)
            see_each_other(net, a, b);
    for (uint32_t a = 0; a < FAR; a++)
        for (unsigned key = 0; key < PUBLISHED; key++)
            fake_lookup(net, a, key, 0, NULL, &r[a][key]);
    fake_net_run(net, SEC);
    for (uint32_t a = 0; a < FAR; a++)
        for (unsigned key = 0; key < PUBLISHED; key++)
            assert_int_equal(r[a][key].calls == 1 ? r[a][key].status : -1, 0);
    fake_net_destroy(net);
}

/* What was cut off has an old version: the other homes are asked for a newer one. */
static void test_newer_beyond_the_cut(void **state)
{
    struct fake_net *net = net_create();
    struct result r[2][PUBLISHED];

    (void)state;
    publish_near(net, 5);
    cut_off(net);
    publish_near(net, 6);
    for (unsigned key = 0; key < PUBLISHED; key++) /* where nobody can know better */
        if (fake_is_home(net, key, FAR))
            assert_int_equal(look_up(net, FAR, key, NULL), 0);
    cut(net, false);
    for (uint32_t a = 0; a < FAR; a++)
        for (uint32_t b = FAR; b < RANKS; b++)
            see_each_other(net, a, b);
    for (int j = 0; j < 2; j++)
        for (unsigned key = 0; key < PUBLISHED; key++)
            fake_lookup(net, FAR + (uint32_t)j, key, NET_LOOKUP_COPY, NULL, &r[j][key]);
    fake_net_run(net, SEC);
    for (int j = 0; j < 2; j++)
        for (unsigned key = 0; key < PUBLISHED; key++) {
            assert_int_equal(r[j][key].calls == 1 ? r[j][key].status : -1, 0);
            assert_int_equal(r[j][key].entry.size, 6);
        }
    fake_net_destroy(net);
}

/* A rank that stood in for the home knows of a removal, the home of what came after it, and
 * the one that removed it has ended. A rank that was cut off has found the stand-in again
 * and not the home: it is not told "not published". */
static void test_removed_before(void **state)
{
    unsigned tried = 0;

    (void)state;
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        struct fake_net *net = fake_net_create_on(RANKS, 1, 1, nodes);
        uint32_t homes[DHT_REPLICAS_MAX], home, stand_in, remover = DYAD_RANK_NONE;
        struct result r;

        net->refuse = false;
        assert_int_equal(fake_homes(net, key, homes), 1);
        home = homes[0];
        if (is_far(home)) {
            fake_net_destroy(net);
            continue;
        }
        cut_off(net);
        for (uint32_t rank = 0; rank < FAR; rank++)
            if (rank != home)
                see(net, rank, home, false);
        dht_node_homes(net->rank[(home + 1) % FAR].node, fake_key(key), homes);
        stand_in = homes[0];
        for (uint32_t rank = 0; rank < FAR; rank++)
            if (rank != home && rank != stand_in)
                remover = rank;
        fake_publish_ok(net, remover, key, 5, PUB);
        fake_publish_ok(net, remover, key, 0, DYAD_ENTRY_WITHDRAWN);
        fake_net_kill(net, remover, true);
        for (uint32_t rank = 0; rank < FAR; rank++)
            if (rank != home && rank != remover)
                see_each_other(net, rank, home);
        fake_net_run(net, 20 * SEC);
        fake_publish_ok(net, home, key, 6, PUB);
        fake_net_run(net, 20 * SEC);
        cut(net, false);
        for (uint32_t rank = FAR; rank < RANKS; rank++) {
            see_each_other(net, stand_in, rank);
            dht_node_set_partition(net->rank[rank].node, DHT_PARTITION_MAJORITY);
        }
        fake_net_run(net, SEC);
        dht_node_homes(net->rank[FAR].node, fake_key(key), homes);
        tried += homes[0] == stand_in;
        fake_lookup(net, FAR, key, 0, NULL, &r);
        fake_net_run(net, SEC);
        if (r.calls)
            assert_int_not_equal(r.status, ENOENT);
        see_each_other(net, home, FAR);
        if (r.calls)
            fake_lookup(net, FAR, key, 0, NULL, &r);
        assert_true(fake_net_run_until(net, &r.calls, 60 * SEC));
        assert_int_equal(r.status, 0);
        assert_int_equal(r.entry.size, 6);
        fake_net_destroy(net);
    }
    assert_in_range(tried, 1, FAKE_KEYS);
}

/* A home was cut off when the file was removed, and the homes that heard of the removal die.
 * The rank that removed it finds the first one again, and has not told it yet: it believes
 * its own removal. */
static void test_own_removal(void **state)
{
    unsigned tried = 0;

    (void)state;
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        struct fake_net *net = net_create();
        uint32_t homes[DHT_REPLICAS_MAX], home;
        struct result r;

        fake_homes(net, key, homes);
        home = is_far(homes[0]) ? homes[0] : homes[1];
        for (uint32_t owner = 0; is_far(home) && owner < FAR; owner++) {
            fake_net_destroy(net);
            net = net_create();
            fake_publish_ok(net, owner, key, 5, PUB);
            cut_off(net);
            dht_node_homes(net->rank[owner].node, fake_key(key), homes);
            if (homes[0] == owner || homes[1] == owner)
                continue;
            tried++;
            fake_publish_ok(net, owner, key, 0, DYAD_ENTRY_WITHDRAWN);
            fake_net_kill(net, homes[0], true);
            fake_net_kill(net, homes[1], true);
            cut(net, false);
            see_each_other(net, owner, home);
            fake_lookup(net, owner, key, 0, NULL, &r);
            assert_true(fake_net_run_until(net, &r.calls, 60 * SEC));
            assert_int_equal(r.status, ENOENT);
        }
        fake_net_destroy(net);
    }
    assert_in_range(tried, 1, FAKE_KEYS * FAR);
}

/* Who removed it has become another process since then, and does not know of that: the
 * homes that do pass it on to those that were beyond the cut. */
static void test_removed_by_a_former_process(void **state)
{
    struct fake_net *net = net_create();
    struct dht_node *node;
    unsigned moved = 0;

    (void)state;
    for (unsigned key = 0; key < FAKE_KEYS; key++)
        fake_publish_ok(net, 1, key, 5, PUB);
    cut_off(net);
    for (unsigned key = 0; key < FAKE_KEYS; key++)
        fake_publish_ok(net, 1, key, 0, DYAD_ENTRY_WITHDRAWN);
    fake_net_kill(net, 1, false);
    for (unsigned key = 0; key < FAKE_KEYS; key++)
        net->rank[1].journal[key].state = DYAD_ENTRY_NONE; /* withdrawals are not in it */
    fake_net_revive(net, 1, false);
    for (uint32_t a = 0; a < RANKS; a++) {
        if (is_far(a)) {
            see(net, 1, a, false);
        } else if (a != 1) {
            dht_node_set_live(net->rank[a].node, 1, false);
            dht_node_set_live(net->rank[a].node, 1, true);
        }
    }
    fake_net_run(net, 20 * SEC);
    cut(net, false);
    for (uint32_t b = FAR; b < RANKS; b++) {
        node = net->rank[b].node;
        dht_node_set_missing(node, 1, DHT_GONE); /* it has another incarnation */
        for (uint32_t a = 0; a < FAR; a++)
            see_each_other(net, a, b);
        dht_node_set_partition(node, DHT_PARTITION_MAJORITY);
    }
    fake_net_run(net, 20 * SEC);
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        uint32_t homes[DHT_REPLICAS_MAX];
        unsigned n = fake_homes(net, key, homes);
        for (unsigned i = 0; i < n; i++) {
            if (!is_far(homes[i]) || homes[1 - i] == 1)
                continue; /* the other one knows of it */
            assert_non_null(fake_record(net, homes[i], key));
            assert_int_equal(fake_record(net, homes[i], key)->entry.state,
                             DYAD_ENTRY_WITHDRAWN);
            moved++;
        }
    }
    assert_in_range(moved, 1, FAKE_KEYS);
    fake_net_destroy(net);
}

/* A RESYNCED that does not come: look-ups end, and when its rank is gone it is not due. */
static void test_never_resynced(void **state)
{
    struct fake_net *net = net_create();
    struct dht_node *node = net->rank[FAR].node;
    unsigned key;
    uint64_t took;

    (void)state;
    key = key_of(net, PUBLISHED, BIT(FAR) | BIT(0), 0);
    cut_off(net);
    fake_net_run(net, 20 * SEC);
    cut(net, false);
    for (uint32_t other = 0; other < RANKS; other++)
        net->cut[0][other] = net->cut[other][0] = true;
    for (uint32_t a = 0; a < FAR; a++)
        for (uint32_t b = FAR; b < RANKS; b++)
            see_each_other(net, a, b);
    for (uint32_t b = FAR; b < RANKS; b++)
        dht_node_set_partition(net->rank[b].node, DHT_PARTITION_MAJORITY);
    fake_net_run(net, SEC);
    assert_int_equal(look_up(net, FAR, key, &took), EHOSTUNREACH);
    assert_in_range(took, SEC, 2 * SEC + SEC / 2);
    /* Lost again. It was missing when we were the minority: that is not forgotten ...
     */
    see(net, FAR, 0, false);
    assert_int_equal(look_up(net, FAR, key, &took), EHOSTUNREACH);
    assert_in_range(took, SEC, 2 * SEC);
    /* ... but by its death. Who waits hears of that at once. */
    struct result r;
    fake_lookup(net, FAR, key, 0, NULL, &r);
    fake_net_run(net, SEC / 2);
    assert_int_equal(r.calls, 0);
    for (uint32_t b = FAR; b < RANKS; b++)
        dht_node_set_missing(net->rank[b].node, 0, DHT_GONE);
    fake_net_run(net, 10 * MSEC);
    assert_int_equal(r.calls, 1);
    assert_int_equal(r.status, ENOENT);
    dht_node_set_missing(node, 0, DHT_MISSING); /* this is the majority now */
    dht_node_set_live(node, 0, false);
    assert_int_equal(look_up(net, FAR, key, &took), ENOENT);

    /* Back and silent, on the majority, and lost again: nothing is owed. */
    see(net, FAR, 0, true);
    assert_int_equal(look_up(net, FAR, key, NULL), EHOSTUNREACH);
    see(net, FAR, 0, false);
    assert_int_equal(look_up(net, FAR, key, NULL), ENOENT);

    /* It is asked again, and answers. */
    see(net, FAR, 0, true);
    fake_net_run(net, SEC);
    for (uint32_t other = 0; other < RANKS; other++)
        net->cut[0][other] = net->cut[other][0] = false;
    fake_net_run(net, 6 * SEC);
    assert_int_equal(look_up(net, FAR, key, &took), ENOENT);
    assert_in_range(took, 0, 10 * MSEC);
    fake_net_destroy(net);
}

/* RESYNCED comes when everything is there, and not before; also if something of it was not
 * taken at first. */
static void test_resynced_is_true(void **state)
{
    struct fake_net *net = net_create();

    (void)state;
    net->reorder = false;
    cut_off(net);
    for (unsigned key = 0; key < FAKE_KEYS; key++)
        fake_publish_ok(net, 0, key, 5, PUB);
    /* 0 hears the question, and finds who asks silent. */
    net->cut[FAR][0] = false;
    see_each_other(net, 0, FAR);
    for (int i = 0; i < 80; i++) {
        fake_net_run(net, 100 * MSEC);
        assert_int_equal(net->sent[NET_MSG_RESYNCED], 0);
    }
    net->cut[0][FAR] = false;
    for (int i = 0; i < 2000 && net->sent[NET_MSG_RESYNCED] < 2; i++)
        fake_net_run(net, 10 * MSEC); /* that of 4, which has nothing, and that of 0 */
    assert_in_range(net->sent[NET_MSG_RESYNCED], 2, 3);
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        uint32_t homes[DHT_REPLICAS_MAX];
        unsigned n = dht_node_homes(net->rank[0].node, fake_key(key), homes);
        for (unsigned i = 0; i < n; i++)
            if (homes[i] == FAR) {
                assert_non_null(fake_record(net, FAR, key));
                assert_int_equal(fake_record(net, FAR, key)->entry.size, 5);
            }
    }
    fake_net_destroy(net);
}

/* Another is found while one is told: what is brought to that one then is not waited for.
 */
static void test_another_comes(void **state)
{
    struct fake_net *net = fake_net_create(RANKS + 1, 2, 1); /* the last stays */
    uint32_t homes[DHT_REPLICAS_MAX];
    unsigned key[2];

    (void)state;
    net->refuse = net->reorder = false;
    key[0] = key_of(net, 0, BIT(FAR), 0);
    /* The first is no home of this one as long as the second is not there. */
    dht_node_set_live(net->rank[1].node, FAR + 1, false);
    key[1] = 0;
    do {
        key[1] = key_of(net, key[1] + 1, BIT(FAR + 1), 0);
        dht_node_homes(net->rank[1].node, fake_key(key[1]), homes);
    } while (homes[0] == FAR || homes[1] == FAR);
    cut_off(net);
    for (int i = 0; i < 2; i++)
        fake_publish_ok(net, 0, key[i], 5, PUB);
    net->cut[0][FAR] = net->cut[FAR][0] = false;
    see_each_other(net, 0, FAR);
    /* The publish of the first is on its way; that of the second is not answered. */
    while (net->sent[NET_MSG_RESYNCED] == 0)
        fake_net_run(net, MSEC / 100);
    fake_net_run(net, MSEC / 100);
    see(net, 0, FAR + 1, true);
    fake_net_run(net, 10 * MSEC);
    assert_int_equal(net->sent[NET_MSG_RESYNCED], 2);
    assert_non_null(fake_record(net, FAR, key[0]));
    assert_null(fake_record(net, FAR + 1, key[1]));
    net->cut[0][FAR + 1] = net->cut[FAR + 1][0] = false;
    see(net, FAR + 1, 0, true);
    for (int i = 0; i < 2000 && net->sent[NET_MSG_RESYNCED] < 4; i++)
        fake_net_run(net, 10 * MSEC);
    assert_int_equal(net->sent[NET_MSG_RESYNCED], 4);
    assert_non_null(fake_record(net, FAR + 1, key[1]));
    fake_net_destroy(net);
}

/* One that did not notice that it was taken for dead hears of it by the question. */
static void test_one_sided(void **state)
{
    struct fake_net *net = net_create();
    struct result r;
    unsigned key;

    (void)state;
    key = key_of(net, 0, BIT(0) | BIT(FAR), 0);
    for (uint32_t near = 0; near < FAR; near++)
        see(net, near, FAR, false);
    fake_publish_ok(net, 1, key, 5, PUB); /* without 4, which knows of nothing */
    fake_net_kill(net, 0, false);
    for (uint32_t near = 1; near < RANKS; near++)
        dht_node_set_live(net->rank[near].node, 0, false);
    for (uint32_t near = 1; near < FAR; near++)
        see(net, near, FAR, true);
    fake_net_run(net, 1 * MSEC); /* the questions are there, not all is in place yet */
    fake_lookup(net, FAR, key, 0, NULL, &r);
    assert_true(fake_net_run_until(net, &r.calls, SEC));
    assert_int_equal(r.status, 0);
    fake_net_run(net, SEC);
    assert_int_equal(net->sent[NET_MSG_RESYNCED], net->sent[NET_MSG_RESYNC]);
    assert_int_equal(net->sent[NET_MSG_RESYNC], 2 * (FAR - 1));
    fake_net_destroy(net);
}

/* What could not be brought before the question came is brought before it is answered. */
static void test_resynced_after_a_failure(void **state)
{
    struct fake_net *net = net_create();
    unsigned key;

    (void)state;
    net->reorder = false;
    key = key_of(net, 0, BIT(FAR), 0);
    cut_off(net);
    fake_publish_ok(net, 0, key, 5, PUB);
    fake_net_run(net, 20 * SEC);
    see(net, 0, FAR, true); /* too early: its PUBLISH there is lost, and so is its RESYNC */
    fake_net_run(net, 3 * SEC + 500 * MSEC);
    assert_null(fake_record(net, FAR, key));
    cut(net, false);
    see(net, FAR, 0, true);
    fake_net_run(net, 500 * MSEC); /* nothing is done once more in this time */
    assert_int_equal(net->sent[NET_MSG_RESYNCED], 1);
    assert_non_null(fake_record(net, FAR, key));
    fake_net_destroy(net);
}

/* One whose word is missing and who does not answer is reported, also if nobody asks it
 * anything else; what the members do then ends it. */
static void test_silent(void **state)
{
    struct fake_net *net = fake_net_create(3, 1, 1);
    struct dht_node *node = net->rank[0].node;
    unsigned key;

    (void)state;
    net->refuse = false;
    key = key_of(net, 0, BIT(0), 0);
    for (uint32_t other = 0; other < 2; other++)
        net->cut[2][other] = net->cut[other][2] = true;
    dht_node_set_unsynced(node, 1, true);
    dht_node_set_unsynced(node, 2, true);
    fake_net_run(net, 4 * SEC); /* not before the time for an answer is over */
    assert_int_equal(net->rank[0].nsilent[2], 0);
    fake_net_run(net, 2 * SEC);
    assert_int_equal(net->rank[0].nsilent[2], 1);
    assert_int_equal(net->rank[0].nsilent[1], 0);
    assert_int_equal(look_up(net, 0, key, NULL), EHOSTUNREACH);
    see(net, 0, 2, false);
    dht_node_set_missing(node, 2, DHT_MISSING_LONG);
    assert_int_equal(look_up(net, 0, key, NULL), ENOENT);
    fake_net_destroy(net);
}

/* Ranks 4 to 6 come when the owner has ended, and one who alone has what that published
 * cannot be reached: it hears of them by RESYNC only. 1 if that was so with this key. */
static int orphan_run(unsigned key)
{
    struct fake_net *net = fake_net_create(7, 2, 1);
    unsigned holders = 0;
    uint32_t at = 0;

    for (uint32_t rank = 4; rank < 7; rank++)
        fake_net_kill(net, rank, true);
    fake_publish_ok(net, 3, key, 5, PUB);
    fake_net_kill(net, 3, true);
    fake_net_run(net, SEC / 2); /* it has not been passed on to another */
    for (uint32_t rank = 0; rank < 3; rank++)
        if (fake_record(net, rank, key) != NULL) {
            holders++;
            at = rank;
        }
    if (holders != 1) {
        fake_net_destroy(net);
        return 0;
    }
    for (uint32_t rank = 0; rank < 7; rank++)
        net->cut[at][rank] = net->cut[rank][at] = true;
    for (uint32_t rank = 4; rank < 7; rank++)
        fake_net_revive(net, rank, true);
    for (uint32_t rank = 4; rank < 7; rank++) {
        for (uint32_t other = 0; other < 7; other++) /* JOIN */
            if (other != at && other != rank && net->rank[other].node != NULL)
                dht_node_pass_on(net->rank[other].node, rank);
        dht_node_set_unsynced(net->rank[rank].node, at, true);
        see(net, rank, at, false);
        see(net, at, rank, false);
    }
    fake_net_run(net, 5 * SEC);
    for (uint32_t rank = 0; rank < 7; rank++)
        net->cut[at][rank] = net->cut[rank][at] = false;
    for (uint32_t rank = 4; rank < 7; rank++)
        see_each_other(net, rank, at);
    fake_net_run(net, SEC);
    assert_true(net->sent[NET_MSG_RESYNCED] >= 3);
    for (uint32_t rank = 4; rank < 7; rank++) {
        assert_int_equal(look_up(net, rank, key, NULL), 0);
        if (fake_is_home(net, key, rank))
            assert_non_null(fake_record(net, rank, key));
    }
    fake_net_destroy(net);
    return 1;
}

static void test_resynced_covers_orphans(void **state)
{
    int n = 0;

    (void)state;
    for (unsigned key = 0; key < FAKE_KEYS; key++)
        n += orphan_run(key);
    assert_true(n > 0);
}

#define MANY 600

static void published(void *arg, int status, const struct dyad_version *version)
{
    (void)version;
    assert_int_equal(status, 0);
    ++*(int *)arg;
}

static struct dht_record *record_at(struct fake_net *net, uint32_t rank, const char *upath)
{
    struct dht_key key;

    dht_key_init(&key, upath, net->config.depth);
    return dht_shard_find(dht_node_shard(net->rank[rank].node), &key, upath);
}

/* More of that than is passed on at once: RESYNCED comes after the last of it. */
static void test_resynced_covers_many(void **state)
{
    struct fake_net *net = fake_net_create(3, 1, 1);
    unsigned n = 0;

    (void)state;
    net->reorder = false;
    fake_net_kill(net, 1, true);
    for (unsigned i = 0; i < MANY; i++) {
        char upath[16];
        struct dyad_entry entry = {
            .upath = upath, .owner = 2, .state = PUB, .size = 5, .mode = 0100644};
        int calls = 0;
        snprintf(upath, sizeof(upath), "k%u", i);
        assert_int_equal(dht_node_publish(net->rank[2].node, &entry, published, &calls), 0);
        assert_true(fake_net_run_until(net, &calls, SEC));
    }
    fake_net_kill(net, 2, true);
    fake_net_revive(net, 1, true);
    dht_node_set_unsynced(net->rank[1].node, 0, true);
    for (int i = 0; i < 10000 && net->sent[NET_MSG_RESYNCED] == 0; i++)
        fake_net_run(net, MSEC / 100);
    assert_int_equal(net->sent[NET_MSG_RESYNCED], 1);
    fake_net_run(net, MSEC / 10); /* it arrives */
    for (unsigned i = 0; i < MANY; i++) {
        uint32_t homes[DHT_REPLICAS_MAX];
        char upath[16];
        snprintf(upath, sizeof(upath), "k%u", i);
        if (record_at(net, 0, upath) == NULL ||
            dht_node_homes(net->rank[0].node, upath, homes) != 1 || homes[0] != 1)
            continue;
        n++;
        assert_non_null(record_at(net, 1, upath));
    }
    assert_true(n > 64); /* what is on its way at once */
    fake_net_destroy(net);
}

/* A home that comes with an empty shard while the other one is silent, and whose owner
 * hears of it late. Returns what it says of the name; -1: no such home. */
static int empty_shard_run(unsigned key, bool unsynced)
{
    struct fake_net *net = net_create();
    uint32_t homes[DHT_REPLICAS_MAX];
    struct result r = {.status = -1};

    fake_publish_ok(net, 3, key, 5, PUB);
    if (fake_homes(net, key, homes) == 2 && homes[0] != 3 && homes[1] != 3) {
        uint32_t home = homes[0], other = homes[1];
        fake_net_kill(net, home, true);
        for (uint32_t rank = 0; rank < RANKS; rank++)
            net->cut[other][rank] = net->cut[rank][other] = rank != other;
        fake_net_revive(net, home, false);
        for (uint32_t rank = 0; unsynced && rank < RANKS; rank++)
            if (rank != home)
                dht_node_set_unsynced(net->rank[home].node, rank, true);
        fake_lookup(net, home, key, 0, NULL, &r);
        fake_net_run(net, 1500 * MSEC);
        for (uint32_t rank = 0; rank < RANKS; rank++)
            if (rank != home)
                dht_node_set_live(net->rank[rank].node, home, true);
        assert_true(fake_net_run_until(net, &r.calls, 20 * SEC));
        fake_net_run(net, SEC);
        if (unsynced) /* all live ones have told it */
            assert_int_equal(look_up(net, home, key, NULL), 0);
    }
    fake_net_destroy(net);
    return r.status;
}

static void test_unsynced_with_all(void **state)
{
    unsigned n = 0, without = 0;

    (void)state;
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        int status = empty_shard_run(key, true);
        n += status >= 0;
        assert_int_not_equal(status, ENOENT);
        without += empty_shard_run(key, false) == ENOENT;
    }
    assert_true(n > 0);
    assert_true(without > 0); /* else this is no such case */
}

/* Its next process, which the others do not know yet; as after exec they were all told
 * another one. */
static void becomes_another(struct fake_net *net, uint32_t rank)
{
    fake_net_revive(net, rank, false);
    for (uint32_t other = 0; other < RANKS; other++)
        if (other != rank) {
            dht_node_set_unsynced(net->rank[rank].node, other, true);
            if (net->rank[other].node == NULL)
                see(net, rank, other, false);
        }
}

/* `a` hears of the present process of `b`, and knew one before it. */
static void meets_another(struct fake_net *net, uint32_t a, uint32_t b)
{
    if (dht_node_is_live(net->rank[a].node, b))
        see(net, a, b, false);
    dht_node_set_missing(net->rank[a].node, b, DHT_GONE);
    dht_node_set_live(net->rank[a].node, b, true);
}

/* Both homes and the owner of a name become another process at the same time. The homes are
 * back first, and hear of the owner while it has not read yet what it had published, or
 * after it has (`late`). */
static void all_become_others(unsigned key, const uint32_t homes[2], bool late)
{
    struct fake_net *net = net_create();
    uint32_t owner = 0, asker;
    struct dyad_entry entry;
    struct result r;

    while (owner == homes[0] || owner == homes[1])
        owner++;
    for (asker = owner + 1; asker == homes[0] || asker == homes[1];)
        asker++;
    fake_publish_ok(net, owner, key, 5, PUB);
    entry = net->rank[owner].journal[key];
    entry.upath = fake_key(key);
    for (int i = 0; i < 3; i++) {
        uint32_t rank = i < 2 ? homes[i] : owner;
        fake_net_kill(net, rank, false);
        for (uint32_t other = 0; other < RANKS; other++)
            if (net->rank[other].node != NULL)
                see(net, other, rank, false);
    }
    for (int i = 0; i < 2; i++) {
        becomes_another(net, homes[i]);
        for (uint32_t other = 0; other < RANKS; other++)
            if (other != owner && other != homes[i] && net->rank[other].node != NULL) {
                meets_another(net, other, homes[i]);
                meets_another(net, homes[i], other);
            }
    }
    fake_net_run(net, 100 * MSEC);
    for (int i = 0; i < 2; i++) /* nobody listens at its address */
        if (late)
            dht_node_set_missing(net->rank[homes[i]].node, owner, DHT_GONE);
    net->config.restores = true;
    net->rank[owner].journal[key].state = DYAD_ENTRY_NONE;
    becomes_another(net, owner);
    for (uint32_t other = 0; other < RANKS; other++)
        if (other != owner) {
            meets_another(net, other, owner);
            meets_another(net, owner, other);
        }
    fake_lookup(net, asker, key, 0, NULL, &r);
    fake_net_run(net, 300 * MSEC);
    assert_int_equal(r.calls, 0);
    assert_int_equal(dht_node_restore(net->rank[owner].node, &entry), 0);
    dht_node_restored(net->rank[owner].node);
    assert_true(fake_net_run_until(net, &r.calls, SEC));
    assert_int_equal(r.status, 0);
    fake_net_run(net, SEC);
    for (int i = 0; i < 2; i++)
        assert_false(dht_node_is_tentative(net->rank[homes[i]].node));
    fake_net_destroy(net);
}

static void test_all_become_others(void **state)
{
    (void)state;
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        struct fake_net *net = net_create();
        uint32_t homes[DHT_REPLICAS_MAX];
        assert_int_equal(fake_homes(net, key, homes), 2);
        fake_net_destroy(net);
        for (int late = 0; late < 2; late++)
            all_become_others(key, homes, late);
    }
}

/* A rank that is asked before it knows that it has nothing to restore says so then. */
static void test_nothing_to_restore(void **state)
{
    struct fake_net *net = net_create();

    (void)state;
    net->config.restores = true;
    fake_net_kill(net, 1, true);
    fake_net_revive(net, 1, true);
    dht_node_set_unsynced(net->rank[0].node, 1, true);
    fake_net_run(net, 100 * MSEC);
    assert_true(dht_node_is_tentative(net->rank[0].node));
    dht_node_restored(net->rank[1].node);
    fake_net_run(net, 10 * MSEC);
    assert_false(dht_node_is_tentative(net->rank[0].node));
    fake_net_destroy(net);
}

/* The same if its program has published its first file before it knows that. */
static void test_published_before_restored(void **state)
{
    struct fake_net *net = net_create();
    struct result r = {0};

    (void)state;
    net->config.restores = true;
    fake_net_kill(net, 1, true);
    fake_net_revive(net, 1, true);
    dht_node_set_unsynced(net->rank[0].node, 1, true);
    fake_net_run(net, 100 * MSEC);
    fake_publish(net, 1, 0, 5, PUB, &r);
    assert_true(fake_net_run_until(net, &r.calls, SEC));
    dht_node_restored(net->rank[1].node);
    fake_net_run(net, 10 * MSEC);
    assert_false(dht_node_is_tentative(net->rank[0].node));
    fake_net_destroy(net);
}

/* Who does not seem to be there is not waited for, and asked when it comes. */
static void test_not_awaited(void **state)
{
    struct fake_net *net = net_create();
    struct dht_node *node;
    unsigned key = key_of(net, 0, BIT(0) | BIT(2), 0);
    uint64_t took;

    (void)state;
    for (uint32_t rank = 0; rank < RANKS; rank++)
        net->cut[5][rank] = net->cut[rank][5] = rank != 5;
    fake_net_kill(net, 0, true);
    fake_net_kill(net, 2, true);
    fake_net_revive(net, 0, true);
    fake_net_revive(net, 2, true);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        for (uint32_t home = 0; home <= 2; home += 2)
            if (rank != home)
                dht_node_set_unsynced(net->rank[home].node, rank, true);
    fake_net_run(net, 100 * MSEC);
    assert_int_equal(look_up(net, 1, key, NULL), EHOSTUNREACH);
    for (uint32_t home = 0; home <= 2; home += 2)
        for (uint32_t rank = 0; rank < RANKS; rank++)
            if (rank != home)
                dht_node_not_awaited(net->rank[home].node, rank);
    assert_int_equal(look_up(net, 1, key, &took), ENOENT);
    assert_in_range(took, 0, 10 * MSEC);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        net->cut[5][rank] = net->cut[rank][5] = false;
    node = net->rank[0].node;
    fake_net_run(net, 20 * SEC);
    assert_false(dht_node_is_tentative(node));
    meets_another(net, 0, 4); /* has told us */
    assert_false(dht_node_is_tentative(node));
    meets_another(net, 0, 5);
    assert_true(dht_node_is_tentative(node));
    fake_net_run(net, SEC);
    assert_false(dht_node_is_tentative(node));
    meets_another(net, 0, 5);
    assert_false(dht_node_is_tentative(node));
    fake_net_destroy(net);
}

/* The homes of the key are `rank` and one that test_missed_for_good() kills. */
static bool is_between(struct fake_net *net, unsigned key, uint32_t rank)
{
    return fake_is_home(net, key, rank) &&
           (fake_is_home(net, key, 2) || fake_is_home(net, key, 3));
}

/* Nodes that are lost for good while we are on the minority of another cut: when our
 * side has been the majority for long their word is not waited for any more. */
static void test_missed_for_good(void **state)
{
    struct fake_net *net = net_create();
    struct dht_node *node = net->rank[FAR].node;
    bool mine[FAKE_KEYS] = {false}, told[FAKE_KEYS] = {false};
    unsigned nmine = 0, ntold = 0;

    (void)state;
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        nmine += mine[key] = is_between(net, key, FAR);
        told[key] = is_between(net, key, 0) || is_between(net, key, 1);
        ntold += told[key];
    }
    assert_true(nmine > 0 && ntold > 0);
    cut_off(net);
    for (unsigned key = 0; key < FAKE_KEYS; key++)
        if (told[key])
            fake_publish_ok(net, 2 + key % 2, key, 5, PUB);
    for (uint32_t rank = 2; rank < FAR; rank++)
        fake_net_kill(net, rank, false);
    for (uint32_t a = 0; a < 2; a++)
        for (uint32_t b = 2; b < FAR; b++)
            see(net, a, b, false);
    fake_net_run(net, 20 * SEC);
    cut(net, false);
    for (uint32_t a = 0; a < 2; a++)
        for (uint32_t b = FAR; b < RANKS; b++)
            see_each_other(net, a, b);
    dht_node_set_missing(node, 2, DHT_MISSING_LONG);
    dht_node_set_partition(node, DHT_PARTITION_MAJORITY);
    fake_net_run(net, 10 * SEC);
    for (unsigned key = 0; key < FAKE_KEYS; key++)
        if (mine[key])
            assert_int_equal(look_up(net, FAR, key, NULL), EHOSTUNREACH);

    dht_node_partition_lasts(node);
    for (unsigned key = 0; key < FAKE_KEYS; key++)
        if (mine[key]) /* 3 may come back soon */
            assert_int_equal(look_up(net, FAR, key, NULL), EHOSTUNREACH);
    dht_node_set_missing(node, 3, DHT_MISSING_LONG);
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        if (mine[key])
            assert_int_equal(look_up(net, FAR, key, NULL), ENOENT);
        if (told[key]) /* what 2 and 3 published: a home of it lives */
            assert_int_equal(look_up(net, FAR, key, NULL), 0);
    }

    /* The minority again: as before. */
    dht_node_set_partition(node, DHT_PARTITION_MINORITY);
    dht_node_set_partition(node, DHT_PARTITION_MAJORITY);
    for (uint32_t rank = 2; rank < FAR; rank++)
        dht_node_set_missing(node, rank, DHT_MISSING_LONG);
    for (unsigned key = 0; key < FAKE_KEYS; key++)
        if (mine[key])
            assert_int_equal(look_up(net, FAR, key, NULL), EHOSTUNREACH);
    fake_net_destroy(net);
}

/* The first key of which `with` and `without` are homes, and without the latter `with` and
 * `instead`. */
static unsigned key_with_stand_in(struct fake_net *net, uint32_t with, uint32_t without,
                                  uint32_t instead)
{
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        uint32_t homes[DHT_REPLICAS_MAX];
        if (!homes_are(net, key, BIT(with) | BIT(without), 0))
            continue;
        dht_node_set_live(net->rank[with].node, without, false);
        dht_node_homes(net->rank[with].node, fake_key(key), homes);
        dht_node_set_live(net->rank[with].node, without, true);
        if (homes[0] == instead || homes[1] == instead)
            return key;
    }
    return FAKE_KEYS;
}

/* A publisher that is a home finds those who were cut off one after the other, and is
 * stopped when it has published without the other home. Who stood in for that one was cut
 * off with it. When the stopped one's word is not waited for any more, its files are there
 * all the same, in their last version. */
static void test_stand_in_passes_on(void **state)
{
    struct fake_net *net = net_create();
    struct dyad_version last;
    struct result first;
    const uint32_t home = FAR, stand_in = FAR + 1;
    uint32_t publisher = 0;
    unsigned key;

    (void)state;
    while ((key = key_with_stand_in(net, publisher, home, stand_in)) == FAKE_KEYS)
        assert_in_range(++publisher, 0, FAR - 1);
    cut_off(net);
    fake_net_run(net, 20 * SEC);
    cut(net, false);
    see_each_other(net, publisher, stand_in);
    net->cut[home][stand_in] = true; /* the second is published before the first is there */
    fake_publish(net, publisher, key, 5, PUB, &first);
    fake_net_run(net, 10 * MSEC);
    assert_int_equal(first.calls, 1);
    assert_int_equal(net->rank[stand_in].nleft, 1); /* nor does that hide what `home` has */
    last = fake_publish_ok(net, publisher, key, 6, PUB);
    assert_int_equal(net->rank[stand_in].nleft, 2);
    net->cut[home][stand_in] = false;
    net->rank[publisher].stopped = true;
    for (uint32_t a = 0; a < FAR; a++)
        for (uint32_t b = FAR; a != publisher && b < RANKS; b++)
            see_each_other(net, a, b);
    fake_net_run(net, 10 * SEC);

    dht_node_set_missing(net->rank[home].node, publisher, DHT_MISSING_LONG);
    for (uint32_t b = FAR; b < RANKS; b++) {
        dht_node_set_partition(net->rank[b].node, DHT_PARTITION_MAJORITY);
        dht_node_partition_lasts(net->rank[b].node);
    }
    for (uint32_t a = 0; a < FAR; a++)
        if (a != publisher) {
            see(net, a, publisher, false);
            assert_int_equal(look_up(net, a, key, NULL), 0);
        }
    assert_int_equal(dyad_version_cmp(&fake_record(net, home, key)->entry.version, &last),
                     0);
    fake_net_destroy(net);
}

/* A rank with a copy, which the homes know, stands in for them: its owner has removed the
 * file, was cut off, and has found this rank again and not the homes. It loses the copy,
 * although it is this rank from which the homes hear of that. */
static void test_stand_in_has_a_copy(void **state)
{
    unsigned tried = 0;

    (void)state;
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        struct fake_net *net = net_create();
        uint32_t homes[DHT_REPLICAS_MAX], reader = 0;
        struct result r;

        fake_homes(net, key, homes);
        while (reader < FAR && (reader == homes[0] || reader == homes[1]))
            reader++;
        if (is_far(homes[0]) || is_far(homes[1])) {
            fake_net_destroy(net);
            continue;
        }
        fake_publish_ok(net, FAR, key, 5, PUB);
        fake_lookup(net, reader, key, NET_LOOKUP_COPY, NULL, &r);
        fake_net_run(net, SEC);
        assert_int_not_equal(net->rank[reader].copy[key].counter, 0);
        cut_off(net);
        fake_publish(net, FAR, key, 0, DYAD_ENTRY_WITHDRAWN, &r);
        assert_true(fake_net_run_until(net, &r.calls, 60 * SEC));
        fake_net_run(net, 20 * SEC);
        cut(net, false);
        see_each_other(net, reader, FAR);
        dht_node_homes(net->rank[FAR].node, fake_key(key), homes);
        tried += homes[0] == reader || homes[1] == reader;
        fake_net_run(net, 20 * SEC);
        for (uint32_t a = 0; a < FAR; a++)
            for (uint32_t b = FAR; b < RANKS; b++)
                see_each_other(net, a, b);
        fake_net_run(net, 20 * SEC);
        assert_int_equal(net->rank[reader].copy[key].counter, 0);
        fake_net_destroy(net);
    }
    assert_in_range(tried, 1, FAKE_KEYS);
}

/* Who comes as another incarnation owes nothing; nor is anything said about it. */
static void test_no_cut_not_tentative(void **state)
{
    struct fake_net *net = net_create();
    uint64_t took;

    (void)state;
    fake_net_kill(net, FAR, false);
    for (uint32_t a = 0; a < RANKS; a++) {
        if (a == FAR)
            continue;
        see(net, a, FAR, false);
        dht_node_set_missing(net->rank[a].node, FAR, DHT_GONE);
    }
    fake_net_revive(net, FAR, true);
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        assert_int_equal(look_up(net, 0, key, &took), ENOENT);
        assert_in_range(took, 0, 10 * MSEC);
    }
    assert_int_equal(net->sent[NET_MSG_RESYNC], 0);
    fake_net_destroy(net);
}

/* A tombstone from when this rank stood in for the homes. The name was published anew since
 * then; when the homes fall silent it is no answer, and who waits goes on waiting. */
static void test_old_tombstone(void **state)
{
    struct fake_net *net = net_create();
    struct result waits[FAKE_KEYS];
    unsigned n = 0;

    (void)state;
    cut_off(net);
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        fake_publish_ok(net, FAR + 1, key, 5, PUB);
        fake_publish_ok(net, FAR + 1, key, 0, DYAD_ENTRY_WITHDRAWN);
    }
    for (unsigned key = 0; key < FAKE_KEYS; key++) { /* on the minority */
        assert_int_equal(look_up(net, FAR, key, NULL), EHOSTUNREACH);
        fake_lookup(net, FAR, key, NET_LOOKUP_WAIT, NULL, &waits[key]);
    }
    fake_net_run(net, 20 * SEC);
    for (unsigned key = 0; key < FAKE_KEYS; key++)
        assert_int_equal(waits[key].calls, 0);
    cut(net, false);
    for (uint32_t a = 0; a < FAR; a++)
        for (uint32_t b = FAR; b < RANKS; b++)
            see_each_other(net, a, b);
    for (uint32_t b = FAR; b < RANKS; b++)
        dht_node_set_partition(net->rank[b].node, DHT_PARTITION_MAJORITY);
    fake_net_run(net, SEC);
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        assert_int_equal(waits[key].calls, 1);
        assert_int_equal(waits[key].status, ENOENT);
        assert_true(waits[key].has_entry);
        assert_int_equal(look_up(net, FAR, key, NULL), ENOENT);
    }

    for (unsigned key = 0; key < FAKE_KEYS; key++)
        fake_publish_ok(net, 0, key, 6, PUB);
    cut(net, true); /* nobody has noticed */
    memset(waits, 0, sizeof(waits));
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        const struct dht_record *record = fake_record(net, FAR, key);
        if (fake_is_home(net, key, FAR) || fake_is_home(net, key, FAR + 1) ||
            record == NULL)
            continue;
        assert_int_equal(record->entry.state, DYAD_ENTRY_WITHDRAWN);
        assert_int_equal(look_up(net, FAR, key, NULL), EHOSTUNREACH);
        fake_lookup(net, FAR, key, NET_LOOKUP_WAIT, NULL, &waits[key]);
        fake_net_run(net, 3 * SEC);
        assert_int_equal(waits[key].calls, 0);
        n++;
    }
    assert_true(n > 0);
    cut(net, false);
    fake_net_run(net, 6 * SEC);
    for (unsigned key = 0; key < FAKE_KEYS; key++)
        if (waits[key].calls == 1) {
            assert_int_equal(waits[key].status, 0);
            assert_int_equal(waits[key].entry.size, 6);
            n--;
        }
    assert_int_equal(n, 0);
    fake_net_destroy(net);
}

#define DEAD 3

/* Its process ends; those who are not cut off find that nobody listens there. */
static void die(struct fake_net *net)
{
    fake_net_kill(net, DEAD, false);
    for (uint32_t a = 0; a < FAR; a++)
        if (a != DEAD) {
            see(net, a, DEAD, false);
            dht_node_set_missing(net->rank[a].node, DEAD, DHT_GONE);
        }
}

static void notice_the_cut(struct fake_net *net)
{
    for (uint32_t a = 0; a < RANKS; a++)
        for (uint32_t b = 0; a != DEAD && b < RANKS; b++)
            if (is_far(a) != is_far(b))
                see(net, a, b, false);
}

static void heal(struct fake_net *net)
{
    cut(net, false);
    for (uint32_t a = 0; a < FAR; a++)
        for (uint32_t b = FAR; a != DEAD && b < RANKS; b++)
            see_each_other(net, a, b);
    for (uint32_t b = FAR; b < RANKS; b++)
        dht_node_set_missing(net->rank[b].node, DEAD, DHT_GONE);
}

/* One home of a name is dead, the other and the owner are beyond a cut: who has taken their
 * places was never told. `late`: the death comes after the cut has been noticed, and long
 * after; else it is the first that is known. */
static void heirs_run(bool late)
{
    struct fake_net *net = net_create();
    bool lost[FAKE_KEYS], kept[FAKE_KEYS];
    unsigned nlost = 0, nkept = 0;
    uint64_t took;

    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        bool far = fake_is_home(net, key, FAR) || fake_is_home(net, key, FAR + 1);
        bool dead = fake_is_home(net, key, DEAD);
        nlost += lost[key] = far && dead;
        nkept += kept[key] = far != dead;
        if (lost[key])
            fake_publish_ok(net, FAR, key, 5, PUB);
    }
    assert_true(nlost > 0 && nkept > 0);
    if (!late)
        die(net);
    cut(net, true);
    fake_net_run(net, 2 * SEC);
    notice_the_cut(net);
    if (late) {
        for (uint32_t a = 0; a < FAR; a++)
            for (uint32_t b = FAR; b < RANKS; b++)
                dht_node_set_missing(net->rank[a].node, b, DHT_MISSING_LONG);
        fake_net_run(net, 60 * SEC);
        die(net);
    }
    fake_net_run(net, 20 * SEC);
    for (unsigned key = 0; key < FAKE_KEYS; key++)
        for (uint32_t a = 0; a < FAR; a++)
            if (a != DEAD && lost[key]) {
                assert_int_equal(look_up(net, a, key, &took), EHOSTUNREACH);
                assert_in_range(took, 0, late ? 10 * MSEC : 2 * SEC);
            } else if (a != DEAD && kept[key]) { /* one of its homes lives */
                assert_int_equal(look_up(net, a, key, &took), ENOENT);
                assert_in_range(took, 0, 10 * MSEC);
            }
    heal(net);
    fake_net_run(net, SEC);
    for (unsigned key = 0; key < FAKE_KEYS; key++)
        for (uint32_t a = 0; a < FAR; a++)
            if (a != DEAD)
                assert_int_equal(look_up(net, a, key, NULL), lost[key] ? 0 : ENOENT);
    fake_net_destroy(net);
}

static void test_heirs(void **state)
{
    (void)state;
    heirs_run(false);
    heirs_run(true);
}

/* The asker has noticed nothing of the cut: the heir that it asks says that it is none. */
static void test_heir_says_so(void **state)
{
    struct fake_net *net = net_create();
    unsigned n = 0;

    (void)state;
    for (unsigned key = 0; key < FAKE_KEYS; key++)
        if (homes_are(net, key, BIT(DEAD), BIT(0) | BIT(1) | BIT(2)))
            fake_publish_ok(net, FAR, key, 5, PUB);
    die(net);
    cut(net, true);
    fake_net_run(net, 2 * SEC);
    for (uint32_t a = 1; a < FAR; a++)
        for (uint32_t b = FAR; a != DEAD && b < RANKS; b++)
            see(net, a, b, false);
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        uint32_t homes[DHT_REPLICAS_MAX];
        unsigned nhomes = dht_node_homes(net->rank[0].node, fake_key(key), homes);
        if (fake_record(net, FAR, key) == NULL && fake_record(net, FAR + 1, key) == NULL)
            continue;
        /* 0 is not the heir */
        if (nhomes != 2 || homes[0] == 0 || homes[1] == 0)
            continue;
        assert_int_equal(look_up(net, 0, key, NULL), EHOSTUNREACH);
        n++;
    }
    assert_true(n > 0);
    fake_net_destroy(net);
}

/* It comes back with an empty shard: no home that knows, as long as the others may return.
 */
static void test_empty_shard_beside_a_cut(void **state)
{
    struct fake_net *net = net_create();
    bool lost[FAKE_KEYS];
    unsigned n = 0;

    (void)state;
    for (unsigned key = 0; key < FAKE_KEYS; key++) {
        n += lost[key] = homes_are(net, key, BIT(DEAD), BIT(0) | BIT(1) | BIT(2));
        if (lost[key])
            fake_publish_ok(net, FAR, key, 5, PUB);
    }
    assert_true(n > 0);
    cut_off(net);
    die(net);
    fake_net_revive(net, DEAD, false);
    for (uint32_t a = 0; a < FAR; a++)
        if (a != DEAD)
            see(net, a, DEAD, true);
    for (uint32_t b = FAR; b < RANKS; b++)
        see(net, DEAD, b, false);
    fake_net_run(net, SEC);
    for (unsigned key = 0; key < FAKE_KEYS; key++)
        if (lost[key])
            assert_int_equal(look_up(net, 0, key, NULL), EHOSTUNREACH);
    for (uint32_t a = 0; a < FAR; a++)
        for (uint32_t b = FAR; b < RANKS; b++)
            dht_node_set_missing(net->rank[a].node, b, DHT_MISSING_LONG);
    for (unsigned key = 0; key < FAKE_KEYS; key++)
        if (lost[key])
            assert_int_equal(look_up(net, 0, key, NULL), ENOENT);
    fake_net_destroy(net);
}

/* The other side is asked, and notices only then that the link had been broken: it forgets
 * who has asked. What it says when we are back for it is told it anew. */
static void test_lost_after_it_was_asked(void **state)
{
    struct fake_net *net = net_create();
    unsigned key;

    (void)state;
    key = key_of(net, 0, BIT(2), BIT(0));
    fake_publish_ok(net, FAR, key, 5, PUB);
    see(net, FAR, 2, false);
    see(net, FAR, 2, true);
    net->cut[FAR][2] = true; /* what it publishes there again takes a while */
    see(net, 0, FAR, false);
    see(net, 0, FAR, true);
    fake_net_run(net, 10 * MSEC);
    assert_true(dht_node_is_tentative(net->rank[0].node));
    see(net, FAR, 0, false);
    see(net, FAR, 0, true);
    net->cut[FAR][2] = false;
    fake_net_run(net, 3 * SEC);
    assert_false(dht_node_is_tentative(net->rank[0].node));
    fake_net_destroy(net);
}

/* What was under way when it was lost fails when it has asked: that is done again at once.
 */
static void test_failed_before_it_was_asked(void **state)
{
    struct fake_net *net = net_create();
    struct result r;
    unsigned key;

    (void)state;
    key = key_of(net, 0, BIT(0) | BIT(2), 0);
    net->cut[FAR][0] = net->cut[FAR][2] = true;
    fake_publish(net, FAR, key, 5, PUB, &r);
    fake_net_run(net, 10 * MSEC);
    see(net, FAR, 0, false);
    see(net, 0, FAR, false);
    net->cut[FAR][0] = false;
    see_each_other(net, 0, FAR);
    assert_true(fake_net_run_until(net, &r.calls, 10 * SEC));
    net->cut[FAR][2] = false;
    fake_net_run(net, 4 * SEC); /* 2 was asked while it was silent still */
    assert_false(dht_node_is_tentative(net->rank[0].node));
    fake_net_destroy(net);
}

/* Who did not run for a while does not take that for the silence of those it has asked. */
static void test_stood_still(void **state)
{
    (void)state;
    for (int told = 0; told < 2; told++) {
        struct fake_net *net = net_create();
        struct result r;
        unsigned key, silent = 0;

        key = key_of(net, 0, 0, BIT(0));
        fake_publish_ok(net, 1, key, 5, PUB);
        fake_net_run(net, SEC);
        fake_lookup(net, 0, key, 0, NULL, &r);
        net->now += 3 * SEC; /* what is under way is not delivered */
        if (told)
            dht_node_stood_still(net->rank[0].node, 3 * SEC);
        dht_node_tick(net->rank[0].node);
        for (uint32_t rank = 1; rank < RANKS; rank++)
            silent += net->rank[0].nsilent[rank];
        assert_int_equal(silent, !told);
        assert_true(fake_net_run_until(net, &r.calls, SEC));
        assert_int_equal(r.status, 0);
        fake_net_destroy(net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_during_the_cut),
        cmocka_unit_test(test_after_the_cut),
        cmocka_unit_test(test_published_when_cut_off),
        cmocka_unit_test(test_newer_beyond_the_cut),
        cmocka_unit_test(test_own_removal),
        cmocka_unit_test(test_removed_before),
        cmocka_unit_test(test_removed_by_a_former_process),
        cmocka_unit_test(test_never_resynced),
        cmocka_unit_test(test_resynced_is_true),
        cmocka_unit_test(test_another_comes),
        cmocka_unit_test(test_one_sided),
        cmocka_unit_test(test_resynced_after_a_failure),
        cmocka_unit_test(test_silent),
        cmocka_unit_test(test_resynced_covers_orphans),
        cmocka_unit_test(test_resynced_covers_many),
        cmocka_unit_test(test_unsynced_with_all),
        cmocka_unit_test(test_all_become_others),
        cmocka_unit_test(test_nothing_to_restore),
        cmocka_unit_test(test_published_before_restored),
        cmocka_unit_test(test_not_awaited),
        cmocka_unit_test(test_missed_for_good),
        cmocka_unit_test(test_stand_in_passes_on),
        cmocka_unit_test(test_stand_in_has_a_copy),
        cmocka_unit_test(test_no_cut_not_tentative),
        cmocka_unit_test(test_old_tombstone),
        cmocka_unit_test(test_heirs),
        cmocka_unit_test(test_heir_says_so),
        cmocka_unit_test(test_empty_shard_beside_a_cut),
        cmocka_unit_test(test_lost_after_it_was_asked),
        cmocka_unit_test(test_failed_before_it_was_asked),
        cmocka_unit_test(test_stood_still),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
