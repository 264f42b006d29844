/*
 * test_serve_refused.c - whether a file is published anew of which a GET has found other bytes
 *
 * serve_refused.c alone, on a disk of its own.
 */
#include "../store/scratch.h"

#include "engine/core/local_file.h"
#include "engine/core/module.h"
#include "engine/fetch/serve_refused.h"
#include "engine/membership/exit_barrier.h"
#include "engine/publish/produce.h"
#include "store/superseded.h"

#define SESSION 7

static struct scratch *scratch;
static struct member member_made;
static struct member *const member = &member_made;
static struct member_dmd *const dmd = &member_made.dmd[ENGINE_CONSUMER];
static const struct dyad_version version = {.counter = 5};
static struct store_identity identity;
static bool pending;
static unsigned published;

bool produce_pending(struct member *m, const char *upath)
{
    (void)m;
    (void)upath;
    return pending;
}

int produce_start(struct member *m, enum engine_role role, const char *upath,
                  store_mark_t mark, produce_fn fn, void *arg)
{
    (void)m;
    assert_int_equal(role, ENGINE_CONSUMER);
    assert_string_equal(upath, "f");
    assert_int_equal(mark, 0);
    assert_null(fn);
    assert_null(arg);
    published++;
    return 0;
}

void exit_barrier_activity(struct member *m)
{
    (void)m;
}

bool local_file_is_superseded(const struct member_dmd *d, const char *upath,
                              const struct stat *st)
{
    return store_superseded(store_dir_real_path(d->dir), d->session, upath, STORE_OLD,
                            st->st_ino);
}

/* Of a writer that has it open; it is not waited for here. */
static struct engine_io *watched;
static void (*watch_done)(void *arg);
static void *watch_arg;

int engine_io_spawn(struct engine_iopool *pool, struct engine_io *io,
                    void (*work)(void *arg), void (*done)(void *arg), void *arg)
{
    (void)pool;
    assert_null(watched);
    watched = io;
    watch_done = done;
    watch_arg = arg;
    work(arg); /* its writer has ended by then */
    return 0;
}

/* "f" was published in that version, and changed since. */
static int setup(void **state)
{
    struct store_record record = {
        .kind = STORE_RECORD_ORIGINAL,
        .entry = {.upath = "f", .state = DYAD_ENTRY_PUBLISHED, .version = version}};
    static char own[256];
    struct stat st;
    uint32_t incarnation;
    int fd;

    if (scratch_setup(state) < 0)
        return -1;
    scratch = *state;
    memset(own, 0, sizeof(own));
    member_made = (struct member){.own[MODULE_serve_refused] = own};
    *dmd = (struct member_dmd){.dir = scratch->dir, .session = SESSION};
    dmd->marks = store_marks_create(scratch->dir);
    dmd->journal = store_journal_create(scratch->dir, "test.0", &incarnation);
    if (!dmd->marks || !dmd->journal)
        return -1;
    scratch_write(scratch, "f", "old");
    fd = store_dir_open(scratch->dir, "f", O_PATH, 0);
    if (store_identity_read(fd, &identity) < 0 ||
        store_dir_stat(scratch->dir, "f", &st) < 0)
        return -1;
    close(fd);
    record.identity = identity;
    store_dir_describe(scratch->dir, &st, &record.entry);
    store_journal_put(dmd->journal, &record);
    scratch_write(scratch, "f", "newer");
    watched = NULL;
    pending = false;
    published = 0;
    return 0;
}

static int teardown(void **state)
{
    store_journal_destroy(dmd->journal);
    store_marks_destroy(dmd->marks);
    return scratch_teardown(state);
}

static void refuse(uint64_t counter)
{
    const struct dyad_version asked = {.counter = counter};

    serve_refused_publish(member, ENGINE_CONSUMER, "f", &asked, "was changed");
}

static void test_changed(void **state)
{
    (void)state;
    refuse(4); /* that is no more the last one anyway */
    assert_int_equal(published, 0);
    pending = true;
    refuse(5);
    assert_int_equal(published, 0);
    pending = false;
    refuse(5);
    assert_int_equal(published, 1);
}

/* What was written to it is in another node's version already, or has given way to that: the asker finds that one. */
static void test_given_away(void **state)
{
    (void)state;
    assert_int_equal(
        store_superseded_set(dmd->dir, SESSION, "f", STORE_OLD_REFUSED, &identity), 0);
    refuse(5);
    assert_int_equal(published, 0);
}

static void test_written(void **state)
{
    store_mark_t mark = store_marks_begin(dmd->marks, "f");
    int fd = open(scratch_path(scratch, "f"), O_RDWR);

    (void)state;
    assert_int_equal(store_marks_opened(dmd->marks, mark, fd, false), 0);
    close(fd);
    refuse(5);
    assert_int_equal(published, 0);
    assert_non_null(watched);
    store_marks_clear(dmd->marks, mark);
    watch_done(watch_arg);
    assert_int_equal(published, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_changed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_given_away, setup, teardown),
        cmocka_unit_test_setup_teardown(test_written, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
