/* store/dmd.h: nothing a peer can name is outside the DMD, with openat2 and without. */
#include "scratch.h"

#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include "store/beneath.h"
#include "store/control.h"
#include "store/dmd_make.h"
#include "store/dmd_walk.h"

#define assert_fails(call, error)             \
    do {                                      \
        errno = 0;                            \
        int fails_rc = (call);                \
        int fails_errno = errno;              \
        assert_int_equal(fails_rc, -1);       \
        assert_int_equal(fails_errno, error); \
    } while (0)

static void checks_upaths(void **state)
{
    char name[DYAD_UPATH_MAX + 3];

    (void)state;
    assert_int_equal(store_dir_check("a"), 0);
    assert_int_equal(store_dir_check("a/b/c.d"), 0);
    assert_int_equal(store_dir_check("..a/b.."), 0);
    assert_int_equal(store_dir_check("..."), 0);
    assert_int_equal(store_dir_check("a/.dyad"), 0);
    assert_int_equal(store_dir_check(".dyadx"), 0);
    assert_int_equal(store_dir_check("line\nbreak/\xc3\xa9 \xf0\x9f\x98\x80"), 0);
    assert_fails(store_dir_check(""), EINVAL);
    assert_fails(store_dir_check("a//b"), EINVAL);
    assert_fails(store_dir_check("a/"), EINVAL);
    assert_fails(store_dir_check("./a"), EINVAL);
    assert_fails(store_dir_check("a/."), EINVAL);
    assert_fails(store_dir_check("/etc/passwd"), EXDEV);
    assert_fails(store_dir_check(".."), EXDEV);
    assert_fails(store_dir_check("a/../../b"), EXDEV);
    assert_fails(store_dir_check("a/.."), EXDEV);
    assert_fails(store_dir_check(".dyad"), ENOENT);
    assert_fails(store_dir_check(".dyad/storage"), ENOENT);
    memset(name, 'a', sizeof(name));
    name[DYAD_UPATH_MAX] = '\0';
    assert_int_equal(store_dir_check(name), 0);
    name[DYAD_UPATH_MAX] = 'a';
    name[DYAD_UPATH_MAX + 1] = '\0';
    assert_fails(store_dir_check(name), ENAMETOOLONG);
}

typedef int (*open_fn)(int root, const char *upath, int flags, mode_t mode);

/* What both ways to open must do alike. */
static void opens_beneath(struct scratch *s, open_fn open_beneath)
{
    char outside[100], link[200], name[256];
    int root = store_dir_fd(s->dir), fd;

    snprintf(outside, sizeof(outside), "%s/secret", s->top);
    fd = open(outside, O_WRONLY | O_CREAT, 0644);
    assert_true(fd >= 0);
    close(fd);
    mkdir(scratch_path(s, "d"), 0755);
    mkdir(scratch_path(s, "d/e"), 0755);
    scratch_write(s, "d/e/f", "x");

    unlink(scratch_path(s, "out"));
    assert_int_equal(symlink(s->top, scratch_path(s, "out")), 0);
    unlink(scratch_path(s, "file"));
    assert_int_equal(symlink(outside, scratch_path(s, "file")), 0);
    unlink(scratch_path(s, "up"));
    assert_int_equal(symlink("../secret", scratch_path(s, "up")), 0);
    unlink(scratch_path(s, "in"));
    assert_int_equal(symlink("d/e", scratch_path(s, "in")), 0);
    unlink(scratch_path(s, "magic"));
    snprintf(link, sizeof(link), "/proc/self/root%s", s->top);
    assert_int_equal(symlink(link, scratch_path(s, "magic")), 0);

    fd = open_beneath(root, "d/e/f", O_RDONLY, 0);
    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
    assert_fails(open_beneath(root, "out/secret", O_RDONLY, 0), ELOOP);
    assert_fails(open_beneath(root, "out/new", O_WRONLY | O_CREAT, 0644), ELOOP);
    assert_fails(open_beneath(root, "file", O_RDONLY, 0), ELOOP);
    assert_fails(open_beneath(root, "file", O_WRONLY | O_TRUNC, 0), ELOOP);
    assert_fails(open_beneath(root, "up", O_RDONLY, 0), ELOOP);
    assert_fails(open_beneath(root, "magic/secret", O_RDONLY, 0), ELOOP);
    /* Even one that stays inside: peers get no symbolic links at all. */
    assert_fails(open_beneath(root, "in/f", O_RDONLY, 0), ELOOP);
    assert_fails(open_beneath(root, "in", O_PATH | O_DIRECTORY, 0), ELOOP);
    assert_fails(open_beneath(root, "d/e/f", O_PATH | O_DIRECTORY, 0), ENOTDIR);
    assert_fails(open_beneath(root, "d/e/f/g", O_RDONLY, 0), ENOTDIR);
    assert_fails(open_beneath(root, "d/none/g", O_RDONLY, 0), ENOENT);
    assert_fails(open_beneath(root, "d/none", O_RDONLY, 0), ENOENT);

    fd = open_beneath(root, "up", O_PATH, 0);
    assert_true(fd >= 0);
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    close(fd);

    memset(name, 'n', 255);
    name[255] = '\0';
    fd = open_beneath(root, name, O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_fails(
        open_beneath(root,
                     "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"
                     "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"
                     "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"
                     "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"
                     "nnnnnnnnnnnnnnnnnn",
                     O_RDWR | O_CREAT, 0600),
        ENAMETOOLONG);
    fd = open_beneath(root, "d/two\nlines \xc3\xa9\xe6\xbc\xa2", O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static void openat2_stays_beneath(void **state)
{
    opens_beneath(*state, store_beneath_open);
}

static void walk_stays_beneath(void **state)
{
    opens_beneath(*state, store_beneath_walk);
}

static void refuses_what_is_no_file(void **state)
{
    struct scratch *s = *state;
    struct stat st;

    assert_int_equal(mkfifo(scratch_path(s, "fifo"), 0644), 0);
    /* No reader and no writer: this would block for ever, or give ENXIO for writing. */
    assert_fails(store_dir_open(s->dir, "fifo", O_RDONLY, 0), EINVAL);
    assert_fails(store_dir_open(s->dir, "fifo", O_RDWR, 0), EINVAL);
    assert_fails(store_dir_open(s->dir, "fifo", O_WRONLY, 0), ENXIO);
    if (mknod(scratch_path(s, "null"), S_IFCHR | 0666, makedev(1, 3)) == 0) {
        int fd = open(scratch_path(s, "null"), O_RDONLY);
        if (fd >= 0) /* else a mount without devices */
            assert_fails(store_dir_open(s->dir, "null", O_RDONLY, 0), EINVAL);
        close(fd);
    }
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", s->path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    close(fd);
    assert_fails(store_dir_open(s->dir, "socket", O_RDONLY, 0), ENXIO);
    mkdir(scratch_path(s, "sub"), 0755);
    assert_fails(store_dir_open(s->dir, "sub", O_RDONLY, 0), EISDIR);
    fd = store_dir_open(s->dir, "sub", O_RDONLY | O_DIRECTORY, 0);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(store_dir_stat(s->dir, "fifo", &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
    assert_fails(store_dir_open(s->dir, ".dyad/storage", O_RDONLY, 0), ENOENT);
    assert_fails(store_dir_stat(s->dir, ".dyad", &st), ENOENT);
    assert_fails(store_dir_rmdir(s->dir, "../secret"), EXDEV);
}

static void mode_ignores_umask(void **state)
{
    struct scratch *s = *state;
    struct stat st;
    mode_t old = umask(0777);

    int fd = store_dir_open(s->dir, "file", O_RDWR | O_CREAT, 0640);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    close(fd);
    /* An existing one is left as it is. */
    fd = store_dir_open(s->dir, "file", O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    close(fd);
    assert_fails(store_dir_open(s->dir, "file", O_RDWR | O_CREAT | O_EXCL, 0600), EEXIST);

    assert_int_equal(store_dir_make_parents(s->dir, "p/q/r/file"), 0);
    assert_int_equal(stat(scratch_path(s, "p/q/r"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    assert_int_equal(store_dir_make_parents(s->dir, "p/q/r/file"), 0);
    assert_int_equal(store_dir_make_parents(s->dir, "top"), 0);
    assert_fails(store_dir_make_parents(s->dir, "file/x/y"), ENOTDIR);
    symlink(s->top, scratch_path(s, "out"));
    assert_fails(store_dir_make_parents(s->dir, "out/x/y"), ELOOP);

    /* The control directory too, in a new DMD. */
    char path[100];
    snprintf(path, sizeof(path), "%s/other", s->top);
    umask(0);
    assert_int_equal(mkdir(path, 0755), 0);
    umask(0777);
    struct store_dir *dir = store_dir_create(path);
    assert_non_null(dir);
    strcat(path, "/.dyad");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    strcat(path, "/storage");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    store_dir_destroy(dir);
    umask(old);
}

static void one_id_for_all_processes(void **state)
{
    struct scratch *s = *state;
    enum { PROCESSES = 16, ROUNDS = 8 };
    uint8_t ids[PROCESSES][DYAD_STORAGE_ID_LEN];
    char path[100];

    for (int round = 0; round < ROUNDS; round++) {
        int start[2], result[2];
        pid_t pids[PROCESSES];

        snprintf(path, sizeof(path), "%s/race%d", s->top, round);
        assert_int_equal(mkdir(path, 0755), 0);
        assert_int_equal(pipe(start), 0);
        assert_int_equal(pipe(result), 0);
        for (int i = 0; i < PROCESSES; i++) {
            pids[i] = fork();
            if (pids[i] == 0) {
                char byte;
                close(start[1]);
                CHILD_CHECK(read(start[0], &byte, 1) == 0);
                struct store_dir *dir = store_dir_create(path);
                CHILD_CHECK(dir);
                CHILD_CHECK(write(result[1], store_dir_id(dir), DYAD_STORAGE_ID_LEN) ==
                            DYAD_STORAGE_ID_LEN);
                store_dir_destroy(dir);
                _exit(0);
            }
        }
        close(start[0]);
        close(start[1]);
        for (int i = 0; i < PROCESSES; i++)
            scratch_join(pids[i]);
        for (int i = 0; i < PROCESSES; i++) {
            assert_int_equal(read(result[0], ids[i], DYAD_STORAGE_ID_LEN),
                             DYAD_STORAGE_ID_LEN);
            assert_memory_equal(ids[i], ids[0], DYAD_STORAGE_ID_LEN);
        }
        close(result[0]);
        close(result[1]);
        uint8_t id[DYAD_STORAGE_ID_LEN];
        assert_int_equal(store_dir_read_id(path, id), 0);
        assert_memory_equal(id, ids[0], DYAD_STORAGE_ID_LEN);
    }
    assert_false(dyad_storage_equal(ids[0], store_dir_id(s->dir)));
}

static void id_survives_removal(void **state)
{
    struct scratch *s = *state;
    uint8_t id[DYAD_STORAGE_ID_LEN], before[DYAD_STORAGE_ID_LEN];

    memcpy(before, store_dir_id(s->dir), sizeof(before));
    scratch_remove(scratch_path(s, ".dyad"));
    assert_fails(store_dir_read_id(s->path, id), ENOENT);
    int fd = store_control_subdir(s->dir, "owner");
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(store_dir_read_id(s->path, id), 0);
    assert_memory_equal(id, before, sizeof(id));

    /* Nobody who knew it lives: a new one. */
    store_dir_destroy(s->dir);
    scratch_remove(scratch_path(s, ".dyad"));
    s->dir = store_dir_create(s->path);
    assert_non_null(s->dir);
    assert_memory_not_equal(store_dir_id(s->dir), before, sizeof(before));

    int damaged = open(scratch_path(s, ".dyad/storage"), O_WRONLY | O_TRUNC);
    close(damaged);
    assert_null(store_dir_create(s->path));
    assert_int_equal(errno, EUCLEAN);
    assert_int_equal(unlink(scratch_path(s, ".dyad/storage")), 0);
    struct store_dir *again = store_dir_create(s->path);
    assert_non_null(again);
    store_dir_destroy(again);
}

static void refuses_bad_directories(void **state)
{
    struct scratch *s = *state;
    char path[100];
    uint8_t id[DYAD_STORAGE_ID_LEN];

    assert_null(store_dir_create("relative"));
    assert_int_equal(errno, EINVAL);
    if (geteuid() == 0) { /* another user's, who may have made it in /tmp before we came */
        char theirs[200];
        snprintf(theirs, sizeof(theirs), "%s/theirs", s->path);
        assert_int_equal(mkdir(theirs, 0777), 0);
        assert_int_equal(chown(theirs, 61234, 61234), 0);
        struct store_dir *again =
            store_dir_create(theirs); /* in a directory of ours: we know */
        assert_non_null(again);
        store_dir_destroy(again);
        assert_int_equal(chmod(s->path, 01777), 0);
        assert_null(store_dir_create(theirs));
        assert_int_equal(errno, EPERM);
        assert_int_equal(chmod(s->path, 0700), 0);
    }
    snprintf(path, sizeof(path), "%s/none", s->top);
    assert_null(store_dir_create(path));
    assert_int_equal(errno, ENOENT);
    assert_fails(store_dir_read_id(path, id), ENOENT);
    int fd = open(path, O_CREAT | O_WRONLY, 0644);
    close(fd);
    assert_null(store_dir_create(path));
    assert_int_equal(errno, ENOTDIR);
    /* A control directory that points away. */
    snprintf(path, sizeof(path), "%s/linked", s->top);
    assert_int_equal(mkdir(path, 0755), 0);
    strcat(path, "/.dyad");
    assert_int_equal(symlink(s->top, path), 0);
    *strrchr(path, '/') = '\0';
    assert_null(store_dir_create(path));
    assert_true(errno == ELOOP || errno == ENOTDIR);
}

struct walked {
    char names[16][64];
    int count;
};

/* A directory comes before what is in it. */
static int note_name(const char *upath, const struct stat *st, void *arg)
{
    struct walked *walked = arg;
    const char *slash = strrchr(upath, '/');
    char parent[64];
    bool found = !slash || walked->count == 0;

    assert_true(S_ISREG(st->st_mode) || S_ISDIR(st->st_mode) || S_ISLNK(st->st_mode));
    assert_in_range(walked->count, 0, 15);
    if (slash)
        snprintf(parent, sizeof(parent), "%.*s", (int)(slash - upath), upath);
    for (int i = 0; i < walked->count && !found; i++)
        found = strcmp(walked->names[i], parent) == 0;
    assert_true(found);
    snprintf(walked->names[walked->count++], 64, "%s", upath);
    return 0;
}

static int stop_at_once(const char *upath, const struct stat *st, void *arg)
{
    (void)upath;
    (void)st;
    ++*(int *)arg;
    return 7;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void walks_to(struct scratch *s, const char *upath, const char *const *expected)
{
    struct walked walked = {.count = 0};
    int n = 0;

    assert_int_equal(store_dir_walk(s->dir, upath, note_name, &walked), 0);
    qsort(walked.names, (size_t)walked.count, sizeof(walked.names[0]), compare_names);
    for (; expected[n]; n++)
        assert_string_equal(walked.names[n], expected[n]);
    assert_int_equal(walked.count, n);
}

static void walks_trees(void **state)
{
    struct scratch *s = *state;
    struct walked none = {.count = 0};
    int calls = 0;

    assert_int_equal(store_dir_make_parents(s->dir, "a/b/c/x"), 0);
    scratch_write(s, "a/b/c/deep", "1");
    scratch_write(s, "a/one", "1");
    scratch_write(s, "top", "1");
    mkfifo(scratch_path(s, "a/fifo"), 0644);
    symlink(s->top, scratch_path(s, "a/out"));
    walks_to(
        s, "",
        (const char *[]){"a", "a/b", "a/b/c", "a/b/c/deep", "a/one", "a/out", "top", NULL});
    walks_to(s, "a/b", (const char *[]){"a/b", "a/b/c", "a/b/c/deep", NULL});
    walks_to(s, "top", (const char *[]){"top", NULL});
    walks_to(s, "a/out", (const char *[]){"a/out", NULL});
    assert_int_equal(store_dir_walk(s->dir, "", stop_at_once, &calls), 7);
    assert_int_equal(calls, 1);
    assert_fails(store_dir_walk(s->dir, "none", note_name, &none), ENOENT);
    assert_fails(store_dir_walk(s->dir, "..", note_name, &none), EXDEV);
}

static void identity_tells_changes(void **state)
{
    struct scratch *s = *state;
    struct store_identity one, two;
    struct dyad_entry entry = {0};
    struct stat st;

    scratch_write(s, "f", "abc");
    int fd = store_dir_open(s->dir, "f", O_RDWR, 0);
    assert_int_equal(store_identity_read(fd, &one), 0);
    assert_int_equal(store_identity_read(fd, &two), 0);
    assert_true(store_identity_equal(&one, &two));
    assert_int_equal(one.size, 3);
    assert_int_equal(write(fd, "defg", 4), 4);
    assert_int_equal(store_identity_read(fd, &two), 0);
    assert_false(store_identity_equal(&one, &two));
    close(fd);
    assert_int_equal(store_dir_stat(s->dir, "f", &st), 0);
    store_dir_describe(s->dir, &st, &entry);
    assert_int_equal(entry.size, 4);
    assert_int_equal(entry.mode, st.st_mode);
    assert_memory_equal(entry.storage, store_dir_id(s->dir), DYAD_STORAGE_ID_LEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checks_upaths),
        cmocka_unit_test_setup_teardown(openat2_stays_beneath, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(walk_stays_beneath, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(refuses_what_is_no_file, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(mode_ignores_umask, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(one_id_for_all_processes, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(id_survives_removal, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(refuses_bad_directories, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(walks_trees, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(identity_tells_changes, scratch_setup,
                                        scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
