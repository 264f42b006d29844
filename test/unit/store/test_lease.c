/* store/lease_table.h: until when the members of a node vouch for their copies. */
#include "marks_users.h"
#include "store/lease_table.h"
#include "store/looked.h"
#include "util/clock.h"

#define SEC UTIL_NSEC_PER_SEC

static bool holds(uint64_t rank, uint64_t now)
{
    return store_lease_holds(marks, rank, -1, now, SEC);
}

struct member {
    uint64_t rank;
    const char *session;
    uint64_t until;
};

static bool has_lease(const void *arg)
{
    const struct member *m = arg;
    int line = store_looked_begin(marks, m->rank, m->session);

    store_looked_set(marks, line, STORE_LOOKED);
    store_lease_set(marks, line, m->until);
    return line >= 0;
}

/* A member of another process, with a lease until then. */
static pid_t member(uint64_t rank, const char *session, uint64_t until)
{
    struct member m = {rank, session, until};

    return begin(has_lease, &m);
}

/* The clock's 31 bits of 17 ms come round at some of these. */
static void test_time(void **state)
{
    const uint64_t starts[] = {100 * SEC, (1ull << 55) - SEC, (1ull << 55) - 1, 1ull << 55};
    uint64_t rank = store_looked_rank("own", 3);
    int line = store_looked_begin(marks, rank, "session");

    (void)state;
    assert_true(line >= 0);
    store_looked_set(marks, line, STORE_LOOKED);
    assert_false(store_lease_matters(marks));
    assert_true(holds(rank, 100 * SEC));
    for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++) {
        uint64_t now = starts[i];
        store_lease_set(marks, line, now + 3 * SEC);
        assert_true(store_lease_matters(marks));
        assert_true(holds(rank, now));
        assert_false(store_lease_wanted(marks, line));
        assert_true(holds(rank, now + 5 * SEC / 2)); /* soon over */
        assert_true(store_lease_wanted(marks, line));
        assert_false(store_lease_is_out(marks, rank, now + 5 * SEC / 2));
        assert_false(holds(rank, now + 3 * SEC));
        assert_true(store_lease_is_out(marks, rank, now + 3 * SEC));
        assert_false(holds(rank, now + 86400 * SEC));
        store_lease_set(marks, line, now + 6 * SEC);
        assert_false(store_lease_wanted(marks, line));
    }
    store_lease_set(marks, line, STORE_LEASE_OUT);
    assert_false(holds(rank, util_clock_now()));
    store_lease_set(marks, line, STORE_LEASE_NONE);
    assert_true(holds(rank, util_clock_now()));
    store_looked_end(marks, line);
}

/* What any member of the session fetched any rank of the node reads. */
static void test_others(void **state)
{
    uint64_t own = store_looked_rank("own", 3), other = store_looked_rank("other", 5);
    uint64_t third = store_looked_rank("third", 5), now = 100 * SEC;
    int line = store_looked_begin(marks, own, "session");
    pid_t pid, stranger;

    (void)state;
    store_looked_set(marks, line, STORE_LOOKED);
    store_lease_set(marks, line, now + 9 * SEC);
    pid = member(other, "session", now + 3 * SEC);
    stranger = member(third, "another", now);
    assert_true(holds(own, now));
    assert_false(holds(own, now + 3 * SEC));
    assert_true(holds(third, now - SEC));
    assert_false(holds(third, now));
    assert_true(store_lease_is_out(marks, other, now + 3 * SEC));
    end(pid); /* it is seen to by who takes over what it had */
    assert_true(holds(own, now + 3 * SEC));
    assert_false(store_lease_is_out(marks, other, now + 3 * SEC));
    /* Without its own. */
    assert_false(holds(own, now + 9 * SEC));
    assert_true(store_lease_holds(marks, own, line, now + 9 * SEC, SEC));
    end(stranger);
    store_looked_end(marks, line);
    /* A line that is taken again says nothing. */
    line = store_looked_begin(marks, own, "session");
    assert_true(holds(own, now + 9 * SEC));
    store_looked_end(marks, line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_others, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
