/*
 * test_series.c - names that differ in one number
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/fetch/series.h"

/* The name n strides behind b, of a series of which a and b were seen; NULL: none. */
static const char *behind(const char *a, const char *b, unsigned n)
{
    static char name[128];
    struct series s = {0};
    uint64_t value;
    bool is_one;

    assert_int_equal(series_begin(&s, a), 0);
    is_one = series_turn(&s, b) && series_name(&s, n, name, sizeof(name), &value);
    series_clear(&s);
    return is_one ? name : NULL;
}

static void names(void **state)
{
    (void)state;
    assert_string_equal(behind("d/frame.0001.h5", "d/frame.0002.h5", 1), "d/frame.0003.h5");
    assert_string_equal(behind("f8", "f9", 1), "f10");
    assert_string_equal(behind("f08", "f09", 1), "f10");
    assert_string_equal(behind("f98", "f99", 3), "f102");
    assert_string_equal(behind("f10", "f20", 2), "f40");
    assert_string_equal(behind("f9", "f19", 1), "f29");
    assert_string_equal(behind("f3", "f2", 2), "f0");
    assert_null(behind("f3", "f2", 3)); /* below 0 */
    assert_string_equal(behind("r2/v1_f7", "r2/v1_f8", 1), "r2/v1_f9");
    assert_string_equal(behind("v1_f8", "v2_f8", 1), "v3_f8"); /* the number that differs */
    assert_null(behind("f1", "f1", 1));                        /* the same */
    assert_null(behind("a1_b1", "a2_b2", 1));                  /* in two numbers */
    assert_null(behind("a1/f1", "a2/f1", 1));                  /* in a directory */
    assert_null(behind("f9", "f010", 1));                      /* in width */
    assert_null(behind("f1", "g2", 1));
    assert_null(behind("f1", "f2x", 1));
    assert_null(behind("f1", "f9999999999999999999", 1));
    assert_null(behind("f1", "f999999999999999999", 1)); /* too large behind it */
}

static void steps(void **state)
{
    struct series s = {0};

    (void)state;
    errno = 0;
    assert_int_equal(series_begin(&s, "d1/name"), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(series_begin(&s, "f098"), 0);
    assert_false(series_step(&s, "f099")); /* no stride yet */
    assert_true(series_turn(&s, "f099"));
    assert_int_equal(s.count, 2);
    assert_false(series_step(&s, "f101"));
    assert_true(series_step(&s, "f100")); /* no zero any more, the same width */
    assert_int_equal(s.count, SERIES_SURE);
    assert_true(series_step(&s, "f101"));
    assert_string_equal(s.upath, "f101");
    assert_true(series_turn(&s, "f090")); /* it turns */
    assert_int_equal(s.count, 2);
    assert_int_equal(s.stride, -11);
    assert_true(series_step(&s, "f079"));
    assert_int_equal(series_begin(&s, "name"), -1); /* keeps what it was */
    assert_string_equal(s.upath, "f079");
    series_clear(&s);
    assert_null(s.upath);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
