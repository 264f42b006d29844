/*
 * test_transfer_end.c - what the journal says when a fetched file cannot be put into place
 *
 * transfer_end.c alone, on a disk of its own; jobs are done at once.
 */
#include "../store/scratch.h"

#include <utlist.h>

#include "engine/core/local_file.h"
#include "engine/core/member.h"
#include "engine/core/module.h"
#include "engine/fetch/transfer_impl.h"
#include "engine/promoted/promoted.h"
#include "engine/publish/produce.h"
#include "store/superseded.h"

static struct member member_made;
static struct member *const member = &member_made;
static struct member_dmd *const dmd = &member_made.dmd[ENGINE_CONSUMER];
static struct transfers transfers;
static struct transfer_wait asker;
static bool pending;
static int ended;

void engine_io_submit(struct engine_iopool *pool, struct engine_io *io,
                      void (*work)(void *arg), void (*done)(void *arg), void *arg)
{
    (void)pool;
    (void)io;
    work(arg);
    done(arg);
}

void local_file_job(struct member *m, struct member_dmd *d, uint64_t size,
                    struct engine_io *io, void (*work)(void *arg), void (*done)(void *arg),
                    void *arg)
{
    (void)d;
    (void)size;
    engine_io_submit(m->io, io, work, done, arg);
}

void local_file_set_pending(const struct member_dmd *d, const char *upath,
                            const struct store_identity *identity)
{
    store_superseded_set(d->dir, d->session, upath, STORE_PENDING, identity);
}

bool local_file_is_outdated(const struct member_dmd *d, const char *upath,
                            const struct stat *st)
{
    (void)d;
    (void)upath;
    (void)st;
    return false;
}

void modules_fetch_grew(struct member *m, const char *upath)
{
    (void)m;
    (void)upath;
}

bool modules_overtaken(struct member *m, struct member_dmd *d,
                       const struct dyad_entry *newer, const struct store_record *record)
{
    (void)m;
    (void)d;
    (void)newer;
    (void)record;
    return false;
}

bool modules_to_come_back(struct member *m, const char *upath)
{
    (void)m;
    (void)upath;
    return false;
}

bool produce_pending(struct member *m, const char *upath)
{
    (void)m;
    (void)upath;
    return pending;
}

void promoted_fetch_forget(struct promoted_fetch *fetch)
{
    (void)fetch;
}

void net_timer_stop(struct net_timer *timer)
{
    (void)timer;
}

void net_timer_destroy(struct net_timer *timer)
{
    (void)timer;
}

static void on_end(void *arg, int status)
{
    (void)arg;
    ended = status;
}

static int setup(void **state)
{
    struct scratch *scratch;
    uint32_t incarnation;

    if (scratch_setup(state) < 0)
        return -1;
    scratch = *state;
    dmd->dir = scratch->dir;
    dmd->marks = store_marks_create(scratch->dir);
    dmd->journal = store_journal_create(scratch->dir, "test.0", &incarnation);
    transfers = (struct transfers){0};
    member->own[MODULE_transfers] = &transfers;
    asker = (struct transfer_wait){.fn = on_end};
    pending = false;
    ended = -1;
    return dmd->marks && dmd->journal ? 0 : -1;
}

static int teardown(void **state)
{
    store_journal_destroy(dmd->journal);
    store_marks_destroy(dmd->marks);
    return scratch_teardown(state);
}

/* "f" is here, with these bytes and such a record. */
static void have(struct scratch *scratch, enum store_record_kind kind, uint64_t version,
                 const char *bytes)
{
    struct store_record record = {
        .kind = kind,
        .entry = {
            .upath = "f", .state = DYAD_ENTRY_PUBLISHED, .version = {.counter = version}}};
    struct stat st;
    int fd;

    scratch_write(scratch, "f", bytes);
    assert_int_equal(store_dir_stat(scratch->dir, "f", &st), 0);
    store_dir_describe(scratch->dir, &st, &record.entry);
    fd = store_dir_open(scratch->dir, "f", O_PATH, 0);
    assert_int_equal(store_identity_read(fd, &record.identity), 0);
    close(fd);
    assert_int_equal(store_journal_put(dmd->journal, &record), 0);
}

/* A fetch of that version, of `size` bytes of which these have come. */
static void commit(uint64_t version, size_t size, const char *bytes)
{
    struct transfer *t = calloc(1, sizeof(*t));

    assert_non_null(t);
    t->member = member;
    t->upath = strdup("f");
    t->entry = (struct dyad_entry){.upath = t->upath,
                                   .state = DYAD_ENTRY_PUBLISHED,
                                   .mode = S_IFREG | 0644,
                                   .size = size,
                                   .version = {.counter = version}};
    t->fetch = store_fetch_begin(dmd->dir, &t->entry);
    assert_non_null(t->fetch);
    assert_int_equal(store_fetch_write(t->fetch, 0, bytes, strlen(bytes)), 0);
    HASH_ADD_KEYPTR(hh, transfers.by_upath, t->upath, strlen(t->upath), t);
    DL_APPEND(t->waits, &asker);
    transfer_commit(t);
}

static void recorded(struct scratch *scratch, enum store_record_kind kind, uint64_t version,
                     const char *bytes)
{
    const struct store_record *record = store_journal_find(dmd->journal, "f");
    char text[16] = "";
    int fd = open(scratch_path(scratch, "f"), O_RDONLY);

    assert_true(fd >= 0 && read(fd, text, sizeof(text) - 1) >= 0);
    close(fd);
    assert_string_equal(text, bytes);
    assert_non_null(record);
    assert_int_equal(record->kind, kind);
    assert_int_equal(record->entry.version.counter, version);
}

static void replaces_a_copy(void **state)
{
    have(*state, STORE_RECORD_COPY, 5, "five");
    commit(7, 5, "seven");
    assert_int_equal(ended, 0);
    recorded(*state, STORE_RECORD_COPY, 7, "seven");
}

/* This rank has written and published it while an older version was on its way. */
static void published_meanwhile(void **state)
{
    have(*state, STORE_RECORD_ORIGINAL, 7, "seven");
    commit(5, 4, "five");
    assert_int_equal(ended, EEXIST);
    recorded(*state, STORE_RECORD_ORIGINAL, 7, "seven");
}

/* The homes have not taken it yet. */
static void is_being_published(void **state)
{
    have(*state, STORE_RECORD_ORIGINAL, 5, "five");
    pending = true;
    commit(7, 5, "seven");
    assert_int_equal(ended, EEXIST);
    recorded(*state, STORE_RECORD_ORIGINAL, 5, "five");
}

static void same_version(void **state)
{
    have(*state, STORE_RECORD_COPY, 5, "five");
    commit(5, 4, "five");
    assert_int_equal(ended, EEXIST);
    recorded(*state, STORE_RECORD_COPY, 5, "five");
}

static void cannot_be_stored(void **state)
{
    have(*state, STORE_RECORD_COPY, 5, "five");
    commit(7, 5, "seve");
    assert_int_equal(ended, EIO);
    recorded(*state, STORE_RECORD_COPY, 5, "five");
}

/* Written here by another rank of the node, whose record it is. */
static void is_anothers(void **state)
{
    have(*state, STORE_RECORD_COPY, 5, "five");
    assert_int_equal(store_journal_delete(dmd->journal, "f"), 0);
    commit(7, 5, "seven");
    assert_int_equal(ended, EEXIST);
    assert_null(store_journal_find(dmd->journal, "f"));
}

/* Our copy is outdated, and another rank of the node has replaced it meanwhile. */
static void is_brought_by_another(void **state)
{
    int fd;

    have(*state, STORE_RECORD_COPY, 5, "five");
    fd = open(scratch_path(*state, "f"), O_RDONLY); /* its inode is not used again */
    assert_int_equal(unlink(scratch_path(*state, "f")), 0);
    scratch_write(*state, "f", "seven");
    commit(7, 5, "SEVEN");
    assert_int_equal(ended, EEXIST);
    recorded(*state, STORE_RECORD_COPY, 5, "seven");
    close(fd);
}

/* Our copy is outdated, and somebody has it open for writing. */
static void is_being_written(void **state)
{
    store_mark_t mark;
    int fd;

    have(*state, STORE_RECORD_COPY, 5, "five");
    mark = store_marks_begin(dmd->marks, "f");
    fd = open(scratch_path(*state, "f"), O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(store_marks_opened(dmd->marks, mark, fd, false), 0);
    commit(7, 5, "seven");
    assert_int_equal(ended, EEXIST);
    recorded(*state, STORE_RECORD_COPY, 5, "five");
    close(fd);
    store_marks_clear(dmd->marks, mark);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(replaces_a_copy),       TEST(published_meanwhile), TEST(is_being_published),
        TEST(same_version),          TEST(cannot_be_stored),    TEST(is_anothers),
        TEST(is_brought_by_another), TEST(is_being_written)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
