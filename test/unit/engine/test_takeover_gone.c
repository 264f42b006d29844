/*
 * test_takeover_gone.c - what a dead rank had published and was removed: when is it
 * withdrawn?
 *
 * takeover_gone.c with a clock, a journal, a table and look-ups of our own.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/core/member_impl.h"
#include "engine/core/module.h"
#include "engine/membership/exit_barrier.h"
#include "engine/publish/produce.h"
#include "engine/recovery/takeover_gone.h"
#include "fake_clock.h"
#include "fake_lookups.h"
#include "util/crash.h"
#include "util/log.h"

#define SEC   UTIL_NSEC_PER_SEC
#define FILES 100

extern const struct member_module takeover_gone_module;
static const struct member_module *const modules[] = {&takeover_gone_module, NULL};

static struct member_run run;
static struct member *const member = &run.member;
static char name[FILES][16];
static struct store_record found; /* by who looked */
/* Our own journal: the counter; 0: no record. */
static unsigned journal[FILES], nkept;
static unsigned nwithdrawn, nidle;
static bool unsettled, pending;

static unsigned number(const char *upath)
{
    unsigned n;

    assert_int_equal(sscanf(upath, "f%u", &n), 1);
    assert_in_range(n, 0, FILES - 1);
    return n;
}

const struct store_record *store_journal_find(struct store_journal *j, const char *upath)
{
    static struct store_record record;

    (void)j;
    record = (struct store_record){.kind = STORE_RECORD_ORIGINAL,
                                   .entry.version.counter = journal[number(upath)]};
    return journal[number(upath)] ? &record : NULL;
}

int store_journal_put(struct store_journal *j, const struct store_record *record)
{
    (void)j;
    journal[number(record->entry.upath)] = (unsigned)record->entry.version.counter;
    nkept++;
    return 0;
}

int store_journal_delete(struct store_journal *j, const char *upath)
{
    (void)j;
    assert_int_not_equal(journal[number(upath)], 0);
    journal[number(upath)] = 0;
    nkept--;
    return 0;
}

bool produce_pending(struct member *m, const char *upath)
{
    (void)m;
    (void)upath;
    return pending;
}

int dht_node_restore(struct dht_node *node, const struct dyad_entry *entry)
{
    (void)node;
    assert_int_equal(entry->state, DYAD_ENTRY_WITHDRAWN);
    assert_int_equal(entry->version.counter, 5);
    assert_int_equal(entry->version.incarnation, 1);
    nwithdrawn++;
    return 0;
}

bool dht_node_is_publishing(struct dht_node *node, const char *upath)
{
    (void)node;
    (void)upath;
    return unsettled;
}

void exit_barrier_activity(struct member *m)
{
    assert_false(takeover_gone_pending(m));
    nidle++;
}

#ifdef DYAD_CRASH_POINTS
void util_crash_point(const char *where, unsigned *times)
{
    (void)where;
    (void)times;
}
#endif

static int setup(void **state)
{
    (void)state;
    memset(&run, 0, sizeof(run));
    assert_int_equal(modules_create(member, modules), 0);
    member->modules = modules;
    memset(journal, 0, sizeof(journal));
    fake_clock_begin(SEC);
    fake_lookups_begin();
    nkept = nwithdrawn = nidle = 0;
    unsettled = pending = false;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    modules_destroy(member);
    modules_free(member);
    assert_int_equal(fake_lookups_out(), 0);
    fake_clock_end();
    return 0;
}

static void add(unsigned first, unsigned n)
{
    for (unsigned i = first; i < first + n; i++) {
        snprintf(name[i], sizeof(name[i]), "f%u", i);
        found = (struct store_record){.kind = STORE_RECORD_ORIGINAL,
                                      .entry = {.upath = name[i], .version.counter = 5}};
        assert_int_equal(takeover_gone_add(member, ENGINE_PRODUCER, &found), 0);
    }
}

/* It is in our journal until all homes know. */
static void test_withdrawn(void **state)
{
    (void)state;
    takeover_gone_module.homes_changed(member);
    takeover_gone_module.table_changed(member);
    assert_false(takeover_gone_pending(member));
    add(0, 1);
    assert_int_equal(journal[0], 5);
    assert_int_equal(fake_lookup[0].flags, 0);
    assert_true(takeover_gone_pending(member));
    unsettled = true;
    fake_lookup_answer(0, 0, 5);
    assert_int_equal(nwithdrawn, 1);
    assert_int_equal(nidle, 1);
    assert_false(takeover_gone_pending(member)); /* the table has it now */
    takeover_gone_module.table_changed(member);
    assert_int_equal(nkept, 1);
    unsettled = false;
    takeover_gone_module.table_changed(member);
    assert_int_equal(nkept, 0);
    fake_clock_pass(1000 * SEC);
    assert_int_equal(fake_nlookups, 1);
}

/* Only if they know just that. */
static void test_not_withdrawn(void **state)
{
    (void)state;
    add(0, 5);
    fake_lookup_answer(0, 0, 6);
    fake_lookup_answer(1, 0, 4);
    fake_lookup_answer(2, ENOENT, 6);
    fake_lookup_answer(3, ENOENT, 0);
    assert_int_equal(nkept, 1);
    journal[4] = 7; /* published here anew */
    assert_int_equal(nidle, 0);
    fake_lookup_answer(4, 0, 5);
    assert_int_equal(nidle, 1);
    assert_int_equal(journal[4], 7);
    add(5, 1);
    pending = true;
    fake_lookup_answer(5, EHOSTUNREACH, 0);
    assert_int_equal(nwithdrawn, 0);
    fake_clock_pass(1000 * SEC);
    assert_int_equal(fake_nlookups, 6);
}

static void test_unreachable(void **state)
{
    uint64_t pause = 5 * SEC;

    (void)state;
    add(0, 1);
    for (unsigned i = 0; i < 10; i++) {
        assert_true(takeover_gone_pending(member));
        fake_lookup_answer(i, EHOSTUNREACH, 0);
        assert_false(takeover_gone_pending(member)); /* nobody waits for that */
        assert_int_equal(nidle, i + 1);
        fake_clock_pass(pause - SEC);
        assert_int_equal(fake_nlookups, i + 1);
        fake_clock_pass(SEC + SEC / 2);
        assert_int_equal(fake_nlookups, i + 2);
        pause = 2 * pause < 60 * SEC ? 2 * pause : 60 * SEC;
    }
    assert_int_equal(nkept, 1);
    fake_lookup_answer(10, EHOSTUNREACH, 0);
    takeover_gone_module.homes_changed(
        member); /* somebody is back: now, and the pauses begin anew */
    assert_int_equal(fake_nlookups, 12);
    fake_lookup_answer(11, EHOSTUNREACH, 0);
    fake_clock_pass(5 * SEC + SEC / 2);
    assert_int_equal(fake_nlookups, 13);
    fake_lookup_answer(12, 0, 5);
    assert_int_equal(nwithdrawn, 1);
}

static void test_window(void **state)
{
    unsigned most = 0;

    (void)state;
    add(0, FILES);
    for (unsigned i = 0; i < FILES; i++) {
        if (fake_lookups_out() > most)
            most = fake_lookups_out();
        fake_lookup_answer(i, 0, i % 2 ? 5 : 6);
    }
    assert_int_equal(most, 64);
    assert_int_equal(nwithdrawn, FILES / 2);
    assert_int_equal(nkept, FILES / 2);
    takeover_gone_module.table_changed(member);
    assert_in_range(nkept, 1, FILES / 2 - 1);
    for (unsigned i = 0; i < FILES; i++)
        takeover_gone_module.table_changed(member);
    assert_int_equal(nkept, 0);
}

/* It is asked for when there may be some. */
static void test_no_memory(void **state)
{
    (void)state;
    fake_lookups_refused = 1;
    add(0, 1);
    assert_int_equal(fake_nlookups, 0);
    assert_int_equal(nkept, 1);
    fake_clock_pass(5 * SEC + SEC / 2);
    fake_lookup_answer(0, 0, 5);
    assert_int_equal(nwithdrawn, 1);
}

/* Whoever takes our journal over finds them. */
static void test_stop(void **state)
{
    (void)state;
    add(0, FILES);
    unsettled = true;
    fake_lookup_answer(0, 0, 5);
    fake_lookup_answer(1, EHOSTUNREACH, 0);
    modules_destroy(member);
    assert_int_equal(fake_lookups_out(), 0);
    assert_int_equal(nkept, FILES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_withdrawn, setup, teardown),
        cmocka_unit_test_setup_teardown(test_not_withdrawn, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unreachable, setup, teardown),
        cmocka_unit_test_setup_teardown(test_window, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stop, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
