/*
 * test_consume_states.c - a wait leaves a state with all that it had there
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/core/local_file.h"
#include "engine/core/turns.h"
#include "fake_consume.h"
#include "store/superseded.h"

/* The only wait that there is. */
static struct consume *begin(const char *upath, uint8_t flags, uint64_t timeout_ms)
{
    struct consume *c;

    consume_cancel(fake->consume);
    fake->status = -1;
    c = fake_start(upath, flags, timeout_ms);
    fake_run();
    return c;
}

/* Version `counter` of it is found, which rank 7 has in another storage. */
static void find(struct consume *c, uint64_t counter)
{
    struct dyad_entry entry = fake_entry(counter, 7);

    fake_answer_with(true, 0, &entry);
    assert_int_equal(c->state, CONSUME_FETCH);
    assert_ptr_equal(fake->transfer, &c->transfer);
}

static void fetched(int status)
{
    struct transfer_wait *wait = fake->transfer;

    fake->transfer = NULL;
    wait->fn(wait->arg, status);
}

/* As told by the homes. */
static void writers_answered(int status, uint64_t counter)
{
    struct dyad_version version = {.counter = counter};
    dht_writing_ask_fn fn = fake->ask_writers;

    assert_non_null(fn);
    fake->ask_writers = NULL;
    fn(fake->writers_arg, status, 3, &version);
}

/* It can end before the loop has come to it. */
static void test_over_at_once(void **state)
{
    (void)state;
    consume_end(fake_start("g", NET_LOOKUP_WAIT, 0), ETIMEDOUT);
    consume_cancel(fake_start("h", NET_LOOKUP_WAIT, 0));
    fake_run();
    assert_int_equal(fake->status, ETIMEDOUT);
    assert_ptr_equal(fake->member.consumes, fake->consume);
    assert_null(fake->consume->next);
}

/* A link is above it: that is brought, and the wait is none for a publish any more. The end
 * of the member may come then. */
static void test_link_above(void **state)
{
    struct consume *c;

    (void)state;
    fake->is_below = true;
    c = fake_start("d/f", NET_LOOKUP_WAIT, 0);
    fake_run();
    assert_int_equal(c->state, CONSUME_LOOK_UP);
    assert_non_null(fake->above);
    fake->above(fake->above_arg, EINPROGRESS);
    assert_int_equal(c->state, CONSUME_LINK);
    assert_null(c->lookup);
    assert_false(consume_is_waiting(c));
    fake_run();
    assert_int_equal(c->link->state, CONSUME_LOOK_UP);
    modules_destroy(&fake->member); /* it stands before its link in the list */
    assert_null(fake->member.consumes);
    assert_int_equal(fake->status, -1);
}

/* Who does not wait asks for the directories above, too. */
static void test_nothing_above(void **state)
{
    struct consume *c;

    (void)state;
    fake->is_below = true;
    c = begin("d/f", 0, 0);
    fake_answer_with(false, ENOENT, NULL);
    assert_int_equal(c->state, CONSUME_ABOVE);
    assert_non_null(fake->above);
    fake->above(fake->above_arg, ENOENT);
    assert_int_equal(fake->status, ENOENT);
    assert_null(fake->above);
}

/* What was withdrawn goes here, too, before the open goes on. */
static void test_withdrawn(void **state)
{
    struct dyad_entry entry = fake_entry(1, 7);

    (void)state;
    begin("f", 0, 0);
    entry.state = DYAD_ENTRY_WITHDRAWN;
    fake_answer_with(false, ENOENT, &entry);
    assert_int_equal(fake->status, ENOENT);
    assert_int_equal(fake->withdrawn, 1);
}

/* What is found is fetched; what is above it is of no interest any more. */
static void test_link_above_what_is_found(void **state)
{
    struct consume *c;

    (void)state;
    fake->is_below = true;
    c = begin("d/f", NET_LOOKUP_WAIT, 0);
    assert_non_null(fake->above);
    find(c, 1);
    assert_null(fake->above);
}

/* Whose owner is lost is looked up once more, as if it had not been found. */
static void lose(struct consume *c)
{
    fake->member.ring = (void *)fake;
    find(c, 1);
    fetched(EHOSTUNREACH);
    assert_int_equal(c->state, CONSUME_OWNER);
    assert_int_equal(c->seen.counter, 0);
}

/* A home that has not heard of that version knows a tombstone only: it does not count, and the file here, which may be
 * the last one, stays. */
static void test_withdrawn_before(void **state)
{
    struct dyad_entry entry = fake_entry(0, 7);
    struct consume *c = begin("f", NET_LOOKUP_WAIT, 0);

    (void)state;
    lose(c);
    entry.state = DYAD_ENTRY_WITHDRAWN;
    fake_look_again(c);
    fake_answer_with(true, ENOENT, &entry);
    assert_int_equal(c->state, CONSUME_OWNER);
    assert_int_equal(fake->withdrawn, 0);
    fake->member.ring = NULL;
}

/* The last look finds who has taken it over since. */
static void test_last_look_at_lost(void **state)
{
    struct dyad_entry entry = fake_entry(1, 8);
    struct consume *c = begin("f", NET_LOOKUP_WAIT, 0);

    (void)state;
    lose(c);
    consume_fail_waiting(&fake->member, false);
    assert_int_equal(c->state, CONSUME_LAST_LOOK);
    assert_int_equal(c->lookup->newer_than, 0);
    fake->live = true;
    fake_answer_with(false, 0, &entry);
    assert_int_equal(c->state, CONSUME_FETCH);
    fake->member.ring = NULL;
}

/* ... and not once more that nobody has it. */
static void test_last_look_in_vain(void **state)
{
    struct dyad_entry entry = fake_entry(1, 7);
    struct consume *c = begin("f", NET_LOOKUP_WAIT, 0);

    (void)state;
    lose(c);
    consume_fail_waiting(&fake->member, false);
    fake_answer_with(false, 0, &entry);
    assert_int_equal(fake->status, ENOENT);
    fake->member.ring = NULL;
}

/* DYAD_TIMEOUT passes while the bytes are on their way, and then another node writes it:
 * that is not waited for. */
static void test_late_and_written(void **state)
{
    struct consume *c;

    (void)state;
    fake->config.peer_timeout = 60;
    c = begin("g", NET_LOOKUP_WAIT, 300); /* not by itself, on a slow machine */
    find(c, 1);
    fake_run_until(c->since + 400 * UTIL_NSEC_PER_MSEC);
    assert_true(c->deadline.late);
    scratch_write(fake->scratch, "g", "x");
    fetched(0);
    assert_int_equal(c->state, CONSUME_WRITERS);
    assert_false(fake->writers_wait);
    writers_answered(EBUSY, 0);
    assert_int_equal(fake->status, ETIMEDOUT);
}

static void marked_as(enum store_old kind)
{
    struct member_dmd *dmd = &fake->member.dmd[ENGINE_CONSUMER];
    struct store_identity id;
    int fd;

    scratch_write(fake->scratch, "g", "x");
    fd = store_dir_open(fake->scratch->dir, "g", O_PATH, 0);
    assert_int_equal(store_identity_read(fd, &id), 0);
    close(fd);
    assert_int_equal(store_superseded_set(dmd->dir, dmd->session, "g", kind, &id), 0);
}

/* A file that was pending, when no other node writes it any more. */
static struct consume *written_no_more(void)
{
    struct consume *c;

    marked_as(STORE_PENDING);
    c = begin("g", NET_LOOKUP_WAIT, 0);
    assert_int_equal(c->state, CONSUME_WRITERS);
    assert_true(c->here.pending);
    writers_answered(0, 0);
    assert_int_equal(c->state, CONSUME_LOOK_UP);
    return c;
}

static bool is_pending(void)
{
    struct stat st;

    assert_int_equal(stat(scratch_path(fake->scratch, "g"), &st), 0);
    return local_file_is_pending(&fake->member.dmd[ENGINE_CONSUMER], "g", &st);
}

/* It has other nodes' pieces, with which it was not published: the newest is another node's. */
static void test_pending_and_older(void **state)
{
    struct consume *c = written_no_more();
    struct dyad_entry entry = fake_entry(2, 7);

    (void)state;
    fake_answer_with(false, 0, &entry);
    assert_int_equal(c->state, CONSUME_FETCH);
    assert_true(is_pending()); /* until that is in its place */
}

/* It is the newest. */
static void test_pending_and_newest(void **state)
{
    (void)state;
    written_no_more();
    fake_answer(false);
    assert_int_equal(fake->status, 0);
    assert_false(is_pending());
}

/* It is a copy of that. */
static void test_pending_copy(void **state)
{
    struct dyad_entry entry = fake_entry(2, 7);
    struct stat st;

    (void)state;
    written_no_more();
    assert_int_equal(stat(scratch_path(fake->scratch, "g"), &st), 0);
    entry.size = (uint64_t)st.st_size;
    entry.mtime_sec = st.st_mtim.tv_sec;
    entry.mtime_nsec = (uint32_t)st.st_mtim.tv_nsec;
    fake_answer_with(false, 0, &entry);
    assert_int_equal(fake->status, 0);
    assert_false(is_pending());
}

static void test_pending_and_unpublished(void **state)
{
    (void)state;
    written_no_more();
    fake_answer_with(false, ENOENT, NULL);
    assert_int_equal(fake->status, 0);
    assert_false(is_pending());
}

static void test_pending_and_unknown(void **state)
{
    (void)state;
    written_no_more();
    fake_answer_with(false, EHOSTUNREACH, NULL);
    assert_int_equal(fake->status, EHOSTUNREACH);
    assert_true(is_pending());
}

/* It cannot be put into place, and nothing is there: a writer here has removed what he had
 * made, so it is fetched at once; if that is no help it is not fetched without a pause. */
static void test_gives_way_to_nothing(void **state)
{
    struct consume *c = begin("f", NET_LOOKUP_WAIT, 0);

    (void)state;
    fake->config.join_timeout = 60;
    find(c, 1);
    fetched(EEXIST);
    assert_int_equal(c->state, CONSUME_LOOK_UP);
    assert_int_equal(c->lookup->newer_than, 0);
    for (int i = 0; i < 3; i++) {
        find(c, 1);
        fetched(EEXIST);
        assert_int_equal(c->state, CONSUME_SIGHT);
        fake_look_again(c);
        assert_int_equal(c->state, CONSUME_LOOK_UP);
    }
    find(c, 1);
    scratch_write(fake->scratch, "f", "x");
    fetched(EEXIST);
    assert_int_equal(c->state, CONSUME_WRITERS); /* complete */
}

/* ... and not for ever. */
static void test_gives_way_for_ever(void **state)
{
    struct consume *c = begin("f", NET_LOOKUP_WAIT, 0);

    (void)state;
    fake->config.join_timeout = 0;
    find(c, 1);
    fetched(EEXIST);
    find(c, 1);
    fetched(EEXIST);
    assert_int_equal(fake->status, EIO);
}

/* A look-up looks once more now and then. What it finds is fetched in peace. */
static void test_timer_of_look_up(void **state)
{
    uint64_t when = util_clock_now();
    struct consume *c;

    (void)state;
    scratch_write(fake->scratch, "g", "x");
    c = begin("g", NET_LOOKUP_WAIT, 0);
    assert_int_equal(c->state, CONSUME_WRITERS);
    writers_answered(EOWNERDEAD, 1);
    assert_int_equal(c->state, CONSUME_LOOK_UP);
    net_timer_start(c->again, when);
    find(c, 2);
    fake_run_until(when + 1);
    assert_int_equal(c->state, CONSUME_FETCH);
}

/* Who does not wait for what is not published waits for a writer, and no longer than he
 * writes: he may remove it. */
static void test_writer_removes_it(void **state)
{
    struct store_marks *marks = fake->member.dmd[ENGINE_CONSUMER].marks;
    store_mark_t mark = store_marks_begin(marks, "g");
    int fd = store_dir_open(fake->scratch->dir, "g", O_CREAT | O_RDWR, 0600);
    struct consume *c;

    (void)state;
    assert_int_equal(store_marks_opened(marks, mark, fd, true), 0);
    c = begin("g", 0, 0);
    assert_true(c->lookup->waits);
    assert_int_equal(unlink(scratch_path(fake->scratch, "g")), 0);
    close(fd);
    fake_look_again(c);
    assert_false(c->lookup->waits);
    fake_answer_with(false, ENOENT, NULL);
    assert_int_equal(fake->status, ENOENT);
}

/* The homes have it when its writer is killed in its close, and the look-up has said so by
 * then: nobody publishes it once more, so what takes it over is looked for. */
static void test_writer_killed_in_close(void **state)
{
    struct store_marks *marks = fake->member.dmd[ENGINE_CONSUMER].marks;
    store_mark_t mark = store_marks_begin(marks, "f");
    int fd = store_dir_open(fake->scratch->dir, "f", O_CREAT | O_RDWR, 0600);
    struct consume *c;

    (void)state;
    assert_int_equal(store_marks_opened(marks, mark, fd, true), 0);
    c = begin("f", NET_LOOKUP_WAIT, 0);
    fake_answer(true);
    assert_int_equal(c->seen.counter, 1);
    assert_int_equal(c->state, CONSUME_LOOK_UP);
    assert_false(c->here.abandoned);
    assert_true(store_marks_closed(marks, mark, -1, true));
    store_marks_abandon(marks, mark);
    close(fd);
    fake_look_again(c); /* as when the watch over the writer comes back */
    assert_true(c->here.abandoned);
    assert_int_equal(fake->status, -1);
    store_marks_clear(marks, mark); /* taken over */
    fake_run_until(util_clock_now() + CONSUME_LOOK_AGAIN + UTIL_NSEC_PER_MSEC);
    assert_int_equal(c->state, CONSUME_WRITERS); /* it is complete */
}

/* It was out of date, was written since, and is being published: who waits for nothing looks, too. */
static void test_unsettled(void **state)
{
    struct dyad_entry entry = fake_entry(2, 7);
    struct consume *c;

    (void)state;
    marked_as(STORE_UNSETTLED);
    c = begin("g", 0, 0);
    assert_int_equal(c->state, CONSUME_LOOK_UP);
    fake_answer_with(false, 0, &entry); /* another node's is still the newest */
    assert_int_equal(c->state, CONSUME_FETCH);
}

static void test_settled(void **state)
{
    (void)state;
    marked_as(STORE_UNSETTLED);
    begin("g", 0, 0);
    fake_answer(false); /* the homes have taken it */
    assert_int_equal(fake->status, 0);
}

/* DYAD_TURNS: the newest version is of this component, and lies here or elsewhere: who reads it waits for another
 * component's. Who writes it, or does not wait, does not. */
static void test_turns(void **state)
{
    struct dyad_entry own = fake_entry(2, 7), other = fake_entry(3, 7);
    const char *storage = (const char *)store_dir_id(fake->scratch->dir);
    struct consume *c;

    (void)state;
    fake->config.turns = "g";
    fake->config.component = "model";
    own.component = turns_component(&fake->member);
    other.component = own.component + 1;
    c = begin("g", NET_LOOKUP_WAIT, 0);
    fake_answer_with(true, 0, &own);
    assert_int_equal(c->state, CONSUME_LOOK_UP);
    assert_true(c->own_turn);
    assert_int_equal(c->seen.counter, 2);
    fake_answer_with(true, 0, &other);
    assert_int_equal(c->state, CONSUME_FETCH);

    fake->consume = c;
    scratch_write(fake->scratch, "g", "x");
    memcpy(own.storage, storage, sizeof(own.storage));
    memcpy(other.storage, storage, sizeof(other.storage));
    c = begin("g", NET_LOOKUP_WAIT, 0); /* in a storage that nodes share */
    writers_answered(0, 0);
    fake_answer_with(false, 0, &own);
    assert_int_equal(c->state, CONSUME_LOOK_UP);
    fake_answer_with(true, 0, &other); /* by another process here */
    writers_answered(0, 0);
    fake_answer_with(false, 0, &other);
    assert_int_equal(fake->status, 0);

    for (unsigned i = 0; i < 3; i++) {
        static const uint8_t flags[] = {0, NET_LOOKUP_WAIT | NET_CONSUME_WRITER,
                                        NET_LOOKUP_WAIT | NET_CONSUME_UPDATE};
        fake->consume = fake_start("h", NET_LOOKUP_WAIT, 0);
        begin("g", flags[i], 0);
        if (i == 0)
            writers_answered(0, 0);
        assert_int_equal(fake->status, 0);
    }
    fake->consume = fake_start("h", NET_LOOKUP_WAIT, 0);
    fake->config.turns = "h*";
    begin("g", NET_LOOKUP_WAIT, 0);
    writers_answered(0, 0);
    assert_int_equal(fake->status, 0);
}

static void test_settled_as_conflict(void **state)
{
    struct dyad_entry entry = fake_entry(2, 7);

    (void)state;
    marked_as(STORE_UNSETTLED);
    begin("g", 0, 0);
    memcpy(entry.storage, store_dir_id(fake->scratch->dir), sizeof(entry.storage));
    entry.conflict = true;
    fake_answer_with(false, 0, &entry);
    assert_int_equal(fake->status, EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_over_at_once, fake_set_up, fake_tear_down),
        cmocka_unit_test_setup_teardown(test_link_above, fake_set_up, fake_tear_down),
        cmocka_unit_test_setup_teardown(test_nothing_above, fake_set_up, fake_tear_down),
        cmocka_unit_test_setup_teardown(test_withdrawn, fake_set_up, fake_tear_down),
        cmocka_unit_test_setup_teardown(test_withdrawn_before, fake_set_up, fake_tear_down),
        cmocka_unit_test_setup_teardown(test_link_above_what_is_found, fake_set_up,
                                        fake_tear_down),
        cmocka_unit_test_setup_teardown(test_last_look_at_lost, fake_set_up,
                                        fake_tear_down),
        cmocka_unit_test_setup_teardown(test_last_look_in_vain, fake_set_up,
                                        fake_tear_down),
        cmocka_unit_test_setup_teardown(test_late_and_written, fake_set_up, fake_tear_down),
        cmocka_unit_test_setup_teardown(test_pending_and_older, fake_set_up,
                                        fake_tear_down),
        cmocka_unit_test_setup_teardown(test_pending_and_newest, fake_set_up,
                                        fake_tear_down),
        cmocka_unit_test_setup_teardown(test_pending_copy, fake_set_up, fake_tear_down),
        cmocka_unit_test_setup_teardown(test_pending_and_unpublished, fake_set_up,
                                        fake_tear_down),
        cmocka_unit_test_setup_teardown(test_pending_and_unknown, fake_set_up,
                                        fake_tear_down),
        cmocka_unit_test_setup_teardown(test_unsettled, fake_set_up, fake_tear_down),
        cmocka_unit_test_setup_teardown(test_settled, fake_set_up, fake_tear_down),
        cmocka_unit_test_setup_teardown(test_turns, fake_set_up, fake_tear_down),
        cmocka_unit_test_setup_teardown(test_settled_as_conflict, fake_set_up,
                                        fake_tear_down),
        cmocka_unit_test_setup_teardown(test_gives_way_to_nothing, fake_set_up,
                                        fake_tear_down),
        cmocka_unit_test_setup_teardown(test_gives_way_for_ever, fake_set_up,
                                        fake_tear_down),
        cmocka_unit_test_setup_teardown(test_timer_of_look_up, fake_set_up, fake_tear_down),
        cmocka_unit_test_setup_teardown(test_writer_removes_it, fake_set_up,
                                        fake_tear_down),
        cmocka_unit_test_setup_teardown(test_writer_killed_in_close, fake_set_up,
                                        fake_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
