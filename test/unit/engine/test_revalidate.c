/*
 * test_revalidate.c - until when is a copy looked up whose homes have changed?
 *
 * revalidate.c, with the rule of unknown_version.c, and a clock, a journal and a table of
 * our own. Every rank is a home of every name, unless a test says otherwise.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/coherence/invalidate.h"
#include "engine/coherence/revalidate.h"
#include "engine/core/member_impl.h"
#include "engine/core/module.h"
#include "engine/membership/exit_barrier.h"
#include "engine/membership/unreachable.h"
#include "engine/recovery/startup_validation.h"
#include "fake_clock.h"
#include "fake_lookups.h"
#include "util/log.h"

#define SEC    UTIL_NSEC_PER_SEC
#define NRANKS 4
#define OWNER  3 /* of all copies; no home */
#define COPIES 100

static struct boot_pmix_job job = {.nranks = NRANKS};
extern const struct member_module revalidate_module;
static const struct member_module *const modules[] = {&revalidate_module, NULL};

static struct member_run run;
static struct member *const member = &run.member;

static char name[COPIES][16];
static struct store_record record[COPIES];
static unsigned nrecords;
static uint32_t home; /* the only one that concerns anything; NRANKS: all do */

static struct owner {
    bool live, missing;
    uint64_t heard;
    bool asked;
} owner;

static unsigned ninvalidated, nlet_go;
static struct dyad_version invalidated; /* the last */

int store_journal_foreach(struct store_journal *journal,
                          int (*fn)(const struct store_record *record, void *arg),
                          void *arg)
{
    int rc = 0;

    (void)journal;
    for (unsigned i = 0; rc == 0 && i < nrecords; i++)
        rc = fn(&record[i], arg);
    return rc;
}

const struct store_record *store_journal_find(struct store_journal *journal,
                                              const char *upath)
{
    (void)journal;
    for (unsigned i = 0; i < nrecords; i++)
        if (record[i].entry.upath && strcmp(record[i].entry.upath, upath) == 0)
            return &record[i];
    return NULL;
}

bool dht_node_concerns(const struct dht_node *node, const char *upath, uint32_t rank)
{
    (void)node;
    (void)upath;
    return rank != OWNER && (home == NRANKS || rank == home);
}

bool dht_node_is_live(const struct dht_node *node, uint32_t rank)
{
    (void)node;
    return rank == OWNER ? owner.live : true;
}

bool unreachable_is_missing(const struct member *m, uint32_t rank)
{
    (void)m;
    return rank == OWNER && owner.missing;
}

const struct net_peer *net_worker_peer(struct net_worker *worker, uint32_t rank)
{
    static const struct net_peer peer;

    (void)worker;
    assert_int_equal(rank, OWNER);
    return &peer;
}

uint64_t net_worker_heard_at(struct net_worker *worker, uint32_t rank)
{
    (void)worker;
    assert_int_equal(rank, OWNER);
    return owner.heard;
}

void unreachable_suspect(struct member *m, uint32_t rank)
{
    (void)m;
    assert_int_equal(rank, OWNER);
    owner.asked = true;
}

void produce_invalidate(void *arg, const struct dyad_entry *newer, uint64_t token)
{
    assert_ptr_equal(arg, member);
    assert_int_equal(token, 0);
    ninvalidated++;
    invalidated = newer->version;
    for (unsigned i = 0; i < nrecords; i++)
        if (strcmp(record[i].entry.upath, newer->upath) == 0)
            record[i].kind = STORE_RECORD_ORIGINAL; /* no copy any more */
}

void dht_node_let_go(struct dht_node *node, const struct dyad_entry *entry)
{
    (void)node;
    assert_int_equal(dyad_version_cmp(&entry->version, &invalidated), 0);
    nlet_go++;
}

void exit_barrier_activity(struct member *m)
{
    (void)m;
}

static int setup(void **state)
{
    (void)state;
    memset(&run, 0, sizeof(run));
    assert_int_equal(modules_create(member, modules), 0);
    member->modules = modules;
    member->job = &job;
    member->dmd[ENGINE_CONSUMER].journal = (struct store_journal *)&run; /* not NULL */
    fake_clock_begin(SEC);
    fake_lookups_begin();
    ninvalidated = nlet_go = 0;
    home = NRANKS;
    owner = (struct owner){.live = true, .heard = UINT64_MAX};
    nrecords = 1;
    for (unsigned i = 0; i < COPIES; i++) {
        snprintf(name[i], sizeof(name[i]), "f%u", i);
        record[i] = (struct store_record){.kind = STORE_RECORD_COPY};
        record[i].entry.upath = name[i];
        record[i].entry.version.counter = 5;
        record[i].entry.owner = OWNER;
    }
    return revalidate_module.start(member);
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

static void test_compared(void **state)
{
    (void)state;
    revalidate_rank(member, 1);
    fake_clock_pass(SEC / 2);
    assert_int_equal(fake_nlookups, 0);
    fake_clock_pass(SEC);
    assert_int_equal(fake_nlookups, 1);
    assert_int_equal(fake_lookup[0].flags, NET_LOOKUP_COPY);
    fake_lookup_answer(0, 0, 5);
    fake_clock_pass(1000 * SEC);
    assert_int_equal(fake_nlookups, 1);
    assert_int_equal(ninvalidated, 0);
}

static void test_out_of_date(void **state)
{
    (void)state;
    nrecords = 2;
    revalidate_rank(member, 1);
    fake_clock_pass(2 * SEC);
    fake_lookup_answer(0, 0, 6);
    fake_lookup_answer(1, ENOENT, 6); /* removed */
    assert_int_equal(ninvalidated, 2);
    fake_clock_pass(1000 * SEC);
    assert_int_equal(fake_nlookups, 2);
}

/* No home can be asked: it is looked up again, ever less often, for ever. */
static void test_on_and_on(void **state)
{
    uint64_t pause = SEC, last;

    (void)state;
    revalidate_rank(member, 1);
    fake_clock_pass(SEC);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(fake_nlookups, i + 1);
        last = fake_lookup[i].at;
        fake_clock_pass(SEC / 10);
        fake_lookup_answer(i, EHOSTUNREACH, 0);
        fake_clock_pass(pause + SEC / 2);
        assert_int_equal(fake_nlookups, i + 2);
        assert_in_range(fake_lookup[i + 1].at - last, pause, pause + SEC);
        pause = 2 * pause < 60 * SEC ? 2 * pause : 60 * SEC;
    }
    assert_true(revalidate_pending(member));
    fake_lookup_answer(20, 0, 6);
    assert_int_equal(ninvalidated, 1);
    fake_clock_pass(1000 * SEC);
    assert_int_equal(fake_nlookups, 21);
    assert_false(revalidate_pending(member));
}

/* What homes say that do not know of a version. */
static const struct {
    int status;
    uint64_t counter;
} unknown[] = {{ENOENT, 0}, {0, 4}, {ENOENT, 4}};

/* They say so, for that long or until nothing is looked up any more. */
static void say_unknown(uint64_t ns)
{
    uint64_t end = fake_now + ns;

    while (fake_now < end) {
        if (fake_nlookups > 0 && fake_lookup[fake_nlookups - 1].is_out)
            fake_lookup_answer(fake_nlookups - 1, unknown[fake_nlookups % 3].status,
                               unknown[fake_nlookups % 3].counter);
        fake_clock_pass(SEC / 4);
    }
}

/* No home knows of it, and none will: it goes, and holds nothing up any more. */
static void test_unknown(void **state)
{
    (void)state;
    revalidate_rank(member, 1);
    fake_clock_pass(SEC);
    say_unknown(9 * SEC);
    assert_int_equal(ninvalidated, 0);
    assert_true(revalidate_pending(member));
    say_unknown(2 * SEC);
    assert_int_equal(ninvalidated, 1);
    assert_int_equal(nlet_go, 1);
    assert_true(dyad_version_cmp(&invalidated, &record[0].entry.version) > 0);
    assert_int_equal(invalidated.counter, 5);
    assert_false(revalidate_pending(member));
    fake_nlookups = 0;
    fake_clock_pass(1000 * SEC);
    assert_int_equal(fake_nlookups, 0);
    assert_false(owner.asked); /* it is heard anyhow */
}

/* The owner has told them meanwhile. */
static void test_told_again(void **state)
{
    (void)state;
    revalidate_rank(member, 1);
    fake_clock_pass(SEC);
    say_unknown(8 * SEC);
    fake_clock_pass(2 * SEC);
    fake_lookup_answer(fake_nlookups - 1, 0, 5);
    assert_int_equal(ninvalidated, 0);
    assert_false(revalidate_pending(member));
}

/* What counts is how long they have said so without a break, and that they were asked. */
static void test_unknown_for_how_long(void **state)
{
    unsigned n;

    (void)state;
    revalidate_rank(member, 1);
    fake_clock_pass(SEC);
    say_unknown(8 * SEC);
    fake_clock_pass(2 * SEC);
    fake_lookup_answer(fake_nlookups - 1, EHOSTUNREACH, 0);
    fake_clock_pass(16 * SEC);
    say_unknown(8 * SEC);
    assert_int_equal(ninvalidated, 0);
    revalidate_rank(member, 2); /* another home than before */
    fake_clock_pass(SEC + SEC / 2);
    say_unknown(8 * SEC);
    assert_int_equal(ninvalidated, 0);
    say_unknown(4 * SEC);
    assert_int_equal(ninvalidated, 1);

    /* One answer late is not often enough. */
    record[0].kind = STORE_RECORD_COPY;
    n = fake_nlookups;
    revalidate_rank(member, 1);
    fake_clock_pass(2 * SEC);
    fake_lookup_answer(n, ENOENT, 0);
    fake_clock_pass(20 * SEC);
    fake_lookup_answer(n + 1, ENOENT, 0);
    assert_int_equal(ninvalidated, 1);
    fake_clock_pass(5 * SEC);
    fake_lookup_answer(n + 2, ENOENT, 0);
    assert_int_equal(ninvalidated, 2);
}

/* Its owner may have it, and cannot tell: it stays. When it is back it is looked at. */
static void test_owner_is_missing(void **state)
{
    unsigned n;

    (void)state;
    owner.live = false;
    owner.missing = true;
    revalidate_rank(member, 1);
    fake_clock_pass(SEC);
    say_unknown(1000 * SEC);
    assert_int_equal(ninvalidated, 0);
    assert_true(revalidate_pending(member));
    fake_clock_pass(61 * SEC);
    fake_lookup_answer(fake_nlookups - 1, EHOSTUNREACH, 0); /* for a minute now */
    n = fake_nlookups;
    owner.live = true;
    owner.missing = false;
    revalidate_rank(member, OWNER);
    fake_clock_pass(2 * SEC);
    assert_int_equal(fake_nlookups, n + 1);
    fake_lookup_answer(n, 0, 5);
    assert_false(revalidate_pending(member));
    /* Of what is not to be looked at the owner is no matter. */
    revalidate_rank(member, OWNER);
    fake_clock_pass(10 * SEC);
    assert_int_equal(fake_nlookups, n + 1);
}

/* Its owner is known to be dead: the copy is all that is left, and holds nothing up. */
static void test_owner_is_dead(void **state)
{
    unsigned n;

    (void)state;
    owner.live = false;
    revalidate_rank(member, 1);
    fake_clock_pass(SEC);
    say_unknown(9 * SEC);
    assert_true(revalidate_pending(member));
    say_unknown(2 * SEC);
    assert_false(revalidate_pending(member));
    assert_int_equal(ninvalidated, 0);
    n = fake_nlookups;
    fake_clock_pass(1000 * SEC);
    assert_int_equal(fake_nlookups, n);
    /* Other homes know as little, or more. */
    revalidate_rank(member, 2);
    assert_true(revalidate_pending(member));
    fake_clock_pass(2 * SEC);
    assert_int_equal(fake_nlookups, n + 1);
    fake_lookup_answer(n, 0, 6);
    assert_int_equal(ninvalidated, 1);
    assert_false(revalidate_pending(member));
}

/* It may be stopped, and nobody has noticed. */
static void test_owner_is_silent(void **state)
{
    (void)state;
    owner.heard = fake_now;
    revalidate_rank(member, 1);
    fake_clock_pass(SEC);
    say_unknown(30 * SEC);
    assert_true(owner.asked);
    assert_int_equal(ninvalidated, 0);
    owner.heard = fake_now;
    say_unknown(61 * SEC);
    assert_int_equal(ninvalidated, 1);
    assert_false(revalidate_pending(member));
}

/* A change of a home makes what was put off due. */
static void test_change(void **state)
{
    (void)state;
    revalidate_rank(member, 1);
    fake_clock_pass(SEC);
    for (unsigned i = 0; i < 6; i++) {
        fake_lookup_answer(i, EHOSTUNREACH, 0);
        fake_clock_pass(61 * SEC);
    }
    fake_lookup_answer(6, EHOSTUNREACH, 0); /* for a minute now */
    home = 1;
    revalidate_rank(member, 2);
    fake_clock_pass(2 * SEC);
    assert_int_equal(fake_nlookups, 7);
    revalidate_rank(member, 1);
    fake_clock_pass(2 * SEC);
    assert_int_equal(fake_nlookups, 8);
    fake_lookup_answer(7, EHOSTUNREACH, 0); /* and its pauses begin anew */
    fake_clock_pass(2 * SEC);
    assert_int_equal(fake_nlookups, 9);
}

/* A change while it is under way: what comes may be from before. It does not wait for that
 * of others. */
static void test_change_meanwhile(void **state)
{
    (void)state;
    revalidate_rank(member, 1);
    fake_clock_pass(SEC);
    assert_int_equal(fake_nlookups, 1);
    nrecords = 2;
    revalidate_rank(member, 2);
    fake_clock_pass(SEC);
    assert_int_equal(fake_nlookups, 2);
    assert_string_equal(fake_lookup[1].upath, "f1");
    fake_lookup_answer(0, 0, 5);
    assert_int_equal(fake_nlookups, 3);
    assert_string_equal(fake_lookup[2].upath, "f0");
    fake_lookup_answer(2, 0, 6);
    fake_lookup_answer(1, 0, 5);
    assert_int_equal(ninvalidated, 1);
    fake_clock_pass(1000 * SEC);
    assert_int_equal(fake_nlookups, 3);
}

/* It was removed, or written here. */
static void test_no_copy_any_more(void **state)
{
    (void)state;
    nrecords = 2;
    revalidate_rank(member, 1);
    fake_clock_pass(SEC);
    fake_lookup_answer(0, EHOSTUNREACH, 0);
    record[0].kind = STORE_RECORD_ORIGINAL;
    record[1].kind = STORE_RECORD_ORIGINAL;
    fake_lookup_answer(1, 0, 6);
    assert_int_equal(ninvalidated, 0);
    fake_clock_pass(1000 * SEC);
    assert_int_equal(fake_nlookups, 2);
}

static void test_window(void **state)
{
    unsigned most = 0;

    (void)state;
    nrecords = COPIES;
    revalidate_rank(member, 1);
    fake_clock_pass(SEC);
    for (unsigned i = 0; i < COPIES; i++) {
        if (fake_nlookups - i > most)
            most = fake_nlookups - i;
        fake_lookup_answer(i, 0, 5 + i % 2);
    }
    assert_int_equal(fake_nlookups, COPIES);
    assert_in_range(most, 2, COPIES / 2);
    assert_int_equal(ninvalidated, COPIES / 2);
}

static void test_no_memory(void **state)
{
    (void)state;
    fake_lookups_refused = 2;
    revalidate_rank(member, 1);
    fake_clock_pass(SEC);
    assert_int_equal(fake_nlookups, 0);
    fake_clock_pass(6 * SEC);
    assert_int_equal(fake_nlookups, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_compared, setup, teardown),
        cmocka_unit_test_setup_teardown(test_out_of_date, setup, teardown),
        cmocka_unit_test_setup_teardown(test_on_and_on, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unknown, setup, teardown),
        cmocka_unit_test_setup_teardown(test_told_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unknown_for_how_long, setup, teardown),
        cmocka_unit_test_setup_teardown(test_owner_is_missing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_owner_is_dead, setup, teardown),
        cmocka_unit_test_setup_teardown(test_owner_is_silent, setup, teardown),
        cmocka_unit_test_setup_teardown(test_change, setup, teardown),
        cmocka_unit_test_setup_teardown(test_change_meanwhile, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_copy_any_more, setup, teardown),
        cmocka_unit_test_setup_teardown(test_window, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_memory, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
