/*
 * test_takeover_copies.c - copies that nobody was told of for some time, compared with
 * homes that know them, do not, or cannot be asked
 *
 * takeover_copies.c with a clock, a journal and look-ups of our own; the rule of what
 * nobody knows is also in test_revalidate.c.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/core/module.h"
#include "engine/coherence/invalidate.h"
#include "engine/core/member_impl.h"
#include "engine/membership/exit_barrier.h"
#include "engine/recovery/startup_validation.h"
#include "engine/recovery/takeover.h"
#include "engine/recovery/takeover_copies.h"
#include "fake_clock.h"
#include "fake_lookups.h"
#include "util/log.h"

#define SEC    UTIL_NSEC_PER_SEC
#define MSEC   UTIL_NSEC_PER_MSEC
#define COPIES 100
#define JOIN   20 /* s: DYAD_JOIN_TIMEOUT */

extern const struct member_module takeover_copies_module;
static const struct member_module *const modules[] = {&takeover_copies_module, NULL};

static struct member_run run;
static struct member *const member = &run.member;
static struct engine_config config = {.join_timeout = JOIN};
static char name[COPIES][16];
static struct store_record record[COPIES];
static bool removed[COPIES];
static unsigned ninvalidated, nlet_go, nidle, nsteps;

const struct store_record *store_journal_find(struct store_journal *journal,
                                              const char *upath)
{
    assert_ptr_equal(journal, member->dmd[ENGINE_CONSUMER].journal);
    for (unsigned i = 0; i < COPIES; i++)
        if (strcmp(name[i], upath) == 0)
            return removed[i] ? NULL : &record[i];
    return NULL;
}

void produce_invalidate(void *arg, const struct dyad_entry *newer, uint64_t token)
{
    assert_ptr_equal(arg, member);
    assert_int_equal(token, 0);
    ninvalidated++;
    for (unsigned i = 0; i < COPIES; i++)
        if (strcmp(name[i], newer->upath) == 0)
            removed[i] = true;
}

void dht_node_let_go(struct dht_node *node, const struct dyad_entry *entry)
{
    (void)node;
    assert_int_equal(entry->state, DYAD_ENTRY_WITHDRAWN);
    nlet_go++;
}

static unsigned nrestored;
static uint8_t here[DYAD_STORAGE_ID_LEN]; /* zeros: that of the answers */

const uint8_t *store_dir_id(const struct store_dir *dir)
{
    (void)dir;
    return here;
}

int store_journal_put(struct store_journal *journal, const struct store_record *put)
{
    (void)journal;
    assert_int_equal(put->kind, STORE_RECORD_ORIGINAL);
    assert_int_equal(put->entry.owner, member->self.rank);
    assert_int_equal(put->base.kind, DYAD_BASE_NONE);
    return 0;
}

int dht_node_restore(struct dht_node *node, const struct dyad_entry *entry)
{
    (void)node;
    assert_int_equal(entry->version.counter, 5);
    nrestored++;
    return 0;
}

void exit_barrier_activity(struct member *m)
{
    assert_false(takeover_copies_pending(m));
    nidle++;
}

void startup_validation_step(struct member *m)
{
    assert_ptr_equal(m, member);
    nsteps++;
}

static int setup(void **state)
{
    (void)state;
    memset(&run, 0, sizeof(run));
    assert_int_equal(modules_create(member, modules), 0);
    member->modules = modules;
    member->config = &config;
    member->dmd[ENGINE_CONSUMER].journal = (struct store_journal *)&run; /* not NULL */
    fake_clock_begin(SEC);
    fake_lookups_begin();
    ninvalidated = nlet_go = nidle = nsteps = nrestored = 0;
    memset(here, 0, sizeof(here));
    memset(removed, 0, sizeof(removed));
    for (unsigned i = 0; i < COPIES; i++) {
        snprintf(name[i], sizeof(name[i]), "f%u", i);
        record[i] = (struct store_record){.kind = STORE_RECORD_COPY};
        record[i].entry.upath = name[i];
        record[i].entry.version.counter = 5;
    }
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

static void check(unsigned first, unsigned n)
{
    for (unsigned i = first; i < first + n; i++)
        takeover_check_copy(member, ENGINE_CONSUMER, &record[i]);
}

static void test_known(void **state)
{
    (void)state;
    assert_false(takeover_copies_pending(member));
    assert_false(takeover_copies_undecided(member, NULL));
    check(0, 4);
    assert_int_equal(fake_nlookups, 4);
    assert_int_equal(fake_lookup[0].flags, NET_LOOKUP_COPY);
    assert_true(takeover_copies_pending(member));
    fake_lookup_answer(0, 0, 5);
    assert_int_equal(nsteps, 1);
    assert_false(takeover_copies_undecided(member, "f0"));
    assert_true(takeover_copies_undecided(member, "f1"));
    fake_lookup_answer(1, 0, 6);
    assert_int_equal(ninvalidated, 1);
    fake_lookup_answer(2, ENOENT, 6); /* removed */
    assert_int_equal(ninvalidated, 2);
    assert_int_equal(nidle, 0);
    fake_lookup_answer(3, ENOENT, 4); /* a tombstone of an earlier version */
    assert_int_equal(ninvalidated, 3);
    assert_int_equal(nlet_go, 1);
    assert_int_equal(nidle, 1);
    assert_false(takeover_copies_undecided(member, NULL));
    fake_clock_pass(1000 * SEC);
    assert_int_equal(fake_nlookups, 4);
}

/* Soon at first, and in the end it goes. Nobody who leaves waits for that. */
static void test_unknown(void **state)
{
    uint64_t begun = fake_now;
    unsigned n = 0;

    (void)state;
    check(0, 1);
    while (ninvalidated == 0) {
        assert_true(fake_lookup[n].at < begun + 10 * SEC + 50 * MSEC);
        fake_lookup_answer(n, n % 2 ? ENOENT : 0, n % 2 ? 0 : 4);
        n++;
        if (ninvalidated > 0)
            break;
        assert_false(takeover_copies_pending(member));
        assert_int_equal(nidle, n);
        assert_true(takeover_copies_undecided(member, "f0"));
        fake_clock_step(UINT64_MAX);
        assert_int_equal(fake_nlookups, n + 1);
        assert_true(takeover_copies_pending(member));
    }
    assert_true(fake_now >= begun + 10 * SEC);
    assert_in_range(fake_lookup[1].at - begun, 50 * MSEC, 75 * MSEC);
    assert_in_range(fake_lookup[2].at - fake_lookup[1].at, 100 * MSEC, 125 * MSEC);
    assert_in_range(fake_lookup[3].at - fake_lookup[2].at, 200 * MSEC, 225 * MSEC);
    assert_in_range(n, 9, 10);
    assert_int_equal(nlet_go, 1);
    assert_false(takeover_copies_undecided(member, NULL));
}

/* Every 5 s as long as somebody may wait for it, then ever less often. */
static void test_unreachable(void **state)
{
    uint64_t begun = fake_now, pause = 5 * SEC;

    (void)state;
    check(0, 1);
    for (unsigned i = 0; i < 20; i++) {
        fake_lookup_answer(i, EHOSTUNREACH, 0);
        if (fake_now - begun > (JOIN + 15) * SEC)
            pause = 2 * pause < 60 * SEC ? 2 * pause : 60 * SEC;
        fake_clock_step(UINT64_MAX);
        assert_int_equal(fake_nlookups, i + 2);
        assert_in_range(fake_lookup[i + 1].at - fake_lookup[i].at, pause,
                        pause + 25 * MSEC);
    }
    assert_int_equal(pause, 60 * SEC);
    assert_int_equal(ninvalidated, 0);
    /* What they say when they are back does not count from before. */
    fake_lookup_answer(20, ENOENT, 0);
    fake_clock_step(UINT64_MAX);
    assert_in_range(fake_lookup[21].at - fake_lookup[20].at, 50 * MSEC, 75 * MSEC);
    fake_lookup_answer(21, ENOENT, 0);
    assert_int_equal(ninvalidated, 0);
    fake_clock_step(UINT64_MAX);
    fake_lookup_answer(22, EHOSTUNREACH, 0);
    fake_clock_step(UINT64_MAX);
    assert_in_range(fake_lookup[23].at - fake_lookup[22].at, 5 * SEC, 10 * SEC + 25 * MSEC);
    fake_lookup_answer(23, 0, 5);
    assert_false(takeover_copies_undecided(member, NULL));
}

/* Somebody waits for it. */
static void test_hurry(void **state)
{
    unsigned n;

    (void)state;
    takeover_hurry(member, "f0");
    check(0, COPIES);
    n = fake_nlookups;
    assert_in_range(n, 2, COPIES - 2);
    takeover_hurry(member, "f0");
    takeover_hurry(member, "f99");
    assert_int_equal(fake_nlookups, n);
    fake_lookup_answer(0, EHOSTUNREACH, 0);
    assert_string_equal(fake_lookup[n].upath, "f99");
    takeover_hurry(member, "f0");
    assert_int_equal(fake_nlookups, n + 1); /* not within that call */
    for (unsigned i = 1; i < COPIES; i++)
        fake_lookup_answer(i, 0, 5);
    fake_clock_pass(0);
    assert_int_equal(fake_nlookups, COPIES + 1);
    assert_string_equal(fake_lookup[COPIES].upath, "f0");
    fake_lookup_answer(COPIES, 0, 5);
    assert_false(takeover_copies_undecided(member, NULL));
}

/* It was removed, or fetched anew. */
static void test_not_ours_any_more(void **state)
{
    (void)state;
    check(0, 2);
    removed[0] = true;
    record[1].entry.version.counter = 7;
    fake_lookup_answer(0, 0, 6);
    fake_lookup_answer(1, 0, 6);
    assert_int_equal(ninvalidated, 0);
    check(2, 1);
    fake_lookup_answer(fake_nlookups - 1, EHOSTUNREACH, 0);
    removed[2] = true;
    assert_true(takeover_copies_undecided(member, "f2"));
    nsteps = 0;
    fake_clock_pass(10 * SEC);
    assert_false(takeover_copies_undecided(member, "f2"));
    assert_in_range(nsteps, 1, 2); /* who waits for it is told */
}

/* It is no answer. */
static void test_no_memory(void **state)
{
    (void)state;
    fake_lookups_refused = 3;
    check(0, 1);
    fake_clock_pass(15 * SEC + SEC / 2);
    assert_int_equal(fake_nlookups, 1);
    assert_int_equal(ninvalidated, 0);
    fake_lookup_answer(0, ENOENT, 0);
    assert_int_equal(ninvalidated, 0);
    assert_true(takeover_copies_undecided(member, "f0"));
}

static void test_window(void **state)
{
    unsigned most = 0;

    (void)state;
    check(0, COPIES);
    for (unsigned i = 0; i < COPIES; i++) {
        if (fake_lookups_out() > most)
            most = fake_lookups_out();
        fake_lookup_answer(i, 0, 5 + i % 2);
    }
    assert_int_equal(most, 64);
    assert_int_equal(fake_nlookups, COPIES);
    assert_int_equal(ninvalidated, COPIES / 2);
    check(0, 3); /* and is stopped */
}

/* A change whose close had not ended is ours if the homes have it, or what it began from, or an older one of this node; and goes if they
 * have another. */
static void test_unacknowledged(void **state)
{
    unsigned n = 0;

    (void)state;
    for (unsigned i = 0; i < 7; i++) {
        record[i].kind = STORE_RECORD_ORIGINAL;
        assert_false(takeover_is_to_ask(&record[i]));
        record[i].base = (struct dyad_base){.kind = DYAD_BASE_FROM, .size = 70};
        assert_true(takeover_is_to_ask(&record[i]));
        assert_int_equal(record[i].kind, STORE_RECORD_COPY);
        assert_true(record[i].made_here);
    }
    check(0, 5);
    fake_lookup_answer(0, 0, 5);
    fake_lookup_answer(1, 0, 4); /* of this node */
    fake_lookup_answer(2, ENOENT, 0);
    assert_int_equal(nrestored, 3);
    fake_lookup_answer(3, 0, 6);
    assert_int_equal(ninvalidated, 1);
    here[0] = 1;
    fake_lookup_answer(4, 0, 4); /* of another one: asked for again, for some time */
    for (n = 5; ninvalidated == 1; n++) {
        assert_in_range(n, 5, 20);
        fake_clock_step(UINT64_MAX);
        fake_lookup_answer(n, 0, 4);
    }
    assert_in_range(n, 6, 20);
    assert_int_equal(nrestored, 3);
    record[5].base.size = 0; /* what it began from */
    check(5, 2);
    fake_lookup_answer(n, 0, 4);
    assert_int_equal(nrestored, 4);
    fake_lookup_answer(n + 1, 0, 5); /* the homes took it, wherever that is */
    assert_int_equal(nrestored, 5);
    assert_false(takeover_copies_undecided(member, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_known, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unknown, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unreachable, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hurry, setup, teardown),
        cmocka_unit_test_setup_teardown(test_not_ours_any_more, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_window, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unacknowledged, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
