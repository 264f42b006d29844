/*
 * test_inline_bytes.c - which files go with their publish, and with which bytes
 *
 * inline_bytes.c alone, on a disk of its own.
 */
#include "../store/scratch.h"

#include "config/config.h"
#include "engine/publish/inline_bytes.h"
#include "util/clock.h"

static struct scratch *scratch;
static struct engine_config config;
static struct boot_pmix_job job;
static struct member member;
static struct store_record record;

bool engine_io_is_near(const struct engine_near *near)
{
    return util_clock_now() >= near->closed_till;
}

static int setup(void **state)
{
    if (scratch_setup(state) < 0)
        return -1;
    scratch = *state;
    config = (struct engine_config){.inline_max = 4096};
    job = (struct boot_pmix_job){.nranks = 2, .nnodes = 2};
    member = (struct member){.config = &config, .job = &job};
    member.dmd[0].dir = scratch->dir;
    member.dmd[0].marks = store_marks_create(scratch->dir);
    return member.dmd[0].marks ? 0 : -1;
}

static int teardown(void **state)
{
    store_marks_destroy(member.dmd[0].marks);
    return scratch_teardown(state);
}

/* As produce.c looks at it. */
static void look(const char *name)
{
    int fd = store_dir_open(scratch->dir, name, O_PATH | O_NOFOLLOW, 0);
    struct stat st;

    record = (struct store_record){.kind = STORE_RECORD_ORIGINAL};
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(store_identity_read(fd, &record.identity), 0);
    close(fd);
    record.entry.upath = name;
    store_dir_describe(scratch->dir, &st, &record.entry);
}

static const char *bytes(store_mark_t mark)
{
    return inline_bytes(&member, 0, &record, mark);
}

static void test_taken(void **state)
{
    (void)state;
    scratch_write(scratch, "f", "some text");
    look("f");
    assert_non_null(bytes(0));
    assert_memory_equal(bytes(0), "some text", 9);
    config.inline_max = 9;
    assert_non_null(bytes(0));
    config.inline_max = 8;
    assert_null(bytes(0));
    config.inline_max = 0;
    assert_null(bytes(0));
    config.inline_max = 4096;

    job.nnodes = 1; /* nobody would fetch it */
    assert_null(bytes(0));
    config.node = "n1"; /* nodes of the user's making */
    assert_non_null(bytes(0));

    member.dmd[0].near.closed_till = UINT64_MAX; /* a slow disk */
    assert_null(bytes(0));
}

static void test_kinds(void **state)
{
    (void)state;
    scratch_write(scratch, "empty", "");
    look("empty");
    assert_null(bytes(0));
    assert_int_equal(symlink("target", scratch_path(scratch, "link")), 0);
    look("link");
    assert_null(bytes(0));
    assert_int_equal(mkdir(scratch_path(scratch, "d"), 0700), 0);
    look("d");
    assert_null(bytes(0));
}

/* Not the file that was looked at, or not any more. */
static void test_changed(void **state)
{
    (void)state;
    scratch_write(scratch, "f", "old text");
    look("f");
    assert_int_equal(unlink(scratch_path(scratch, "f")), 0);
    assert_null(bytes(0));
    assert_int_equal(mkfifo(scratch_path(scratch, "f"), 0600), 0);
    assert_null(bytes(0)); /* and does not wait for a writer */
    assert_int_equal(unlink(scratch_path(scratch, "f")), 0);
    scratch_write(scratch, "f", "new text");
    assert_null(bytes(0));
    look("f");
    assert_non_null(bytes(0));
    assert_int_equal(truncate(scratch_path(scratch, "f"), 3), 0);
    assert_null(bytes(0));
    look("f");
    record.identity.ctime--; /* as if it had been written to since */
    assert_null(bytes(0));
}

/* The last close of its description, before the publish. */
static void close_last(store_mark_t mark, int fd)
{
    int probe = open(scratch_path(scratch, "f"), O_RDONLY);

    close(fd);
    assert_true(store_marks_closed(member.dmd[0].marks, mark, probe, false));
    close(probe);
}

/* The writer's own mark does not count, any other does. */
static void test_marks(void **state)
{
    struct store_marks *marks = member.dmd[0].marks;
    store_mark_t own, other;
    int fd, again;

    (void)state;
    scratch_write(scratch, "f", "some text");
    look("f");
    own = store_marks_begin(marks, "f");
    fd = open(scratch_path(scratch, "f"), O_RDWR);
    assert_int_equal(store_marks_opened(marks, own, fd, false), 0);
    look("f");
    assert_null(bytes(0));
    assert_non_null(bytes(own));
    other = store_marks_begin(marks, "f");
    again = open(scratch_path(scratch, "f"), O_RDWR);
    assert_int_equal(store_marks_opened(marks, other, again, false), 0);
    look("f");
    assert_null(bytes(own));
    assert_null(bytes(other));
    close_last(other, again);
    assert_null(bytes(own));
    store_marks_clear(marks, other);
    assert_non_null(bytes(own));
    close_last(own, fd);
    assert_non_null(bytes(own));

    /* The name is another file's by now, which another writes. */
    assert_int_equal(unlink(scratch_path(scratch, "f")), 0);
    scratch_write(scratch, "f", "other text");
    other = store_marks_begin(marks, "f");
    again = open(scratch_path(scratch, "f"), O_RDWR);
    assert_int_equal(store_marks_opened(marks, other, again, false), 0);
    look("f");
    assert_null(bytes(own));
    close_last(other, again);
    store_marks_clear(marks, other);
    assert_non_null(bytes(own));
    store_marks_clear(marks, own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kinds, setup, teardown),
        cmocka_unit_test_setup_teardown(test_changed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_marks, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
