/*
 * test_consume_wave.c - a wave of the barrier meets a wait whose answer is just coming
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "boot/procs.h"
#include "fake_consume.h"

static void test_quiet(void **state)
{
    (void)state;
    fake_look();
    assert_int_equal(fake->report, QUIET);
    fake_ask(1);
    assert_int_equal(fake->answers, 0); /* not before the table has said so */
    struct dht_lookup *check = fake_take(false, NULL);
    assert_non_null(check);
    check->fn(check->arg, ENOENT, NULL);
    free(check);
    assert_int_equal(fake->answers, 1);
    assert_int_equal(fake->answer, QUIET);
    assert_int_equal(fake->status, -1);
}

/* The wave's own look-up is the one that finds it: the wave is answered with that, and not
 * left to be repeated. */
static void test_found_by_the_wave(void **state)
{
    (void)state;
    fake_look();
    fake_ask(1);
    fake_answer(false);
    assert_int_equal(fake->answers, 1);
    assert_int_equal(fake->answer, 0);
    assert_int_equal(fake->status, -1); /* until it is seen */
}

/* It was told of the publish, and waits for the file to be seen: nobody may be told that
 * this rank's processes will do nothing any more. */
static void test_published_but_not_seen(void **state)
{
    (void)state;
    fake_look();
    assert_int_equal(fake->report, QUIET);
    fake_answer(true);
    assert_int_equal(fake->report, 0);
    fake_ask(1);
    assert_int_equal(fake->answers, 1);
    assert_int_equal(fake->answer, 0);
}

/* The same where others may join, and so an owner that is gone is waited for without end:
 * this is not such a wait. */
static void test_not_seen_in_a_session(void **state)
{
    struct boot_blocked blocked;

    (void)state;
    fake->member.ring = (void *)fake;
    fake_look();
    assert_int_equal(fake->report, QUIET);
    fake_answer(true);
    assert_int_equal(consume_blocked(&fake->member, &blocked, 1), 0);
    consume_say_waiting(&fake->member); /* nobody is told that nobody has published it */
    assert_false(fake->consume->say.alone);
    consume_fail_waiting(&fake->member,
                         false); /* nor does it end when the launcher is gone */
    assert_null(fake_take(false, NULL));
    assert_int_equal(fake->status, -1);
    fake->member.ring = NULL;
}

/* How long it was not seen counts from that time, not from one before it was there. */
static void test_seen_and_gone(void **state)
{
    int fd;

    (void)state;
    fake_answer(true);
    assert_true(fake->consume->unseen_since > 0);
    assert_true((fd = store_dir_open(fake->scratch->dir, "f", O_CREAT | O_WRONLY, 0600)) >=
                0);
    close(fd);
    fake_look_again(fake->consume);
    assert_non_null(fake->consume->ask_writers); /* it is seen; does anybody write it? */
    assert_int_equal(fake->consume->unseen_since, 0);
    assert_false(consume_is_waiting(fake->consume));
}

/* In a session: version 1 of it was found, and `first` has gone. A wave asks, and the table
 * says that it is `then`'s. */
static void lose(uint32_t first, uint32_t then)
{
    struct dyad_entry entry = {
        .upath = "f", .version.counter = 1, .mode = S_IFREG | 0644, .owner = then};
    struct consume *c = fake->consume;
    struct dht_lookup *lookup = fake_take(true, NULL);

    fake->member.ring = (void *)fake;
    assert_ptr_equal(lookup, c->lookup);
    free(lookup);
    c->lookup = NULL;
    c->entry.version.counter = 1;
    c->entry.owner = DYAD_RANK_NONE;
    consume_unsee(c);
    consume_enter(c, CONSUME_OWNER);
    consume_owner_lost(c, first);
    fake_look();
    assert_int_equal(fake->report, QUIET);
    fake_ask(1);
    lookup = fake_take(false, NULL);
    assert_non_null(lookup);
    assert_int_equal(lookup->newer_than, 0); /* or this version would be none */
    memcpy(entry.storage, store_dir_id(fake->scratch->dir), sizeof(entry.storage));
    lookup->fn(lookup->arg, 0, &entry);
    free(lookup);
    fake->member.ring = NULL;
    assert_int_equal(fake->answers, 1);
    assert_int_equal(fake->status, -1);
}

/* Nobody has it any more: who comes to its node will. */
static void test_owner_gone(void **state)
{
    (void)state;
    lose(7, 7);
    assert_int_equal(fake->answer, QUIET);
    assert_int_equal(fake->consume->state, CONSUME_OWNER);
}

/* Somebody has taken it over, and may be at his exit: he must not leave. */
static void test_owner_followed(void **state)
{
    (void)state;
    fake->live = true;
    lose(7, 8);
    assert_int_equal(fake->answer, 0);
    assert_int_equal(fake->consume->state, CONSUME_SIGHT); /* it goes on by itself */
    assert_int_equal(fake->consume->entry.owner, 8);
}

/* Who had taken it over is gone, too: or two homes that name two dead owners would keep all
 * from leaving. */
static void test_heir_gone(void **state)
{
    (void)state;
    lose(7, 8);
    assert_int_equal(fake->answer, QUIET);
    assert_int_equal(fake->consume->state, CONSUME_OWNER);
}

/* It must not if the owner is back from exec, or may be on its way. */
static void test_owner_back(void **state)
{
    (void)state;
    fake->live = true;
    lose(7, 7);
    assert_int_equal(fake->answer, 0);
}

static void test_owner_in_exec(void **state)
{
    (void)state;
    fake->returns = true;
    lose(7, 7);
    assert_int_equal(fake->answer, 0);
}

/* A server is about to take it over: nobody may leave for this wait, as long as that may
 * take. */
static void test_server_takes_over(void **state)
{
    struct consume *c = fake->consume;
    struct dht_lookup *lookup = fake_take(true, NULL);
    unsigned looks = 0;

    (void)state;
    free(lookup);
    c->lookup = NULL;
    c->entry.owner = 7;
    fake->member.ring = (void *)fake;
    fake->server = true;
    consume_enter(c, CONSUME_OWNER);
    consume_owner_lost(c, 7);
    while (!consume_is_waiting(c)) {
        assert_int_equal(c->state, CONSUME_OWNER);
        assert_true(++looks < 10);
        consume_owner_lost(c, 7); /* looked up again: it is his still */
    }
    assert_true(looks > 3);
    fake->member.ring = NULL;
}

/* Nobody is left: it ends after one more look that does not wait. */
static void test_last_look(void **state)
{
    struct dht_lookup *last;

    (void)state;
    consume_fail_waiting(&fake->member, false);
    assert_null(fake_take(true, NULL));
    assert_int_equal(fake->consume->state, CONSUME_LAST_LOOK);
    assert_true(consume_is_failing(&fake->member));
    last = fake->consume->lookup;
    consume_fail_waiting(&fake->member, false); /* told again: that look goes on */
    assert_ptr_equal(fake->consume->lookup, last);
    assert_ptr_equal(fake_take(false, NULL), last);
    last->fn(last->arg, ENOENT, NULL);
    free(last);
    assert_int_equal(fake->status, ENOENT);
    assert_null(fake->member.consumes);
}

/* ... which may find it. */
static void test_last_look_finds(void **state)
{
    (void)state;
    consume_fail_waiting(&fake->member, false);
    fake_answer(false);
    assert_int_equal(fake->status, -1);
    assert_int_equal(fake->consume->state, CONSUME_SIGHT);
    assert_false(consume_is_failing(&fake->member));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_quiet, fake_set_up, fake_tear_down),
        cmocka_unit_test_setup_teardown(test_found_by_the_wave, fake_set_up,
                                        fake_tear_down),
        cmocka_unit_test_setup_teardown(test_published_but_not_seen, fake_set_up,
                                        fake_tear_down),
        cmocka_unit_test_setup_teardown(test_not_seen_in_a_session, fake_set_up,
                                        fake_tear_down),
        cmocka_unit_test_setup_teardown(test_seen_and_gone, fake_set_up, fake_tear_down),
        cmocka_unit_test_setup_teardown(test_owner_gone, fake_set_up, fake_tear_down),
        cmocka_unit_test_setup_teardown(test_owner_followed, fake_set_up, fake_tear_down),
        cmocka_unit_test_setup_teardown(test_heir_gone, fake_set_up, fake_tear_down),
        cmocka_unit_test_setup_teardown(test_owner_back, fake_set_up, fake_tear_down),
        cmocka_unit_test_setup_teardown(test_owner_in_exec, fake_set_up, fake_tear_down),
        cmocka_unit_test_setup_teardown(test_server_takes_over, fake_set_up,
                                        fake_tear_down),
        cmocka_unit_test_setup_teardown(test_last_look, fake_set_up, fake_tear_down),
        cmocka_unit_test_setup_teardown(test_last_look_finds, fake_set_up, fake_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
