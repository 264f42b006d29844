/*
 * test_takeover_renames.c - what a killed process has renamed, and the homes cannot be told
 *
 * takeover_renames.c with a clock, a table and homes of our own. A place of the table is
 * taken by a look, and ended or given back.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "engine/core/module.h"
#include "engine/membership/exit_barrier.h"
#include "engine/publish/produce.h"
#include "engine/publish/publish_rename.h"
#include "engine/publish/withdraw.h"
#include "engine/recovery/takeover.h"
#include "engine/recovery/takeover_impl.h"
#include "fake_clock.h"
#include "store/renames.h"
#include "util/log.h"

#define SEC    UTIL_NSEC_PER_SEC
#define PLACES 2

extern const struct member_module takeover_renames_module;
static const struct member_module *const modules[] = {&takeover_renames_module, NULL};

static struct member_run run;
static struct member *const member = &run.member;
static struct engine_config config;
static struct takeover takeover;

static enum place { FREE, LEFT, TAKEN } place[PLACES + 1];
static unsigned nlooks;

static struct withdrawal {
    produce_fn fn; /* NULL: it is over */
    void *arg;
} withdrawals[50];
static unsigned nwithdrawals;

uint64_t store_renames_session(const char *name)
{
    assert_string_equal(name, "session");
    return 7;
}

/* A file that was removed. */
void store_renames_left(struct store_marks *marks, uint64_t session, bool own,
                        bool (*fn)(const struct store_rename *rename, store_rename_t p,
                                   void *arg),
                        void *arg)
{
    const struct store_rename rename = {.ino = 1, .from = "gone", .to = ""};

    (void)marks;
    (void)own;
    assert_int_equal(session, 7);
    for (store_rename_t i = 1; i <= PLACES; i++) {
        if (place[i] != LEFT)
            continue;
        place[i] = TAKEN;
        if (!fn(&rename, i, arg))
            place[i] = LEFT;
    }
}

void store_renames_end(struct store_marks *marks, store_rename_t p)
{
    (void)marks;
    assert_int_equal(place[p], TAKEN);
    place[p] = FREE;
}

void store_renames_give_back(struct store_marks *marks, store_rename_t p)
{
    (void)marks;
    assert_int_equal(place[p], TAKEN);
    place[p] = LEFT;
}

int store_dir_check(const char *upath)
{
    (void)upath;
    return 0;
}

int store_dir_stat(const struct store_dir *dir, const char *upath, struct stat *st)
{
    (void)dir;
    (void)upath;
    (void)st;
    errno = ENOENT;
    return -1;
}

int produce_withdraw_left(struct member *m, const char *upath, produce_fn fn, void *arg)
{
    assert_ptr_equal(m, member);
    assert_string_equal(upath, "gone");
    assert_true(nwithdrawals < 50);
    withdrawals[nwithdrawals++] = (struct withdrawal){fn, arg};
    return 0;
}

int produce_rename(struct member *m, const char *from, const char *to, produce_fn fn,
                   void *arg)
{
    (void)m;
    (void)from;
    (void)to;
    (void)fn;
    (void)arg;
    fail();
    return -1;
}

int produce_rename_left(struct member *m, const char *from, const char *to, produce_fn fn,
                        void *arg)
{
    return produce_rename(m, from, to, fn, arg);
}

void exit_barrier_activity(struct member *m)
{
    (void)m;
}

/* As takeover.c does, with a pool thread between. */
void takeover_look(struct member *m)
{
    assert_ptr_equal(m, member);
    nlooks++;
    takeover_renames_look(&takeover, ENGINE_CONSUMER);
    takeover_renames_decide(&takeover);
}

static int setup(void **state)
{
    (void)state;
    memset(&run, 0, sizeof(run));
    assert_int_equal(modules_create(member, modules), 0);
    member->modules = modules;
    takeover = (struct takeover){.member = member};
    member->own[MODULE_takeover] = &takeover;
    member->config = &config;
    member->session = "session";
    fake_clock_begin(SEC);
    memset(place, 0, sizeof(place));
    nlooks = nwithdrawals = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    takeover_renames_stop(&takeover);
    member->own[MODULE_takeover] = NULL;
    modules_free(member);
    fake_clock_end();
    return 0;
}

static void answer(unsigned i, int status)
{
    produce_fn fn = withdrawals[i].fn;

    assert_non_null(fn);
    withdrawals[i].fn = NULL;
    fn(withdrawals[i].arg, status);
}

static void test_told(void **state)
{
    (void)state;
    place[1] = place[2] = LEFT;
    takeover_look(member);
    assert_int_equal(nwithdrawals, 2);
    assert_true(takeover_renames_pending(member));
    answer(0, 0);
    answer(1, ENOENT);
    assert_int_equal(place[1], FREE);
    assert_int_equal(place[2], FREE);
    assert_false(takeover_renames_pending(member));
    takeover_renames_module.homes_changed(member);
    fake_clock_pass(1000 * SEC);
    assert_int_equal(nlooks, 1);
}

/* They cannot be reached: looked at again, and at once when somebody is back. */
static void test_out_of_reach(void **state)
{
    (void)state;
    place[1] = place[2] = LEFT;
    takeover_look(member);
    answer(0, EHOSTUNREACH);
    answer(1, 0);
    assert_int_equal(place[1], LEFT);
    assert_false(takeover_renames_pending(member)); /* nobody waits for that */
    takeover_renames_module.homes_changed(member);
    assert_int_equal(nlooks, 2);
    assert_int_equal(nwithdrawals, 3);
    answer(2, 0);
    assert_int_equal(place[1], FREE);
    takeover_renames_module.homes_changed(member);
    fake_clock_pass(1000 * SEC);
    assert_int_equal(nlooks, 2);
}

/* Nobody is lost or found, and still it is told one day. */
static void test_pauses(void **state)
{
    uint64_t pause = seconds_ns(MEMBER_ASK_AGAIN);

    (void)state;
    place[1] = LEFT;
    takeover_look(member);
    for (unsigned i = 0; i < 10; i++) {
        answer(i, EHOSTUNREACH);
        fake_clock_pass(pause - 1);
        assert_int_equal(nlooks, i + 1);
        fake_clock_pass(1);
        assert_int_equal(nlooks, i + 2);
        pause = 2 * pause < 60 * SEC ? 2 * pause : 60 * SEC;
    }
    answer(10, EHOSTUNREACH);
    takeover_renames_module.homes_changed(member); /* and the pauses begin anew */
    answer(11, EHOSTUNREACH);
    fake_clock_pass(seconds_ns(MEMBER_ASK_AGAIN));
    answer(12, 0);
    fake_clock_pass(1000 * SEC);
    assert_int_equal(nlooks, 13);
    assert_int_equal(place[1], FREE);
}

/* Two that were taken at the same look: one more look for both. */
static void test_both(void **state)
{
    (void)state;
    place[1] = place[2] = LEFT;
    takeover_look(member);
    answer(0, EHOSTUNREACH);
    fake_clock_pass(SEC);
    answer(1, EIO);
    fake_clock_pass(seconds_ns(MEMBER_ASK_AGAIN) - SEC);
    assert_int_equal(nlooks, 2);
    assert_int_equal(nwithdrawals, 4);
    answer(2, 0);
    answer(3, 0);
    fake_clock_pass(1000 * SEC);
    assert_int_equal(nlooks, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_told, setup, teardown),
        cmocka_unit_test_setup_teardown(test_out_of_reach, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pauses, setup, teardown),
        cmocka_unit_test_setup_teardown(test_both, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
