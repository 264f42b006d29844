/*
 * test_unreachable.c - fetches that are not served, from a rank that answers
 *
 * Rank 1 is heard of at any time; is its connection taken for one that carries small
 * messages only?
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/membership/unreachable.h"
#include "fake_links.h"

#define KIB 1024ull
#define MIB (1024 * KIB)

static int setup(void **state)
{
    (void)state;
    links_begin(2);
    links_found(1);
    links_rank[1].heard = UINT64_MAX;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    links_end();
    return 0;
}

static void unserved(uint64_t size)
{
    fake_now += 2 * UTIL_NSEC_PER_SEC;
    unreachable_unserved(links_member, 1, size);
}

static void test_two_in_a_row(void **state)
{
    (void)state;
    unserved(MIB);
    unreachable_unserved(links_member, 1, MIB); /* one beside it is no news */
    assert_int_equal(links_rank[1].downs, 0);
    unserved(MIB);
    assert_int_equal(links_rank[1].downs, 1);
    unserved(MIB); /* the count begins anew */
    assert_int_equal(links_rank[1].downs, 1);
}

static void test_small_in_between(void **state)
{
    (void)state;
    unserved(MIB);
    unreachable_served(links_member, 1, 4 * KIB);
    unserved(MIB);
    assert_int_equal(links_rank[1].downs, 1);
    /* The largest of those that did not come counts. */
    unserved(MIB);
    unreachable_unserved(links_member, 1, 4 * KIB);
    unreachable_served(links_member, 1, 8 * KIB);
    unserved(MIB);
    assert_int_equal(links_rank[1].downs, 2);
}

/* A rank that is asked whether it lives, as each is by one that has just joined, is no silent one when it has been heard of since. */
static void test_heard_since(void **state)
{
    (void)state;
    links_rank[1].heard = 0;
    assert_false(unreachable_is_silent(links_member, 1));
    assert_true(unreachable_prove(links_member, 1));
    assert_true(unreachable_is_silent(links_member, 1));
    links_rank[1].heard = UINT64_MAX; /* a request of its own */
    assert_true(unreachable_is_suspect(links_member, 1));
    assert_false(unreachable_is_silent(links_member, 1));
    assert_true(
        unreachable_prove(links_member, 1)); /* and does not count when it is asked again */
    links_rank[1].heard = 0;
    assert_false(unreachable_prove(links_member, 1));
}

static void test_served_in_between(void **state)
{
    (void)state;
    unserved(MIB);
    unreachable_served(links_member, 1, MIB);
    unserved(64 * KIB);
    assert_int_equal(links_rank[1].downs, 0);
    unreachable_served(links_member, 1, 64 * KIB); /* what was larger before is forgotten */
    unserved(MIB);
    assert_int_equal(links_rank[1].downs, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_two_in_a_row, setup, teardown),
        cmocka_unit_test_setup_teardown(test_small_in_between, setup, teardown),
        cmocka_unit_test_setup_teardown(test_served_in_between, setup, teardown),
        cmocka_unit_test_setup_teardown(test_heard_since, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
