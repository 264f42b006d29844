/*
 * test/unit/dht/test_key.c
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "dht/key.h"

/* The first outputs of splitmix64 started at 0, as published with its reference code. */
static const uint64_t splitmix64_from_0[5] = {
    0xe220a8397b1dcdafull, 0x6e789e6aa1b965f4ull, 0x06c45d188009454full,
    0xf88bb8a8724c81ecull, 0x1b39896a51a8749bull,
};

static void test_seeds(void **state)
{
    const char *upath = "run/step-0001/part 7.h5";
    struct dht_key key;

    (void)state;
    dht_key_init(&key, upath, 5);
    for (int i = 0; i < 5; i++)
        assert_true(key.level[i] ==
                    XXH3_64bits_withSeed(upath, strlen(upath), splitmix64_from_0[i]));
}

static void test_parts_differ(void **state)
{
    struct dht_key key;
    uint64_t all[DHT_DEPTH_MAX + 3];

    (void)state;
    dht_key_init(&key, "a", DHT_DEPTH_MAX);
    memcpy(all, key.level, sizeof(key.level));
    all[DHT_DEPTH_MAX] = key.full;
    all[DHT_DEPTH_MAX + 1] = key.probe_start;
    all[DHT_DEPTH_MAX + 2] = key.probe_step;
    for (int i = 0; i < DHT_DEPTH_MAX + 3; i++)
        for (int j = 0; j < i; j++)
            assert_true(all[i] != all[j]);
}

/* The depth chooses how many levels there are, not what they are. */
static void test_depth(void **state)
{
    struct dht_key shallow, deep;
    char upath[4096];

    (void)state;
    memset(upath, 'x', sizeof(upath) - 1);
    upath[sizeof(upath) - 1] = '\0';
    dht_key_init(&shallow, upath, 1);
    dht_key_init(&deep, upath, DHT_DEPTH_MAX);
    assert_true(shallow.level[0] == deep.level[0]);
    assert_true(shallow.full == deep.full);
    assert_true(shallow.probe_start == deep.probe_start);
    assert_true(shallow.probe_step == deep.probe_step);
}

/* Bins of one level do not tell those of another: chi-square over 16 x 16 pairs. */
static void test_levels_independent(void **state)
{
    unsigned count[16][16] = {{0}};
    const int n = 100000;
    double expected = n / 256.0, chi = 0;

    (void)state;
    for (int i = 0; i < n; i++) {
        struct dht_key key;
        char upath[64];
        snprintf(upath, sizeof(upath), "dir/file%06d", i);
        dht_key_init(&key, upath, 2);
        count[key.level[0] % 16][key.level[1] % 16]++;
    }
    for (int i = 0; i < 256; i++) {
        double d = count[i / 16][i % 16] - expected;
        chi += d * d / expected;
    }
    assert_true(chi < 255 + 5 * 22.6); /* mean 255, standard deviation sqrt(2 * 255) */
    assert_true(chi > 255 - 5 * 22.6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_parts_differ),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_levels_independent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
