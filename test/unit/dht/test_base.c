/*
 * test/unit/dht/test_base.c - lost updates: which versions come between a base and a
 * publish, what homes do with such a publish, and what its publisher is asked
 *
 * Eight ranks on four nodes; ranks 0 and 4 are on node 0 and have one storage.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "dht/base.h"
#include "fake_net.h"

#define RANKS 8
#define PUB   DYAD_ENTRY_PUBLISHED
#define SEC   1000000000ull

static const uint32_t nodes[RANKS] = {0, 1, 2, 3, 0, 1, 2, 3};

/* --- two entries --- */

static struct dyad_entry file_of(uint8_t storage, uint64_t size, int64_t sec, uint32_t nsec)
{
    struct dyad_entry entry = {.upath = "f",
                               .version = {.counter = 1000, .rank = storage},
                               .state = PUB,
                               .mode = 0100644,
                               .size = size,
                               .mtime_sec = sec,
                               .mtime_nsec = nsec};
    entry.storage[0] = storage;
    return entry;
}

static bool overtaken(enum dyad_base_kind kind, uint64_t size, uint64_t time,
                      const struct dyad_entry *there)
{
    static const uint8_t ours[DYAD_STORAGE_ID_LEN] = {7};
    struct dyad_base base = {kind, size, time, false, false, false, 0, false};

    return dht_base_is_overtaken(&base, there, ours);
}

static void test_from(void **state)
{
    const enum dyad_base_kind from = DYAD_BASE_FROM;
    struct dyad_entry there = file_of(1, 10, 5, 25);

    (void)state;
    assert_false(overtaken(from, 10, 5000000025, &there)); /* it began from this one */
    assert_false(overtaken(from, 10, 5000000000, &there)); /* no finer times there */
    assert_true(overtaken(from, 10, 5000000024, &there));
    assert_true(overtaken(from, 11, 5000000025, &there));
    assert_true(overtaken(from, 0, 0, &there)); /* from nothing */
    assert_false(overtaken(DYAD_BASE_NONE, 0, 0, &there));
    assert_true(overtaken(DYAD_BASE_OVERTAKEN, 10, 5000000025, &there));

    there.storage[0] = 7; /* the file of this node */
    assert_false(overtaken(from, 0, 0, &there));
    assert_false(overtaken(DYAD_BASE_OVERTAKEN, 0, 0, &there));
    there.conflict = true; /* ... to which another node has written */
    assert_true(overtaken(from, 10, 5000000025, &there));
    assert_false(overtaken(DYAD_BASE_SINCE, 0, 1, &there));

    there = file_of(1, 0, 5, 25); /* empty: nothing is lost, but that it was emptied */
    assert_false(overtaken(from, 0, 0, &there));
    assert_false(overtaken(DYAD_BASE_OVERTAKEN, 0, 0, &there));
    assert_true(overtaken(from, 1, 5000000025, &there));
    there.emptied = true; /* what the writer found, or has written, was cut off there */
    assert_true(overtaken(from, 0, 0, &there));
    assert_true(overtaken(DYAD_BASE_OVERTAKEN, 0, 5000000025, &there));
    assert_false(overtaken(from, 0, 5000000025, &there));
    there.storage[0] = 7;
    assert_false(overtaken(from, 0, 0, &there));

    there = file_of(1, 10, 5, 25);
    struct dyad_base version = dht_base_version(&there.version);
    assert_false(overtaken(version.kind, version.size, version.time, &there));
    there.version.incarnation++;
    assert_true(overtaken(version.kind, version.size, version.time, &there));
    there.version.incarnation--;
    there.version.rank++; /* with the same size and time */
    assert_true(overtaken(version.kind, version.size, version.time, &there));

    there = file_of(1, 10, 5, 25);
    there.state = DYAD_ENTRY_WITHDRAWN;
    assert_false(overtaken(from, 0, 0, &there));
    version = dht_base_version(&there.version);
    assert_true(overtaken(version.kind, version.size, version.time,
                          &there)); /* nothing gives way */
    there.state = PUB;
    there.mode = 040755;
    assert_false(overtaken(from, 0, 0, &there));
}

/* What gives way to a version ends with the file's removal; one that was before that version is of an earlier file. */
static void test_removed(void **state)
{
    struct dyad_entry there = file_of(9, 5, 100, 0);
    const struct dyad_version began = {.counter = 50, .rank = 3};
    const struct dyad_base base = dht_base_version(&began);

    (void)state;
    assert_false(dht_base_is_removed(&base, &there));
    there.state = DYAD_ENTRY_WITHDRAWN;
    there.version.counter = 51;
    assert_true(dht_base_is_removed(&base, &there));
    assert_true(dht_base_is_overtaken(&base, &there, there.storage));
    there.version.counter = 49;
    assert_false(dht_base_is_removed(&base, &there));
    assert_false(dht_base_is_overtaken(&base, &there, there.storage));
}

/* The counter is in microseconds. */
static void test_since(void **state)
{
    struct dyad_entry there = file_of(1, 10, 5, 25);

    (void)state;
    assert_false(overtaken(DYAD_BASE_SINCE, 0, 1000000, &there));
    assert_true(overtaken(DYAD_BASE_SINCE, 0, 999999, &there));
    there.size = 0;
    assert_false(overtaken(DYAD_BASE_SINCE, 0, 1, &there));
}

/* --- ranks --- */

/* What a publisher is asked, and what it says. */
struct publisher {
    unsigned refused, acknowledged; /* for another's version; by all homes */
    uint32_t by;                    /* the owner of that version */
    bool told;                      /* at the end it knows of another version */
    uint64_t again;  /* bytes of the file when it looks again; 0: as before */
    unsigned looked; /* again */
    int done, status;
};

static enum dht_ahead ahead(void *arg, const struct dyad_version *version,
                            const struct dyad_entry *refused, struct dyad_entry *entry,
                            struct dyad_base *base)
{
    struct publisher *p = arg;

    if (version == NULL) {
        p->acknowledged++;
        if (!p->told)
            return DHT_AHEAD_GO;
    } else if (refused == NULL) {
        return DHT_AHEAD_GO;
    } else {
        p->looked++;
        if (p->again > 0) {
            entry->size = p->again;
            entry->mtime_sec = (int64_t)p->again;
            return DHT_AHEAD_CHANGED;
        }
        if (!dht_base_is_overtaken(base, refused, entry->storage))
            return DHT_AHEAD_GO; /* a higher version is there, as in turns */
        p->refused++;
        p->by = refused->owner;
    }
    entry->conflict = true;
    base->kind = DYAD_BASE_NONE;
    return DHT_AHEAD_CHANGED;
}

static void done(void *arg, int status, const struct dyad_version *version)
{
    struct publisher *p = arg;

    (void)version;
    p->status = status;
    p->done++;
}

static struct dyad_entry entry_of(uint32_t rank, uint64_t size)
{
    struct dyad_entry entry = file_of((uint8_t)(1 + nodes[rank]), size, (int64_t)size, 0);

    entry.upath = fake_key(0);
    entry.version = (struct dyad_version){0};
    entry.owner = rank;
    return entry;
}

/* The file of `size` bytes, whose mtime is as many seconds, made from one of `from`. */
static void publish(struct fake_net *net, uint32_t rank, uint64_t size, uint64_t from,
                    struct publisher *p)
{
    struct dyad_entry entry = entry_of(rank, size);
    struct dyad_base base = {DYAD_BASE_FROM, from,  from * SEC, false,
                             false,          false, 0,          false};

    assert_int_equal(
        dht_node_publish_ahead(net->rank[rank].node, &entry, &base, NULL, ahead, done, p),
        0);
}

static void publish_ok(struct fake_net *net, uint32_t rank, uint64_t size, uint64_t from,
                       struct publisher *p)
{
    p->done = 0;
    publish(net, rank, size, from, p);
    assert_true(fake_net_run_until(net, &p->done, 10 * SEC));
    assert_int_equal(p->status, 0);
}

struct found {
    struct dyad_entry entry;
    int calls;
};

static void looked_up(void *arg, int status, const struct dyad_entry *entry)
{
    struct found *f = arg;

    assert_int_equal(status, 0);
    f->entry = *entry;
    f->calls++;
}

/* All homes and all ranks have the same. */
static void all_have(struct fake_net *net, uint32_t owner, uint64_t size, bool conflict)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        struct found f = {.calls = 0};
        assert_non_null(
            dht_node_lookup(net->rank[r].node, fake_key(0), 0, NULL, looked_up, &f));
        assert_true(fake_net_run_until(net, &f.calls, 10 * SEC));
        assert_int_equal(f.entry.owner, owner);
        assert_int_equal(f.entry.size, size);
        assert_int_equal(f.entry.conflict, conflict);
    }
}

static void test_turns(void **state)
{
    struct fake_net *net = fake_net_create_on(RANKS, 2, 1, nodes);
    struct publisher p = {0};

    (void)state;
    publish_ok(net, 1, 10, 0, &p);
    publish_ok(net, 2, 20, 10, &p);
    publish_ok(net, 0, 30, 20, &p);
    publish_ok(net, 4, 40, 20, &p); /* of the same node */
    assert_int_equal(p.refused, 0);
    assert_int_equal(p.acknowledged, 4);
    all_have(net, 4, 40, false);
    fake_net_destroy(net);
}

/* Two ranks of a node look at the file at once, and the one that has looked first gets the later version: it
 * looks again. It does so once where the file is just older, as one that has got the name by a rename. */
static void test_behind(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct fake_net *net = fake_net_create_on(RANKS, 1 + seed % 3, seed, nodes);
        struct publisher p = {0}, q = {.again = 40}, r = {0};

        publish_ok(net, 1, 10, 0, &p);
        publish_ok(net, 0, 40, 10, &p);
        publish_ok(net, 4, 30, 10, &q);
        assert_int_equal(q.refused, 0);
        assert_true(q.looked > 0);
        all_have(net, 4, 40, false);
        publish_ok(net, 0, 35, 40, &r);
        assert_true(r.looked > 0);
        all_have(net, 0, 35, false);
        q.looked = 0;
        publish_ok(net, 0, 20, 35, &q); /* its own come one after the other */
        assert_int_equal(q.looked, 0);
        fake_net_destroy(net);
    }
}

/* The later of two is refused, and is published as a conflict; a third one joins that, and
 * one that makes the file anew ends it. */
static void test_conflict(void **state)
{
    struct fake_net *net = fake_net_create_on(RANKS, 2, 2, nodes);
    struct publisher p = {0}, q = {0}, r = {0}, s = {0};
    struct dyad_entry anew = entry_of(3, 50);

    (void)state;
    publish_ok(net, 1, 10, 0, &p);
    publish_ok(net, 2, 20, 10, &p);
    publish_ok(net, 3, 30, 10, &q);
    assert_int_equal(p.refused, 0);
    assert_int_equal(q.refused, 1);
    assert_int_equal(q.by, 2);
    assert_int_equal(q.acknowledged, 0);
    all_have(net, 3, 30, true);
    publish_ok(net, 7, 40, 30, &r); /* of the node of that one */
    assert_int_equal(r.refused, 1);
    all_have(net, 7, 40, true);
    assert_int_equal(dht_node_publish(net->rank[3].node, &anew, done, &s), 0);
    assert_true(fake_net_run_until(net, &s.done, 10 * SEC));
    all_have(net, 3, 50, false);
    fake_net_destroy(net);
}

/* At once: whichever comes first at which home, one at least is told, and what they agree
 * on is a conflict. */
static void test_at_once(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct fake_net *net = fake_net_create_on(RANKS, 1 + seed % 3, seed, nodes);
        struct publisher p = {0}, q = {0};
        struct found f = {.calls = 0};

        publish_ok(net, 0, 10, 0, &p);
        p.done = 0;
        publish(net, 1, 20, 10, &p);
        fake_net_run(net, fake_net_random(net, 400000));
        publish(net, 2, 30, 10, &q);
        assert_true(fake_net_run_until(net, &p.done, 10 * SEC));
        assert_true(q.done > 0 || fake_net_run_until(net, &q.done, 10 * SEC));
        assert_true(p.refused + q.refused > 0);
        fake_net_run(net, SEC);
        assert_non_null(
            dht_node_lookup(net->rank[3].node, fake_key(0), 0, NULL, looked_up, &f));
        assert_true(fake_net_run_until(net, &f.calls, 10 * SEC));
        assert_true(f.entry.conflict);
        all_have(net, f.entry.owner, f.entry.size, true);
        fake_net_destroy(net);
    }
}

/* What the homes could not know its publisher does, when they have acknowledged it. */
static void test_told_at_the_end(void **state)
{
    struct fake_net *net = fake_net_create_on(RANKS, 2, 3, nodes);
    struct publisher p = {0}, q = {.told = true};

    (void)state;
    publish_ok(net, 1, 10, 0, &p);
    publish_ok(net, 2, 20, 10, &q);
    assert_int_equal(q.refused, 0);
    assert_int_equal(q.acknowledged, 1);
    all_have(net, 2, 20, true);
    fake_net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_from),     cmocka_unit_test(test_removed),
        cmocka_unit_test(test_since),    cmocka_unit_test(test_turns),
        cmocka_unit_test(test_conflict), cmocka_unit_test(test_behind),
        cmocka_unit_test(test_at_once),  cmocka_unit_test(test_told_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
