/* store/renames.h: what a process that was killed in a rename has left. */
#include "scratch.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

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

/* --- between pid namespaces --- */

/* Somewhere else, somebody with this number; none of ours has it. */
#define FOREIGN ((uint64_t)0x3fffff << 32 | 17)

static struct marks_rename *foreign(uint32_t ns, uint32_t since)
{
    struct marks_rename *place = &marks->table->renames[0];

    end(process(false));
    atomic_store(&place->since, since);
    if (ns)
        atomic_store(&place->ns, ns);
    atomic_store(&place->owner, FOREIGN);
    return place;
}

static uint32_t seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint32_t)now.tv_sec;
}

/* It has won the place of one of our namespace, and has not written down yet of which it
 * is: it is not looked for here. */
static void test_foreign_claims(void **state)
{
    struct marks_rename *place = foreign(0, seconds());

    (void)state;
    assert_int_equal(left("s", true, true), 0);
    atomic_store(&place->state, MARKS_RENAME_EMPTY);
    assert_int_equal(left("s", true, true), 0);
    assert_int_equal(atomic_load(&place->owner), FOREIGN);
    /* It was killed there. */
    atomic_store(&place->state, MARKS_RENAME_WHOLE);
    atomic_fetch_sub(&place->since, 600);
    assert_int_equal(left("s", true, true), 1);
}

/* It came when we had looked at the clock. */
static void test_foreign_is_later(void **state)
{
    struct marks_rename *place = foreign(1, seconds() + 1);

    (void)state;
    assert_int_equal(left("s", true, true), 0);
    for (unsigned i = 1; i < MARKS_RENAMES; i++)
        assert_int_not_equal(store_renames_begin(marks, 1, &one), 0);
    assert_int_equal(store_renames_begin(marks, 1, &one), 0);
    assert_int_equal(atomic_load(&place->owner), FOREIGN);
}

static _Atomic unsigned rounds, nold;

static void *watch(void *arg)
{
    struct marks_rename *place = &marks->table->renames[0];
    unsigned round;

    (void)arg;
    while ((round = atomic_load(&rounds)) > 0) {
        uint64_t owner = atomic_load(&place->owner);
        uint32_t since = atomic_load(&place->since);
        if (owner && atomic_load(&rounds) == round && seconds() - since > 600)
            atomic_fetch_add(&nold, 1);
    }
    return NULL;
}

/* At no moment a place has an owner and its former one's time. */
static void test_since_is_of_the_owner(void **state)
{
    struct marks_rename *place = &marks->table->renames[0];
    pthread_t thread;

    (void)state;
    atomic_store(&nold, 0);
    atomic_store(&rounds, 100000);
    assert_int_equal(pthread_create(&thread, NULL, watch, NULL), 0);
    while (atomic_fetch_sub(&rounds, 1) > 1) {
        atomic_store(&place->since, seconds() - 700);
        assert_int_equal(store_renames_begin(marks, 1, &one), 1);
        store_renames_end(marks, 1);
    }
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&nold), 0);
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
        cmocka_unit_test_setup_teardown(test_foreign_claims, setup, teardown),
        cmocka_unit_test_setup_teardown(test_foreign_is_later, setup, teardown),
        cmocka_unit_test_setup_teardown(test_since_is_of_the_owner, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
