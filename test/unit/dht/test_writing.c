/*
 * test/unit/dht/test_writing.c - who writes what, as homes, writers and readers see it
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

#include "dht/base.h"
#include "dht/node_written.h"
#include "fake_net.h"

#define KEY 3

struct answer {
    int calls, status;
    uint32_t by;
    struct dyad_version version;
};

static void told(void *arg, int status)
{
    struct answer *a = arg;

    a->calls++;
    a->status = status;
}

static void settled(void *arg, int status, uint32_t by, const struct dyad_version *version)
{
    *(struct answer *)arg = (struct answer){1, status, by, *version};
}

static void writes(struct fake_net *net, uint32_t rank, enum dht_writing what)
{
    struct answer a = {0};

    assert_int_equal(
        dht_node_writing(net->rank[rank].node, fake_key(KEY), what, net->now, told, &a), 0);
    assert_int_equal(a.calls, 0); /* never from inside */
    assert_true(fake_net_run_until(net, &a.calls, 60 * SEC));
    assert_int_equal(a.status, 0);
}

static struct dht_writing_ask *asks(struct fake_net *net, uint32_t rank, bool wait,
                                    struct answer *a)
{
    *a = (struct answer){0};
    struct dht_writing_ask *settle =
        dht_node_ask_writers(net->rank[rank].node, fake_key(KEY), wait, settled, a);
    assert_non_null(settle);
    assert_int_equal(a->calls, 0);
    return settle;
}

static void is(struct fake_net *net, uint32_t rank, int status, uint32_t by)
{
    struct answer a;

    asks(net, rank, false, &a);
    assert_true(fake_net_run_until(net, &a.calls, 60 * SEC));
    assert_int_equal(a.status, status);
    assert_int_equal(a.by, by);
}

static void publishes(struct fake_net *net, uint32_t rank, struct dyad_version *version)
{
    struct result r;

    fake_publish(net, rank, KEY, 7, DYAD_ENTRY_PUBLISHED, &r);
    assert_true(fake_net_run_until(net, &r.calls, 60 * SEC));
    assert_int_equal(r.status, 0);
    if (version)
        *version = r.version;
}

/* A rank that is no home of the key, and not `other`. */
static uint32_t stranger(struct fake_net *net, uint32_t other)
{
    uint32_t homes[DHT_REPLICAS_MAX];
    unsigned n = fake_homes(net, KEY, homes);

    for (uint32_t i = 0; i < net->nranks; i++) {
        bool ok = i != other && net->rank[i].node != NULL;
        for (unsigned j = 0; j < n; j++)
            ok = ok && homes[j] != i;
        if (ok)
            return i;
    }
    abort();
}

static uint32_t third(uint32_t a, uint32_t b)
{
    uint32_t rank = 0;

    while (rank == a || rank == b)
        rank++;
    return rank;
}

/* Nobody; somebody; nobody again, and who waits is told at once. Of any number of ranks. */
static void test_begin_end(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 9; n++) {
        for (uint32_t w = 0; w < n; w++) {
            struct fake_net *net = fake_net_create(n, 2, n);
            uint32_t r = (w + 1) % n;
            struct answer a;

            is(net, r, 0, DYAD_RANK_NONE);
            writes(net, w, DHT_WRITING_BEGIN);
            is(net, r, EBUSY, w);
            is(net, w, 0, DYAD_RANK_NONE); /* nobody waits for himself */
            struct dht_writing_ask *settle = asks(net, r, true, &a);
            fake_net_run(net, 1 * SEC);
            assert_int_equal(a.calls, 0);
            assert_int_equal(dht_writing_ask_writer(settle), w);
            assert_true(net->rank[w].nwanted[KEY] >= 2);
            writes(net, w, DHT_WRITING_END);
            assert_true(fake_net_run_until(net, &a.calls, 10 * MSEC));
            assert_int_equal(a.status, 0);
            is(net, r, 0, DYAD_RANK_NONE);
            fake_net_destroy(net);
        }
    }
}

/* Of two writers the second to end counts; and a question that is cancelled is not
 * answered, nor kept. */
static void test_two_writers(void **state)
{
    struct fake_net *net = fake_net_create(8, 2, 1);
    struct answer a, b;

    (void)state;
    writes(net, 1, DHT_WRITING_BEGIN);
    unsigned wanted = net->rank[1].nwanted[KEY];
    writes(net, 2, DHT_WRITING_BEGIN);
    fake_net_run(net, 1 * SEC);
    assert_true(net->rank[1].nwanted[KEY] > wanted); /* does it live, that one? */
    asks(net, 5, true, &a);
    struct dht_writing_ask *cancelled = asks(net, 6, true, &b);
    fake_net_run(net, 1 * SEC);
    dht_node_ask_writers_cancel(net->rank[6].node, cancelled);
    writes(net, 1, DHT_WRITING_END);
    fake_net_run(net, 20 * SEC);
    assert_int_equal(a.calls, 0);
    is(net, 1, EBUSY, 2);
    is(net, 2, 0, DYAD_RANK_NONE);
    writes(net, 2, DHT_WRITING_END);
    assert_true(fake_net_run_until(net, &a.calls, 10 * MSEC));
    assert_int_equal(a.status, 0);
    fake_net_run(net, 20 * SEC);
    assert_int_equal(b.calls, 0);
    fake_net_destroy(net);
}

/* What its writer left half written is not complete until a version is published; one that
 * had been published before is named. */
static void test_abandoned(void **state)
{
    struct fake_net *net = fake_net_create(8, 2, 2);
    struct dyad_version v1, v2;
    struct answer a;

    (void)state;
    publishes(net, 4, &v1);
    writes(net, 1, DHT_WRITING_BEGIN);
    asks(net, 5, true, &a);
    fake_net_run(net, 1 * SEC);
    writes(net, 1, DHT_WRITING_ABANDONED);
    assert_true(fake_net_run_until(net, &a.calls, 10 * MSEC));
    assert_int_equal(a.status, EOWNERDEAD);
    assert_int_equal(a.by, 1);
    assert_int_equal(dyad_version_cmp(&a.version, &v1), 0);
    is(net, 1, EOWNERDEAD, 1); /* also for the rank whose process it was */
    /* Another writer at work: it is waited for. */
    writes(net, 2, DHT_WRITING_BEGIN);
    is(net, 5, EBUSY, 2);
    publishes(net, 2, &v2);
    writes(net, 2, DHT_WRITING_END);
    assert_true(dyad_version_cmp(&v2, &v1) > 0);
    is(net, 5, 0, DYAD_RANK_NONE);
    /* The same rank begins anew: its old death is forgotten. */
    writes(net, 1, DHT_WRITING_BEGIN);
    writes(net, 1, DHT_WRITING_ABANDONED);
    writes(net, 1, DHT_WRITING_BEGIN);
    is(net, 5, EBUSY, 1);
    writes(net, 1, DHT_WRITING_END);
    is(net, 5, 0, DYAD_RANK_NONE);
    fake_net_destroy(net);
}

/* Its death is only seen after somebody else has published the file. */
static void test_abandoned_late(void **state)
{
    struct fake_net *net = fake_net_create(8, 2, 3);

    (void)state;
    writes(net, 1, DHT_WRITING_BEGIN);
    writes(net, 2, DHT_WRITING_BEGIN);
    publishes(net, 2, NULL);
    writes(net, 2, DHT_WRITING_END);
    is(net, 5, EBUSY, 1);
    writes(net, 1, DHT_WRITING_ABANDONED);
    is(net, 5, 0, DYAD_RANK_NONE);
    fake_net_destroy(net);
}

/* The whole rank dies, known to all or found out: its readers are told. */
static void test_writer_dies(void **state)
{
    (void)state;
    for (int tell = 0; tell < 2; tell++) {
        struct fake_net *net = fake_net_create(8, 2, 4);
        uint32_t w = stranger(net, DYAD_RANK_NONE), r = stranger(net, w);
        struct answer a;

        writes(net, w, DHT_WRITING_BEGIN);
        asks(net, r, true, &a);
        fake_net_run(net, 1 * SEC);
        fake_net_kill(net, w, tell != 0);
        if (!tell) {
            fake_net_run(net, 6 * SEC);
            assert_int_equal(a.calls, 0); /* for all that is known it writes */
            for (uint32_t i = 0; i < net->nranks; i++)
                if (i != w)
                    dht_node_set_live(net->rank[i].node, w, false);
        }
        assert_true(fake_net_run_until(net, &a.calls, 10 * MSEC));
        assert_int_equal(a.status, EOWNERDEAD);
        assert_int_equal(a.by, w);
        publishes(net, r, NULL);
        is(net, stranger(net, r), 0, DYAD_RANK_NONE);
        fake_net_destroy(net);
    }
}

/* A home dies, then the next, then one comes back with an empty memory: none of them makes
 * a reader believe that nobody writes. */
static void test_homes_die(void **state)
{
    struct fake_net *net = fake_net_create(12, 2, 5);
    uint32_t homes[DHT_REPLICAS_MAX], w = stranger(net, DYAD_RANK_NONE),
                                      r = stranger(net, w);
    struct answer a;

    (void)state;
    writes(net, w, DHT_WRITING_BEGIN);
    asks(net, r, true, &a);
    fake_homes(net, KEY, homes);
    for (int i = 0; i < 2; i++) {
        fake_net_kill(net, homes[i], true);
        is(net, r, EBUSY, w);
    }
    fake_net_run(net, 20 * SEC);
    fake_net_revive(net, homes[0], true);
    fake_net_run(net, 100 * MSEC);
    fake_net_revive(net, homes[1], true);
    fake_net_run(net, 100 * MSEC);
    is(net, r, EBUSY, w);
    assert_int_equal(a.calls, 0);
    writes(net, w, DHT_WRITING_END);
    assert_true(fake_net_run_until(net, &a.calls, 10 * MSEC));
    assert_int_equal(a.status, 0);
    fake_net_destroy(net);
}

/* Silent homes: bounded by the request's time; nobody left to ask: said. */
static void test_silence(void **state)
{
    struct fake_net *net = fake_net_create(4, 2, 6);
    struct answer a;

    (void)state;
    net->refuse = false;
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t j = 0; j < 4; j++)
            net->cut[i][j] = i != j && (i == 1 || j == 1);
    uint64_t begin = net->now;
    asks(net, 1, true, &a); /* itself is the last that it can ask */
    assert_true(fake_net_run_until(net, &a.calls, 60 * SEC));
    assert_int_equal(a.status, 0);
    assert_true(net->now - begin <= 4 * SEC);
    writes(net, 1, DHT_WRITING_BEGIN);
    writes(net, 1, DHT_WRITING_END);
    fake_net_destroy(net);
}

/* An END is lost on a bad network: who waits has the writer's rank look, and that says it
 * again. */
static void test_lost_end(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct fake_net *net = fake_net_create(6, 2, seed);
        struct answer a, ended = {0};
        uint32_t homes[DHT_REPLICAS_MAX];

        fake_homes(net, KEY, homes);
        uint32_t w = stranger(net, DYAD_RANK_NONE), r = stranger(net, w);
        writes(net, w, DHT_WRITING_BEGIN);
        net->refuse = false;
        net->reorder = true;
        net->duplicates = 100;
        net->cut[w][homes[0]] = net->cut[w][homes[1]] = true;
        dht_node_writing(net->rank[w].node, fake_key(KEY), DHT_WRITING_END, net->now, told,
                         &ended);
        asks(net, r, true, &a);
        fake_net_run(net, 500 * MSEC);
        assert_int_equal(a.calls, 0);
        net->cut[w][homes[0]] = net->cut[w][homes[1]] = false;
        unsigned wanted = net->rank[w].nwanted[KEY];
        while (net->rank[w].nwanted[KEY] == wanted)
            fake_net_run(net, 100 * MSEC);
        dht_node_writing(net->rank[w].node, fake_key(KEY), DHT_WRITING_END, net->now, NULL,
                         NULL);
        assert_true(fake_net_run_until(net, &a.calls, 12 * SEC));
        assert_int_equal(a.status, 0);
        fake_net_destroy(net);
    }
}

/* --- each into a file of its own --- */

/* `status`: EALREADY if another node writes it, too. */
static void opens(struct fake_net *net, uint32_t rank, int status)
{
    struct result r;

    fake_lookup(net, rank, KEY, NET_LOOKUP_COPY | NET_LOOKUP_WRITES, NULL, &r);
    assert_true(fake_net_run_until(net, &r.calls, 60 * SEC));
    assert_int_equal(r.status, status);
}

struct closed {
    int calls, status;
};

static void closed(void *arg, int status, const struct dyad_version *version)
{
    (void)version;
    *(struct closed *)arg = (struct closed){1, status};
}

/* The rank publishes what it has, and no process of its node has it open any more, or one has
 * (`stays`). True: it is told that others write it. */
static bool closes_at(struct fake_net *net, uint32_t rank, bool stays, uint64_t looked)
{
    struct dyad_base base = {
        .kind = DYAD_BASE_NONE, .ends = !stays, .stays = stays, .looked = looked};
    struct dyad_entry entry = {.upath = fake_key(KEY),
                               .owner = rank,
                               .state = DYAD_ENTRY_PUBLISHED,
                               .size = 7,
                               .mode = 0100644};
    struct closed c = {0};

    net->rank[rank].others = false;
    assert_int_equal(
        dht_node_publish_ahead(net->rank[rank].node, &entry, &base, NULL, NULL, closed, &c),
        0);
    assert_true(fake_net_run_until(net, &c.calls, 60 * SEC));
    assert_int_equal(c.status, 0);
    return net->rank[rank].others;
}

static bool closes(struct fake_net *net, uint32_t rank, bool stays)
{
    return closes_at(net, rank, stays, net->now);
}

/* True if who looks it up is told that it is written. */
static bool is_written(struct fake_net *net, uint32_t rank)
{
    struct result r;

    fake_lookup(net, rank, KEY, NET_LOOKUP_COPY | NET_LOOKUP_KEEP, NULL, &r);
    assert_true(fake_net_run_until(net, &r.calls, 60 * SEC));
    assert_int_equal(r.status, 0);
    return r.entry.written;
}

static bool is_there(struct fake_net *net, uint32_t rank)
{
    struct result r;

    fake_lookup(net, rank, KEY, 0, NULL, &r);
    assert_true(fake_net_run_until(net, &r.calls, 60 * SEC));
    return r.status == 0;
}

static void test_joined(void **state)
{
    (void)state;
    for (uint32_t n = 3; n <= 9; n++) {
        struct fake_net *net = fake_net_create(n, 2, n);
        uint32_t a = 0, b = 1, r = n - 1;
        struct result waits;
        struct answer answer;

        opens(net, a, ENOENT);
        opens(net, b, EALREADY);
        fake_lookup(net, r, KEY, NET_LOOKUP_COPY | NET_LOOKUP_WAIT, NULL, &waits);
        fake_net_run(net, 1 * SEC);
        assert_int_equal(waits.calls, 0);
        assert_true(closes(net, a, false));
        assert_true(fake_net_run_until(net, &waits.calls, 60 * SEC));
        assert_true(waits.entry.written);
        asks(net, r, true, &answer);
        fake_net_run(net, 1 * SEC);
        assert_int_equal(answer.calls, 0);
        assert_true(net->rank[b].nwanted[KEY] >= 1);
        assert_true(is_written(net, r));
        assert_false(is_written(net, b)); /* by itself */
        assert_false(closes(net, b, false));
        assert_true(fake_net_run_until(net, &answer.calls, 10 * MSEC));
        assert_int_equal(answer.status, 0);
        assert_false(is_written(net, r));
        /* Another process of the node goes on; one ends that was joined. */
        assert_false(closes(net, a, true));
        assert_true(is_written(net, r));
        assert_false(closes(net, a, false));
        writes(net, a, DHT_WRITING_JOIN);
        assert_true(closes(net, b, false));
        writes(net, a, DHT_WRITING_END);
        assert_false(is_written(net, r));
        fake_net_destroy(net);
    }
}

struct root {
    int calls;
    struct dyad_base root;
    uint32_t owner;
    int status;
};

static void root_told(void *arg, int status, uint32_t owner, const uint32_t *ranks,
                      unsigned n, const struct dyad_base *root)
{
    (void)ranks;
    (void)n;
    *(struct root *)arg = (struct root){1, *root, owner, status};
}

static struct root root_of(struct fake_net *net, uint32_t rank)
{
    struct root root = {0};

    assert_int_equal(
        dht_node_who_writes(net->rank[rank].node, fake_key(KEY), root_told, &root), 0);
    assert_true(fake_net_run_until(net, &root.calls, 60 * SEC));
    return root;
}

static uint64_t root_size(struct fake_net *net, uint32_t rank)
{
    struct root root = root_of(net, rank);

    assert_int_equal(root.status, 0);
    return root.root.kind == DYAD_BASE_FROM ? root.root.size : 0;
}

static void begins_as(struct fake_net *net, uint32_t rank, uint64_t size, bool newest,
                      bool waited)
{
    const struct dyad_base base = {.kind = size ? DYAD_BASE_FROM : DYAD_BASE_NONE,
                                   .joint = waited,
                                   .size = size,
                                   .time = size,
                                   .stays = !newest};
    struct answer a = {0};

    assert_int_equal(dht_node_writing_from(net->rank[rank].node, fake_key(KEY), &base,
                                           net->now, told, &a),
                     0);
    assert_true(fake_net_run_until(net, &a.calls, 60 * SEC));
}

static void begins_from(struct fake_net *net, uint32_t rank, uint64_t size, bool newest)
{
    begins_as(net, rank, size, newest, true);
}

/* What the first has found of whom that is known, for as long as somebody writes the file. Who has to have
 * the newest version has the others asked whether they write it still. */
static void test_joined_root(void **state)
{
    struct fake_net *net = fake_net_create(6, 2, 1);

    (void)state;
    begins_from(net, 0, 0, false);
    assert_int_equal(root_size(net, 5), 0);
    begins_from(net, 1, 8, false);
    assert_int_equal(root_size(net, 5), 0);
    begins_from(net, 1, 7, true);
    assert_int_equal(root_size(net, 5), 7);
    begins_from(net, 2, 9, false);
    assert_int_equal(root_size(net, 5), 7);
    assert_int_equal(net->rank[1].nwanted[KEY], 0);
    begins_from(net, 3, 9, true);
    assert_true(net->rank[1].nwanted[KEY] >= 1);
    assert_true(net->rank[2].nwanted[KEY] >= 1);
    for (uint32_t rank = 0; rank < 4; rank++)
        writes(net, rank, DHT_WRITING_END);
    begins_from(net, 4, 11, false);
    assert_int_equal(root_size(net, 5), 11);
    fake_net_destroy(net);
}

static bool conflicts; /* what is published so */

static int closes_recorded(struct fake_net *net, uint32_t rank, enum dyad_base_kind kind,
                           bool recorded, uint32_t mtime)
{
    struct dyad_base base = {.kind = kind, .joint = true, .ends = true, .looked = net->now};
    struct dyad_entry entry = {.upath = fake_key(KEY),
                               .owner = rank,
                               .state = DYAD_ENTRY_PUBLISHED,
                               .storage = {(uint8_t)(1 + rank)},
                               .size = 7,
                               .mtime_nsec = mtime,
                               .recorded = recorded,
                               .conflict = conflicts,
                               .mode = 0100644};
    struct closed c = {0};

    assert_int_equal(
        dht_node_publish_ahead(net->rank[rank].node, &entry, &base, NULL, NULL, closed, &c),
        0);
    assert_true(fake_net_run_until(net, &c.calls, 60 * SEC));
    return c.status;
}

/* What a rank publishes that has written the file with others. Returns the status. */
static int closes_joint_from(struct fake_net *net, uint32_t rank, enum dyad_base_kind kind)
{
    return closes_recorded(net, rank, kind, true, 7);
}

static int closes_joint(struct fake_net *net, uint32_t rank)
{
    return closes_joint_from(net, rank, DYAD_BASE_FROM);
}

/* Who reads what others write is told of the owner of what was put together; of one whose file is not on record, too (it
 * says so), but not if that was published before he began; and that there is a conflict. */
static void test_joined_owner(void **state)
{
    struct fake_net *net = fake_net_create(6, 2, 1);
    struct result gone;

    (void)state;
    assert_int_equal(closes_recorded(net, 0, DYAD_BASE_NONE, false, 7), 0);
    begins_from(net, 1, 7, true);
    begins_from(net, 2, 7, true);
    assert_int_equal(root_of(net, 1).owner, DYAD_RANK_NONE);
    assert_int_equal(closes_recorded(net, 0, DYAD_BASE_NONE, false, 7), 0); /* chmod */
    assert_int_equal(root_of(net, 1).owner, DYAD_RANK_NONE);
    assert_int_equal(closes_recorded(net, 2, DYAD_BASE_NONE, false, 8), 0);
    assert_int_equal(root_of(net, 1).owner, 2);
    assert_int_equal(closes_recorded(net, 3, DYAD_BASE_NONE, true, 9), 0);
    assert_int_equal(root_of(net, 1).owner, 3);
    writes(net, 1, DHT_WRITING_END);
    assert_int_equal(closes_recorded(net, 2, DYAD_BASE_NONE, false, 10), 0);
    writes(net, 1, DHT_WRITING_JOIN); /* made anew, by whom that was not published before */
    assert_int_equal(root_of(net, 1).owner, DYAD_RANK_NONE);
    conflicts = true;
    assert_int_equal(closes_recorded(net, 2, DYAD_BASE_NONE, false, 11), 0);
    assert_int_equal(root_of(net, 1).status, EIO);
    writes(net, 1, DHT_WRITING_END);
    writes(net, 1, DHT_WRITING_JOIN);
    assert_int_equal(root_of(net, 1).status, 0);
    conflicts = false;
    /* What he has open has lost its name: what has that since is another file. */
    fake_publish(net, 4, KEY, 0, DYAD_ENTRY_WITHDRAWN, &gone);
    assert_true(fake_net_run_until(net, &gone.calls, 60 * SEC));
    assert_int_equal(closes_recorded(net, 3, DYAD_BASE_NONE, false, 12), 0);
    assert_int_equal(root_of(net, 1).owner, DYAD_RANK_NONE);
    fake_net_destroy(net);
}

/* One of those that write it removes it: nobody waits for the others any more, whose closes publish nothing,
 * unless one of their node has opened the name again since, or a home has not heard of the removal. */
static void test_joined_removed(void **state)
{
    (void)state;
    for (uint32_t n = 3; n <= 9; n++) {
        struct fake_net *net = fake_net_create(n, 2, n);
        uint32_t homes[DHT_REPLICAS_MAX], r = n - 1;
        struct answer answer;
        struct result gone;

        opens(net, 0, ENOENT);
        opens(net, 1, EALREADY);
        asks(net, r, true, &answer);
        fake_net_run(net, 1 * SEC);
        assert_int_equal(answer.calls, 0);
        fake_publish(net, 0, KEY, 0, DYAD_ENTRY_WITHDRAWN, &gone);
        assert_true(fake_net_run_until(net, &gone.calls, 60 * SEC));
        writes(net, 0, DHT_WRITING_END);
        assert_true(fake_net_run_until(net, &answer.calls, 60 * SEC));
        assert_int_equal(answer.status, 0);
        assert_int_equal(closes_joint(net, 1), EIDRM);
        assert_false(is_there(net, r));

        writes(net, 1, DHT_WRITING_JOIN);
        assert_int_equal(closes_joint(net, 1), 0);
        assert_true(is_there(net, r));

        /* Of two homes one has heard of its open after the removal. */
        opens(net, 0, 0);
        writes(net, 1, DHT_WRITING_JOIN);
        fake_publish(net, 0, KEY, 0, DYAD_ENTRY_WITHDRAWN, &gone);
        assert_true(fake_net_run_until(net, &gone.calls, 60 * SEC));
        assert_int_equal(fake_homes(net, KEY, homes), 2);
        dht_node_receive(net->rank[homes[1]].node,
                         &(struct net_msg){.type = NET_MSG_WRITING,
                                           .flags = NET_WRITING_BEGIN | NET_WRITING_JOINED,
                                           .source = 1,
                                           .entry.upath = fake_key(KEY)});
        assert_int_equal(closes_joint(net, 1), 0);
        assert_true(is_there(net, r));
        fake_net_destroy(net);
    }
}

/* Two ranks of a node write it when another node removes it. One publishes, and the name is theirs again: so
 * what the other one publishes counts. */
static void test_joined_named_again(void **state)
{
    (void)state;
    for (uint32_t n = 6; n <= 12; n++) {
        struct fake_net *net = fake_net_create(n, 2, n);
        struct result gone;

        net->pairs = true;
        opens(net, 1, ENOENT);
        fake_publish(net, 4, KEY, 0, DYAD_ENTRY_WITHDRAWN, &gone);
        assert_true(fake_net_run_until(net, &gone.calls, 60 * SEC));
        closes(net, 0, false);
        assert_int_equal(closes_joint_from(net, 1, DYAD_BASE_NONE), 0);
        assert_true(is_there(net, 2));
        fake_net_destroy(net);
    }
}

/* Two ranks of a node write it. One of them closes it, and has found that nobody else of the node has it
 * open; the other one has opened it since, and says so first. */
static void test_joined_since(void **state)
{
    (void)state;
    for (int how = 0; how < 2; how++) {
        struct fake_net *net = fake_net_create(6, 2, (uint64_t)how);
        uint64_t looked;
        struct answer ended = {0};

        net->pairs = true;
        writes(net, 0, DHT_WRITING_JOIN);
        fake_net_run(net, 1 * MSEC);
        looked = net->now;
        fake_net_run(net, 1 * MSEC);
        writes(net, 1, DHT_WRITING_JOIN);
        if (how == 0)
            closes_at(net, 0, false, looked);
        else
            assert_int_equal(dht_node_writing(net->rank[0].node, fake_key(KEY),
                                              DHT_WRITING_END, looked, told, &ended),
                             0);
        fake_net_run(net, 1 * SEC);
        if (how == 1)
            closes_at(net, 4, true, looked);
        assert_true(is_written(net, 2));
        writes(net, 0, DHT_WRITING_END); /* found later: neither has it open */
        assert_int_equal(is_written(net, 2), how == 1);
        fake_net_destroy(net);
    }
}

/* Two publish at once, and each is refused at a home: one of them goes on, over the version of the
 * other one, which has yet to give it what it has written. */
static void test_joined_over(void **state)
{
    (void)state;
    for (uint32_t n = 3; n <= 9; n++) {
        struct fake_net *net = fake_net_create(n, 2, n);
        struct dyad_entry entry = {.upath = fake_key(KEY),
                                   .state = DYAD_ENTRY_PUBLISHED,
                                   .size = 7,
                                   .recorded = true,
                                   .mode = 0100644};
        struct dyad_base base = {.kind = DYAD_BASE_NONE, .ends = true, .looked = net->now};
        uint32_t r = n - 1;
        struct closed c;
        struct answer answer;
        struct result found;

        opens(net, 0, ENOENT);
        opens(net, 1, EALREADY);
        for (uint32_t a = 0; a < 2; a++) {
            c = (struct closed){0};
            entry.owner = a;
            entry.storage[0] = (uint8_t)(1 + a);
            assert_int_equal(dht_node_publish_ahead(net->rank[a].node, &entry, &base, NULL,
                                                    NULL, closed, &c),
                             0);
            assert_true(fake_net_run_until(net, &c.calls, 60 * SEC));
            assert_int_equal(c.status, 0);
            assert_true(is_written(net, r));
            fake_lookup(net, r, KEY, NET_LOOKUP_COPY, NULL, &found);
            assert_true(fake_net_run_until(net, &found.calls, 60 * SEC));
            base = dht_base_version(&found.entry.version);
            base.ends = true;
            base.looked = net->now;
        }
        asks(net, r, true, &answer);
        fake_net_run(net, 1 * SEC);
        assert_int_equal(answer.calls, 0);
        writes(net, 0, DHT_WRITING_END);
        assert_true(fake_net_run_until(net, &answer.calls, 10 * MSEC));
        assert_int_equal(answer.status, 0);
        assert_false(is_written(net, r));
        fake_net_destroy(net);
    }
}

/* The same, where the homes hear of the version of the one that goes on from another rank. */
static void test_joined_passed_on(void **state)
{
    (void)state;
    for (uint32_t n = 3; n <= 9; n++) {
        struct fake_net *net = fake_net_create(n, 2, n);
        struct net_msg msg = {.type = NET_MSG_PUBLISH,
                              .source = n - 1,
                              .entry = {.upath = fake_key(KEY),
                                        .owner = 0,
                                        .state = DYAD_ENTRY_PUBLISHED,
                                        .size = 7,
                                        .storage = {1},
                                        .recorded = true,
                                        .mode = 0100644}};
        struct dyad_base base = {.kind = DYAD_BASE_NONE, .ends = true, .looked = net->now};
        uint32_t homes[DHT_REPLICAS_MAX];
        unsigned nhomes = fake_homes(net, KEY, homes);
        struct closed c = {0};
        struct result found;

        opens(net, 0, ENOENT);
        opens(net, 1, EALREADY);
        assert_int_equal(dht_node_publish_ahead(net->rank[0].node, &msg.entry, &base, NULL,
                                                NULL, closed, &c),
                         0);
        assert_true(fake_net_run_until(net, &c.calls, 60 * SEC));
        fake_lookup(net, n - 1, KEY, NET_LOOKUP_COPY, NULL, &found);
        assert_true(fake_net_run_until(net, &found.calls, 60 * SEC));
        msg.entry.version = found.entry.version;
        msg.entry.version.rank = msg.entry.owner = 1;
        msg.entry.version.counter++;
        msg.entry.storage[0] = 2;
        for (unsigned i = 0; i < nhomes; i++)
            dht_node_receive(net->rank[homes[i]].node, &msg);
        fake_net_run(net, 1 * SEC);
        writes(net, 1, DHT_WRITING_END);
        assert_true(is_written(net, n - 1));
        writes(net, 0, DHT_WRITING_END);
        assert_false(is_written(net, n - 1));
        fake_net_destroy(net);
    }
}

/* What a dead rank wrote nobody has, but if it has published that. */
static void test_joined_dies(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) {
        struct fake_net *net = fake_net_create(6, 2, (uint64_t)how);
        uint32_t a = stranger(net, DYAD_RANK_NONE), b = stranger(net, a), r = third(a, b);

        opens(net, a, ENOENT);
        opens(net, b, EALREADY);
        if (how == 1)
            closes(net, b, true);
        closes(net, a, false);
        assert_true(is_written(net, r));
        for (uint32_t i = 0; how == 2 && i < net->nranks; i++)
            dht_node_rank_left(net->rank[i].node, b);
        fake_net_kill(net, b, true);
        fake_net_run(net, 5 * SEC);
        assert_int_equal(is_written(net, r), how == 0);
        is(net, r, how == 0 ? EOWNERDEAD : 0, how == 0 ? b : DYAD_RANK_NONE);
        assert_false(closes(net, a, false)); /* anew */
        assert_false(is_written(net, r));
        fake_net_destroy(net);
    }
}

/* Nobody waits for who changes a published file, as long as no other node does; nor if it is killed. Then
 * readers wait for both. */
static void test_quiet(void **state)
{
    (void)state;
    for (int how = 0; how < 4; how++) {
        struct fake_net *net = fake_net_create(6, 2, (uint64_t)how);
        uint32_t a = stranger(net, DYAD_RANK_NONE), b = stranger(net, a), r = 0;

        while (r == a || r == b)
            r++;
        if (how > 0)
            assert_int_equal(closes_joint(net, a), 0);
        begins_as(net, b, 7, false, false);
        is(net, r, how ? 0 : EBUSY, how ? DYAD_RANK_NONE : b);
        if (how > 0)
            assert_false(is_written(net, r));
        if (how == 1) {
            fake_net_kill(net, b, true);
            fake_net_run(net, 5 * SEC);
            is(net, r, 0, DYAD_RANK_NONE);
        } else if (how == 2) {
            begins_as(net, a, 7, false, false);
            assert_true(is_written(net, r));
            writes(net, a, DHT_WRITING_END);
            is(net, r, EBUSY, b);
            writes(net, b, DHT_WRITING_END);
            is(net, r, 0, DYAD_RANK_NONE);
        } else if (how == 3) { /* MPI_File_open, by another process of that rank */
            begins_as(net, b, 7, false, true);
            is(net, r, EBUSY, b);
        }
        fake_net_destroy(net);
    }
}

/* Who appends to a published file is killed: that is whole without what it has written. If there is none yet, it is
 * missing. */
static void test_appender_dies(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) {
        struct fake_net *net = fake_net_create(6, 2, (uint64_t)how);
        uint32_t a = stranger(net, DYAD_RANK_NONE), b = stranger(net, a), r = third(a, b);

        if (how < 2)
            assert_int_equal(closes_joint(net, a), 0);
        begins_from(net, b, 7, true);
        is(net, r, EBUSY, b);
        if (how == 0)
            fake_net_kill(net, b, true);
        else
            writes(net, b, DHT_WRITING_ABANDONED);
        fake_net_run(net, 5 * SEC);
        is(net, r, how == 2 ? EOWNERDEAD : 0, how == 2 ? b : DYAD_RANK_NONE);
        fake_net_destroy(net);
    }
}

static bool is_written_at(struct fake_net *net, uint32_t home, uint32_t rank,
                          bool *abandoned)
{
    struct written *written = written_find(net->rank[home].node, fake_key(KEY));
    const struct writer *writer = written ? writer_find(written, rank) : NULL;

    *abandoned = writer && writer->abandoned;
    return writer != NULL;
}

static void says(struct fake_net *net, uint32_t rank, uint8_t type, uint8_t flags,
                 uint64_t id)
{
    dht_node_receive(net->rank[0].node, &(struct net_msg){.type = type,
                                                          .flags = flags,
                                                          .source = rank,
                                                          .source_incarnation = 1,
                                                          .id = id,
                                                          .entry.upath = fake_key(KEY)});
}

/* What a rank has said of a file before it opened that again says nothing of the new open, if it comes late, or is
 * sent once more by somebody on the network. */
static void test_said_again(void **state)
{
    static const struct {
        uint8_t type, begins;
    } kinds[] = {{NET_MSG_WRITING, NET_WRITING_BEGIN},
                 {NET_MSG_WRITING, NET_WRITING_BEGIN | NET_WRITING_JOINED},
                 {NET_MSG_LOOKUP, NET_LOOKUP_WRITES}};
    static const uint8_t ends[] = {NET_WRITING_END, NET_WRITING_END | NET_WRITING_OWN,
                                   NET_WRITING_ABANDONED};
    bool abandoned;

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct fake_net *net = fake_net_create(4, 2, 6);
        says(net, 1, kinds[i].type, kinds[i].begins, 10);
        says(net, 1, NET_MSG_WRITING, NET_WRITING_END | NET_WRITING_OWN, 11);
        assert_false(is_written_at(net, 0, 1, &abandoned));
        says(net, 1, kinds[i].type, kinds[i].begins, 12);
        for (unsigned k = 0; k < 3; k++) {
            says(net, 1, NET_MSG_WRITING, ends[k], 11);
            assert_true(is_written_at(net, 0, 1, &abandoned));
            assert_false(abandoned);
        }
        says(net, 1, NET_MSG_WRITING, NET_WRITING_ABANDONED, 13);
        assert_true(is_written_at(net, 0, 1, &abandoned));
        assert_true(abandoned);
        says(net, 1, NET_MSG_WRITING, NET_WRITING_BEGIN, 14);
        says(net, 1, NET_MSG_WRITING, NET_WRITING_END | NET_WRITING_OWN, 15);
        assert_false(is_written_at(net, 0, 1, &abandoned));
        fake_net_destroy(net);
    }
}

#define FILES 1024

static void tells(struct dht_node *node, uint32_t rank, uint8_t what, unsigned i)
{
    char name[32];
    struct net_msg msg = {.type = NET_MSG_WRITING,
                          .flags = what,
                          .source = rank,
                          .source_incarnation = 1,
                          .id = 1000 + i,
                          .entry.upath = name};

    snprintf(name, sizeof(name), "written%u", i % FILES);
    dht_node_receive(node, &msg);
}

static unsigned askers_of(const struct fake_net *net, uint32_t rank)
{
    unsigned n = 0;

    for (const struct written *w = net->rank[rank].node->written; w; w = w->hh.next)
        n += w->naskers;
    return n;
}

/* A rank that asks without end is not kept; others are. When the writers end there is room again. */
static void test_askers_of_one_rank(void **state)
{
    struct fake_net *net = fake_net_create(4, 2, 5);
    struct dht_node *home = net->rank[0].node;

    (void)state;
    for (uint32_t rank = 1; rank < 4; rank++)
        net->cut[0][rank] = true; /* no answer is looked at */
    for (unsigned i = 0; i < FILES; i++)
        tells(home, 1, NET_WRITING_BEGIN, i);
    for (unsigned i = 0; i < ASKERS_MAX + 100; i++)
        tells(home, 2, NET_WRITING_ASK, i);
    assert_int_equal(askers_of(net, 0), ASKERS_MAX);
    for (unsigned i = 0; i < 1000; i++)
        tells(home, 3, NET_WRITING_ASK, i);
    assert_int_equal(askers_of(net, 0), ASKERS_MAX + 1000);
    tells(home, 2, NET_WRITING_FORGET, 7);
    tells(home, 2, NET_WRITING_ASK, ASKERS_MAX + 7);
    assert_int_equal(askers_of(net, 0), ASKERS_MAX + 1000);
    for (unsigned i = 0; i < FILES; i++) {
        tells(home, 1, NET_WRITING_END, i);
        tells(home, 1, NET_WRITING_BEGIN, i);
    }
    assert_int_equal(askers_of(net, 0), 0);
    for (unsigned i = 0; i < ASKERS_MAX + 1; i++)
        tells(home, 2, NET_WRITING_ASK, i);
    assert_int_equal(askers_of(net, 0), ASKERS_MAX);
    fake_net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_begin_end),
        cmocka_unit_test(test_two_writers),
        cmocka_unit_test(test_abandoned),
        cmocka_unit_test(test_abandoned_late),
        cmocka_unit_test(test_writer_dies),
        cmocka_unit_test(test_homes_die),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_lost_end),
        cmocka_unit_test(test_joined),
        cmocka_unit_test(test_joined_over),
        cmocka_unit_test(test_joined_passed_on),
        cmocka_unit_test(test_joined_dies),
        cmocka_unit_test(test_joined_root),
        cmocka_unit_test(test_joined_owner),
        cmocka_unit_test(test_joined_removed),
        cmocka_unit_test(test_joined_named_again),
        cmocka_unit_test(test_joined_since),
        cmocka_unit_test(test_appender_dies),
        cmocka_unit_test(test_quiet),
        cmocka_unit_test(test_said_again),
        cmocka_unit_test(test_askers_of_one_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
