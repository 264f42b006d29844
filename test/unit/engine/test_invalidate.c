/*
 * test_invalidate.c - a file that somebody else has replaced, with a disk, a journal and a
 * pool of our own
 *
 * invalidate.c alone. One name, "f"; what is given to the pool is done when the test says
 * so, in the order that it says.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "engine/coherence/invalidate.h"
#include "engine/coherence/outdated.h"
#include "engine/core/local_file.h"
#include "engine/core/member.h"
#include "engine/core/module.h"
#include "engine/fetch/consume.h"
#include "engine/coherence/refetch.h"
#include "engine/fetch/transfer.h"
#include "engine/namespace/directories.h"
#include "engine/publish/lost_update.h"
#include "engine/publish/produce.h"
#include "engine/recovery/startup_validation.h"
#include "store/fetch.h"

#define SELF  3
#define OTHER 4

extern const struct member_module invalidates_module;
static const struct member_module *const modules[] = {&invalidates_module, NULL};

static struct member member_made;
static struct member *const member = &member_made;
static uint8_t storage[DYAD_STORAGE_ID_LEN] = "ours", elsewhere[DYAD_STORAGE_ID_LEN];
/* The journal: in memory, and in its file. */
static struct store_record record;
static bool found, in_file;
static bool file_is_there, file_is_ours; /* on disk; as the record has it */
static unsigned npublished;
static uint64_t answered[4];
static unsigned nanswered;

static struct task {
    void (*work)(void *arg), (*done)(void *arg);
    void *arg;
} task[4];
static unsigned ntasks;

void engine_io_submit(struct engine_iopool *pool, struct engine_io *io,
                      void (*work)(void *arg), void (*done)(void *arg), void *arg)
{
    (void)pool;
    (void)io;
    assert_true(ntasks < 4);
    task[ntasks++] = (struct task){work, done, arg};
}

const struct store_record *store_journal_find(struct store_journal *journal,
                                              const char *upath)
{
    (void)journal;
    assert_string_equal(upath, "f");
    return found ? &record : NULL;
}

int store_journal_retire(struct store_journal *journal, const char *upath)
{
    (void)journal;
    (void)upath;
    assert_true(found);
    found = false;
    return 0;
}

int store_journal_delete(struct store_journal *journal, const char *upath)
{
    (void)journal;
    (void)upath;
    found = in_file = false;
    return 0;
}

int store_journal_put(struct store_journal *journal, const struct store_record *new)
{
    (void)journal;
    record = *new;
    found = in_file = true;
    return 0;
}

const uint8_t *store_dir_id(const struct store_dir *dir)
{
    (void)dir;
    return storage;
}

const char *store_dir_path(const struct store_dir *dir)
{
    (void)dir;
    return "/dmd";
}

int store_dir_open(const struct store_dir *dir, const char *upath, int flags, mode_t mode)
{
    (void)dir;
    (void)upath;
    (void)flags;
    (void)mode;
    errno = ENOENT;
    return -1;
}

int store_dir_rmdir(const struct store_dir *dir, const char *upath)
{
    (void)dir;
    (void)upath;
    return 0;
}

static uint64_t removed_size; /* as it was recorded */
static bool stays;            /* this node has made it */
static unsigned nwanted;

/* Who looks at the journal's file now must find the record of what is about to go. */
bool outdated_end(struct member_dmd *dmd, const struct dyad_entry *newer,
                  const struct store_record *r)
{
    (void)dmd;
    (void)newer;
    assert_true(in_file);
    assert_string_equal(r->entry.upath, "f");
    removed_size = r->entry.size;
    if (file_is_there && file_is_ours)
        file_is_there = stays;
    return stays;
}

void local_file_withdrawn(struct member_dmd *dmd, const char *upath)
{
    (void)dmd;
    assert_string_equal(upath, "f");
    file_is_there = false;
}

void refetch_forget(struct member *m, const char *upath)
{
    (void)m;
    (void)upath;
    nwanted = 0;
}

static unsigned nstays;

void dht_node_stays(struct dht_node *node, uint64_t token)
{
    (void)node;
    (void)token;
    nstays++;
}

void refetch_want(struct member *m, const char *upath)
{
    (void)m;
    assert_string_equal(upath, "f");
    nwanted++;
}

bool refetch_wants(const struct member *m, const char *upath)
{
    (void)m;
    (void)upath;
    return nwanted > 0;
}

bool local_file_still_there(struct member_dmd *dmd, const struct store_record *r)
{
    (void)dmd;
    (void)r;
    return file_is_there && file_is_ours;
}

int produce_start(struct member *m, enum engine_role role, const char *upath,
                  store_mark_t mark, produce_fn fn, void *arg)
{
    (void)m;
    (void)role;
    (void)mark;
    (void)arg;
    assert_string_equal(upath, "f");
    assert_null(fn);
    npublished++;
    return 0;
}

void outdated_note_writers(struct member_dmd *dmd, const struct dyad_entry *newer,
                           const struct store_record *r)
{
    (void)dmd;
    (void)newer;
    (void)r;
}

void lost_update_say(struct member *m, const struct member_dmd *dmd, const char *upath,
                     uint32_t other)
{
    (void)m;
    (void)dmd;
    (void)upath;
    (void)other;
}

void transfer_invalidate(struct member *m, const struct dyad_entry *newer)
{
    (void)m;
    (void)newer;
}

static bool committing; /* a copy is being put into place */
static struct transfer_wait *commit;

bool transfer_await_commit(struct member *m, const struct dyad_entry *newer,
                           struct transfer_wait *wait)
{
    (void)m;
    (void)newer;
    if (committing)
        commit = wait;
    return committing;
}

void consume_invalidate(struct member *m, const struct dyad_entry *newer)
{
    (void)m;
    (void)newer;
}

void directories_forget(struct member *m, const char *upath)
{
    (void)m;
    (void)upath;
}

void dht_node_invalidated(struct dht_node *node, uint64_t token)
{
    (void)node;
    assert_true(nanswered < 4);
    answered[nanswered++] = token;
}

/* The bytes are of `size`; so is what is on disk. */
static void have(enum store_record_kind kind, uint64_t counter, uint64_t size)
{
    record = (struct store_record){
        .kind = kind,
        .entry = {.upath = "f",
                  .version = {.counter = counter, .rank = SELF},
                  .owner = kind == STORE_RECORD_ORIGINAL ? SELF : OTHER,
                  .state = DYAD_ENTRY_PUBLISHED,
                  .mode = S_IFREG | 0644,
                  .mtime_sec = (int64_t)counter,
                  .size = size}};
    found = in_file = file_is_there = file_is_ours = true;
}

static struct dyad_entry newer_at(const uint8_t *where, uint64_t counter, uint64_t size)
{
    struct dyad_entry newer = {.upath = "f",
                               .version = {.counter = counter, .rank = OTHER},
                               .owner = OTHER,
                               .state = DYAD_ENTRY_PUBLISHED,
                               .mode = S_IFREG | 0644,
                               .mtime_sec = (int64_t)counter,
                               .size = size};
    memcpy(newer.storage, where, sizeof(newer.storage));
    return newer;
}

static int setup(void **state)
{
    (void)state;
    memset(member, 0, sizeof(*member));
    assert_int_equal(modules_create(member, modules), 0);
    member->modules = modules;
    member->self.rank = SELF;
    member->dmd[0].journal = member->dmd[1].journal = (struct store_journal *)storage;
    member->dmd[0].dir = member->dmd[1].dir = (struct store_dir *)storage;
    nanswered = ntasks = npublished = nwanted = 0;
    nstays = 0;
    stays = committing = false;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    modules_free(member);
    return 0;
}

/* Nobody finds a file that has no record, and who is to hear of it hears when it is gone.
 */
static void test_copy(void **state)
{
    struct dyad_entry newer = newer_at(elsewhere, 7, 1);

    (void)state;
    have(STORE_RECORD_COPY, 5, 1);
    produce_invalidate(member, &newer, 11);
    assert_false(found);
    assert_true(in_file);
    assert_true(invalidate_pending(member, "f"));
    assert_int_equal(ntasks, 1);
    task[0].work(task[0].arg);
    assert_false(file_is_there);
    assert_int_equal(nanswered, 0);
    task[0].done(task[0].arg);
    assert_false(in_file);
    assert_int_equal(nanswered, 1);
    assert_int_equal(answered[0], 11);
    assert_false(invalidate_pending(member, NULL));
    assert_int_equal(npublished, 0);
}

/* The news comes while a second fetch of the same file is being put into place, whose record
 * is in the journal already. That fails, since the first one's file is there, and the
 * journal says again what it said before: this file goes. */
static void test_commit_fails(void **state)
{
    struct dyad_entry newer = newer_at(elsewhere, 7, 1);

    (void)state;
    have(STORE_RECORD_COPY, 5, 2);
    committing = true;
    file_is_ours = false; /* the record is the second one's */
    produce_invalidate(member, &newer, 11);
    assert_false(found);
    assert_int_equal(ntasks, 0);
    have(STORE_RECORD_COPY, 5, 1); /* transfer_end.c, record_undo() */
    commit->fn(commit->arg, EEXIST);
    assert_false(found);
    assert_int_equal(ntasks, 1);
    task[0].work(task[0].arg);
    assert_int_equal(removed_size, 1);
    task[0].done(task[0].arg);
    assert_false(file_is_there);
    assert_int_equal(answered[0], 11);

    have(STORE_RECORD_COPY, 8, 1); /* or it is newer than the news by now */
    newer.version.counter = 9;
    produce_invalidate(member, &newer, 12);
    have(STORE_RECORD_COPY, 10, 1);
    commit->fn(commit->arg, 0);
    assert_true(found);
}

/* The second home's news finds no record; it is not answered before the file is gone. */
static void test_two_homes(void **state)
{
    struct dyad_entry newer = newer_at(elsewhere, 7, 1);

    (void)state;
    have(STORE_RECORD_COPY, 5, 1);
    produce_invalidate(member, &newer, 11);
    produce_invalidate(member, &newer, 12);
    assert_int_equal(ntasks, 2);
    task[1].work(task[1].arg);
    task[1].done(task[1].arg);
    assert_int_equal(nanswered, 0);
    assert_true(in_file);
    task[0].work(task[0].arg);
    task[0].done(task[0].arg);
    assert_int_equal(nanswered, 2);
    assert_int_equal(answered[0], 11);
    assert_int_equal(answered[1], 12);
    assert_false(in_file);
}

/* What this node has made stays until it is replaced, and its record in the file, by which
 * another that takes over knows that it is out of date. */
static void test_made_here(void **state)
{
    struct dyad_entry newer = newer_at(elsewhere, 7, 1);

    (void)state;
    stays = true;
    have(STORE_RECORD_ORIGINAL, 5, 1);
    produce_invalidate(member, &newer, 11);
    produce_invalidate(member, &newer, 12);
    assert_int_equal(nwanted, 0);
    for (int i = 0; i < 2; i++) {
        task[i].work(task[i].arg);
        task[i].done(task[i].arg);
    }
    assert_int_equal(nanswered, 2);
    assert_int_equal(nwanted, 2);
    assert_int_equal(nstays, 2); /* each home must tell us of the next version */
    assert_true(file_is_there);
    assert_false(found);
    assert_true(in_file);

    /* The next version is brought in its place; if there is none it goes. */
    newer.version.counter++;
    produce_invalidate(member, &newer, 13);
    task[2].work(task[2].arg);
    task[2].done(task[2].arg);
    assert_int_equal(nwanted, 3);
    assert_true(file_is_there);
    assert_true(in_file);
    newer.version.counter++;
    newer.state = DYAD_ENTRY_WITHDRAWN;
    produce_invalidate(member, &newer, 14);
    task[3].work(task[3].arg);
    task[3].done(task[3].arg);
    assert_false(file_is_there);
    assert_false(in_file);
    assert_int_equal(nwanted, 0);
    assert_int_equal(nanswered, 4);
}

/* What is fetched meanwhile keeps its record. */
static void test_fetched_meanwhile(void **state)
{
    struct dyad_entry newer = newer_at(elsewhere, 7, 1);

    (void)state;
    have(STORE_RECORD_COPY, 5, 1);
    produce_invalidate(member, &newer, 11);
    task[0].work(task[0].arg);
    have(STORE_RECORD_COPY, 7, 1);
    task[0].done(task[0].arg);
    assert_true(found);
    assert_true(in_file);
    assert_true(file_is_there);
}

/* In this storage the name is the newer one's; only our record goes. */
static void test_same_storage(void **state)
{
    struct dyad_entry newer = newer_at(storage, 7, 2);

    (void)state;
    have(STORE_RECORD_ORIGINAL, 5, 1);
    file_is_ours = false;
    produce_invalidate(member, &newer, 11);
    task[0].work(task[0].arg);
    task[0].done(task[0].arg);
    assert_true(file_is_there);
    assert_false(in_file);
    assert_int_equal(npublished, 0);
    assert_int_equal(nanswered, 1);
}

/* But if ours is what lies there we have written over it, and know that only now. */
static void test_written_over(void **state)
{
    struct dyad_entry newer = newer_at(storage, 7, 2);

    (void)state;
    have(STORE_RECORD_ORIGINAL, 1, 1);
    produce_invalidate(member, &newer, 11);
    assert_int_equal(npublished, 1);
    assert_int_equal(nanswered, 1);
    assert_true(found);
    assert_true(file_is_there);
    assert_int_equal(ntasks, 0);

    /* Not so if it was only published once more, with other permissions, say: that is what
     * lies there, too, and two who both did so would go on for ever. */
    newer.size = record.entry.size;
    newer.mtime_sec = record.entry.mtime_sec;
    newer.mode = S_IFREG | 0600;
    produce_invalidate(member, &newer, 12);
    assert_int_equal(npublished, 1);
    assert_false(found);
    task[0].work(task[0].arg);
    task[0].done(task[0].arg);
    assert_true(file_is_there);

    /* Removed by who did not see ours: as ever. */
    have(STORE_RECORD_ORIGINAL, 1, 1);
    newer.state = DYAD_ENTRY_WITHDRAWN;
    produce_invalidate(member, &newer, 13);
    assert_int_equal(npublished, 1);
    assert_false(found);
    task[1].work(task[1].arg);
    task[1].done(task[1].arg);
    assert_false(file_is_there);
}

/* What this rank has withdrawn: a copy that came when its program had removed the name
 * goes, and the withdrawal ends then. What it had made was removed, or is here again. */
static void test_withdrawn(void **state)
{
    struct dyad_entry gone = newer_at(storage, 7, 0);

    (void)state;
    gone.state = DYAD_ENTRY_WITHDRAWN;
    gone.owner = gone.version.rank = SELF;
    assert_int_equal(invalidates_module.start(member), 0);
    have(STORE_RECORD_COPY, 5, 1);
    member->table_ops.withdrawn(member, &gone, 11);
    assert_int_equal(nanswered, 0);
    task[0].work(task[0].arg);
    task[0].done(task[0].arg);
    assert_false(file_is_there);
    assert_false(in_file);
    assert_int_equal(nanswered, 1);

    have(STORE_RECORD_ORIGINAL, 5, 1);
    member->table_ops.withdrawn(member, &gone, 12); /* nothing for the I/O threads */
    assert_true(file_is_there);
    assert_false(in_file);
    assert_int_equal(nanswered, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_copy, setup, teardown),
        cmocka_unit_test_setup_teardown(test_commit_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(test_two_homes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_made_here, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fetched_meanwhile, setup, teardown),
        cmocka_unit_test_setup_teardown(test_same_storage, setup, teardown),
        cmocka_unit_test_setup_teardown(test_written_over, setup, teardown),
        cmocka_unit_test_setup_teardown(test_withdrawn, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
