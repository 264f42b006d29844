/* util/quota.h: how much each rank may have here at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "util/log.h"
#include "util/quota.h"

static unsigned lines;
static char last[200];

enum util_log_level util_log_threshold(void)
{
    return UTIL_LOG_WARN;
}

void util_log(enum util_log_level level, const char *fmt, ...)
{
    va_list args;

    assert_int_equal(level, UTIL_LOG_WARN);
    lines++;
    va_start(args, fmt);
    vsnprintf(last, sizeof(last), fmt, args);
    va_end(args);
}

static void test_bound(void **state)
{
    struct util_quota quota = {0};

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        assert_true(util_quota_take(&quota, 7, 3, "things"));
    assert_int_equal(lines, 0);
    for (unsigned i = 0; i < 100; i++)
        assert_false(util_quota_take(&quota, 7, 3, "things"));
    assert_int_equal(lines, 1); /* not a line for each */
    assert_non_null(strstr(last, "rank 7 has 3 things here"));

    /* The others lose nothing by that. */
    for (uint32_t rank = 8; rank < 1000; rank++)
        assert_true(util_quota_take(&quota, rank, 3, "things"));

    util_quota_return(&quota, 7);
    assert_true(util_quota_take(&quota, 7, 3, "things"));
    assert_false(util_quota_take(&quota, 7, 3, "things"));

    /* One that was not counted is no credit. */
    util_quota_return(&quota, 5000);
    for (unsigned i = 0; i < 9; i++)
        util_quota_return(&quota, 7);
    for (unsigned i = 0; i < 3; i++)
        assert_true(util_quota_take(&quota, 7, 3, "things"));
    assert_false(util_quota_take(&quota, 7, 3, "things"));
    util_quota_clear(&quota);
    assert_true(util_quota_take(&quota, 7, 3, "things"));
    util_quota_clear(&quota);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bound)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
