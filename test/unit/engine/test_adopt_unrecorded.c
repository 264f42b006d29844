/*
 * test_adopt_unrecorded.c - is what a dead rank's journal does not know looked for again?
 *
 * adopt_unrecorded.c with a clock, two DMDs that are never looked into, and look-ups of our
 * own. What the look then finds is in integration/unrecorded.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/adopt_impl.h"
#include "fake_clock.h"
#include "fake_lookups.h"
#include "util/log.h"

/* Much of what follows looks at none of its arguments. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define SEC   UTIL_NSEC_PER_SEC
#define DEAD  3
#define FILES 100

static struct member_run run;
static struct member *const member = &run.member;
static const uint8_t here[DYAD_STORAGE_ID_LEN] = "here";
static unsigned nlooks, nidle;
static bool has_own; /* our journal has: */
static struct store_record own;

const uint8_t *store_dir_id(const struct store_dir *dir)
{
    return here;
}

int store_dir_open(const struct store_dir *dir, const char *upath, int flags, mode_t mode)
{
    fail();
    return -1;
}

int store_identity_read(int fd, struct store_identity *identity)
{
    fail();
    return -1;
}

void store_dir_describe(const struct store_dir *dir, const struct stat *st,
                        struct dyad_entry *entry)
{
    fail();
}

bool store_marks_dirty(struct store_marks *marks, const char *upath, uint64_t ino,
                       uint64_t btime, struct store_mark_info *info)
{
    fail();
    return false;
}

bool store_marks_rule(struct store_marks *marks, store_mark_t mark, int fd)
{
    fail();
    return false;
}

bool store_marks_take_closed(struct store_marks *marks, uint64_t ino, uint64_t btime)
{
    fail();
    return false;
}

bool store_dir_lacks(const struct store_dir *dir, const char *upath)
{
    fail();
    return false;
}

const struct store_record *store_journal_find(struct store_journal *journal,
                                              const char *upath)
{
    return has_own && strcmp(own.entry.upath, upath) == 0 ? &own : NULL;
}

void adopt_look_for(struct member *m, const struct dyad_entry *entry, uint32_t rank)
{
    assert_ptr_equal(m, member);
    assert_int_equal(rank, DEAD);
    assert_in_range(entry->version.counter, 5, 6);
    nlooks++;
}

void linger_activity(struct member *m)
{
    assert_false(adopt_unrecorded_pending(m));
    nidle++;
}

static int setup(void **state)
{
    (void)state;
    memset(&run, 0, sizeof(run));
    member->side[ENGINE_CONSUMER].dir = (struct store_dir *)&run; /* not NULL */
    fake_clock_begin(SEC);
    fake_lookups_begin();
    fake_lookups_owner = DEAD;
    memcpy(fake_lookups_storage, here, sizeof(here));
    nlooks = nidle = 0;
    has_own = false;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    adopt_unrecorded_stop(member);
    assert_int_equal(fake_lookups_out(), 0);
    fake_clock_end();
    return 0;
}

/* Found by a look: the journal has version 5. */
static void changed(const char *upath)
{
    const struct store_record record = {.kind = STORE_RECORD_ORIGINAL,
                                        .entry = {.upath = upath, .version.counter = 5}};

    adopt_unrecorded_changed(member, DEAD, &record);
}

/* Needed by somebody who was told of version 6. */
static void wanted(const char *upath, uint32_t owner)
{
    struct dyad_entry entry = {.upath = upath,
                               .state = DYAD_ENTRY_PUBLISHED,
                               .owner = owner,
                               .version.counter = 6};

    memcpy(entry.storage, fake_lookups_storage, sizeof(entry.storage));
    adopt_unrecorded_wanted(member, DEAD, &entry);
}

/* Only what is the dead rank's, and not older, and lies here. */
static void test_looked_for(void **state)
{
    (void)state;
    assert_false(adopt_unrecorded_pending(member));
    changed("f0");
    assert_true(adopt_unrecorded_pending(member));
    assert_int_equal(fake_lookup[0].flags, 0);
    fake_lookup_answer(0, 0, 6);
    assert_int_equal(nlooks, 1);
    assert_int_equal(nidle, 1);
    wanted("f1", DEAD);
    fake_lookup_answer(1, 0, 6);
    assert_int_equal(nlooks, 2);

    changed("f2");
    fake_lookup_answer(2, 0, 4);
    changed("f3");
    fake_lookup_answer(3, ENOENT, 6);
    changed("f4");
    fake_lookups_owner = 2;
    fake_lookup_answer(4, 0, 6);
    fake_lookups_owner = DEAD;
    fake_lookups_storage[0]++;
    changed("f5");
    fake_lookup_answer(5, 0, 6);
    wanted("f6", DEAD);
    fake_lookups_storage[0]--;
    wanted("f6", 2);
    assert_int_equal(fake_nlookups, 6);
    assert_int_equal(nlooks, 2);
    fake_clock_pass(1000 * SEC);
    assert_int_equal(fake_nlookups, 6);
}

/* It was killed when it had recorded what it published, and its mark was still there. */
static void test_recorded(void **state)
{
    (void)state;
    changed("f0");
    fake_lookup_answer(0, 0, 5);
    assert_int_equal(nlooks, 1);
}

/* The homes have yet to hear that this rank has taken it over. */
static void test_taken_over(void **state)
{
    (void)state;
    has_own = true;
    own = (struct store_record){.kind = STORE_RECORD_ORIGINAL,
                                .entry = {.upath = "f0", .version.counter = 6}};
    member->side[ENGINE_CONSUMER].journal = (struct store_journal *)&run; /* not NULL */
    wanted("f0", DEAD);
    assert_int_equal(fake_nlookups, 0);
    wanted("f1", DEAD);
    own.entry.version.counter = 5;
    wanted("f0", DEAD);
    assert_int_equal(fake_nlookups, 2);
    own.entry.version.counter = 6;
    own.kind = STORE_RECORD_COPY;
    wanted("f0", DEAD);
    assert_int_equal(fake_nlookups, 3);
}

/* What a look has found is asked for on and on, what somebody wants is not. */
static void test_unreachable(void **state)
{
    uint64_t pause = 5 * SEC;

    (void)state;
    wanted("f1", DEAD);
    fake_lookup_answer(0, EHOSTUNREACH, 0);
    fake_clock_pass(1000 * SEC);
    assert_int_equal(fake_nlookups, 1);
    changed("f0");
    for (unsigned i = 1; i < 10; i++) {
        assert_true(adopt_unrecorded_pending(member));
        fake_lookup_answer(i, EHOSTUNREACH, 0);
        assert_false(adopt_unrecorded_pending(member)); /* nobody waits for that */
        assert_int_equal(nidle, i + 1);
        fake_clock_pass(pause - SEC);
        assert_int_equal(fake_nlookups, i + 1);
        fake_clock_pass(SEC + SEC / 2);
        assert_int_equal(fake_nlookups, i + 2);
        pause = 2 * pause < 60 * SEC ? 2 * pause : 60 * SEC;
    }
    fake_lookup_answer(10, 0, 6);
    assert_int_equal(nlooks, 1);
    changed("f2"); /* begins with the first pause */
    fake_lookup_answer(11, EHOSTUNREACH, 0);
    fake_clock_pass(5 * SEC + SEC / 2);
    assert_int_equal(fake_nlookups, 13);
}

static void test_window(void **state)
{
    char name[16];
    unsigned most = 0;

    (void)state;
    for (unsigned i = 0; i < FILES; i++) {
        snprintf(name, sizeof(name), "f%u", i);
        changed(name);
    }
    for (unsigned i = 0; i < FILES; i++) {
        if (fake_lookups_out() > most)
            most = fake_lookups_out();
        fake_lookup_answer(i, 0, 6);
    }
    assert_int_equal(most, 64);
    assert_int_equal(nlooks, FILES);
    assert_int_equal(nidle, 1);
    changed("f0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_looked_for, setup, teardown),
        cmocka_unit_test_setup_teardown(test_recorded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_taken_over, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unreachable, setup, teardown),
        cmocka_unit_test_setup_teardown(test_window, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
