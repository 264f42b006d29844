/*
 * test_local_file.c - what becomes of a file here whose name was withdrawn elsewhere
 *
 * local_file.c alone, on a disk of its own.
 */
#include "../store/scratch.h"

#include "engine/core/iopool.h"
#include "engine/core/local_file.h"
#include "engine/core/member.h"
#include "store/superseded.h"

#define SESSION 7

static struct scratch *scratch;
static struct member_dmd dmd;
static int input; /* standard input: a file, as that of a rank may be */

void engine_io_submit(struct engine_iopool *pool, struct engine_io *io,
                      void (*work)(void *arg), void (*done)(void *arg), void *arg)
{
    (void)pool;
    (void)io;
    (void)work;
    (void)done;
    (void)arg;
    fail();
}

void engine_io_near(struct engine_iopool *pool, struct engine_near *near,
                    struct engine_io *io, void (*work)(void *arg), void (*done)(void *arg),
                    void *arg)
{
    (void)near;
    engine_io_submit(pool, io, work, done, arg);
}

static int setup(void **state)
{
    if (scratch_setup(state) < 0)
        return -1;
    scratch = *state;
    dmd = (struct member_dmd){.dir = scratch->dir, .session = SESSION};
    dmd.marks = store_marks_create(scratch->dir);
    scratch_write(scratch, "f", "old");
    scratch_write(scratch, "input", "some");
    input = dup(0);
    close(0);
    if (open(scratch_path(scratch, "input"), O_RDONLY) != 0)
        return -1;
    return dmd.marks ? 0 : -1;
}

static int teardown(void **state)
{
    dup2(input, 0);
    close(input);
    store_marks_destroy(dmd.marks);
    return scratch_teardown(state);
}

static bool is_there(void)
{
    return access(scratch_path(scratch, "f"), F_OK) == 0;
}

static bool is_superseded(void)
{
    struct stat st;

    return stat(scratch_path(scratch, "f"), &st) == 0 &&
           local_file_is_superseded(&dmd, "f", &st);
}

static void supersede(void)
{
    struct store_identity id;
    int fd = open(scratch_path(scratch, "f"), O_RDONLY);

    assert_int_equal(store_identity_read(fd, &id), 0);
    close(fd);
    assert_int_equal(store_superseded_set(dmd.dir, SESSION, "f", STORE_OLD_REFUSED, &id),
                     0);
    assert_true(is_superseded());
}

static void test_withdrawn(void **state)
{
    (void)state;
    local_file_withdrawn(&dmd, "f");
    assert_true(is_there()); /* it is not superseded */
    supersede();
    local_file_withdrawn(&dmd, "f");
    assert_false(is_there());
    local_file_withdrawn(&dmd, "f");
}

static void test_withdrawn_written(void **state)
{
    store_mark_t mark = store_marks_begin(dmd.marks, "f");
    int fd = open(scratch_path(scratch, "f"), O_RDWR);

    (void)state;
    assert_int_equal(store_marks_opened(dmd.marks, mark, fd, false), 0);
    supersede();
    local_file_withdrawn(&dmd, "f");
    assert_true(is_superseded());
    close(fd);
    assert_true(store_marks_closed(dmd.marks, mark, -1, false));
    store_marks_clear(dmd.marks, mark);
    local_file_withdrawn(&dmd, "f");
    assert_false(is_there());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_withdrawn, setup, teardown),
        cmocka_unit_test_setup_teardown(test_withdrawn_written, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
