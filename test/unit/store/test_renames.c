/* store/renames.h: what a process that was killed in a rename has left. */
#include "scratch.h"

#include <signal.h>

#include "store/marks_table.h"
#include "store/renames.h"

#include "marks_users.h"

static const struct store_rename one = {.ino = 7, .from = "a/old", .to = "new"};

static struct found {
    unsigned n;
    store_rename_t place;
    bool takes;
} found;

static bool note(const struct store_rename *rename, store_rename_t place, void *arg)
{
    (void)arg;
    assert_int_equal(rename->ino, one.ino);
    assert_string_equal(rename->from, one.from);
    assert_string_equal(rename->to, one.to);
    found.n++;
    found.place = place;
    return found.takes;
}

static unsigned left(const char *session, bool own, bool takes)
{
    found = (struct found){.takes = takes};
    store_renames_left(marks, store_renames_session(session), own, note, NULL);
    return found.n;
}

static bool renames(const void *takes)
{
    return *(const bool *)takes
               ? left("s", false, true) == 1
               : store_renames_begin(marks, store_renames_session("s"), &one) != 0;
}

/* A process that begins it, or takes what others have left if `takes`. */
static pid_t process(bool takes)
{
    return begin(renames, &takes);
}

static void test_killed(void **state)
{
    pid_t pid = process(false);

    (void)state;
    assert_int_equal(left("s", true, true), 0); /* it lives */
    end(pid);
    assert_int_equal(left("other", true, true), 0);
    assert_int_equal(left("s", true, false), 1); /* given back */
    assert_int_equal(left("s", false, true), 1);
    assert_int_equal(left("s", false, true), 0); /* it is ours */
    assert_int_equal(left("s", true, true), 1);  /* for who comes after us, too */
    store_renames_give_back(marks, found.place);
    assert_int_equal(left("s", false, true), 1);
    store_renames_end(marks, found.place);
    assert_int_equal(left("s", true, true), 0);
}

/* Who had taken it is killed, too. */
static void test_taker_killed(void **state)
{
    pid_t pid;

    (void)state;
    end(process(false));
    pid = process(true);
    assert_int_equal(left("s", false, true), 0);
    end(pid);
    assert_int_equal(left("s", false, true), 1);
    store_renames_end(marks, found.place);
}

/* Killed while it filled the place in: that is free again. */
static void test_half(void **state)
{
    pid_t pid = process(false);

    (void)state;
    atomic_store(&marks->table->renames[0].state, MARKS_RENAME_EMPTY);
    end(pid);
    assert_int_not_equal(atomic_load(&marks->table->renames[0].owner), 0);
    assert_int_equal(left("s", true, true), 0);
    assert_int_equal(atomic_load(&marks->table->renames[0].owner), 0);
}

/* Nobody of its session comes: after an hour the place is free if there is no other. */
static void test_reclaim(void **state)
{
    (void)state;
    end(process(false));
    for (unsigned i = 1; i < MARKS_RENAMES; i++)
        assert_int_not_equal(store_renames_begin(marks, 1, &one), 0);
    assert_int_equal(store_renames_begin(marks, 1, &one), 0);
    atomic_fetch_sub(&marks->table->renames[0].since, 3600);
    assert_int_equal(store_renames_begin(marks, 1, &one), 1);
    assert_int_equal(left("s", true, true), 0);
}

static void test_bounds(void **state)
{
    store_rename_t place[MARKS_RENAMES];
    char name[STORE_RENAME_MAX];
    struct store_rename rename = {.from = "", .to = name};

    (void)state;
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    assert_int_equal(store_renames_begin(marks, 1, &rename), 0);
    name[sizeof(name) - 2] = '\0';
    for (unsigned i = 0; i < MARKS_RENAMES; i++)
        assert_int_not_equal(place[i] = store_renames_begin(marks, 1, &rename), 0);
    assert_int_equal(store_renames_begin(marks, 1, &rename), 0);
    store_renames_end(marks, place[3]);
    assert_int_equal(store_renames_begin(marks, 1, &rename), place[3]);
    for (unsigned i = 0; i < MARKS_RENAMES; i++)
        store_renames_end(marks, place[i]);
}

/* The machine was booted anew. */
static void test_next_boot(void **state)
{
    struct scratch *s = *state;
    struct store_marks next = {.table = NULL};
    struct store_marks *now = marks;

    assert_int_not_equal(store_renames_begin(marks, store_renames_session("s"), &one), 0);
    next.table =
        store_marks_table_map(s->dir, "00000000-0000-0000-0000-000000000001", &next.path);
    assert_non_null(next.table);
    marks = &next;
    assert_int_equal(left("s", false, true), 1);
    marks = now;
    store_marks_table_unmap(next.table);
    free(next.path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_killed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_taker_killed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_half, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reclaim, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bounds, setup, teardown),
        cmocka_unit_test_setup_teardown(test_next_boot, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
