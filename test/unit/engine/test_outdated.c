/*
 * test_outdated.c - a file that is out of date, and what is done to it meanwhile
 *
 * outdated.c alone, on a disk of its own. Whatever a test does to the file is done after
 * the look that finds it to be the one of the record, as by another process.
 */
#include "../store/scratch.h"

#include "engine/coherence/outdated.h"
#include "engine/core/local_file.h"
#include "engine/core/member.h"
#include "store/fetch.h"
#include "store/superseded.h"

#define SESSION 7

static struct scratch *scratch;
static struct member_dmd side;
static struct store_record record;
static struct dyad_entry newer;
static void (*after_look)(void);

static bool is_marked(void)
{
    struct stat st;

    assert_int_equal(store_dir_stat(scratch->dir, "f", &st), 0);
    return store_superseded(store_dir_real_path(scratch->dir), SESSION, "f", STORE_OLD,
                            st.st_ino);
}

bool local_file_is_same(struct member_dmd *s, const struct store_record *r)
{
    struct stat st;
    bool same = store_dir_stat(s->dir, r->entry.upath, &st) == 0 &&
                st.st_ino == r->identity.ino && st.st_mtim.tv_sec == r->entry.mtime_sec &&
                (uint64_t)st.st_size == r->entry.size;

    if (after_look)
        after_look();
    return same;
}

bool local_file_still_there(struct member_dmd *s, const struct store_record *r)
{
    (void)s;
    (void)r;
    return false;
}

bool local_file_is_superseded(const struct member_dmd *s, const char *upath,
                              const struct stat *st)
{
    return store_superseded(store_dir_real_path(s->dir), s->session, upath, STORE_OLD,
                            st->st_ino);
}

static int setup(void **state)
{
    if (scratch_setup(state) < 0)
        return -1;
    scratch = *state;
    side = (struct member_dmd){.dir = scratch->dir,
                               .marks = store_marks_create(scratch->dir),
                               .session = SESSION,
                               .brings = true};
    after_look = NULL;
    return side.marks ? 0 : -1;
}

static int teardown(void **state)
{
    store_marks_destroy(side.marks);
    return scratch_teardown(state);
}

/* Published an hour ago; and what another node has published now. */
static void have(enum store_record_kind kind)
{
    struct timespec times[2] = {{.tv_sec = time(NULL) - 3600},
                                {.tv_sec = time(NULL) - 3600}};
    struct stat st;
    int fd;

    scratch_write(scratch, "f", "old");
    assert_int_equal(utimensat(AT_FDCWD, scratch_path(scratch, "f"), times, 0), 0);
    record = (struct store_record){
        .kind = kind,
        .entry = {.upath = "f", .version = {.counter = 5}, .state = DYAD_ENTRY_PUBLISHED}};
    assert_int_equal(store_dir_stat(scratch->dir, "f", &st), 0);
    store_dir_describe(scratch->dir, &st, &record.entry);
    fd = store_dir_open(scratch->dir, "f", O_PATH, 0);
    assert_int_equal(store_identity_read(fd, &record.identity), 0);
    close(fd);
    newer = record.entry;
    newer.version.counter = 7;
    memset(newer.storage, 1, sizeof(newer.storage));
}

/* The same inode. What publishes it looks whether it is marked, and has done so already. */
static void write_and_publish(void)
{
    after_look = NULL;
    assert_false(is_marked());
    scratch_write(scratch, "f", "new");
}

static const char *content(void);

static const char *content(void)
{
    static char text[8];
    int fd = open(scratch_path(scratch, "f"), O_RDONLY);
    ssize_t n;

    if (fd < 0)
        return NULL;
    n = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static void test_marked(void **state)
{
    (void)state;
    have(STORE_RECORD_ORIGINAL);
    assert_true(outdated_end(&side, &newer, &record));
    assert_true(is_marked());
    assert_string_equal(content(), "old");
    assert_true(outdated_end(&side, &newer, &record)); /* from the other home */
    assert_true(is_marked());
}

static void test_removed(void **state)
{
    (void)state;
    have(STORE_RECORD_COPY);
    assert_false(outdated_end(&side, &newer, &record));
    assert_null(content());
}

/* It is the newest again, and nobody takes a mark away any more. */
static void test_written_meanwhile(void **state)
{
    (void)state;
    have(STORE_RECORD_ORIGINAL);
    after_look = write_and_publish;
    assert_false(outdated_end(&side, &newer, &record));
    assert_false(is_marked());
    assert_string_equal(content(), "new");
}

static void write_and_be_refused(void)
{
    struct store_identity id;
    int fd;

    write_and_publish();
    fd = store_dir_open(scratch->dir, "f", O_PATH, 0);
    assert_int_equal(store_identity_read(fd, &id), 0);
    close(fd);
    assert_int_equal(
        store_superseded_set(scratch->dir, SESSION, "f", STORE_OLD_REFUSED, &id), 0);
}

/* A publish of it was refused: what that has found stays. */
static void test_refused_meanwhile(void **state)
{
    (void)state;
    have(STORE_RECORD_ORIGINAL);
    after_look = write_and_be_refused;
    assert_false(outdated_end(&side, &newer, &record));
    assert_true(is_marked());
    assert_string_equal(content(), "new");
}

static void test_copy_written_meanwhile(void **state)
{
    (void)state;
    have(STORE_RECORD_COPY);
    after_look = write_and_publish;
    assert_false(outdated_end(&side, &newer, &record));
    assert_non_null(content());
    assert_string_equal(content(), "new");
}

static unsigned openers; /* that many come, one for each attempt, and change nothing */

int __real_store_fetch_discard_unless(const struct store_dir *dir,
                                      struct store_marks *marks, const char *upath,
                                      const struct store_identity *identity,
                                      bool (*keep)(void *arg), void *arg);
int __wrap_store_fetch_discard_unless(const struct store_dir *dir,
                                      struct store_marks *marks, const char *upath,
                                      const struct store_identity *identity,
                                      bool (*keep)(void *arg), void *arg);

int __wrap_store_fetch_discard_unless(const struct store_dir *dir,
                                      struct store_marks *marks, const char *upath,
                                      const struct store_identity *identity,
                                      bool (*keep)(void *arg), void *arg)
{
    store_mark_t mark = openers > 0 ? store_marks_begin(marks, upath) : 0;
    int rc = __real_store_fetch_discard_unless(dir, marks, upath, identity, keep, arg);

    if (mark) {
        openers--;
        assert_int_equal(rc, -1);
        assert_int_equal(errno, EBUSY);
        store_marks_abort(marks, mark);
        errno = EBUSY;
    }
    return rc;
}

/* Who begins to open it for writing, and does not, has not made it the newest one. */
static void test_opened_for_a_moment(void **state)
{
    static const enum dyad_entry_state states[] = {DYAD_ENTRY_PUBLISHED,
                                                   DYAD_ENTRY_WITHDRAWN};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        have(STORE_RECORD_COPY);
        newer.state = states[i];
        openers = 2;
        assert_false(outdated_end(&side, &newer, &record));
        assert_int_equal(openers, 0);
        assert_null(content());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_marked, setup, teardown),
        cmocka_unit_test_setup_teardown(test_removed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_written_meanwhile, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused_meanwhile, setup, teardown),
        cmocka_unit_test_setup_teardown(test_copy_written_meanwhile, setup, teardown),
        cmocka_unit_test_setup_teardown(test_opened_for_a_moment, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
