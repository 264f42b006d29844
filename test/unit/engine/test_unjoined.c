/*
 * test_unjoined.c - ranks that the launcher says nothing of
 *
 * Four ranks on four nodes; this is rank 0, and it is rank 3 that is asked for in vain. Is
 * it one that never joins, or one that cannot be reached?
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/core/module.h"
#include "engine/membership/unjoined.h"
#include "engine/membership/unreachable.h"
#include "fake_links.h"

extern const struct member_module links_module;

#define ASKED 3

static int setup(void **state)
{
    (void)state;
    links_begin(4);
    links_member->self.incarnation = 1;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    links_end();
    return 0;
}

/* Nobody has answered for it in time. */
static void unanswered(void)
{
    unsigned downs = links_rank[ASKED].downs;

    fake_now++;
    unjoined_unanswered(links_member, ASKED, EHOSTUNREACH);
    if (links_rank[ASKED].downs > downs)
        links_down(ASKED); /* the worker tells it later */
}

static void never_joins(void)
{
    assert_false(dht_node_is_live(links_member->dht, ASKED));
    assert_int_equal(unreachable_since(links_member, ASKED), 0);
    assert_false(unreachable_may_return(links_member, ASKED));
    assert_int_equal(links_rank[ASKED].missing, DHT_GONE);
}

static void is_missing(void)
{
    assert_false(dht_node_is_live(links_member->dht, ASKED));
    assert_true(unreachable_is_missing(links_member, ASKED));
    assert_int_not_equal(links_rank[ASKED].missing, DHT_GONE);
}

static void test_first_member(void **state)
{
    (void)state;
    links_member->self.incarnation = 0;
    links_found(1);
    unjoined_ask(links_member, ASKED);
    assert_int_equal(links_rank[ASKED].wanted, BOOT_PMIX_ANY);
    unanswered();
    never_joins();
}

static void test_first_member_and_cut_off(void **state)
{
    (void)state;
    links_member->self.incarnation = 0;
    links_up(1);
    links_up(2);
    links_down(1);
    links_down(2);
    links_turn(0.1);
    unanswered();
    is_missing();
}

static void test_nobody_is_known(void **state)
{
    (void)state;
    unjoined_ask(links_member, ASKED);
    assert_int_equal(links_rank[ASKED].wanted, BOOT_PMIX_BOTH);
    unanswered();
    never_joins();
}

static void test_another_was_heard(void **state)
{
    (void)state;
    links_found(1);
    links_up(2);
    unanswered();
    never_joins();
}

static void test_on_this_node(void **state)
{
    uint32_t was = links_member->job->node[ASKED];

    (void)state;
    links_found(1);
    links_member->job->node[ASKED] = links_member->job->node[0];
    unanswered();
    links_member->job->node[ASKED] = was;
    never_joins();
}

/* It is asked for on, and others are asked to speak; it is one that never joins as soon as
 * one of them has. */
static void test_nobody_was_heard(void **state)
{
    (void)state;
    links_found(1);
    unanswered();
    is_missing();
    links_turn(4 * LINKS_PEER);
    assert_true(links_rank[1].pings > 0);
    assert_true(links_rank[1].downs > 0);
    assert_true(links_rank[ASKED].gets > 0);
    unanswered();
    is_missing();
    links_turn(LINKS_JOIN);
    unanswered();
    is_missing();
    links_up(1);
    links_turn(1); /* asked again, with the others that are lost */
    links_pong(1);
    unanswered();
    never_joins();
}

/* It was heard of, but that was before the last question. */
static void test_heard_long_ago(void **state)
{
    (void)state;
    links_found(1);
    unanswered();
    links_pong(1);
    links_turn(2);
    unanswered();
    is_missing();
}

/* Nobody can say whether it was there all the time: it has to give its word. */
static void test_comes_back(void **state)
{
    (void)state;
    links_found(1);
    unanswered();
    links_turn(1);
    links_rank[ASKED].peer.incarnation = 5;
    links_found(ASKED);
    assert_true(dht_node_is_live(links_member->dht, ASKED));
    assert_int_equal(unreachable_since(links_member, ASKED), 0);
    assert_int_equal(links_rank[ASKED].missing, DHT_MISSING);
}

/* One that is known was asked for a newer member only. */
static void test_known(void **state)
{
    (void)state;
    links_found(ASKED);
    unanswered();
    assert_true(dht_node_is_live(links_member->dht, ASKED));
    assert_int_equal(links_rank[ASKED].downs, 0);
}

/* Nobody listens at the address of a member that was there before: that says nothing of the
 * present one, for which the launcher is asked on. At the newest address it does. */
static void test_nobody_listens(void **state)
{
    (void)state;
    links_found(ASKED);
    unreachable_kept(links_member, ASKED, true);
    links_down(ASKED);
    links_turn(1);
    assert_int_equal(links_rank[ASKED].gets, 1);
    unreachable_unanswered(links_member, ASKED);
    is_missing();
    links_turn(LINKS_JOIN);
    unreachable_ask(links_member, ASKED);
    unreachable_unanswered(links_member, ASKED);
    is_missing();
    unreachable_kept(links_member, ASKED, false);
    unreachable_unanswered(links_member, ASKED);
    is_missing(); /* others may have waited for the node's hardware address: once more */
    links_rank[ASKED].declined = UINT64_MAX;
    for (int i = 0; i < 3; i++)
        unreachable_unanswered(links_member, ASKED);
    is_missing(); /* somebody listens, who does not let us in */
    links_rank[ASKED].declined = 0;
    unreachable_ask(links_member, ASKED);
    unreachable_unanswered(links_member, ASKED);
    unreachable_unanswered(links_member, ASKED);
    assert_false(unreachable_is_missing(links_member, ASKED));
}

/* The launcher's answers are waited for, at the end, if the rank was heard of: not for one
 * of which there is an address that may be old. */
static void test_there(void **state)
{
    (void)state;
    links_member->pmix = (struct boot_pmix *)links_member; /* never looked into */
    links_found(1);
    links_up(2);
    links_up(ASKED);
    links_down(ASKED);
    links_module.void_promises(links_member);
    assert_false(links_rank[1].there);
    assert_true(links_rank[2].there);
    assert_false(links_rank[ASKED].there);
    links_pong(1);
    links_module.void_promises(links_member);
    assert_true(links_rank[1].there);
    links_member->pmix = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_first_member, setup, teardown),
        cmocka_unit_test_setup_teardown(test_first_member_and_cut_off, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nobody_is_known, setup, teardown),
        cmocka_unit_test_setup_teardown(test_another_was_heard, setup, teardown),
        cmocka_unit_test_setup_teardown(test_on_this_node, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nobody_was_heard, setup, teardown),
        cmocka_unit_test_setup_teardown(test_heard_long_ago, setup, teardown),
        cmocka_unit_test_setup_teardown(test_comes_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_known, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nobody_listens, setup, teardown),
        cmocka_unit_test_setup_teardown(test_there, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
