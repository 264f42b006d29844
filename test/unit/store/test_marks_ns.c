/* store/marks.h, between pid namespaces: nobody is judged by those of another. */
#include "scratch.h"

#include <pthread.h>
#include <string.h>

#include "store/marks.h"
#include "store/marks_slot.h"
#include "util/clock.h"

/* Somewhere else, somebody with this number; none of ours has it. */
#define FOREIGN_PID 0x3fffff
#define FOREIGN     ((store_proc_t)FOREIGN_PID << 32 | 17)

static struct store_marks *marks;
static struct scratch *scratch;

static int setup(void **state)
{
    if (scratch_setup(state) < 0)
        return -1;
    scratch = *state;
    marks = store_marks_create(scratch->dir);
    if (!marks)
        return -1;
    atomic_store(&marks->table->header.pidns, 4711); /* somebody else's */
    return 0;
}

static int teardown(void **state)
{
    store_marks_destroy(marks);
    return scratch_teardown(state);
}

static int open_marked(const char *upath, store_mark_t *mark)
{
    *mark = store_marks_begin(marks, upath);
    assert_true(*mark != 0);
    int fd = open(scratch_path(scratch, upath), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(store_marks_opened(marks, *mark, fd, false), 0);
    return fd;
}

static uint32_t seconds(void)
{
    return (uint32_t)(util_clock_now() / UTIL_NSEC_PER_SEC);
}

/* A description of ours is being closed by a process elsewhere that has inherited it: it
 * has won the word, and has not written down yet of which namespace it is. */
static struct marks_slot *foreign_closes(store_mark_t *mark)
{
    struct marks_slot *slot = &marks->table->slots[0];

    close(open_marked("f", mark));
    atomic_store(&slot->since, seconds());
    atomic_store(&slot->word, WORD_MAKE(*mark >> 16, FOREIGN_PID, STORE_MARK_CLOSING));
    return slot;
}

static void test_foreign_closes(void **state)
{
    store_mark_t mark;
    struct marks_slot *slot = foreign_closes(&mark);

    (void)state;
    assert_false(store_marks_rule(marks, mark, -1));
    assert_false(store_marks_ruling_due(marks, mark, -1));
    atomic_store(&slot->closer, FOREIGN);
    assert_false(store_marks_rule(marks, mark, -1));
    atomic_store(&slot->ns, marks_tag(4711, FOREIGN));
    assert_false(store_marks_rule(marks, mark, -1));
    /* It was killed there. */
    atomic_fetch_sub(&slot->since, STORE_PROC_FOREIGN_MAX);
    assert_true(store_marks_ruling_due(marks, mark, -1));
    assert_true(store_marks_rule(marks, mark, -1));
    store_marks_clear(marks, mark);
    assert_int_equal(WORD_STATE(atomic_load(&slot->word)), STORE_MARK_FREE);
}

/* Nobody of another namespace was ever here: who is killed before he has written down of
 * which he is is known to be dead at once. */
static void test_one_namespace(void **state)
{
    store_mark_t mark;

    (void)state;
    atomic_store(&marks->table->header.pidns, 0);
    foreign_closes(&mark); /* the number is nobody's here */
    assert_int_equal(atomic_load(&marks->table->header.mixed), 0);
    assert_true(store_marks_rule(marks, mark, -1));
    store_marks_clear(marks, mark);
}

/* The one of ours is known to be dead, as ever. */
static void test_ours_closes(void **state)
{
    struct marks_slot *slot;
    store_mark_t mark;

    (void)state;
    close(open_marked("f", &mark));
    pid_t pid = fork();
    if (pid == 0)
        _exit(store_marks_closed(marks, mark, -1, true) ? 0 : 1);
    scratch_join(pid);
    slot = &marks->table->slots[0];
    assert_int_equal(WORD_STATE(atomic_load(&slot->word)), STORE_MARK_CLOSING);
    assert_true(store_marks_rule(marks, mark, -1));
    store_marks_clear(marks, mark);
}

/* In begin(), elsewhere: its slot is not taken back. */
static void test_foreign_begins(void **state)
{
    struct marks_table *table = marks->table;
    struct marks_slot *slot;

    (void)state;
    for (unsigned i = 0; i < MARKS_STEP; i++) {
        slot = &table->slots[i];
        slot->word =
            WORD_MAKE(5, FOREIGN_PID, i % 2 ? MARKS_STATE_FREEING : STORE_MARK_OPENING);
        slot->since = seconds();
    }
    table->header.top = MARKS_STEP;
    store_mark_t mark = store_marks_begin(marks, "f");
    assert_true(mark != 0);
    assert_true(table->header.limit > MARKS_STEP); /* it did grow */
    for (unsigned i = 0; i < MARKS_STEP; i++)
        assert_int_equal(WORD_PID(table->slots[i].word), FOREIGN_PID);
    store_marks_abort(marks, mark);
}

static _Atomic unsigned rounds, nold;
static _Atomic store_proc_t former;

/* A time that is old is of a state that is over, and so is the former closer. */
static void *watch(void *arg)
{
    struct marks_slot *slot = &marks->table->slots[0];
    unsigned round;

    (void)arg;
    while ((round = atomic_load(&rounds)) > 0) {
        unsigned state = WORD_STATE(atomic_load(&slot->word));
        uint32_t since = atomic_load(&slot->since);
        store_proc_t closer = atomic_load(&slot->closer);
        if ((state == STORE_MARK_OPENING || state == STORE_MARK_CLOSING) &&
            WORD_STATE(atomic_load(&slot->word)) == state &&
            atomic_load(&rounds) == round &&
            (seconds() - since > STORE_PROC_FOREIGN_MAX ||
             (state == STORE_MARK_CLOSING && closer == atomic_load(&former))))
            atomic_fetch_add(&nold, 1);
    }
    return NULL;
}

/* At no moment somebody is responsible with the time of who was before; nor, of two closers
 * that have the same number in two pid namespaces, with the name of that one. */
static void test_since_is_of_the_state(void **state)
{
    struct marks_slot *slot = &marks->table->slots[0];
    store_mark_t mark;
    pthread_t thread;

    (void)state;
    atomic_store(&nold, 0);
    atomic_store(&former, store_proc_self(NULL) ^ 1);
    atomic_store(&rounds, 100000);
    assert_int_equal(pthread_create(&thread, NULL, watch, NULL), 0);
    for (unsigned round; (round = atomic_load(&rounds)) > 0;) {
        atomic_store(&slot->since, seconds() - 700);
        mark = store_marks_begin(marks, "f");
        assert_true(mark && atomic_load(&slot->since) + 60 > seconds());
        atomic_store(&slot->word, WORD_MAKE(mark >> 16, getpid(), STORE_MARK_DIRTY));
        atomic_store(&rounds, round - 1);
        atomic_store(&slot->since, seconds() - 700);
        atomic_store(&slot->closer, atomic_load(&former));
        assert_true(store_marks_closed(marks, mark, -1, true));
        store_marks_clear(marks, mark);
    }
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&nold), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_foreign_closes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_namespace, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ours_closes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_foreign_begins, setup, teardown),
        cmocka_unit_test_setup_teardown(test_since_is_of_the_state, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
