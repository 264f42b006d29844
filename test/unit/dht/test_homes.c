/*
 * test/unit/dht/test_homes.c
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "dht/homes.h"

static struct dht_key make_key(unsigned i)
{
    struct dht_key key;
    char upath[64];

    snprintf(upath, sizeof(upath), "k/%u", i);
    dht_key_init(&key, upath, 1);
    return key;
}

static unsigned live_calls;

/* arg: bytes, 0 dead */
static bool live_table(const void *arg, uint32_t rank)
{
    live_calls++;
    return ((const char *)arg)[rank] != 0;
}

static bool live_none(const void *arg, uint32_t rank)
{
    (void)arg;
    (void)rank;
    live_calls++;
    return false;
}

/* The rule of homes.h, written the slow way. */
static unsigned model_find(const struct dht_ring *ring, const struct dht_key *key,
                           uint32_t *homes)
{
    uint32_t want = ring->replicas < ring->nranks ? ring->replicas : ring->nranks, n = 0;
    uint32_t near = 0, nlive = 0; /* probes that hold the first 4R live */
    char *taken = calloc(ring->nranks, 1);

    assert_non_null(taken);
    for (; near < ring->nranks && nlive < 4 * want; near++)
        nlive +=
            ring->live == NULL || ring->live(ring->arg, dht_homes_probe(ring, key, near));
    for (int distinct = 1; distinct >= 0; distinct--) {
        for (uint32_t j = 0; j < (distinct ? near : ring->nranks) && n < want; j++) {
            uint32_t rank = dht_homes_probe(ring, key, j);
            bool ok = !taken[rank] && (ring->live == NULL || ring->live(ring->arg, rank));
            for (uint32_t r = 0; ok && distinct && r < ring->nranks; r++)
                if (taken[r] && ring->node != NULL && ring->node[r] == ring->node[rank])
                    ok = false;
            taken[rank] |= ok;
            n += ok;
        }
    }
    n = 0;
    for (uint32_t j = 0; j < ring->nranks; j++)
        if (taken[dht_homes_probe(ring, key, j)])
            homes[n++] = dht_homes_probe(ring, key, j);
    free(taken);
    return n;
}

static void test_probe_visits_all(void **state)
{
    const uint32_t sizes[] = {1,  2,  3,  4,   5,   6,    7,    12,
                              16, 30, 97, 128, 210, 1024, 2310, 30030};

    (void)state;
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        struct dht_ring ring = {.nranks = sizes[s], .replicas = 1};
        char *seen = malloc(sizes[s]);
        for (unsigned k = 0; k < 20; k++) {
            struct dht_key key = make_key(k);
            memset(seen, 0, sizes[s]);
            for (uint32_t j = 0; j < sizes[s]; j++) {
                uint32_t rank = dht_homes_probe(&ring, &key, j);
                assert_true(rank < sizes[s]);
                assert_int_equal(seen[rank], 0);
                seen[rank] = 1;
            }
        }
        free(seen);
    }
}

/* a + j*b does not overflow in 32 bits. */
static void test_huge(void **state)
{
    struct dht_ring ring = {.nranks = UINT32_MAX, .replicas = 8};

    (void)state;
    for (unsigned k = 0; k < 1000; k++) {
        struct dht_key key = make_key(k);
        uint32_t homes[DHT_REPLICAS_MAX];
        assert_int_equal(dht_homes_find(&ring, &key, homes), 8);
        for (uint32_t j = 0; j < 8; j++)
            assert_int_equal(homes[j], dht_homes_probe(&ring, &key, j));
    }
}

static void test_first_probes(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 40; n++) {
        for (uint32_t r = 1; r <= 10; r++) {
            struct dht_ring ring = {.nranks = n, .replicas = r};
            struct dht_key key = make_key(n * 100 + r);
            uint32_t homes[DHT_REPLICAS_MAX];
            uint32_t want = r < 8 ? r : 8;
            want = want < n ? want : n;
            assert_int_equal(dht_homes_find(&ring, &key, homes), want);
            for (uint32_t j = 0; j < want; j++)
                assert_int_equal(homes[j], dht_homes_probe(&ring, &key, j));
        }
    }
}

static void test_against_model(void **state)
{
    uint32_t node[60];
    char live[60];

    (void)state;
    srand(20);
    for (unsigned k = 0; k < 20000; k++) {
        struct dht_ring ring = {.nranks = 1 + rand() % 60, .replicas = 1 + rand() % 8};
        struct dht_key key = make_key(k);
        uint32_t homes[DHT_REPLICAS_MAX], expect[DHT_REPLICAS_MAX];
        uint32_t nodes = 1 + rand() % ring.nranks;
        int dead = rand() % 101;
        for (uint32_t i = 0; i < ring.nranks; i++) {
            node[i] = rand() % 2 ? i % nodes : i * nodes / ring.nranks;
            live[i] = rand() % 100 >= dead;
        }
        ring.node = k % 3 ? node : NULL;
        ring.live = k % 5 ? live_table : NULL;
        ring.arg = live;
        unsigned n = model_find(&ring, &key, expect);
        assert_int_equal(dht_homes_find(&ring, &key, homes), n);
        assert_memory_equal(homes, expect, n * sizeof(homes[0]));
    }
}

/* Two homes of a key are on two nodes, whether ranks fill the nodes in blocks or in turn.
 */
static void test_distinct_nodes(void **state)
{
    const struct {
        uint32_t nranks, nodes;
    } cases[] = {{64, 8},  {128, 2},   {1000, 10}, {63, 2},
                 {100, 3}, {4096, 64}, {10, 2},    {7, 3}};
    static uint32_t node[4096];

    (void)state;
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        for (int blocks = 0; blocks < 2; blocks++) {
            uint32_t n = cases[c].nranks, m = cases[c].nodes;
            struct dht_ring ring = {.nranks = n, .replicas = 2, .node = node};
            for (uint32_t i = 0; i < n; i++)
                node[i] = blocks ? i * m / n : i % m;
            for (unsigned k = 0; k < 10000; k++) {
                struct dht_key key = make_key(k);
                uint32_t homes[DHT_REPLICAS_MAX];
                assert_int_equal(dht_homes_find(&ring, &key, homes), 2);
                assert_true(node[homes[0]] != node[homes[1]]);
            }
        }
    }
}

/* Two live ranks of 100,000: found, at no more than one look per rank. */
static void test_most_dead(void **state)
{
    struct dht_ring ring = {.nranks = 100000, .replicas = 2, .live = live_table};
    char *live = calloc(ring.nranks, 1);

    (void)state;
    live[17] = live[99999] = 1;
    ring.arg = live;
    for (unsigned k = 0; k < 20; k++) {
        struct dht_key key = make_key(k);
        uint32_t homes[DHT_REPLICAS_MAX];
        live_calls = 0;
        assert_int_equal(dht_homes_find(&ring, &key, homes), 2);
        assert_int_equal(homes[0] + homes[1], 17 + 99999);
        assert_true(live_calls <= ring.nranks);
        live[17] = 0;
        assert_int_equal(dht_homes_find(&ring, &key, homes), 1);
        assert_int_equal(homes[0], 99999);
        live[17] = 1;
    }
    ring.live = live_none;
    struct dht_key key = make_key(1);
    uint32_t homes[DHT_REPLICAS_MAX];
    live_calls = 0;
    assert_int_equal(dht_homes_find(&ring, &key, homes), 0);
    assert_int_equal(live_calls, ring.nranks);
    free(live);
}

/* Slots of a session directory: 16 of 4,096 are live, on two nodes. Each key still has its
 * homes on both, and where all are on one node the walk is bounded. */
static void test_few_live(void **state)
{
    static char live[4096];
    static uint32_t node[4096];
    struct dht_ring ring = {
        .nranks = 4096, .replicas = 2, .node = node, .live = live_table, .arg = live};
    unsigned apart = 0;

    (void)state;
    for (uint32_t i = 0; i < 4096; i++) {
        live[i] = i % 256 == i / 256 * 37 % 256; /* 16, here and there */
        node[i] = i / 2048;
    }
    for (unsigned k = 0; k < 2000; k++) {
        struct dht_key key = make_key(k);
        uint32_t homes[DHT_REPLICAS_MAX];
        assert_int_equal(dht_homes_find(&ring, &key, homes), 2);
        apart += node[homes[0]] != node[homes[1]];
        for (uint32_t i = 0; i < 4096; i++)
            node[i] = 0;
        live_calls = 0;
        assert_int_equal(dht_homes_find(&ring, &key, homes), 2);
        assert_true(live_calls <= 4096);
        for (uint32_t i = 0; i < 4096; i++)
            node[i] = i / 2048;
    }
    /* Of 8 live ones all on one node: 1 key in 128 by chance. */
    assert_in_range(apart, 1960, 2000);
}

/* Where the live ones are given, the result is the same as without. */
static void test_given_few(void **state)
{
    static char live[5000];
    static uint32_t node[5000];

    (void)state;
    srand(21);
    for (unsigned k = 0; k < 5000; k++) {
        struct dht_ring ring = {.nranks = 1 + rand() % 5000, .replicas = 1 + rand() % 8};
        struct dht_key key = make_key(k);
        uint32_t few[DHT_FEW_LIVE], a[DHT_REPLICAS_MAX], b[DHT_REPLICAS_MAX];
        uint32_t n = 1 + rand() % (DHT_FEW_LIVE < ring.nranks ? DHT_FEW_LIVE : ring.nranks);
        memset(live, 0, sizeof(live));
        for (uint32_t i = 0; i < n;) {
            uint32_t r = rand() % ring.nranks;
            if (live[r])
                continue;
            live[r] = 1;
            node[r] = rand() % 5;
            few[i++] = r;
        }
        for (unsigned i = 0; i < 3; i++) /* more than live: allowed */
            live[few[rand() % n]] = 0;
        ring.live = live_table;
        ring.arg = live;
        ring.node = k % 3 ? node : NULL;
        unsigned found = dht_homes_find(&ring, &key, a);
        ring.few = few;
        ring.nfew = n;
        live_calls = 0;
        assert_int_equal(dht_homes_find(&ring, &key, b), found);
        assert_memory_equal(a, b, found * sizeof(a[0]));
        if (ring.nranks / 16 >= n)
            assert_true(live_calls <= n);
    }
}

/* A death moves only the keys of the dead. */
static void test_stable(void **state)
{
    char live[100];
    struct dht_ring ring = {.nranks = 100, .replicas = 3, .live = live_table, .arg = live};

    (void)state;
    memset(live, 1, sizeof(live));
    for (unsigned k = 0; k < 2000; k++) {
        struct dht_key key = make_key(k);
        uint32_t before[DHT_REPLICAS_MAX], after[DHT_REPLICAS_MAX];
        bool was = false;
        assert_int_equal(dht_homes_find(&ring, &key, before), 3);
        live[42] = 0;
        assert_int_equal(dht_homes_find(&ring, &key, after), 3);
        live[42] = 1;
        for (int i = 0, j = 0; i < 3; i++) {
            if (before[i] == 42) {
                was = true;
                continue;
            }
            assert_int_equal(before[i], after[j++]);
        }
        if (!was)
            assert_memory_equal(before, after, 3 * sizeof(before[0]));
    }
}

/* The ring of a session directory: 4,096 places of which few are taken. Told as a figure,
 * bounded generously; a sanitizer makes it another figure. */
static void test_few_of_many(void **state)
{
    static const uint32_t taken[] = {2, 16, 256, 4096};
    static char live[4096];
    enum { KEYS = 2000 };

    (void)state;
    for (size_t t = 0; t < sizeof(taken) / sizeof(taken[0]); t++) {
        struct dht_ring ring = {
            .nranks = 4096, .replicas = 2, .live = live_table, .arg = live};
        struct timespec begin, end;
        memset(live, 0, sizeof(live));
        for (uint32_t i = 0; i < taken[t]; i++)
            live[i] = 1; /* the lowest are taken first */
        clock_gettime(CLOCK_MONOTONIC, &begin);
        for (unsigned k = 0; k < KEYS; k++) {
            struct dht_key key = make_key(k);
            uint32_t homes[DHT_REPLICAS_MAX];
            assert_int_equal(dht_homes_find(&ring, &key, homes), 2);
            assert_true(live[homes[0]] && live[homes[1]] && homes[0] != homes[1]);
        }
        clock_gettime(CLOCK_MONOTONIC, &end);
        double us = ((double)(end.tv_sec - begin.tv_sec) * 1e9 +
                     (double)(end.tv_nsec - begin.tv_nsec)) /
                    1e3 / KEYS;
        print_message("homes of a key, %u of 4096 places taken: %.2f us\n", taken[t], us);
#ifndef DYAD_SANITIZED
        assert_true(us < 1000);
#endif
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_probe_visits_all), cmocka_unit_test(test_huge),
        cmocka_unit_test(test_first_probes),     cmocka_unit_test(test_against_model),
        cmocka_unit_test(test_distinct_nodes),   cmocka_unit_test(test_most_dead),
        cmocka_unit_test(test_stable),           cmocka_unit_test(test_few_live),
        cmocka_unit_test(test_given_few),        cmocka_unit_test(test_few_of_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
