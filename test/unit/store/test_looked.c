/* store/looked.h: a member's word for its rank, which lasts as long as the member. */
#include <sched.h>

#include "marks_users.h"
#include "store/looked.h"
#include "store/marks_table.h"

struct member {
    uint64_t rank;
    const char *session;
    enum store_looked_state state;
};

static bool is_member(const void *arg)
{
    const struct member *m = arg;
    int line = store_looked_begin(marks, m->rank, m->session);

    store_looked_set(marks, line, m->state);
    return line >= 0;
}

/* A member of another process, in this state. */
static pid_t member(uint64_t rank, const char *session, enum store_looked_state state)
{
    struct member m = {rank, session, state};

    return begin(is_member, &m);
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

static bool is_elsewhere(const void *arg)
{
    return store_looked_elsewhere(marks, *(const uint64_t *)arg);
}

static bool is_not_elsewhere(const void *arg)
{
    return !is_elsewhere(arg);
}

static bool in_own_net(void)
{
    return unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0;
}

static bool is_elsewhere_apart(const void *arg)
{
    return in_own_net() && is_elsewhere(arg);
}

static bool may_have_own_net(void)
{
    pid_t pid = fork();
    int status;

    if (pid == 0)
        _exit(in_own_net() ? 0 : 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status == 0;
}

/* A live member, and a process that cannot see its claim. */
static void test_elsewhere(void **state)
{
    uint64_t rank = store_looked_rank("rank", 4), other = store_looked_rank("other", 5);
    int line;

    (void)state;
    if (!may_have_own_net())
        skip();
    assert_false(store_looked_elsewhere(marks, rank));
    line = store_looked_begin(marks, rank, "s");
    assert_false(store_looked_elsewhere(marks, rank));
    for (int s = STORE_LOOKING; s <= STORE_LOOKED; s++) {
        store_looked_set(marks, line, (enum store_looked_state)s);
        end(begin(is_not_elsewhere, &rank));
        end(begin(is_elsewhere_apart, &rank));
    }
    assert_true(store_looked(marks, rank));
    assert_false(store_looked_elsewhere(marks, other));
    store_looked_end(marks, line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_life, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(test_outlives, setup, teardown),
        cmocka_unit_test_setup_teardown(test_elsewhere, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
