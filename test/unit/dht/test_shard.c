/*
 * test/unit/dht/test_shard.c
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

#include "dht/shard.h"
#include "net/msg.h"

static struct dht_key make_key(char upath[64], unsigned i, unsigned depth)
{
    struct dht_key key;

    snprintf(upath, 64, "simulation/output/step-%08u.dat", i);
    dht_key_init(&key, upath, depth);
    return key;
}

static void test_bad_arguments(void **state)
{
    (void)state;
    errno = 0;
    assert_null(dht_shard_create(0, 16));
    assert_int_equal(errno, EINVAL);
    assert_null(dht_shard_create(DHT_DEPTH_MAX + 1, 16));
    assert_null(dht_shard_create(2, 0));
}

/* Insert, find, remove in a random order, compared with a table of what should be there. */
static void churn(unsigned depth, unsigned bins, unsigned nkeys)
{
    struct dht_shard *shard = dht_shard_create(depth, bins);
    struct dht_record **there = calloc(nkeys, sizeof(*there));
    struct dht_shard_stats stats;
    char upath[64];
    unsigned count = 0;

    assert_non_null(shard);
    srand(depth * 1000 + bins);
    for (unsigned step = 0; step < 6 * nkeys; step++) {
        unsigned i = rand() % nkeys;
        struct dht_key key = make_key(upath, i, depth);
        struct dht_record *record = dht_shard_find(shard, &key, upath);
        assert_ptr_equal(record, there[i]);
        if (record != NULL && step % 3 != 0) {
            dht_shard_remove(shard, record);
            there[i] = NULL;
            count--;
        } else {
            record = dht_shard_insert(shard, &key, upath);
            assert_non_null(record);
            assert_string_equal(record->entry.upath, upath);
            if (there[i] == NULL) {
                assert_int_equal(record->entry.state, DYAD_ENTRY_NONE);
                record->entry.state = DYAD_ENTRY_PUBLISHED;
                count++;
            } else {
                assert_ptr_equal(record, there[i]);
            }
            there[i] = record;
        }
    }
    dht_shard_get_stats(shard, &stats);
    assert_int_equal(stats.entries, count);
    assert_true(stats.occupied <= count);
    assert_true(stats.deepest >= 1);
    assert_int_equal(stats.false_matches, 0);
    for (unsigned i = 0; i < nkeys; i++)
        if (there[i] != NULL)
            dht_shard_remove(shard, there[i]);
    dht_shard_get_stats(shard, &stats);
    assert_int_equal(stats.entries, 0);
    assert_int_equal(stats.nodes, 0);
    assert_int_equal(stats.bytes, 0);
    assert_int_equal(stats.occupied, 0);
    dht_shard_destroy(shard);
    free(there);
}

static void test_churn(void **state)
{
    const unsigned bins[] = {1, 2, 3, 16, 256, 1024, 65536};

    (void)state;
    for (size_t b = 0; b < sizeof(bins) / sizeof(bins[0]); b++)
        for (unsigned depth = 1; depth <= 4; depth++)
            churn(depth, bins[b], 500);
    churn(DHT_DEPTH_MAX, 16, 500);
    churn(2, 256, 20000);
    churn(1, 1, 200);
}

static int count_record(struct dht_record *record, void *arg)
{
    unsigned *count = arg;
    assert_non_null(record->entry.upath);
    return ++*count == 70 ? 70 : 0;
}

static void test_foreach(void **state)
{
    struct dht_shard *shard = dht_shard_create(2, 16);
    char upath[64];
    unsigned count = 0;

    (void)state;
    assert_int_equal(dht_shard_foreach(shard, count_record, &count), 0);
    assert_int_equal(count, 0);
    for (unsigned i = 0; i < 60; i++) {
        struct dht_key key = make_key(upath, i, 2);
        assert_non_null(dht_shard_insert(shard, &key, upath));
    }
    assert_int_equal(dht_shard_foreach(shard, count_record, &count), 0);
    assert_int_equal(count, 60);
    assert_int_equal(dht_shard_foreach(shard, count_record, &count), 70); /* stops */
    assert_int_equal(count, 70);
    dht_shard_destroy(shard);
}

static void test_waiters_holders(void **state)
{
    struct dht_shard *shard = dht_shard_create(2, 16);
    struct dyad_version zero = {0}, one = {.counter = 1};
    struct dht_shard_stats stats;
    struct dht_record *record;
    char upath[64];
    struct dht_key key = make_key(upath, 1, 2);

    (void)state;
    record = dht_shard_insert(shard, &key, upath);
    assert_int_equal(dht_shard_add_waiter(shard, record, 3, 10, 1, &zero, 100), 0);
    assert_int_equal(dht_shard_add_waiter(shard, record, 3, 11, 1, &zero, 101), 0);
    assert_int_equal(dht_shard_add_waiter(shard, record, 4, 10, 1, &zero, 102), 0);
    assert_int_equal(dht_shard_add_waiter(shard, record, 3, 10, 2, &one, 103), 0);
    dht_shard_get_stats(shard, &stats);
    assert_int_equal(stats.waiters, 3);
    assert_int_equal(record->waiters->since, 100);
    assert_int_equal(record->waiters->flags, 2);
    assert_int_equal(record->waiters->newer_than.counter, 1);
    assert_true(dht_shard_drop_waiter(shard, record, 3, 10));
    assert_false(dht_shard_drop_waiter(shard, record, 3, 10));
    assert_false(dht_shard_drop_waiter(shard, record, 4, 11));

    srand(1);
    for (int i = 0; i < 5000; i++)
        assert_int_equal(dht_shard_add_holder(record, rand() % 1000), 0);
    for (uint32_t i = 1; i < record->nholders; i++)
        assert_true(record->holders[i - 1] < record->holders[i]);
    assert_true(record->nholders > 950 && record->nholders <= 1000);
    dht_shard_destroy(shard); /* frees all that */
}

static void add_waiters(struct dht_shard *shard, struct dht_record **record, uint32_t rank,
                        uint8_t flags, unsigned n)
{
    const struct dyad_version zero = {0};

    for (unsigned i = 0; i < n; i++)
        assert_int_equal(dht_shard_add_waiter(shard, record[i % 1024], rank,
                                              (uint64_t)flags << 32 | i, flags, &zero, 100),
                         0);
}

/* A rank that asks without end is refused; others are not, nor who holds copies. */
static void test_waiters_of_one_rank(void **state)
{
    struct dht_shard *shard = dht_shard_create(2, 16);
    const struct dyad_version zero = {0};
    struct dht_record *record[1024];
    char upath[64];

    (void)state;
    for (unsigned i = 0; i < 1024; i++) {
        struct dht_key key = make_key(upath, i, 2);
        record[i] = dht_shard_insert(shard, &key, upath);
        assert_non_null(record[i]);
    }
    add_waiters(shard, record, 3, NET_LOOKUP_WAIT, DHT_WAITERS_MAX);
    assert_int_equal(
        dht_shard_add_waiter(shard, record[0], 3, 1, NET_LOOKUP_WAIT, &zero, 0), -1);
    assert_int_equal(dht_shard_add_waiter(shard, record[0], 3, 1ull << 32 | 1024,
                                          NET_LOOKUP_WAIT, &zero, 0),
                     0); /* which is there, and asks again */
    for (uint32_t rank = 4; rank < 1000; rank++)
        add_waiters(shard, record, rank, NET_LOOKUP_WAIT, 16);
    add_waiters(shard, record, 3, NET_LOOKUP_WAIT | NET_LOOKUP_HELD, 16);

    /* One that got its answer, or whose record is gone, makes room. */
    assert_true(dht_shard_drop_waiter(shard, record[0], 3, 1ull << 32 | 1024));
    assert_int_equal(
        dht_shard_add_waiter(shard, record[0], 3, 1, NET_LOOKUP_WAIT, &zero, 0), 0);
    assert_int_equal(
        dht_shard_add_waiter(shard, record[0], 3, 2, NET_LOOKUP_WAIT, &zero, 0), -1);
    dht_shard_remove(shard, record[1]);
    assert_int_equal(
        dht_shard_add_waiter(shard, record[0], 3, 2, NET_LOOKUP_WAIT, &zero, 0), 0);
    dht_shard_destroy(shard);
}

/* A key of another path with the same bins ends in the leaf on its hash; with the same full
 * hash as well on its string. */
static void test_where_searches_end(void **state)
{
    struct dht_shard *shard = dht_shard_create(3, 16);
    struct dht_shard_stats stats;
    char upath[64];
    struct dht_key key = make_key(upath, 7, 3), other;
    struct dht_record *record, *second;

    (void)state;
    assert_null(dht_shard_find(shard, &key, upath)); /* empty: ends at level 0 */
    record = dht_shard_insert(shard, &key, upath);   /* its own search too */
    for (unsigned level = 0; level < 3; level++) {
        other = key;
        other.level[level]++; /* bin + 1 mod 16 */
        assert_null(dht_shard_find(shard, &other, "other"));
    }
    other = key;
    other.full++;
    assert_null(dht_shard_find(shard, &other, "other"));
    dht_shard_get_stats(shard, &stats);
    assert_int_equal(stats.ended_at[0], 3);
    assert_int_equal(stats.ended_at[1], 1);
    assert_int_equal(stats.ended_at[2], 1);
    assert_int_equal(stats.ended_at[3], 1);
    assert_int_equal(stats.passed, 1);
    assert_int_equal(stats.comparisons, 0); /* none of these touched a string */

    assert_null(dht_shard_find(shard, &key, "other"));
    assert_ptr_equal(dht_shard_find(shard, &key, upath), record);
    dht_shard_get_stats(shard, &stats);
    assert_int_equal(stats.comparisons, 2);
    assert_int_equal(stats.false_matches, 1);

    second =
        dht_shard_insert(shard, &key, "other"); /* all hashes equal: still two records */
    assert_ptr_not_equal(second, record);
    assert_ptr_equal(dht_shard_find(shard, &key, upath), record);
    assert_ptr_equal(dht_shard_find(shard, &key, "other"), second);
    dht_shard_get_stats(shard, &stats);
    assert_int_equal(stats.deepest, 2);
    assert_int_equal(stats.occupied, 1);
    assert_int_equal(stats.nodes, 3);
    dht_shard_destroy(shard);
}

/* The memory that shard.c promises, for a tenth of the keys. */
static void test_memory(void **state)
{
    const struct {
        unsigned depth, bins;
        double per_key; /* bytes of tree, without records */
    } cases[] = {{2, 256, 10}, {3, 256, 30}, {4, 256, 50}, {4, 65536, 70}, {16, 256, 320}};
    const unsigned n = 100000;

    (void)state;
    assert_true(sizeof(struct dht_record) <= 160);
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        struct dht_shard *shard = dht_shard_create(cases[c].depth, cases[c].bins);
        struct dht_shard_stats stats;
        char upath[64];
        double records = 0;
        for (unsigned i = 0; i < n; i++) {
            struct dht_key key = make_key(upath, i, cases[c].depth);
            assert_non_null(dht_shard_insert(shard, &key, upath));
            records += sizeof(struct dht_record) + strlen(upath) + 1;
        }
        dht_shard_get_stats(shard, &stats);
        assert_true((stats.bytes - records) / n < cases[c].per_key);
        dht_shard_destroy(shard);
    }
}

/* What a listing gave, by the number in the name; it stops before every `page`-th. */
struct listed {
    unsigned times[1000];
    unsigned page, taken;
};

static int take_name(const char *name, const struct dyad_entry *entry, void *arg)
{
    struct listed *listed = arg;

    assert_null(strchr(name, '/'));
    assert_int_equal(entry->state, DYAD_ENTRY_PUBLISHED);
    if (listed->taken == listed->page)
        return 1;
    listed->taken++;
    listed->times[strtoul(name + 1, NULL, 10)]++;
    return 0;
}

static struct dht_record *list_record(struct dht_shard *shard, const char *upath)
{
    struct dht_key key;
    struct dht_record *record;

    dht_key_init(&key, upath, 2);
    record = dht_shard_insert(shard, &key, upath);
    assert_non_null(record);
    record->entry.state = DYAD_ENTRY_PUBLISHED;
    assert_int_equal(dht_shard_set_listed(shard, record, true), 0);
    assert_int_equal(dht_shard_set_listed(shard, record, true), 0);
    return record;
}

static unsigned list_all(struct dht_shard *shard, const char *parent)
{
    struct listed listed = {.page = 1000};

    struct dht_list_at at = {0};

    assert_false(dht_shard_list(shard, parent, &at, take_name, &listed));
    return listed.taken;
}

static void test_listing(void **state)
{
    struct dht_shard *shard = dht_shard_create(2, 16);
    struct dht_record *record[1000];
    struct dht_shard_stats stats;
    char upath[64];

    (void)state;
    assert_int_equal(dht_shard_keep_index(shard), 0);
    assert_int_equal(list_all(shard, ""), 0);
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(upath, sizeof(upath), "a/b/f%u", i);
        record[i] = list_record(shard, upath);
    }
    list_record(shard, "a");
    list_record(shard, "f7");
    list_record(shard, "a/b");
    list_record(shard, "a/bc/f1");
    assert_int_equal(list_all(shard, "a/b"), 1000);
    assert_int_equal(list_all(shard, "a/bc"), 1);
    assert_int_equal(list_all(shard, "a"), 1);
    assert_int_equal(list_all(shard, ""), 2);
    assert_int_equal(list_all(shard, "a/b/f0"), 0);

    /* Pages of every size; what is there all the time comes once, whatever else changes. */
    for (unsigned page = 1; page < 300; page = page * 3 + 1) {
        struct listed listed = {.page = page};
        struct dht_list_at at = {0};
        uint64_t last = 0;
        unsigned round = 0;
        while (dht_shard_list(shard, "a/b", &at, take_name, &listed)) {
            assert_true(at.after > last);
            assert_int_equal(listed.taken, page);
            last = at.after;
            listed.taken = 0;
            for (unsigned i = round++ % 7; i < 1000; i += 7) {
                if (i % 2 == 0)
                    continue; /* these stay */
                dht_shard_set_listed(shard, record[i], false);
                dht_shard_set_listed(shard, record[i], false);
                if (round % 2)
                    assert_int_equal(dht_shard_set_listed(shard, record[i], true), 0);
            }
        }
        for (unsigned i = 0; i < 1000; i++) {
            if (i % 2 == 0)
                assert_int_equal(listed.times[i], 1);
            assert_int_equal(dht_shard_set_listed(shard, record[i], true), 0);
        }
    }

    /* A record that goes takes its place in the listing along. */
    for (unsigned i = 0; i < 1000; i++)
        dht_shard_remove(shard, record[i]);
    assert_int_equal(list_all(shard, "a/b"), 0);
    assert_int_equal(list_all(shard, "a/bc"), 1);
    dht_shard_get_stats(shard, &stats);
    assert_int_equal(stats.entries, 4);
    dht_shard_destroy(shard);

    /* Without an index nothing is kept. */
    shard = dht_shard_create(2, 16);
    list_record(shard, "f7");
    assert_int_equal(list_all(shard, ""), 0);
    dht_shard_destroy(shard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_arguments),
        cmocka_unit_test(test_churn),
        cmocka_unit_test(test_foreach),
        cmocka_unit_test(test_waiters_holders),
        cmocka_unit_test(test_waiters_of_one_rank),
        cmocka_unit_test(test_where_searches_end),
        cmocka_unit_test(test_listing),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
