/* store/control.h: what is private to us below a DMD, and is one thing for all processes.
 */
#include "scratch.h"

#include "store/control.h"
#include "store/fetch.h"
#include "store/lock.h"

static void private_directories(void **state)
{
    struct scratch *s = *state;
    mode_t mask = umask(0777); /* a program's umask takes nothing from us */
    int sub = store_control_subdir(s->dir, "sub");
    struct stat st;

    umask(mask);
    assert_true(sub >= 0);
    assert_int_equal(fstat(sub, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(fchmod(sub, 0755), 0); /* nor does anybody add to it */
    close(sub);
    sub = store_control_subdir(s->dir, "sub");
    assert_true(sub >= 0);
    assert_int_equal(fstat(sub, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    close(sub);

    scratch_write(s, ".dyad/file", "no directory");
    assert_int_equal(store_control_subdir(s->dir, "file"), -1);
    assert_int_equal(errno, ENOTDIR);
    assert_int_equal(symlink("..", scratch_path(s, ".dyad/link")), 0);
    assert_int_equal(store_control_subdir(s->dir, "link"), -1); /* nobody leads us out */
}

/* What is in it is believed, by root as well. */
static void another_users(void **state)
{
    struct scratch *s = *state;

    if (geteuid() != 0)
        skip();
    assert_int_equal(mkdir(scratch_path(s, ".dyad/sub"), 0777), 0);
    assert_int_equal(chown(scratch_path(s, ".dyad/sub"), 1, 1), 0);
    assert_int_equal(store_control_subdir(s->dir, "sub"), -1);
    assert_int_equal(errno, EACCES);
    assert_int_equal(chown(scratch_path(s, ".dyad"), 1, 1),
                     0); /* put there under a running job */
    assert_int_equal(store_control_open(s->dir), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(chown(scratch_path(s, ".dyad"), 0, 0), 0);
}

/* Removed under a running job it comes back with the id that it had. */
static void comes_back(void **state)
{
    struct scratch *s = *state;
    uint8_t id[DYAD_STORAGE_ID_LEN];

    scratch_remove(scratch_path(s, ".dyad"));
    int control = store_control_open(s->dir);
    assert_true(control >= 0);
    assert_int_equal(store_control_read_id(control, id), 0);
    assert_memory_equal(id, store_dir_id(s->dir), sizeof(id));
    close(control);
}

/* Of many that make the id at once all get one. */
static void one_id(void **state)
{
    enum { MAKERS = 8 };
    struct scratch *s = *state;
    uint8_t ids[MAKERS][DYAD_STORAGE_ID_LEN];
    int results[2];
    pid_t child[MAKERS];

    assert_int_equal(unlink(scratch_path(s, ".dyad/storage")), 0);
    assert_int_equal(pipe(results), 0);
    int control = store_control_private(store_dir_fd(s->dir), STORE_CONTROL_DIR);
    assert_true(control >= 0);
    for (int i = 0; i < MAKERS; i++) {
        child[i] = fork();
        if (child[i] == 0) {
            uint8_t id[DYAD_STORAGE_ID_LEN] = {0};
            CHILD_CHECK(store_control_make_id(control, id) == 0);
            CHILD_CHECK(write(results[1], id, sizeof(id)) == sizeof(id));
            _exit(0);
        }
    }
    for (int i = 0; i < MAKERS; i++) {
        scratch_join(child[i]);
        assert_int_equal(read(results[0], ids[i], sizeof(ids[i])), sizeof(ids[i]));
        assert_memory_equal(ids[i], ids[0], sizeof(ids[0]));
    }
    close(control);
    close(results[0]);
    close(results[1]);
}

static void damaged_id(void **state)
{
    static const char *const bad[] = {"", "0123", "0123456789abcdef0123456789abcdeg\n",
                                      "0123456789ABCDEF0123456789abcdef\n"};
    struct scratch *s = *state;
    uint8_t id[DYAD_STORAGE_ID_LEN];
    int control = store_control_open(s->dir);

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        scratch_write(s, ".dyad/storage", bad[i]);
        assert_int_equal(store_control_read_id(control, id), -1);
        assert_int_equal(errno, EUCLEAN);
        assert_int_equal(store_control_make_id(control, id), -1); /* it is not replaced */
        assert_int_equal(errno, EUCLEAN);
    }
    close(control);
}

static void temporaries(void **state)
{
    struct scratch *s = *state;
    char a[STORE_TEMP_NAME_SIZE], b[STORE_TEMP_NAME_SIZE];
    int tmp = store_control_subdir(s->dir, "tmp");
    int fda = store_control_temp(tmp, a), fdb = store_control_temp(tmp, b);
    struct stat st;

    assert_true(fda >= 0 && fdb >= 0);
    assert_string_not_equal(a, b);
    assert_int_equal(fstat(fda, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(store_control_write(fda, 0, "text", 4), 0);
    assert_int_equal(store_control_write(fdb, 2, "text", 4), 0);
    assert_int_equal(fstat(fdb, &st), 0);
    assert_int_equal(st.st_size, 6);

    /* The first has the name, the second is told so and keeps its own. */
    assert_int_equal(store_control_rename_new(tmp, a, tmp, "final"), 0);
    assert_int_equal(store_control_rename_new(tmp, b, tmp, "final"), -1);
    assert_int_equal(errno, EEXIST);
    assert_int_equal(faccessat(tmp, b, F_OK, 0), 0);

    /* What lives is not swept away, what is dead is; on shared storage not while it may be
     * another node's. */
    assert_int_equal(store_fetch_clean(s->dir, 0), 0);
    close(fdb);
    bool was = store_dir_shared(s->dir);
    store_dir_set_shared(s->dir, true);
    assert_int_equal(store_fetch_clean(s->dir, 0), 0);
    struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    assert_int_equal(utimensat(tmp, b, old, 0), 0);
    assert_int_equal(store_fetch_clean(s->dir, 0), 1);
    assert_int_equal(faccessat(tmp, b, F_OK, 0), -1);
    store_dir_set_shared(s->dir, was);
    close(fda);
    close(tmp);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)
    const struct CMUnitTest tests[] = {TEST(private_directories), TEST(another_users),
                                       TEST(comes_back),          TEST(one_id),
                                       TEST(damaged_id),          TEST(temporaries)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
