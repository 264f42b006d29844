/*
 * test_lock_ranges.c - the bytes that a process has locked, against one byte after the other
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/publish/lock_ranges.h"

#define SIZE 40

static struct lock_range draw(unsigned *seed)
{
    uint64_t begin = (uint64_t)rand_r(seed) % SIZE;

    return (struct lock_range){begin, begin + 1 + (uint64_t)rand_r(seed) % (SIZE - begin),
                               (uint8_t)(1 + rand_r(seed) % 2)};
}

static void test_random(void **state)
{
    unsigned seed = 1, nsame = 0, nmet = 0;

    (void)state;
    for (int round = 0; round < 300; round++) {
        struct lock_ranges ranges = {0};
        uint8_t bytes[SIZE] = {0}, have[SIZE] = {0};
        for (int i = 0; i < 30; i++) {
            struct lock_range range = draw(&seed);
            bool any = false, all = true, same;
            for (uint64_t k = range.begin; k < range.end; k++) {
                any |= bytes[k] != 0;
                all &= bytes[k] == range.type;
            }
            assert_int_equal(lock_ranges_meet(&ranges, &range, &same), any);
            assert_true(all || !same); /* several that lie together may have all of it */
            nsame += same;
            nmet += any;
            if (rand_r(&seed) % 2) {
                assert_int_equal(lock_ranges_remove(&ranges, &range), 0);
                range.type = 0;
            } else if (any) {
                continue;
            } else {
                assert_int_equal(lock_ranges_add(&ranges, &range), 0);
            }
            for (uint64_t k = range.begin; k < range.end; k++)
                bytes[k] = range.type;
        }
        for (size_t i = 0; i < ranges.n; i++) {
            assert_true(ranges.range[i].begin < ranges.range[i].end);
            for (uint64_t k = ranges.range[i].begin; k < ranges.range[i].end; k++) {
                assert_int_equal(have[k], 0); /* they do not meet */
                have[k] = ranges.range[i].type;
            }
        }
        assert_memory_equal(have, bytes, sizeof(bytes));
        lock_ranges_free(&ranges);
    }
    assert_true(nsame > 50 && nmet > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
