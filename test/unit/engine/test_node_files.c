/*
 * test_node_files.c - are the journals of a node read once for all who ask?
 *
 * node_files.c with journals that are made up, and a pool that works when the test says so.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "engine/coherence/invalidate.h"
#include "engine/coherence/outdated.h"
#include "engine/core/local_file.h"
#include "engine/core/member_impl.h"
#include "engine/core/module.h"
#include "engine/core/storage.h"
#include "engine/coherence/invalidate_by_node.h"
#include "engine/publish/node_files.h"
#include "engine/publish/produce.h"
#include "util/clock.h"

/* Much of what follows looks at none of its arguments. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define OURS 1

extern const struct member_module node_files_module;
static const struct member_module *const modules[] = {&node_files_module, NULL};

static struct member_run run;
static struct member *const member = &run.member;
static struct engine_io *job;
static unsigned nreads, nlisted; /* journals, readings of all */
static bool shared;
/* What was done about it. */
static unsigned ndiscarded, ninvalidated, nunseen;
static uint32_t discarded_of;
static uint64_t token;
/* What lies there under any name; ino 0: nothing. */
static struct store_record there, own, taken;
static char taken_upath[8];
static uint8_t storage[DYAD_STORAGE_ID_LEN];
static bool written, pending, superseded;

/* Ranks 0 to 3 have a journal each; that of rank 3 cannot be read. All know "a", in a
 * version of their rank. */
int store_journal_list(const struct store_dir *dir, const char *prefix,
                       int (*fn)(const char *name, void *arg), void *arg)
{
    char name[16];

    assert_string_equal(prefix, "s.");
    nlisted++;
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof(name), "s.%d", i);
        assert_int_equal(fn(name, arg), 0);
    }
    return 0;
}

int store_journal_look(const struct store_dir *dir, const char *name,
                       struct store_look *looks, size_t n)
{
    nreads++;
    assert_string_not_equal(name, "s.1");
    if (strcmp(name, "s.3") == 0) {
        errno = EUCLEAN;
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        looks[i].found = strcmp(looks[i].upath, "a") == 0;
        looks[i].record = (struct store_record){
            .entry = {.upath = looks[i].upath, .version.counter = (uint64_t)name[2]},
            .identity.ino = (uint64_t)name[2]};
    }
    return 0;
}

size_t storage_journal_name(const struct member *m, char *name, size_t size)
{
    snprintf(name, size, "s.%d", OURS);
    return 2;
}

const char *store_dir_path(const struct store_dir *dir)
{
    return "";
}

bool store_dir_shared(const struct store_dir *dir)
{
    return shared;
}

const uint8_t *store_dir_id(const struct store_dir *dir)
{
    return storage;
}

int store_dir_open(const struct store_dir *dir, const char *upath, int flags, mode_t mode)
{
    return there.identity.ino ? memfd_create("there", MFD_CLOEXEC) : -1;
}

int store_identity_read(int fd, struct store_identity *identity)
{
    *identity = there.identity;
    return 0;
}

void store_dir_describe(const struct store_dir *dir, const struct stat *st,
                        struct dyad_entry *entry)
{
    *entry = there.entry;
}

bool local_file_is_superseded(const struct member_dmd *dmd, const char *upath,
                              const struct stat *st)
{
    return superseded;
}

bool store_marks_dirty(struct store_marks *marks, const char *upath, uint64_t ino,
                       uint64_t btime, struct store_mark_info *info)
{
    assert_int_equal(ino, there.identity.ino);
    return written;
}

bool produce_pending(struct member *m, const char *upath)
{
    return pending;
}

const struct store_record *store_journal_find(struct store_journal *journal,
                                              const char *upath)
{
    return own.identity.ino ? &own : NULL;
}

int store_journal_put(struct store_journal *journal, const struct store_record *record)
{
    taken = *record;
    snprintf(taken_upath, sizeof(taken_upath), "%s", record->entry.upath);
    return 0;
}

void outdated_discard(struct member_dmd *dmd, const struct dyad_entry *newer, uint32_t rank,
                      const struct store_record *record)
{
    assert_string_equal(newer->upath, record->entry.upath);
    assert_int_equal(record->entry.version.counter, (uint64_t)('0' + rank));
    ndiscarded++;
    discarded_of = rank;
}

void produce_invalidate(void *arg, const struct dyad_entry *newer, uint64_t t)
{
    ninvalidated++;
    token = t;
}

void dht_node_unseen(struct dht_node *node, uint64_t t)
{
    nunseen++;
}

void engine_io_submit(struct engine_iopool *pool, struct engine_io *io,
                      void (*work)(void *arg), void (*done)(void *arg), void *arg)
{
    assert_null(job);
    job = io;
    io->work = work;
    io->done = done;
    io->arg = arg;
}

/* The pool's thread works, and the loop hears of it. False: there is nothing to do. */
static bool work(void)
{
    struct engine_io *io = job;

    if (!io)
        return false;
    io->work(io->arg);
    job = NULL;
    io->done(io->arg);
    return true;
}

static int setup(void **state)
{
    (void)state;
    memset(&run, 0, sizeof(run));
    assert_int_equal(modules_create(member, modules), 0);
    member->modules = modules;
    /* Not NULL, and the same: it is read once. */
    member->dmd[0].dir = member->dmd[1].dir = (struct store_dir *)&run;
    job = NULL;
    shared = false;
    nreads = nlisted = ndiscarded = ninvalidated = nunseen = 0;
    token = 0;
    there = own = taken = (struct store_record){0};
    written = pending = superseded = false;
    return node_files_module.start(member);
}

static int teardown(void **state)
{
    (void)state;
    modules_destroy(member);
    modules_free(member);
    return 0;
}

static void invalidate(const char *upath, uint32_t rank, uint64_t t)
{
    struct dyad_entry newer = {.upath = upath, .version.counter = 100};

    invalidate_by_node(member, &newer, rank, t);
}

/* All journals count but our own, which produce_invalidate() looks at, behind them. */
static void test_all_journals(void **state)
{
    (void)state;
    invalidate("a", 0, 7);
    assert_true(invalidate_by_node_pending(member, "a"));
    assert_false(invalidate_by_node_pending(member, "b"));
    assert_int_equal(ninvalidated, 0);
    assert_true(work());
    assert_int_equal(nreads, 3);
    assert_int_equal(ndiscarded, 2);
    assert_int_equal(ninvalidated, 1);
    assert_int_equal(token, 7);
    assert_int_equal(nunseen, 0);
    assert_false(invalidate_by_node_pending(member, "a"));
    assert_false(work());
}

/* The rank has no journal here; it has, and that cannot be read: nobody is answered. */
static void test_not_seen(void **state)
{
    (void)state;
    invalidate("a", 9, 7);
    assert_true(work());
    assert_int_equal(nunseen, 1);
    assert_int_equal(token, 7);
    invalidate("a", 3, 8);
    assert_true(work());
    assert_int_equal(nunseen, 1);
    assert_int_equal(token, 0);
}

/* The journals of other nodes are there, too. */
static void test_shared_storage(void **state)
{
    (void)state;
    shared = true;
    invalidate("a", 2, 7);
    assert_true(work());
    assert_int_equal(ndiscarded, 1);
    assert_int_equal(discarded_of, 2);
}

/* What comes while they are read waits for the next reading, which is one for all. */
static void test_one_reading(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 10; i++)
        invalidate(i % 2 ? "a" : "b", 0, i);
    assert_true(work());
    assert_true(work());
    assert_false(work());
    assert_int_equal(nlisted, 2);
    assert_int_equal(ninvalidated, 10);
}

/* A file lies there: true if it is recorded as ours, in the version before the new one. */
static bool is_taken(const char *upath)
{
    struct dyad_entry newer = {.upath = upath,
                               .version = {.counter = 100, .rank = 5},
                               .state = DYAD_ENTRY_PUBLISHED,
                               .owner = 5,
                               .storage = {1}};

    taken = (struct store_record){0};
    member->self.rank = OURS;
    member->started = util_clock_now();
    member->dmd[0].journal = member->dmd[1].journal = (struct store_journal *)&run;
    invalidate_by_node(member, &newer, 0, 7);
    assert_true(work());
    if (!taken.kind)
        return false;
    assert_string_equal(taken_upath, upath);
    assert_int_equal(taken.entry.owner, OURS);
    assert_int_equal(taken.entry.version.counter, 99);
    assert_int_equal(taken.identity.ino, there.identity.ino);
    return true;
}

/* The rank that is asked about could not record it. */
static void test_unrecorded(void **state)
{
    (void)state;
    assert_false(is_taken("a")); /* nothing lies there */
    there.identity.ino = 17;
    assert_true(is_taken("a"));
    assert_true(is_taken("b"));
    own.identity.ino = 18; /* ours was another file */
    assert_true(is_taken("a"));
}

/* A journal knows it; somebody writes or publishes it; it is the new version, or newer. */
static void test_recorded(void **state)
{
    (void)state;
    there.identity.ino = '2';
    assert_false(is_taken("a"));
    assert_true(is_taken("b"));
    there.identity.ino = own.identity.ino = 17;
    assert_false(is_taken("a"));
    own.identity.ino = 18;
    own.entry.version.counter = 100;
    own.entry.version.rank = 5;
    assert_false(is_taken("a"));
    own.identity.ino = 0;
    written = true;
    assert_false(is_taken("a"));
    written = false;
    pending = true;
    assert_false(is_taken("a"));
    pending = false;
    superseded = true;
    assert_false(is_taken("a"));
    superseded = false;
    shared = true;
    assert_false(is_taken("a"));
    shared = false;
    storage[0] = 1; /* the new version lies in this storage */
    assert_false(is_taken("a"));
    storage[0] = 0;
    assert_true(is_taken("a"));
}

/* Who was answered asks for something else. */
struct again {
    struct node_file file;
    unsigned left;
    char upath[2];
};

static void nothing(struct node_file *file, struct member_dmd *dmd, uint32_t rank,
                    const struct store_record *record)
{
}

static void ask_again(struct member *m, struct node_file *file)
{
    struct again *again = (struct again *)file;

    assert_true(file->failed); /* of whatever rank */
    if (again->left-- > 0)
        node_files_look(m, file);
    else
        free(again);
}

static void test_from_inside(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct again *again = calloc(1, sizeof(*again));
        assert_non_null(again);
        *again = (struct again){
            .file = {.rank = DYAD_RANK_NONE, .found = nothing, .done = ask_again},
            .left = i};
        again->file.upath = strcpy(again->upath, "a");
        node_files_look(member, &again->file);
    }
    assert_true(work()); /* the first */
    assert_true(work()); /* the others, and the first once more: 0 and 1 are over */
    while (work())
        ;
    assert_int_equal(nlisted, 4);
}

/* It is over before they were read. */
static void test_stop(void **state)
{
    (void)state;
    invalidate("a", 0, 7);
    invalidate("b", 0, 8);
    modules_destroy(member);
    assert_int_equal(ninvalidated, 0);
    job = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_journals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_not_seen, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shared_storage, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_reading, setup, teardown),
        cmocka_unit_test_setup_teardown(test_from_inside, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unrecorded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_recorded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stop, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
