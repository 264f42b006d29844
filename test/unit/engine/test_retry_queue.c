/*
 * test_retry_queue.c - names that are asked about until the answer will do
 *
 * retry_queue.c with a clock and look-ups of our own. What becomes of an answer is what the
 * test has said before. A counter of all that is freed shows that it is, and once.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/core/member.h"
#include "engine/core/retry_queue.h"
#include "fake_clock.h"
#include "fake_lookups.h"

#define SEC    UTIL_NSEC_PER_SEC
#define TICK   (SEC / 4)
#define FIRST  (2 * SEC)
#define MOST   (30 * SEC)
#define WINDOW 4
#define MANY   20

struct mine {
    struct retry retry;
    unsigned nanswers;
    bool wanted;
};

static struct member member;
static struct retry_queue *retries;
static struct mine *mine[MANY];
static char name[MANY][16];
static unsigned nfreed, nsteps;
static enum retry_next next;
static uint64_t by, least; /* 0: as it is */
static int status;         /* of the last answer */
static bool counter_is_enough;

static bool is_wanted(const struct retry *retry)
{
    return ((const struct mine *)retry)->wanted;
}

static enum retry_next answered(struct retry *retry, int s, const struct dyad_entry *entry,
                                struct retry_pause *pause)
{
    struct mine *m = (struct mine *)retry;

    assert_ptr_equal(retry_queue_arg(retry), &member);
    assert_null(retry->lookup);
    assert_int_equal(pause->first, FIRST);
    assert_ptr_not_equal(retry_queue_find(retries, retry->upath), retry);
    m->nanswers++;
    status = s;
    if (by)
        pause->by = by;
    if (least)
        pause->first = least;
    if (counter_is_enough)
        return entry ? QUESTION_OVER : QUESTION_PUT_OFF;
    return next;
}

static void freed(struct retry *retry)
{
    for (unsigned i = 0; i < MANY; i++)
        if (mine[i] == (struct mine *)retry)
            mine[i] = NULL;
    nfreed++;
}

static void stepped(void *arg)
{
    assert_ptr_equal(arg, &member);
    nsteps++;
}

static const struct retry_queue_ops ops = {
    .size = sizeof(struct mine),
    .window = WINDOW,
    .flags = NET_LOOKUP_COPY,
    .tick = TICK,
    .pause = {.first = FIRST, .most = MOST},
    .is_wanted = is_wanted,
    .answered = answered,
    .freed = freed,
    .stepped = stepped,
};

static int setup(void **state)
{
    (void)state;
    fake_clock_begin(1000 * SEC);
    fake_lookups_begin();
    memset(mine, 0, sizeof(mine));
    nfreed = nsteps = 0;
    next = QUESTION_PUT_OFF;
    by = least = 0;
    counter_is_enough = false;
    retries = retry_queue_create(&member, &ops, &member);
    assert_non_null(retries);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    retry_queue_destroy(retries);
    assert_int_equal(fake_lookups_out(), 0);
    fake_clock_end();
    for (unsigned i = 0; i < MANY; i++)
        assert_null(mine[i]);
    return 0;
}

static void add(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        snprintf(name[i], sizeof(name[i]), "f%u", i);
        mine[i] = retry_queue_add(retries, name[i]);
        assert_non_null(mine[i]);
        assert_int_equal(mine[i]->nanswers, 0);
        mine[i]->wanted = true;
    }
    retry_queue_go_on(retries);
}

static void test_answered(void **state)
{
    (void)state;
    assert_false(retry_queue_any(retries));
    add(2);
    assert_int_equal(fake_nlookups, 2);
    assert_string_equal(fake_lookup[0].upath, "f0");
    assert_int_equal(fake_lookup[0].flags, NET_LOOKUP_COPY);
    assert_true(retry_queue_asking(retries));
    next = QUESTION_OVER;
    fake_lookup_answer(0, 0, 5);
    assert_null(mine[0]);
    assert_int_equal(nsteps, 1);
    next = QUESTION_PUT_OFF;
    fake_lookup_answer(1, EHOSTUNREACH, 0);
    assert_int_equal(status, EHOSTUNREACH);
    assert_int_equal(nsteps, 2);
    assert_false(retry_queue_asking(retries)); /* it is not what somebody waits for */
    assert_true(retry_queue_any(retries));
    next = QUESTION_OVER;
    fake_clock_pass(FIRST + TICK);
    assert_int_equal(nsteps, 3);
    assert_true(retry_queue_asking(retries));
    fake_lookup_answer(2, ENOENT, 0);
    assert_false(retry_queue_any(retries));
    fake_clock_pass(1000 * SEC);
    assert_int_equal(fake_nlookups, 3);
    assert_int_equal(nfreed, 2);
}

/* As many as there may be, in their order; what is put off does not count. */
static void test_window(void **state)
{
    (void)state;
    counter_is_enough = true;
    add(MANY);
    assert_int_equal(fake_nlookups, WINDOW);
    for (unsigned i = 0; i < MANY; i++) {
        unsigned left = MANY - i;
        assert_int_equal(fake_lookups_out(), left < WINDOW ? left : WINDOW);
        assert_string_equal(fake_lookup[i].upath, name[i]);
        fake_lookup_answer(i, i % 2 ? 0 : EHOSTUNREACH, i % 2 ? 5 : 0);
    }
    assert_int_equal(fake_nlookups, MANY);
    assert_int_equal(nfreed, MANY / 2);
    fake_clock_pass(FIRST + TICK); /* of all that are due */
    assert_int_equal(fake_nlookups, MANY + WINDOW);
    for (unsigned i = MANY; i < MANY + MANY / 2; i++)
        fake_lookup_answer(i, 0, 5);
    assert_int_equal(nfreed, MANY);
}

static void test_pauses(void **state)
{
    uint64_t pause = FIRST;

    (void)state;
    add(1);
    for (unsigned i = 0; i < 10; i++) {
        uint64_t begun = fake_now += SEC / 7; /* as long as the answer takes */
        fake_lookup_answer(i, EHOSTUNREACH, 0);
        assert_true(fake_clock_step(UINT64_MAX));
        assert_int_equal(fake_nlookups, i + 2);
        assert_in_range(fake_now - begun, pause, pause + TICK - 1);
        assert_int_equal(fake_now % TICK, 0);
        pause = 2 * pause < MOST ? 2 * pause : MOST;
    }
    assert_int_equal(pause, MOST);
    by = fake_now + SEC;
    fake_lookup_answer(10, EHOSTUNREACH, 0);
    fake_clock_step(UINT64_MAX);
    assert_int_equal(fake_now, by);
    by = fake_now + 1000 * SEC;
    fake_lookup_answer(11, EHOSTUNREACH, 0);
    fake_clock_step(UINT64_MAX);
    assert_int_equal(fake_now, by - 1000 * SEC + MOST);
    mine[0]->retry.pause = 0; /* by its user */
    fake_lookup_answer(12, EHOSTUNREACH, 0);
    pause = fake_now;
    fake_clock_step(UINT64_MAX);
    assert_int_equal(fake_now, pause + FIRST);
    least = 5 * FIRST; /* it was put off for less by another kind of answer */
    by = 0;
    fake_lookup_answer(13, EHOSTUNREACH, 0);
    pause = fake_now;
    fake_clock_step(UINT64_MAX);
    assert_int_equal(fake_now, pause + least);
}

/* One timer: each has its own pause all the same, and those due at one tick go together. */
static void test_each_its_pause(void **state)
{
    (void)state;
    add(4);
    fake_lookup_answer(0, EHOSTUNREACH, 0);
    fake_clock_pass(FIRST); /* f0 is out again */
    fake_lookup_answer(4, EHOSTUNREACH, 0);
    fake_lookup_answer(1, EHOSTUNREACH, 0);
    fake_clock_pass(1);
    fake_lookup_answer(2, EHOSTUNREACH, 0);
    fake_clock_pass(1);
    fake_lookup_answer(3, EHOSTUNREACH, 0);
    nsteps = 0;
    fake_clock_pass(FIRST + TICK);
    assert_int_equal(fake_nlookups, 8);
    assert_int_equal(fake_lookup[6].at, fake_lookup[7].at);
    assert_int_equal(nsteps, 2);
    fake_clock_pass(FIRST);
    assert_int_equal(fake_nlookups, 9);
    assert_string_equal(fake_lookup[8].upath, "f0");
}

/* The net is better: all that are put off, and their pauses are short again. */
static void test_all_again(void **state)
{
    (void)state;
    retry_queue_again(NULL);
    add(3);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 3; i++)
            fake_lookup_answer(3 * round + i, EHOSTUNREACH, 0);
        fake_clock_pass(MOST + TICK);
    }
    assert_int_equal(fake_nlookups, 12);
    fake_lookup_answer(9, EHOSTUNREACH, 0);
    fake_lookup_answer(10, EHOSTUNREACH, 0);
    retry_queue_again(retries);
    assert_int_equal(fake_nlookups, 14); /* not that which is under way */
    for (unsigned i = 11; i < 14; i++)
        fake_lookup_answer(i, EHOSTUNREACH, 0);
    fake_clock_pass(FIRST + TICK);
    assert_int_equal(fake_nlookups, 17);
    retry_queue_again(retries);
    assert_int_equal(fake_nlookups, 17);
}

/* One of them. Under way: its answer may be from before, whatever it is. */
static void test_one_again(void **state)
{
    (void)state;
    add(2);
    fake_lookup_answer(0, EHOSTUNREACH, 0);
    retry_again(&mine[0]->retry);
    retry_again(&mine[1]->retry);
    assert_int_equal(fake_nlookups, 2);
    retry_queue_go_on(retries);
    assert_int_equal(fake_nlookups, 3);
    fake_lookup_answer(2, EHOSTUNREACH, 0); /* and its pauses begin anew */
    fake_clock_pass(FIRST + TICK);
    assert_int_equal(fake_nlookups, 4);
    next = QUESTION_OVER;
    fake_lookup_answer(1, 0, 5);
    assert_int_equal(fake_nlookups, 5);
    assert_string_equal(fake_lookup[4].upath, "f1");
    assert_int_equal(nfreed, 0);
    fake_lookup_answer(4, 0, 5);
    assert_int_equal(nfreed, 1);
    retry_again(&mine[0]->retry);
    mine[0]->wanted = false;
    fake_lookup_answer(3, 0, 5);
    assert_int_equal(nfreed, 2);
    assert_int_equal(fake_nlookups, 5);
}

static void test_hurry(void **state)
{
    (void)state;
    add(MANY);
    retry_hurry(retry_queue_find(retries, "f19"));
    retry_hurry(retry_queue_find(retries, "f0")); /* is under way already */
    assert_int_equal(fake_nlookups, WINDOW);
    fake_lookup_answer(0, EHOSTUNREACH, 0);
    assert_string_equal(fake_lookup[WINDOW].upath, "f19");
    retry_hurry(retry_queue_find(retries, "f0"));
    next = QUESTION_OVER;
    for (unsigned i = 1; i < MANY; i++)
        fake_lookup_answer(i, 0, 5);
    assert_int_equal(fake_nlookups, MANY); /* not within the call */
    fake_clock_pass(0);
    assert_int_equal(fake_nlookups, MANY + 1);
    fake_lookup_answer(MANY, 0, 5);
    assert_null(retry_queue_find(retries, "f0"));
}

/* Of two with one name that one which somebody can hurry. */
static void test_find(void **state)
{
    struct retry *first, *second;

    (void)state;
    assert_null(retry_queue_find(NULL, "f0"));
    add(WINDOW + 1);
    first = &mine[0]->retry;
    second = retry_queue_add(retries, "f0");
    ((struct mine *)second)->wanted = true;
    assert_ptr_equal(retry_queue_find(retries, "f0"), second);
    fake_lookup_answer(0, EHOSTUNREACH, 0); /* f4 is under way */
    fake_lookup_answer(1, EHOSTUNREACH, 0); /* the second f0 is */
    assert_ptr_equal(retry_queue_find(retries, "f0"), first);
    assert_ptr_equal(retry_queue_find(retries, "f4"), &mine[4]->retry);
    assert_null(retry_queue_find(retries, "f5"));
}

/* In each of its states. The place of what was under way is another's. */
static void test_drop(void **state)
{
    (void)state;
    add(WINDOW + 2);
    retry_drop(&mine[0]->retry);
    assert_false(fake_lookup[0].is_out);
    assert_int_equal(fake_nlookups, WINDOW + 1);
    assert_int_equal(nfreed, 1);
    retry_drop(&mine[5]->retry);
    assert_int_equal(fake_nlookups, WINDOW + 1);
    fake_lookup_answer(1, EHOSTUNREACH, 0);
    retry_drop(&mine[1]->retry);
    assert_int_equal(nfreed, 3);
    fake_clock_pass(1000 * SEC);
    assert_int_equal(fake_nlookups, WINDOW + 1);
}

/* Not wanted any more: it is asked no more, but its answer is heard. */
static void test_not_wanted(void **state)
{
    (void)state;
    add(WINDOW + 2);
    mine[0]->wanted = mine[1]->wanted = mine[4]->wanted = false;
    fake_lookup_answer(0, EHOSTUNREACH, 0);
    assert_non_null(mine[0]);
    assert_string_equal(fake_lookup[WINDOW].upath, "f5");
    assert_null(mine[4]);
    next = QUESTION_OVER;
    fake_lookup_answer(1, 0, 5);
    assert_null(mine[1]);
    nsteps = 0;
    fake_clock_pass(FIRST + TICK);
    assert_null(mine[0]);
    assert_int_equal(nsteps, 1); /* who waited for it may want to know */
    assert_int_equal(fake_nlookups, WINDOW + 1);
    assert_int_equal(nfreed, 3);
}

/* It is its user's: the queue forgets it. */
static void test_kept(void **state)
{
    struct mine *kept;

    (void)state;
    add(1);
    kept = mine[0];
    next = QUESTION_KEPT;
    fake_lookup_answer(0, 0, 5);
    assert_false(retry_queue_any(retries));
    assert_int_equal(nfreed, 0);
    assert_string_equal(kept->retry.upath, "f0");
    retry_queue_destroy(retries);
    retries = NULL;
    assert_int_equal(nfreed, 0);
    free(kept);
    mine[0] = NULL;
}

/* Under way, waiting, put off: nothing is answered any more. */
static void test_destroy(void **state)
{
    (void)state;
    add(MANY);
    fake_lookup_answer(0, EHOSTUNREACH, 0);
    assert_int_equal(fake_lookups_out(), WINDOW);
    retry_queue_destroy(retries);
    retries = NULL;
    assert_int_equal(fake_lookups_out(), 0);
    assert_int_equal(nfreed, MANY);
    fake_clock_end();
    retry_queue_destroy(NULL);
    assert_false(retry_queue_any(NULL));
    assert_false(retry_queue_asking(NULL));
    assert_null(retry_queue_add(NULL, "f0"));
    retry_queue_go_on(NULL);
}

static void test_no_memory(void **state)
{
    (void)state;
    fake_lookups_refused = 3;
    add(4);
    assert_int_equal(status, ENOMEM);
    assert_int_equal(fake_nlookups, 1);
    assert_string_equal(fake_lookup[0].upath, "f3");
    fake_clock_pass(FIRST + TICK);
    assert_int_equal(fake_nlookups, 4);
    next = QUESTION_OVER;
    fake_lookups_refused = 1;
    mine[4] = retry_queue_add(retries, "f4");
    mine[4]->wanted = true;
    fake_lookup_answer(0, 0, 5);
    assert_null(mine[4]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_answered, setup, teardown),
        cmocka_unit_test_setup_teardown(test_window, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pauses, setup, teardown),
        cmocka_unit_test_setup_teardown(test_each_its_pause, setup, teardown),
        cmocka_unit_test_setup_teardown(test_all_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hurry, setup, teardown),
        cmocka_unit_test_setup_teardown(test_find, setup, teardown),
        cmocka_unit_test_setup_teardown(test_drop, setup, teardown),
        cmocka_unit_test_setup_teardown(test_not_wanted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(test_destroy, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_memory, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
