/* test_invalidate.c - node_invalidate.c: holders of older versions that are silent or dead,
 * and who is told in their place */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "fake_net.h"

#define PUB  DYAD_ENTRY_PUBLISHED
#define GONE DYAD_ENTRY_WITHDRAWN
#define COPY NET_LOOKUP_COPY
#define HALF SEC /* of invalidate_timeout */
#define STEP (SEC / 4)
#define EACH 2 /* both homes know who has a copy */

static const uint32_t nodes[12] = {0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3};

/* key 0 is published by `owner`, and `a` has a copy. On the node of `a`, `b` and `c`, in
 * this order, none of them is a home of it. */
struct scene {
    struct fake_net *net;
    uint32_t owner, a, b, c;
    uint32_t homes[DHT_REPLICAS_MAX];
    struct result r;
    uint64_t begin;
};

static void look_up(struct fake_net *net, uint32_t rank)
{
    struct result r;

    fake_lookup(net, rank, 0, COPY, NULL, &r);
    assert_true(fake_net_run_until(net, &r.calls, SEC));
    assert_int_equal(r.status, 0);
    fake_net_run(net, MSEC); /* all homes know */
}

static struct scene scene_begin(void)
{
    struct scene s = {.net = fake_net_create_on(12, 2, 1, nodes)};
    uint32_t node = 0;

    fake_homes(s.net, 0, s.homes);
    while (node == nodes[s.homes[0]] || node == nodes[s.homes[1]])
        node++;
    s.b = 3 * node; /* asked in the order of their numbers */
    s.a = 3 * node + 1;
    s.c = 3 * node + 2;
    do
        node = (node + 1) % 4;
    while (node == nodes[s.homes[0]] || node == nodes[s.homes[1]]);
    s.owner = 3 * node;
    fake_publish_ok(s.net, s.owner, 0, 5, PUB);
    look_up(s.net, s.a);
    return s;
}

static void publish(struct scene *s, uint32_t rank)
{
    s->begin = s->net->now;
    memset(&s->r, 0, sizeof(s->r));
    fake_publish(s->net, rank, 0, 6, PUB, &s->r);
}

/* Until `ns` after the publish began. */
static void run_to(struct scene *s, uint64_t ns)
{
    fake_net_run(s->net, s->begin + ns - s->net->now);
}

static void acknowledged_after(struct scene *s, uint64_t ns)
{
    assert_true(fake_net_run_until(s->net, &s->r.calls, 10 * SEC));
    assert_int_equal(s->r.status, 0);
    assert_in_range(s->net->now - s->begin, ns, ns + MSEC);
}

static unsigned left(const struct scene *s, uint32_t rank)
{
    return s->net->rank[rank].nleft;
}

/* A neighbour is told after half of the time. Its answer does not shorten the wait: the
 * silent one may keep an answer of ours. */
static void test_silent(void **state)
{
    struct scene s = scene_begin();

    (void)state;
    s.net->rank[s.a].hold = true;
    publish(&s, s.owner);
    run_to(&s, HALF - MSEC);
    assert_int_equal(s.net->rank[s.a].nheld, EACH);
    assert_int_equal(left(&s, s.b) + left(&s, s.c), 0);
    run_to(&s, HALF + MSEC);
    assert_int_equal(left(&s, s.b), EACH);
    assert_int_equal(s.net->rank[s.b].left_by, s.a);
    assert_int_equal(s.net->rank[s.b].invalidated.size, 6);
    acknowledged_after(&s, 2 * HALF);
    assert_int_equal(left(&s, s.b), EACH);
    assert_int_equal(left(&s, s.c), 0);
    /* The next version is told to it again, and to the neighbour in its place; of the first
     * it answers late. */
    look_up(s.net, s.a);
    publish(&s, s.owner);
    run_to(&s, HALF + MSEC);
    assert_int_equal(left(&s, s.b), 2 * EACH);
    for (unsigned i = 0; i < s.net->rank[s.a].nheld; i++)
        dht_node_invalidated(s.net->rank[s.a].node, s.net->rank[s.a].held[i]);
    acknowledged_after(&s, HALF + MSEC);
    fake_net_destroy(s.net);
}

/* Who withdraws is no holder to the homes; a copy may come to it all the while, so it sees
 * to that itself before its withdrawal ends. What it does next with that name sees to it as
 * well. */
static void test_own_withdrawal(void **state)
{
    struct scene s = scene_begin();
    struct fake_rank *a = &s.net->rank[s.a];
    struct result gone = {0}, again = {0};

    (void)state;
    a->hold = true;
    fake_publish(s.net, s.a, 0, 0, GONE, &gone);
    fake_net_run(s.net, SEC / 2);
    assert_int_equal(a->ninvalidated, 0);
    assert_int_equal(a->nwithdrawn, 1);
    assert_int_equal(a->nheld, 1);
    assert_int_equal(gone.calls, 0);
    dht_node_invalidated(a->node, a->held[0]);
    assert_true(fake_net_run_until(s.net, &gone.calls, MSEC));
    assert_int_equal(gone.status, 0);

    memset(&gone, 0, sizeof(gone));
    fake_publish(s.net, s.a, 0, 0, GONE, &gone);
    fake_publish(s.net, s.a, 0, 6, PUB, &again);
    assert_true(fake_net_run_until(s.net, &again.calls, SEC));
    assert_int_equal(gone.calls, 1);
    assert_int_equal(a->nwithdrawn, 1);

    /* Its end is not waited for by what ends all. */
    memset(&gone, 0, sizeof(gone));
    fake_publish(s.net, s.a, 0, 0, GONE, &gone);
    fake_net_run(s.net, MSEC);
    assert_int_equal(a->nheld, 2);
    assert_int_equal(gone.calls, 0);
    fake_net_destroy(s.net);
}

/* What waits for a publish of ours, and that for a silent home, longer than the home of the
 * newer version waits for us, is known all the while to be under way. */
static void test_told_behind_own(void **state)
{
    struct scene s = scene_begin();
    struct fake_rank *a = &s.net->rank[s.a];
    struct result own = {0};

    (void)state;
    assert_false(dht_node_is_invalidating(a->node));
    s.net->refuse = false; /* it is silent */
    s.net->cut[s.a][s.homes[1]] = s.net->cut[s.homes[1]][s.a] = true;
    fake_publish(s.net, s.a, 0, 7, PUB, &own);
    fake_net_run(s.net, 2 * MSEC);
    publish(&s, s.owner);
    fake_net_run(s.net, 10 * MSEC);
    assert_int_equal(own.calls, 0);
    assert_int_equal(a->ninvalidated, 0);
    assert_true(dht_node_is_invalidating(a->node));
    assert_true(fake_net_run_until(s.net, &own.calls, 10 * SEC));
    fake_net_run(s.net, MSEC);
    assert_true(a->ninvalidated > 0);
    assert_false(dht_node_is_invalidating(a->node));
    fake_net_destroy(s.net);
}

/* Who keeps the name of what is older is told of the next version as well, and who does
 * not is not. */
static void test_stays(void **state)
{
    (void)state;
    for (int stays = 0; stays < 2; stays++) {
        struct scene s = scene_begin();
        fake_publish_ok(s.net, s.a, 0, 5, PUB);
        s.net->rank[s.a].hold = true;
        for (unsigned version = 0; version < 3; version++) {
            unsigned held = s.net->rank[s.a].nheld;
            publish(&s, s.owner);
            run_to(&s, MSEC);
            assert_int_equal(s.net->rank[s.a].nheld,
                             version == 0 || stays ? held + EACH : held);
            for (; held < s.net->rank[s.a].nheld; held++) {
                if (stays)
                    dht_node_stays(s.net->rank[s.a].node, s.net->rank[s.a].held[held]);
                dht_node_invalidated(s.net->rank[s.a].node, s.net->rank[s.a].held[held]);
            }
            assert_true(fake_net_run_until(s.net, &s.r.calls, 10 * SEC));
            assert_int_equal(s.r.status, 0);
        }
        fake_net_destroy(s.net);
    }
}

/* It is the owner of the version before, and nobody's holder. */
static void test_silent_owner(void **state)
{
    struct scene s = scene_begin();

    (void)state;
    fake_publish_ok(s.net, s.a, 0, 5, PUB);
    s.net->rank[s.a].hold = true;
    publish(&s, s.owner);
    run_to(&s, HALF + MSEC);
    assert_int_equal(left(&s, s.b), EACH);
    assert_int_equal(s.net->rank[s.b].left_by, s.a);
    acknowledged_after(&s, 2 * HALF);
    fake_net_destroy(s.net);
}

/* The first neighbour is silent as well: the next. One that is waited for itself is not
 * asked, nor is the publisher. */
static void test_silent_neighbours(void **state)
{
    (void)state;
    for (int what = 0; what < 4; what++) {
        struct scene s = scene_begin();
        if (what == 1) /* both silent: each counts for itself, and c for both */
            look_up(s.net, s.b);
        s.net->rank[s.a].hold = true;
        s.net->rank[s.b].hold = what != 2;
        publish(&s, what == 2 ? s.b : s.owner);
        run_to(&s, HALF + MSEC);
        assert_int_equal(left(&s, s.b), what == 1 || what == 2 ? 0 : EACH);
        assert_int_equal(left(&s, s.c), what == 1 ? 2 * EACH : what == 2 ? EACH : 0);
        if (what == 3)
            fake_net_kill(s.net, s.b, true);
        run_to(&s, HALF + STEP - MSEC);
        assert_int_equal(left(&s, s.c), what == 1 ? 2 * EACH : what == 0 ? 0 : EACH);
        run_to(&s, HALF + STEP + MSEC);
        assert_int_equal(left(&s, s.c), what == 1 ? 2 * EACH : EACH);
        acknowledged_after(&s, 2 * HALF);
        assert_int_equal(left(&s, s.c), what == 1 ? 2 * EACH : EACH);
        fake_net_destroy(s.net);
    }
}

/* A neighbour with a disk of its own says so, and the next is asked at once. */
static void test_other_disks(void **state)
{
    (void)state;
    for (int dead = 0; dead < 2; dead++) {
        for (int both = 0; both < 2; both++) {
            struct scene s = scene_begin();
            s.net->rank[s.a].hold = true;
            s.net->rank[s.b].blind = true;
            s.net->rank[s.c].blind = both;
            if (dead)
                fake_net_kill(s.net, s.a, true);
            publish(&s, s.owner);
            run_to(&s, (dead ? 0 : HALF) + MSEC);
            assert_int_equal(left(&s, s.b), EACH);
            assert_int_equal(left(&s, s.c), EACH);
            assert_int_equal(s.net->rank[s.c].left_by, s.a);
            if (dead)
                assert_int_equal(s.r.calls, 1);
            else
                acknowledged_after(&s, 2 * HALF);
            fake_net_destroy(s.net);
        }
    }
}

/* It dies over the question, after a neighbour has looked: it may have gone on in between.
 */
static void test_dies_later(void **state)
{
    struct scene s = scene_begin();

    (void)state;
    s.net->rank[s.a].hold = true;
    publish(&s, s.owner);
    run_to(&s, HALF + MSEC);
    assert_int_equal(left(&s, s.b), EACH);
    fake_net_kill(s.net, s.a, true);
    acknowledged_after(&s, HALF + MSEC);
    assert_int_equal(left(&s, s.b), 2 * EACH);
    fake_net_destroy(s.net);
}

/* Given up, but not dead: it is remembered, and a neighbour is told at once; one that is
 * dead is forgotten, since its neighbours take over what it had. */
static void test_given_up(void **state)
{
    (void)state;
    for (int gone = 0; gone < 2; gone++) {
        struct scene s = scene_begin();
        s.net->refuse = false; /* it is there, and silent */
        for (uint32_t i = 0; i < s.net->nranks; i++) {
            s.net->cut[i][s.a] = s.net->cut[s.a][i] = true;
            if (i == s.a)
                continue;
            dht_node_set_missing(s.net->rank[i].node, s.a,
                                 gone ? DHT_GONE : DHT_MISSING_LONG);
            dht_node_set_live(s.net->rank[i].node, s.a, false);
        }
        fake_net_run(s.net, 10 * SEC); /* the homes have swept */
        publish(&s, s.owner);
        acknowledged_after(&s, 0);
        assert_int_equal(left(&s, s.b), gone ? 0 : EACH);
        fake_net_destroy(s.net);
    }
}

/* A home that has a copy itself, and is stopped with what it noted: the other home knows.
 */
static void test_home_holds(void **state)
{
    struct scene s = scene_begin();
    uint32_t home = s.homes[0], neighbour;

    (void)state;
    look_up(s.net, home);
    fake_net_run(s.net, SEC);
    neighbour = home - home % 3 + (home % 3 == 0);
    s.net->refuse = false;
    for (uint32_t i = 0; i < s.net->nranks; i++)
        s.net->cut[i][home] = s.net->cut[home][i] = true;
    publish(&s, s.owner);
    assert_true(fake_net_run_until(s.net, &s.r.calls, 10 * SEC));
    assert_true(left(&s, neighbour) > 0);
    assert_int_equal(s.net->rank[neighbour].left_by, home);
    fake_net_destroy(s.net);
}

/* The other home dies meanwhile: who publishes is not answered by the stopped one, or knows
 * that it cannot be reached, and sees to what that one has. Its neighbours are silent, or
 * see another disk, or cannot be reached either. */
static void test_home_holds_alone(void **state)
{
    enum { SILENT, LOST, GONE_FOR_GOOD, BLIND, MUTE, ALL_MUTE, DIES, WAYS };

    (void)state;
    for (int way = 0; way < WAYS; way++) {
        struct scene s = scene_begin();
        uint32_t home = s.homes[0], first = home - home % 3, neighbour[2];
        struct fake_rank *rank = s.net->rank;
        neighbour[0] = first + (home % 3 == 0);
        neighbour[1] = first + (home % 3 == 2 ? 1 : 2);
        look_up(s.net, home);
        fake_net_run(s.net, SEC);
        s.net->refuse = false;
        for (uint32_t i = 0; i < s.net->nranks; i++) {
            s.net->cut[i][home] = s.net->cut[home][i] = true;
            if (i == home || (way != LOST && way != GONE_FOR_GOOD))
                continue;
            dht_node_set_missing(rank[i].node, home,
                                 way == LOST ? DHT_MISSING_LONG : DHT_GONE);
            dht_node_set_live(rank[i].node, home, false);
        }
        rank[neighbour[0]].blind = way == BLIND;
        rank[neighbour[0]].hold = way == MUTE || way == ALL_MUTE || way == DIES;
        rank[neighbour[1]].hold = way == ALL_MUTE;
        fake_net_kill(s.net, s.homes[1], true);
        publish(&s, s.owner);
        if (way == DIES) {
            while (left(&s, neighbour[0]) == 0)
                fake_net_run(s.net, MSEC);
            assert_int_equal(s.r.calls, 0);
            fake_net_kill(s.net, neighbour[0], true);
            s.begin = s.net->now;
            acknowledged_after(&s, 0);
        } else {
            acknowledged_after(&s, (way == LOST || way == GONE_FOR_GOOD ? 0 : 3 * SEC) +
                                       (way == MUTE       ? HALF
                                        : way == ALL_MUTE ? 2 * HALF
                                                          : 0));
        }
        for (int i = 0; i < 2; i++) {
            bool is_asked = way != GONE_FOR_GOOD && (i == 0 || way >= BLIND);
            if (way != DIES || i == 1)
                assert_int_equal(left(&s, neighbour[i]), is_asked);
            if (is_asked) {
                assert_int_equal(rank[neighbour[i]].left_by, home);
                assert_int_equal(rank[neighbour[i]].invalidated.size, 6);
            }
        }
        fake_net_destroy(s.net);
    }
}

/* A home that has noted it is lost while it is stopped: perhaps no home knows of it, and
 * who publishes sees to what it may have. Also if that home is back, with an empty shard.
 */
static void test_noted_by_one(void **state)
{
    enum { NOBODY_LOST, LOST_BEFORE, LOST_AFTER, BACK, OTHER_LOST, GONE_FOR_GOOD, WAYS };

    (void)state;
    for (int way = 0; way < WAYS; way++) {
        struct scene s = scene_begin();
        struct fake_net *net = s.net;
        uint32_t home = s.homes[0]; /* of which it was told: it is asked first */
        net->refuse = false;
        for (uint32_t i = 0; i < net->nranks; i++)
            net->cut[i][s.a] = net->cut[s.a][i] = true;
        if (way == LOST_BEFORE || way == GONE_FOR_GOOD)
            fake_net_kill(net, home, true);
        for (uint32_t i = 0; i < net->nranks; i++) {
            if (i == s.a || net->rank[i].node == NULL)
                continue;
            dht_node_set_missing(net->rank[i].node, s.a,
                                 way == GONE_FOR_GOOD ? DHT_GONE : DHT_MISSING);
            dht_node_set_live(net->rank[i].node, s.a, false);
        }
        if (way == LOST_AFTER || way == BACK)
            fake_net_kill(net, home, true);
        if (way == OTHER_LOST) {
            uint32_t other = 0;
            while (other == s.owner || other == s.a || other == s.b ||
                   other == s.homes[0] || other == s.homes[1])
                other++;
            fake_net_kill(net, other, true);
        }
        fake_net_run(net, 10 * SEC);
        if (way == BACK) {
            fake_net_revive(net, home, true);
            dht_node_set_missing(net->rank[home].node, s.a, DHT_MISSING);
            dht_node_set_live(net->rank[home].node, s.a, false);
            fake_net_run(net, 10 * SEC);
        }
        publish(&s, s.owner);
        acknowledged_after(&s, 0);
        if (way == GONE_FOR_GOOD)
            assert_int_equal(left(&s, s.b), 0);
        else /* by who publishes, by a home that knows, or by more of them */
            assert_in_range(left(&s, s.b), 1, 3);
        if (way != GONE_FOR_GOOD) {
            assert_int_equal(net->rank[s.b].left_by, s.a);
            assert_int_equal(net->rank[s.b].invalidated.size, 6);
        }
        fake_net_destroy(net);
    }
}

/* Whichever home is stopped when a newer version comes, the other one knows who has a copy,
 * however that came to it. */
static void test_home_stopped(void **state)
{
    (void)state;
    for (unsigned which = 0; which < 2; which++) {
        for (unsigned waited = 0; waited < 2; waited++) {
            struct scene s = scene_begin();
            uint32_t reader = waited ? s.c : s.a;
            if (waited) {
                struct result r;
                fake_lookup(s.net, reader, 1, COPY | NET_LOOKUP_WAIT, NULL, &r);
                fake_net_run(s.net, MSEC);
                fake_publish_ok(s.net, s.owner, 1, 5, PUB);
                assert_true(fake_net_run_until(s.net, &r.calls, SEC));
                fake_homes(s.net, 1, s.homes);
                fake_net_run(s.net, MSEC);
            }
            assert_int_equal(s.net->rank[reader].copy[waited].rank, s.owner);
            s.net->rank[s.homes[which]].stopped = true;
            fake_publish_ok(s.net, s.owner, waited, 6, PUB);
            assert_int_equal(s.net->rank[reader].copy[waited].counter, 0);
            fake_net_destroy(s.net);
        }
    }
}

static int count_waiters(struct dht_record *record, void *arg)
{
    for (const struct dht_waiter *w = record->waiters; w != NULL; w = w->next)
        ++*(unsigned *)arg;
    return 0;
}

static unsigned waiters(struct fake_net *net)
{
    unsigned n = 0;

    for (uint32_t i = 0; i < net->nranks; i++)
        dht_shard_foreach(dht_node_shard(net->rank[i].node), count_waiters, &n);
    return n;
}

/* A home is stopped when the copy is made, and perhaps already when its version is
 * published: it hears of that when it goes on. Or it misses that version, and hears of the
 * copy and then of the next one. */
static void test_home_was_stopped(void **state)
{
    (void)state;
    for (unsigned missed = 0; missed < 3; missed++) {
        struct scene s = scene_begin();
        struct result r;

        s.net->refuse = false;
        s.net->rank[s.homes[1]].stopped = missed < 2;
        s.net->cut[s.owner][s.homes[1]] = missed == 2;
        if (missed)
            fake_publish_ok(s.net, s.owner, 0, 6, PUB);
        look_up(s.net, s.b);
        assert_int_equal(waiters(s.net), missed == 2);
        s.net->cut[s.owner][s.homes[1]] = false;
        fake_net_run(s.net, 2 * SEC); /* given up for now */
        s.net->rank[s.homes[1]].stopped = false;
        fake_net_run(s.net, missed == 2 ? MSEC : 6 * SEC);
        s.net->rank[s.homes[0]].stopped = true;
        s.net->rank[s.b].hold = true;
        fake_publish(s.net, s.owner, 0, 7, PUB, &r);
        fake_net_run(s.net, SEC / 2);
        assert_int_equal(s.net->rank[s.b].nheld, 1);
        assert_int_equal(s.net->rank[s.b].invalidated.size, 7);
        /* It is waited for. */
        s.net->rank[s.homes[0]].stopped = false;
        fake_net_run(s.net, SEC / 2);
        assert_int_equal(r.calls, 0);
        assert_true(fake_net_run_until(s.net, &r.calls, 3 * SEC));
        fake_net_run(s.net, 6 * SEC);
        assert_int_equal(waiters(s.net), 0);
        fake_net_destroy(s.net);
    }
}

/* A home that is silent is asked again, also long after the last change of membership; one
 * that can be reached is not asked twice. */
static void test_home_is_silent(void **state)
{
    struct scene s = scene_begin();
    unsigned asked;

    (void)state;
    s.net->refuse = false;
    s.net->cut[s.a][s.homes[1]] = true;
    fake_publish_ok(s.net, s.owner, 0, 6, PUB);
    look_up(s.net, s.a);
    fake_net_run(s.net, 300 * SEC);
    asked = s.net->sent[NET_MSG_LOOKUP];
    fake_publish_ok(s.net, s.owner, 0, 7, PUB);
    look_up(s.net, s.a);
    assert_in_range(s.net->sent[NET_MSG_LOOKUP], asked + 2, asked + 2);
    s.net->cut[s.a][s.homes[1]] = false;
    fake_net_run(s.net, 7 * SEC);
    assert_int_equal(fake_record(s.net, s.homes[1], 0)->nholders, 1);
    asked = s.net->sent[NET_MSG_LOOKUP];
    fake_net_run(s.net, 300 * SEC);
    look_up(s.net, s.a);
    assert_int_equal(s.net->sent[NET_MSG_LOOKUP], asked + 1);
    fake_net_destroy(s.net);
}

/* The live ranks of its node, one after the other. */
static void test_neighbours(void **state)
{
    struct scene s = scene_begin();
    struct dht_node *node = s.net->rank[s.a].node;
    uint32_t first = s.owner + 1, second = s.owner + 2;

    (void)state;
    assert_int_equal(dht_node_neighbour(node, s.owner, DYAD_RANK_NONE), first);
    assert_int_equal(dht_node_neighbour(node, s.owner, first), second);
    assert_int_equal(dht_node_neighbour(node, s.owner, second), DYAD_RANK_NONE);
    fake_net_kill(s.net, s.owner, true);
    fake_net_kill(s.net, first, true);
    assert_int_equal(dht_node_neighbour(node, s.owner, DYAD_RANK_NONE), second);
    assert_int_equal(dht_node_neighbour(node, DYAD_RANK_NONE, DYAD_RANK_NONE),
                     DYAD_RANK_NONE);
    fake_net_run(s.net, 2 * SEC);
    assert_int_equal(left(&s, second), 0); /* it is published as before: nobody is asked */
    look_up(s.net, s.c);
    fake_net_destroy(s.net);
}

/* One rank after the other is stopped for a while, others join and leave, and files are
 * read and written by those who go on. What was acknowledged is not read in an older
 * version; but for the moments in which who goes on reads what has come meanwhile. */
static void test_stops(void **state)
{
    enum { KEYS = 6, R = 12 };

    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct fake_net *net = fake_net_create_on(R, 2 + seed % 2, seed, nodes);
        struct dyad_version acked[KEYS] = {{0}};
        uint32_t stopped = DYAD_RANK_NONE, dead = DYAD_RANK_NONE;

        for (unsigned i = 0; i < 300; i++) {
            uint32_t rank = fake_net_random(net, R), what = fake_net_random(net, 12);
            unsigned key = fake_net_random(net, KEYS);
            if (what == 0 && stopped == DYAD_RANK_NONE && net->rank[rank].node != NULL) {
                stopped = rank;
                net->rank[rank].stopped = true;
            } else if (what == 1 && stopped != DYAD_RANK_NONE) {
                net->rank[stopped].stopped = false;
                stopped = DYAD_RANK_NONE;
            } else if (what == 2 && seed % 3 == 0 && stopped == DYAD_RANK_NONE) {
                if (dead != DYAD_RANK_NONE)
                    fake_net_revive(net, dead, true);
                else
                    fake_net_kill(net, rank, true);
                dead = dead == DYAD_RANK_NONE ? rank : DYAD_RANK_NONE;
            } else if (rank == stopped || rank == dead) {
                continue;
            } else if (what < 6) {
                acked[key] = fake_publish_ok(net, rank, key, i, PUB);
            } else {
                struct result r;
                fake_lookup(net, rank, key, COPY, NULL, &r);
                assert_true(fake_net_run_until(net, &r.calls, 10 * SEC));
            }
            fake_net_run(net, 10 * MSEC);
            for (uint32_t r = 0; r < R; r++)
                for (unsigned k = 0; k < KEYS; k++)
                    if (r != stopped && net->rank[r].copy[k].counter > 0 &&
                        dyad_version_cmp(&net->rank[r].copy[k], &acked[k]) < 0)
                        fail_msg(
                            "seed %lu, step %u: rank %u has %s in version %lu, not "
                            "%lu; stopped: %u",
                            (unsigned long)seed, i, r, fake_key(k),
                            (unsigned long)net->rank[r].copy[k].counter,
                            (unsigned long)acked[k].counter, stopped);
        }
        fake_net_destroy(net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_silent),
        cmocka_unit_test(test_own_withdrawal),
        cmocka_unit_test(test_told_behind_own),
        cmocka_unit_test(test_stays),
        cmocka_unit_test(test_silent_owner),
        cmocka_unit_test(test_silent_neighbours),
        cmocka_unit_test(test_other_disks),
        cmocka_unit_test(test_dies_later),
        cmocka_unit_test(test_given_up),
        cmocka_unit_test(test_home_holds),
        cmocka_unit_test(test_home_holds_alone),
        cmocka_unit_test(test_noted_by_one),
        cmocka_unit_test(test_home_stopped),
        cmocka_unit_test(test_home_was_stopped),
        cmocka_unit_test(test_home_is_silent),
        cmocka_unit_test(test_neighbours),
        cmocka_unit_test(test_stops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
