/* store/looked.h: a member's word for its rank, which lasts as long as the member. */
#include "scratch.h"

#include <signal.h>

#include "store/looked.h"
#include "store/marks_table.h"

static struct store_marks *marks;

static int setup(void **state)
{
    if (scratch_setup(state) < 0)
        return -1;
    marks = store_marks_create(((struct scratch *)*state)->dir);
    return marks ? 0 : -1;
}

static int teardown(void **state)
{
    store_marks_destroy(marks);
    return scratch_teardown(state);
}

/* A member of another process, in this state; killed by the caller. */
static pid_t member(uint64_t rank, const char *session, enum store_looked_state state)
{
    int ready[2];
    char byte;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    if ((pid = fork()) == 0) {
        int line = store_looked_begin(marks, rank, session);
        store_looked_set(marks, line, state);
        if (line < 0 || write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_life(void **state)
{
    uint64_t rank = store_looked_rank("rank", 4), other = store_looked_rank("other", 5);
    int line;
    pid_t pid;

    (void)state;
    assert_false(store_looked(marks, rank));
    line = store_looked_begin(marks, rank, "s");
    assert_true(line >= 0);
    assert_false(store_looked(marks, rank));
    store_looked_set(marks, line, STORE_LOOKED_OWN);
    assert_false(store_looked(marks, rank));
    store_looked_set(marks, line, STORE_LOOKED);
    assert_true(store_looked(marks, rank));
    assert_false(store_looked(marks, other));

    /* Of another session, in another state, of ours; killed. */
    pid = member(other, "t", STORE_LOOKING);
    assert_false(store_looked_others(marks, line));
    end(pid);
    pid = member(other, "s", STORE_LOOKED_OWN);
    assert_false(store_looked_others(marks, line));
    end(pid);
    pid = member(other, "s", STORE_LOOKING);
    assert_true(store_looked_others(marks, line));
    end(pid);
    assert_false(store_looked_others(marks, line));
    pid = member(other, "s", STORE_LOOKED);
    assert_true(store_looked(marks, other));
    end(pid);
    assert_false(store_looked(marks, other));
    assert_true(store_looked(marks, rank));

    store_looked_end(marks, line);
    assert_false(store_looked(marks, rank));
    store_looked_end(marks, -1);
    store_looked_set(marks, -1, STORE_LOOKED);
    assert_false(store_looked_others(marks, -1));
}

/* Lines are used again, and never say of the dead what the next one says. */
static void test_lines(void **state)
{
    pid_t pid[MARKS_LINES];
    uint64_t rank;

    (void)state;
    for (int round = 0; round < 3; round++) {
        for (unsigned i = 0; i < MARKS_LINES; i++) {
            rank = (uint64_t)round << 32 | i << 1 | 1;
            pid[i] = member(rank, "s", STORE_LOOKED);
        }
        assert_int_equal(store_looked_begin(marks, 7ull << 32 | 1, "s"), -1);
        for (unsigned i = 0; i < MARKS_LINES; i++) {
            assert_true(store_looked(marks, (uint64_t)round << 32 | i << 1 | 1));
            assert_false(store_looked(marks, (uint64_t)(round + 1) << 32 | i << 1 | 1));
            assert_true(round == 0 ||
                        !store_looked(marks, (uint64_t)(round - 1) << 32 | i << 1 | 1));
        }
        for (unsigned i = 0; i < MARKS_LINES; i++)
            end(pid[i]);
    }
}

/* Its thread's end was not noted. */
static void test_outlives(void **state)
{
    uint64_t rank = store_looked_rank("rank", 4), other = store_looked_rank("other", 5);
    pid_t before = member(rank, "s", STORE_LOOKED);
    pid_t beside = member(other, "s", STORE_LOOKED);
    int line;

    (void)state;
    assert_true(store_looked(marks, rank));
    line = store_looked_begin(marks, rank, "s");
    assert_true(line >= 0);
    assert_false(store_looked(marks, rank));
    assert_true(store_looked(marks, other));
    store_looked_set(marks, line, STORE_LOOKED);
    assert_true(store_looked(marks, rank));
    store_looked_end(marks, line);
    assert_false(store_looked(marks, rank));
    end(before);
    end(beside);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_life, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(test_outlives, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
