/*
 * test_partition.c - which side of a cut this rank is on
 *
 * Eight ranks, each on its own node; this is 0. Who is heard of, who comes and who goes is
 * what the worker would say; the table is told the side.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fake_links.h"
#include "engine/core/module.h"
#include "engine/membership/partition.h"

extern const struct member_module partition_module;

#define RANKS 8

static int setup(void **state)
{
    (void)state;
    links_begin(RANKS);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    links_end();
    return 0;
}

static void all_up(void)
{
    for (uint32_t rank = 1; rank < RANKS; rank++)
        links_up(rank);
    links_turn(1);
}

/* Until it is known whether others are there, nobody knows; their answers tell. */
static void test_one_of_many(void **state)
{
    (void)state;
    all_up();
    assert_int_equal(links_partition, DHT_PARTITION_MAJORITY);
    links_down(1);
    assert_int_equal(links_partition, DHT_PARTITION_UNKNOWN);
    links_turn(0);
    assert_int_equal(links_partition, DHT_PARTITION_UNKNOWN);
    for (uint32_t rank = 2; rank < RANKS; rank++)
        assert_int_equal(links_rank[rank].pings, 1);
    links_pong(2); /* two nodes against one */
    links_turn(0);
    assert_int_equal(links_partition, DHT_PARTITION_MAJORITY);
    for (uint32_t rank = 3; rank < RANKS; rank++)
        links_pong(rank);
    links_turn(2 * LINKS_JOIN);
    assert_int_equal(links_nlasts, 0); /* it never was the minority */
}

/* The only other that is known is lost, and then six come, who are heard. */
static void test_others_come(void **state)
{
    (void)state;
    links_up(1);
    links_turn(0);
    links_down(1);
    links_turn(0);
    assert_int_equal(links_partition, DHT_PARTITION_MINORITY);
    for (uint32_t rank = 2; rank < RANKS; rank++)
        links_up(rank);
    links_turn(0);
    assert_int_equal(links_partition, DHT_PARTITION_MAJORITY);
}

/* The same, but what comes is only their addresses: each is asked, and its answer counts.
 */
static void test_others_are_found(void **state)
{
    (void)state;
    links_up(1);
    links_turn(0);
    links_down(1);
    links_turn(0);
    assert_int_equal(links_partition, DHT_PARTITION_MINORITY);
    links_found(2);
    links_turn(0);
    assert_int_equal(links_partition, DHT_PARTITION_UNKNOWN);
    assert_int_equal(links_rank[2].pings, 1);
    links_pong(2);
    links_turn(0);
    assert_int_equal(links_partition, DHT_PARTITION_MAJORITY);
}

/* Of two others one is lost and the other silent: its answer tells, though it is late. */
static void test_silent_answers(void **state)
{
    (void)state;
    links_up(1);
    links_up(2);
    links_turn(1);
    links_down(1);
    links_turn(0);
    assert_int_equal(links_rank[2].pings, 1);
    links_turn(1.5 * LINKS_PEER);
    assert_int_equal(links_partition, DHT_PARTITION_UNKNOWN);
    links_pong(2);
    links_turn(0);
    assert_int_equal(links_partition, DHT_PARTITION_MAJORITY);
    links_turn(LINKS_JOIN); /* it was not given up meanwhile */
    assert_int_equal(links_rank[2].downs, 0);
}

/* ... and its silence as well. */
static void test_silent_stays_so(void **state)
{
    (void)state;
    links_up(1);
    links_up(2);
    links_turn(1);
    links_down(1);
    links_turn(2 * LINKS_PEER);
    assert_int_equal(links_rank[2].downs, 1);
    links_down(2);
    links_turn(0);
    assert_int_equal(links_partition, DHT_PARTITION_MINORITY);
}

static void cut_off(void)
{
    all_up();
    for (uint32_t rank = 1; rank < RANKS; rank++)
        links_down(rank);
    links_turn(0);
    assert_int_equal(links_partition, DHT_PARTITION_MINORITY);
}

/* The majority again, with two who have not come back: told when it has lasted. */
static void test_lasts(void **state)
{
    (void)state;
    cut_off();
    links_turn(3 * LINKS_JOIN);
    assert_int_equal(links_nlasts, 0);
    for (uint32_t rank = 1; rank < 6; rank++) {
        links_up(rank);
        links_turn(0);
        assert_int_equal(links_partition,
                         rank < 4 ? DHT_PARTITION_MINORITY : DHT_PARTITION_MAJORITY);
    }
    links_turn(LINKS_JOIN - 2);
    assert_int_equal(links_nlasts, 0);
    links_down(4); /* it has not lasted */
    links_turn(LINKS_PEER);
    assert_int_equal(links_partition, DHT_PARTITION_UNKNOWN);
    for (uint32_t rank = 1; rank < 6; rank++)
        if (rank != 4)
            links_pong(rank);
    links_turn(LINKS_JOIN - 2);
    assert_int_equal(links_partition, DHT_PARTITION_MAJORITY);
    assert_int_equal(links_nlasts, 0);
    partition_changed(links_member); /* weighed once more: the time does not begin anew */
    links_turn(3);
    assert_int_equal(links_nlasts, 1);
    partition_changed(links_member);
    links_turn(3 * LINKS_JOIN);
    assert_int_equal(links_nlasts, 1);
}

/* Who was stopped itself knows nothing until it has heard from more than half of them. */
static void test_stood_still(void **state)
{
    (void)state;
    all_up();
    partition_module.resumed(links_member, 0);
    assert_int_equal(links_partition, DHT_PARTITION_UNKNOWN);
    links_turn(0);
    for (uint32_t rank = 1; rank < RANKS; rank++)
        assert_int_equal(links_rank[rank].pings, 1); /* asked */
    for (uint32_t rank = 1; rank < 5; rank++) {
        assert_int_equal(links_partition, DHT_PARTITION_UNKNOWN);
        links_pong(rank);
        links_turn(0);
    }
    assert_int_equal(links_partition,
                     DHT_PARTITION_MAJORITY); /* five, with its own, of eight */
    links_turn(2 * LINKS_JOIN);

    /* Again, and it is cut off: those that are asked are lost in the end. */
    for (uint32_t rank = 5; rank < RANKS; rank++)
        links_pong(rank);
    partition_module.resumed(links_member, 0);
    links_turn(1);
    for (uint32_t rank = 1; rank < RANKS; rank++) {
        assert_int_equal(links_partition, DHT_PARTITION_UNKNOWN);
        links_down(rank);
    }
    links_turn(0);
    assert_int_equal(links_partition, DHT_PARTITION_MINORITY);
    for (uint32_t rank = 1; rank < 5; rank++) {
        assert_int_not_equal(links_partition, DHT_PARTITION_MAJORITY);
        links_up(rank);
        links_turn(0);
    }
    assert_int_equal(links_partition, DHT_PARTITION_MAJORITY);
}

/* Those who are gone, and those it was never in touch with, are not waited for. */
static void test_stood_still_alone(void **state)
{
    (void)state;
    for (uint32_t rank = 1; rank < 4; rank++)
        links_up(rank);
    for (uint32_t rank = 4; rank < RANKS; rank++)
        links_found(rank);
    links_leave(1);
    links_turn(1);
    partition_module.resumed(links_member, 0);
    links_turn(0);
    assert_int_equal(links_partition, DHT_PARTITION_UNKNOWN);
    for (uint32_t rank = 4; rank < RANKS; rank++)
        assert_int_equal(links_rank[rank].pings, 0);
    links_pong(2);
    links_turn(0);
    assert_int_equal(links_partition, DHT_PARTITION_MAJORITY);
    links_pong(3);
    links_turn(0);
    links_leave(2);
    links_leave(3);
    partition_module.resumed(links_member, 0);
    links_turn(0);
    assert_int_equal(links_partition, DHT_PARTITION_MAJORITY);
}

/* Others may have gone on without who stood still for as long as they wait for an answer:
 * those who know it, and live, are asked for their word. */
static void test_stood_still_for_long(void **state)
{
    (void)state;
    for (uint32_t rank = 1; rank < 4; rank++)
        links_up(rank);
    links_found(4);
    links_leave(1);
    links_turn(1);
    links_stood_still(0.4 * LINKS_PEER);
    for (uint32_t rank = 1; rank < RANKS; rank++)
        assert_int_equal(links_rank[rank].asked, 0);
    assert_int_equal(links_partition, DHT_PARTITION_UNKNOWN);
    links_stood_still(0.5 * LINKS_PEER);
    for (uint32_t rank = 1; rank < RANKS; rank++)
        assert_int_equal(links_rank[rank].asked, rank == 2 || rank == 3);
}

/* Who follows another member of its rank knows addresses, and does not find who is there:
 * the side is unknown until more than half of the nodes were heard of. */
static void test_joined_anew(void **state)
{
    (void)state;
    for (uint32_t rank = 1; rank < RANKS; rank++)
        links_found(rank);
    links_turn(0);
    assert_int_equal(links_partition, DHT_PARTITION_MAJORITY);
    partition_joined_anew(links_member);
    assert_int_equal(links_partition, DHT_PARTITION_UNKNOWN);
    links_turn(0);
    for (uint32_t rank = 1; rank < RANKS; rank++)
        assert_int_equal(links_rank[rank].pings, 1);
    for (uint32_t rank = 1; rank < RANKS / 2; rank++)
        links_pong(rank);
    links_turn(0);
    assert_int_equal(links_partition, DHT_PARTITION_UNKNOWN);
    links_pong(RANKS / 2);
    links_turn(0);
    assert_int_equal(links_partition, DHT_PARTITION_MAJORITY);
}

/* The same beyond a cut: nobody answers. */
static void test_joined_anew_cut_off(void **state)
{
    (void)state;
    for (uint32_t rank = 1; rank < RANKS; rank++)
        links_found(rank);
    partition_joined_anew(links_member);
    links_turn(3 * LINKS_PEER);
    assert_int_equal(links_partition, DHT_PARTITION_UNKNOWN);
    for (uint32_t rank = 1; rank < RANKS; rank++) {
        assert_int_equal(links_rank[rank].downs, 1);
        links_down(rank);
    }
    links_turn(0);
    assert_int_equal(links_partition, DHT_PARTITION_MINORITY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_of_many, setup, teardown),
        cmocka_unit_test_setup_teardown(test_others_come, setup, teardown),
        cmocka_unit_test_setup_teardown(test_others_are_found, setup, teardown),
        cmocka_unit_test_setup_teardown(test_silent_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_silent_stays_so, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lasts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stood_still, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stood_still_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stood_still_for_long, setup, teardown),
        cmocka_unit_test_setup_teardown(test_joined_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(test_joined_anew_cut_off, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
