/*
 * test_client_rejoins.c - three faults of UCX that come close to each other, or eight that do not
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "client/client_rejoins.h"

/* How often a member comes back whose UCX fails each `pause` s. */
static unsigned times(uint64_t pause, unsigned most)
{
    struct client_rejoins rejoins = {.copies = 0};
    uint64_t now = 7;

    for (unsigned i = 0; i < most; i++) {
        now += pause * UTIL_NSEC_PER_SEC;
        if (!client_rejoins_allow(&rejoins, now))
            return i;
        client_rejoins_count(&rejoins, now);
    }
    return most;
}

static void test_times(void **state)
{
    struct client_rejoins rejoins = {.copies = 0};
    uint64_t hour = 3600 * UTIL_NSEC_PER_SEC;

    (void)state;
    assert_int_equal(times(0, 100), 3);
    assert_int_equal(times(199, 100), 3);
    assert_int_equal(times(201, 100), 8);
    assert_int_equal(times(86400, 100), 8);
    /* Two at once, a day later two more, and at once a third one. */
    for (unsigned day = 0; day < 2; day++) {
        for (unsigned i = 0; i < 2; i++) {
            assert_true(client_rejoins_allow(&rejoins, (1 + 24 * day) * hour + i));
            client_rejoins_count(&rejoins, (1 + 24 * day) * hour + i);
        }
    }
    assert_true(client_rejoins_allow(&rejoins, 25 * hour + 2));
    client_rejoins_count(&rejoins, 25 * hour + 2);
    assert_false(client_rejoins_allow(&rejoins, 25 * hour + 3));
    assert_true(client_rejoins_allow(&rejoins, 26 * hour));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
