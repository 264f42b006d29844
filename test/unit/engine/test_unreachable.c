/*
 * test_unreachable.c - fetches that are not served, from a rank that answers; a rank whose
 * connections are refused
 *
 * Rank 1 is heard of at any time; is its connection taken for one that carries small
 * messages only? It is refused: does it come back if it lives, and what does it cost if it
 * is dead?
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

/* Two connections in a row are refused. */
static void refused(void)
{
    links_down(1);
    links_turn(1);
    unreachable_unanswered(links_member, 1);
    assert_true(unreachable_is_missing(links_member, 1));
    links_turn(0);
    unreachable_unanswered(links_member, 1);
    assert_false(unreachable_is_missing(links_member, 1)); /* nothing waits for it */
    assert_int_equal(links_rank[1].missing, DHT_GONE);
    assert_int_equal(links_rank[1].probes, 2);
}

static void pass_refused(unsigned seconds)
{
    for (unsigned i = 0; i < seconds; i++) {
        unsigned before = links_rank[1].probes;
        links_turn(1);
        if (links_rank[1].probes > before)
            unreachable_unanswered(links_member, 1);
        assert_false(unreachable_is_missing(links_member, 1));
    }
}

/* A dead one is asked for ever, once a minute, and stays dead. */
static void test_dead(void **state)
{
    (void)state;
    refused();
    pass_refused(4);
    assert_int_equal(links_rank[1].probes, 5); /* after 1, 2 and 4 s */
    pass_refused(3600);
    assert_in_range(links_rank[1].probes, 60, 70);
    assert_true(unreachable_has_ended(links_member, 1));
}

/* It lives: the connections were refused by somebody else. */
static void test_refused_and_lives(void **state)
{
    unsigned asked;

    (void)state;
    refused();
    pass_refused(3600);
    asked = links_rank[1].probes;
    unreachable_ask(links_member, 1); /* an open needs it: at once */
    assert_int_equal(links_rank[1].probes, asked + 1);
    unreachable_ask(links_member, 1);
    assert_int_equal(links_rank[1].probes, asked + 1);
    unreachable_heard(links_member, 1); /* something came from it */
    links_turn(0.3);
    assert_int_equal(links_rank[1].probes, asked + 2);
    links_found(1);
    assert_int_equal(links_rank[1].missing, DHT_MISSING); /* it is to give its word */
    assert_true(dht_node_is_live(links_member->dht, 1));
    assert_int_equal(unreachable_since(links_member, 1), 0);
    asked = links_rank[1].probes;
    links_turn(100);
    assert_int_equal(links_rank[1].probes, asked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_two_in_a_row, setup, teardown),
        cmocka_unit_test_setup_teardown(test_small_in_between, setup, teardown),
        cmocka_unit_test_setup_teardown(test_served_in_between, setup, teardown),
        cmocka_unit_test_setup_teardown(test_heard_since, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dead, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused_and_lives, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
