/* store/fetch.h: all of a file under its name, or nothing, for one fetcher at a time. */
#include "scratch.h"

#include <dirent.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "store/fetch.h"

/* Where a child finds, and a leak checker sees, what it has when it ends without a word. */
static struct store_fetch *volatile in_use;

static struct dyad_entry make_entry(const char *upath, uint64_t size)
{
    return (struct dyad_entry){.upath = upath,
                               .size = size,
                               .mode = S_IFREG | S_ISUID | 0640,
                               .mtime_sec = 1000000001,
                               .mtime_nsec = 123456789};
}

static int files_in(struct scratch *s, const char *upath)
{
    DIR *stream = opendir(scratch_path(s, upath));
    int count = 0;
    assert_non_null(stream);
    while (readdir(stream))
        count++;
    closedir(stream);
    return count - 2;
}

static void check_text(struct scratch *s, const char *upath, const char *text)
{
    char buf[64] = "";
    int fd = open(scratch_path(s, upath), O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(read(fd, buf, sizeof(buf) - 1), strlen(text));
    assert_string_equal(buf, text);
    close(fd);
}

static int fetch_text(struct scratch *s, const char *upath, const char *text, int replace)
{
    struct dyad_entry entry = make_entry(upath, strlen(text));
    struct store_fetch *fetch = store_fetch_begin(s->dir, &entry);
    assert_non_null(fetch);
    assert_int_equal(store_fetch_write(fetch, 0, text, strlen(text)), 0);
    return store_fetch_commit(fetch, replace, NULL);
}

static void arrives_whole(void **state)
{
    struct scratch *s = *state;
    struct store_identity id, seen;
    struct dyad_entry entry = make_entry("new/dir/f", 10);
    struct stat st;
    mode_t old = umask(0777);

    struct store_fetch *fetch = store_fetch_begin(s->dir, &entry);
    assert_non_null(fetch);
    assert_int_equal(access(scratch_path(s, "new"), F_OK), -1);
    assert_int_equal(store_fetch_write(fetch, 5, "fghij", 5), 0);
    assert_int_equal(store_fetch_write(fetch, 0, "abcde", 5), 0);
    assert_int_equal(store_fetch_write(fetch, 10, "", 0), 0);
    assert_int_equal(store_fetch_write(fetch, 9, "xx", 2), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(store_fetch_write(fetch, UINT64_MAX, "xx", 2), -1);
    assert_int_equal(store_fetch_write(fetch, 1, "xx", UINT64_MAX), -1);
    assert_int_equal(store_fetch_commit(fetch, 0, &id), 0);
    umask(old);
    assert_int_equal(stat(scratch_path(s, "new/dir/f"), &st), 0);
    assert_int_equal(st.st_size, 10);
    assert_int_equal(st.st_mode & 07777, 0640); /* no setuid from elsewhere, no umask */
    assert_int_equal(st.st_mtim.tv_sec, 1000000001);
    assert_int_equal(st.st_mtim.tv_nsec, 123456789);
    assert_int_equal(stat(scratch_path(s, "new/dir"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    check_text(s, "new/dir/f", "abcdefghij");
    int fd = store_dir_open(s->dir, "new/dir/f", O_RDONLY, 0);
    assert_int_equal(store_identity_read(fd, &seen), 0);
    assert_true(store_identity_equal(&id, &seen));
    close(fd);
    assert_int_equal(files_in(s, ".dyad/tmp"), 0);
    assert_int_equal(fetch_text(s, "empty", "", 0), 0);
    assert_int_equal(stat(scratch_path(s, "empty"), &st), 0);
    assert_int_equal(st.st_size, 0);
}

static void replaces_only_when_told(void **state)
{
    struct scratch *s = *state;

    scratch_write(s, "f", "old");
    int open_before = open(scratch_path(s, "f"), O_RDONLY);
    errno = 0;
    assert_int_equal(fetch_text(s, "f", "newer", 0), -1);
    assert_int_equal(errno, EEXIST);
    check_text(s, "f", "old");
    assert_int_equal(files_in(s, ".dyad/tmp"), 0);
    assert_int_equal(fetch_text(s, "f", "newer", 1), 0);
    check_text(s, "f", "newer");
    char buf[8] = "";
    assert_int_equal(read(open_before, buf, sizeof(buf)), 3); /* whole, as it was */
    assert_string_equal(buf, "old");
    close(open_before);
    mkdir(scratch_path(s, "d"), 0755);
    assert_int_equal(fetch_text(s, "d", "x", 1), -1);
    assert_int_equal(errno, EISDIR);
    assert_int_equal(fetch_text(s, "f/below", "x", 1), -1);
    assert_int_equal(errno, ENOTDIR);
    assert_int_equal(symlink(s->top, scratch_path(s, "out")), 0);
    assert_int_equal(fetch_text(s, "out/x", "x", 1), -1);
    assert_int_equal(errno, ELOOP);
    assert_int_equal(files_in(s, ".dyad/tmp"), 0);
}

static void never_partial(void **state)
{
    struct scratch *s = *state;
    struct dyad_entry entry = make_entry("f", 10);
    struct store_fetch *fetch = store_fetch_begin(s->dir, &entry);

    assert_int_equal(store_fetch_write(fetch, 0, "abc", 3), 0);
    assert_int_equal(store_fetch_commit(fetch, 0, NULL), -1);
    assert_int_equal(errno, EIO);
    fetch = store_fetch_begin(s->dir, &entry);
    assert_non_null(fetch);
    store_fetch_abort(fetch);
    assert_int_equal(access(scratch_path(s, "f"), F_OK), -1);
    assert_int_equal(files_in(s, ".dyad/tmp"), 0);

    static const char *const bad[] = {"",       "/abs",          "../up",
                                      "a/../b", ".dyad/storage", "a//b"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        entry.upath = bad[i];
        assert_null(store_fetch_begin(s->dir, &entry));
    }
    entry = make_entry("huge", UINT64_MAX);
    assert_null(store_fetch_begin(s->dir, &entry));
    assert_int_equal(errno, EFBIG);
    /* The control directory goes while it is fetched: an error or success, never a wrong
     * file. */
    entry = make_entry("g", 1);
    fetch = store_fetch_begin(s->dir, &entry);
    assert_non_null(fetch);
    scratch_remove(scratch_path(s, ".dyad"));
    assert_int_equal(store_fetch_write(fetch, 0, "x", 1), 0);
    assert_int_equal(store_fetch_commit(fetch, 0, NULL), -1);
    assert_int_equal(access(scratch_path(s, "g"), F_OK), -1);
    assert_int_equal(fetch_text(s, "g", "x", 0), 0);
}

/* What a dead process has left is taken over; another user's file, and a second name of a file elsewhere, make room. */
static void left_by_whom(void **state)
{
    struct scratch *s = *state;
    struct dyad_entry entry = make_entry("f", 4);
    char name[64] = "";
    struct dirent *each;
    DIR *dir;

    for (int what = 0; what < 3; what++) {
        pid_t pid = fork();
        if (pid == 0) {
            struct store_fetch *fetch = in_use = store_fetch_begin(s->dir, &entry);
            CHILD_CHECK(fetch && store_fetch_write(fetch, 0, "zzzz", 4) == 0);
            _exit(0);
        }
        scratch_join(pid);
        assert_non_null(dir = opendir(scratch_path(s, ".dyad/tmp")));
        while ((each = readdir(dir)))
            if (each->d_name[0] != '.')
                snprintf(name, sizeof(name), ".dyad/tmp/%.40s", each->d_name);
        closedir(dir);
        if (what == 1)
            assert_int_equal(linkat(AT_FDCWD, scratch_path(s, name), store_dir_fd(s->dir),
                                    "elsewhere", 0),
                             0);
        if (what == 2 && (geteuid() != 0 || chown(scratch_path(s, name), 1, 1) < 0))
            break;
        in_use = store_fetch_begin(s->dir, &entry);
        assert_non_null(in_use);
        struct stat st;
        assert_int_equal(stat(scratch_path(s, name), &st), 0);
        assert_int_equal(st.st_uid, geteuid());
        assert_int_equal(st.st_size, 0);
        if (what == 1) {
            assert_int_equal(stat(scratch_path(s, "elsewhere"), &st), 0);
            assert_int_equal(st.st_size, 4);
        }
        store_fetch_abort(in_use);
    }
}

static void one_per_node(void **state)
{
    struct scratch *s = *state;
    struct dyad_entry entry = make_entry("f", 4);
    int pipes[2], ready[2];
    char byte;

    struct store_fetch *mine = in_use = store_fetch_begin(s->dir, &entry);
    assert_non_null(mine);
    assert_null(store_fetch_begin(s->dir, &entry)); /* nor another thread of ours */
    assert_int_equal(errno, EBUSY);
    assert_int_equal(store_fetch_clean(s->dir, 0), 0);
    pid_t pid = fork();
    if (pid == 0) {
        CHILD_CHECK(!store_fetch_begin(s->dir, &entry) && errno == EBUSY);
        _exit(0);
    }
    scratch_join(pid);
    store_fetch_abort(mine);
    assert_int_equal(store_fetch_wait(s->dir, "f"), 0); /* nobody: at once */

    /* A child fetches and dies half-way: who waits goes on, who begins takes over. */
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        struct store_fetch *fetch = in_use = store_fetch_begin(s->dir, &entry);
        CHILD_CHECK(fetch && store_fetch_write(fetch, 0, "zzzz", 4) == 0);
        CHILD_CHECK(write(ready[1], "r", 1) == 1);
        close(pipes[1]);
        CHILD_CHECK(read(pipes[0], &byte, 1) == 0);
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_null(store_fetch_begin(s->dir, &entry));
    assert_int_equal(errno, EBUSY);
    pid_t waiter = fork();
    if (waiter == 0) {
        close(pipes[0]);
        close(pipes[1]);
        CHILD_CHECK(store_fetch_wait(s->dir, "f") == 0);
        struct store_fetch *fetch = store_fetch_begin(s->dir, &entry);
        CHILD_CHECK(fetch);
        CHILD_CHECK(store_fetch_commit(fetch, 0, NULL) ==
                    -1); /* what the dead one wrote is void */
        _exit(0);
    }
    close(pipes[0]);
    close(pipes[1]);
    scratch_join(pid);
    scratch_join(waiter);
    assert_int_equal(fetch_text(s, "f", "done", 0), 0);
    check_text(s, "f", "done");
    close(ready[0]);
    close(ready[1]);
}

/* Many processes want one file: it is fetched by one, the others find it. */
static void a_crowd(void **state)
{
    struct scratch *s = *state;
    enum { PROCESSES = 8 };
    pid_t pids[PROCESSES];
    int go[2], status, fetched = 0;

    for (int round = 0; round < 10; round++) {
        struct dyad_entry entry = make_entry("crowd", 4);
        unlink(scratch_path(s, "crowd"));
        assert_int_equal(pipe(go), 0);
        for (int i = 0; i < PROCESSES; i++) {
            pids[i] = fork();
            if (pids[i] == 0) {
                char byte;
                struct stat st;
                close(go[1]);
                CHILD_CHECK(read(go[0], &byte, 1) == 0);
                while (store_dir_stat(s->dir, "crowd", &st) < 0) {
                    static struct store_fetch *fetch;
                    fetch = store_fetch_begin(s->dir, &entry);
                    if (!fetch) {
                        CHILD_CHECK(errno == EBUSY);
                        CHILD_CHECK(store_fetch_wait(s->dir, "crowd") == 0);
                        continue;
                    }
                    CHILD_CHECK(store_fetch_write(fetch, 0, "data", 4) == 0);
                    if (store_fetch_commit(fetch, 0, NULL) == 0)
                        _exit(1);
                    CHILD_CHECK(errno == EEXIST);
                }
                CHILD_CHECK(st.st_size == 4);
                _exit(0);
            }
        }
        close(go[0]);
        close(go[1]);
        fetched = 0;
        for (int i = 0; i < PROCESSES; i++) {
            assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
            assert_true(WIFEXITED(status));
            fetched += WEXITSTATUS(status);
        }
        assert_int_equal(fetched, 1);
        check_text(s, "crowd", "data");
        assert_int_equal(files_in(s, ".dyad/tmp"), 0);
    }
}

static void cleans_after_the_dead(void **state)
{
    struct scratch *s = *state;

    for (int i = 0; i < 3; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            char upath[16];
            snprintf(upath, sizeof(upath), "dead%d", i);
            struct dyad_entry entry = make_entry(upath, 1000);
            in_use = store_fetch_begin(s->dir, &entry);
            CHILD_CHECK(in_use);
            kill(getpid(), SIGKILL);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
    }
    struct dyad_entry entry = make_entry("alive", 1);
    struct store_fetch *fetch = store_fetch_begin(s->dir, &entry);
    assert_int_equal(files_in(s, ".dyad/tmp"), 4);
    assert_int_equal(store_fetch_clean(s->dir, 0), 3);
    assert_int_equal(files_in(s, ".dyad/tmp"), 1);
    assert_int_equal(store_fetch_clean(s->dir, 0), 0);
    assert_int_equal(store_fetch_write(fetch, 0, "x", 1), 0);
    assert_int_equal(store_fetch_commit(fetch, 0, NULL), 0);
}

static void copies(void **state)
{
    struct scratch *s = *state;
    enum { SIZE = (3 << 20) + 17 };
    char *data = malloc(SIZE), *back = malloc(SIZE);
    char source[100], elsewhere[] = "/dev/shm/dyad-store-XXXXXX";

    for (int i = 0; i < SIZE; i++)
        data[i] = (char)(i * 31 + (i >> 12));
    snprintf(source, sizeof(source), "%s/source", s->top);
    int fds[2] = {open(source, O_RDWR | O_CREAT, 0644), mkstemp(elsewhere)};
    for (int i = 0; i < 2; i++) { /* the same file system, another one */
        if (fds[i] < 0)
            continue;
        assert_int_equal(write(fds[i], data, SIZE), SIZE);
        struct dyad_entry entry = make_entry("copy", SIZE);
        struct store_fetch *fetch = store_fetch_begin(s->dir, &entry);
        assert_non_null(fetch);
        assert_int_equal(store_fetch_copy(fetch, fds[i]), 0);
        assert_int_equal(store_fetch_commit(fetch, 1, NULL), 0);
        int fd = open(scratch_path(s, "copy"), O_RDONLY);
        assert_int_equal(read(fd, back, SIZE), SIZE);
        assert_memory_equal(data, back, SIZE);
        close(fd);
        entry.size = SIZE + 1;
        fetch = store_fetch_begin(s->dir, &entry);
        assert_int_equal(store_fetch_copy(fetch, fds[i]), -1);
        assert_int_equal(errno, ESTALE);
        store_fetch_abort(fetch);
        close(fds[i]);
    }
    unlink(elsewhere);
    free(data);
    free(back);
}

/* Where the file system reserves nothing, the disk is full in the middle: here by the limit
 * on a file's size. */
static void write_fails(void **state)
{
    struct scratch *s = *state;
    struct dyad_entry entry = make_entry("f", 100000);
    struct rlimit limit, none;
    char data[65536] = {0};

    signal(SIGXFSZ, SIG_IGN);
    struct store_fetch *fetch = store_fetch_begin(s->dir, &entry);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &none), 0);
    limit = none;
    limit.rlim_cur = 70000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(store_fetch_write(fetch, 0, data, 65536), 0);
    assert_int_equal(store_fetch_write(fetch, 65536, data, 100000 - 65536), -1);
    assert_int_equal(errno, EFBIG);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    assert_int_equal(store_fetch_commit(fetch, 0, NULL), -1);
    assert_int_equal(files_in(s, ".dyad/tmp"), 0);
    assert_int_equal(access(scratch_path(s, "f"), F_OK), -1);
}

static unsigned allocations; /* calls of fallocate() */

int __real_fallocate(int fd, int mode, off_t offset, off_t len);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t len);

int __wrap_fallocate(int fd, int mode, off_t offset, off_t len)
{
    allocations++;
    if (len <= 1 << 30)
        return __real_fallocate(fd, mode, offset, len);
    errno = ENOSPC; /* as it ends where it is let eat the disk */
    return -1;
}

/* A peer that names a size that is none does not fill the disk for a while. */
static void larger_than_the_disk(void **state)
{
    struct scratch *s = *state;
    struct dyad_entry entry = make_entry("big", DYAD_SIZE_MAX);
    struct store_fetch *fetch;

    allocations = 0;
    assert_null(store_fetch_begin(s->dir, &entry));
    assert_int_equal(errno, ENOSPC);
    assert_int_equal(allocations, 0);
    assert_int_equal(files_in(s, ".dyad/tmp"), 0);
    entry.size++;
    assert_null(store_fetch_begin(s->dir, &entry));
    assert_int_equal(errno, EFBIG);
    entry.size = 1 << 20; /* what there is room for */
    assert_non_null(fetch = store_fetch_begin(s->dir, &entry));
    assert_int_equal(allocations, 1);
    store_fetch_abort(fetch);
}

static void mounts(void **state)
{
    struct scratch *s = *state;
    char path[100];

    snprintf(path, sizeof(path), "%s/full", s->top);
    assert_int_equal(mkdir(path, 0755), 0);
    if (mount("none", path, "tmpfs", 0, "size=2m") < 0) {
        print_message("cannot mount a tmpfs (%s): skipped\n", strerror(errno));
        skip();
    }
    struct store_dir *dir = store_dir_create(path);
    assert_non_null(dir);
    struct dyad_entry entry = make_entry("big", 4 << 20);
    assert_null(store_fetch_begin(dir, &entry));
    int error = errno;
    entry = make_entry("small", 5);
    struct store_fetch *fetch = store_fetch_begin(dir, &entry);
    int begun = fetch != NULL;
    if (fetch)
        store_fetch_abort(fetch);
    store_dir_destroy(dir);
    assert_int_equal(umount(path), 0);
    assert_int_equal(error, ENOSPC);
    assert_true(begun); /* the failed one gave its space back */

    /* A mount point inside the DMD. */
    char inner[PATH_MAX];
    strcpy(inner, scratch_path(s, "inner"));
    assert_int_equal(mkdir(inner, 0755), 0);
    assert_int_equal(mount("none", inner, "tmpfs", 0, "size=1m"), 0);
    int rc = fetch_text(s, "inner/f", "x", 0);
    error = errno;
    assert_int_equal(umount(inner), 0);
    assert_int_equal(rc, -1);
    assert_int_equal(error, EXDEV);
    assert_int_equal(files_in(s, ".dyad/tmp"), 0);
}

static bool keep_it(void *arg)
{
    struct scratch *s = arg;

    assert_int_equal(access(scratch_path(s, "f"), F_OK), -1);
    return true;
}

static bool lose_it(void *arg)
{
    (void)arg;
    return false;
}

/* keep(): give the name that the file has aside just now to `arg`. */
static char aside_name[NAME_MAX + 1];

static bool note_aside(void *arg)
{
    struct scratch *s = arg;
    DIR *stream = opendir(scratch_path(s, ".dyad/tmp"));
    struct dirent *entry;

    assert_non_null(stream);
    while ((entry = readdir(stream))) {
        if (entry->d_name[0] != '.')
            strcpy(aside_name, entry->d_name);
    }
    closedir(stream);
    return true;
}

/* keep(): the file is found all the same. */
static bool find_aside(void *arg)
{
    struct scratch *s = arg;
    char text[8] = "";
    int fd = store_dir_open(s->dir, "f", O_RDONLY, 0);

    assert_int_equal(fd, -1);
    fd = store_fetch_open_named(s->dir, "f", O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(read(fd, text, sizeof(text) - 1), 4);
    assert_string_equal(text, "text");
    close(fd);
    fd = store_fetch_open_named(s->dir, "f", O_PATH | O_NOFOLLOW);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(store_fetch_open_named(s->dir, "g", O_RDONLY), -1);
    assert_int_equal(errno, ENOENT);
    return true;
}

/* Another file's temporary is not taken for it. */
static void finds_what_is_aside(void **state)
{
    struct scratch *s = *state;
    struct dyad_entry entry = make_entry("f", 10);
    struct store_fetch *fetch = store_fetch_begin(s->dir, &entry);
    struct store_identity id;
    int fd;

    scratch_write(s, "f", "text");
    fd = store_fetch_open_named(s->dir, "f", O_RDONLY);
    assert_int_equal(store_identity_read(fd, &id), 0);
    close(fd);
    assert_int_equal(store_fetch_discard_unless(s->dir, NULL, "f", &id, find_aside, s), -1);
    assert_int_equal(store_fetch_discard(s->dir, "f", &id), 0);
    assert_int_equal(store_fetch_open_named(s->dir, "f", O_RDONLY), -1);
    assert_int_equal(errno, ENOENT);
    store_fetch_abort(fetch);
}

/* What another process, in another PID namespace, has aside under the same thread number
 * stays its own. */
static void discards_beside_another(void **state)
{
    struct scratch *s = *state;
    char other[sizeof(".dyad/tmp/") + NAME_MAX];
    struct store_identity id;

    scratch_write(s, "f", "text");
    int fd = store_dir_open(s->dir, "f", O_RDONLY, 0);
    assert_int_equal(store_identity_read(fd, &id), 0);
    close(fd);
    assert_int_equal(store_fetch_discard_unless(s->dir, NULL, "f", &id, note_aside, s), -1);
    snprintf(other, sizeof(other), ".dyad/tmp/%s", aside_name);
    scratch_write(s, other, "other");
    assert_int_equal(store_fetch_discard(s->dir, "f", &id), 0);
    assert_int_equal(access(scratch_path(s, "f"), F_OK), -1);
    check_text(s, other, "other");
    assert_int_equal(files_in(s, ".dyad/tmp"), 1);
}

/* Who is asked when the file has no name any more can have it kept. */
static void discards_unless(void **state)
{
    struct scratch *s = *state;
    struct store_identity id;

    scratch_write(s, "f", "text");
    int fd = store_dir_open(s->dir, "f", O_RDONLY, 0);
    assert_int_equal(store_identity_read(fd, &id), 0);
    close(fd);
    assert_int_equal(store_fetch_discard_unless(s->dir, NULL, "f", &id, keep_it, s), -1);
    assert_int_equal(errno, EBUSY);
    check_text(s, "f", "text");
    assert_int_equal(files_in(s, ".dyad/tmp"), 0);
    assert_int_equal(store_fetch_discard_unless(s->dir, NULL, "f", &id, lose_it, NULL), 0);
    assert_int_equal(access(scratch_path(s, "f"), F_OK), -1);
}

/* A file that took the name since it was looked at is not removed; nor is its reservation
 * disturbed. */
static void discards_the_same_only(void **state)
{
    struct scratch *s = *state;
    struct store_identity old;
    struct stat reserved, again;
    char from[2 * PATH_MAX];

    scratch_write(s, "f", "old");
    int fd = store_dir_open(s->dir, "f", O_RDONLY, 0);
    assert_int_equal(store_identity_read(fd, &old), 0);
    close(fd);
    scratch_write(s, "g", "newer");
    snprintf(from, sizeof(from), "%s", scratch_path(s, "g"));
    assert_int_equal(rename(from, scratch_path(s, "f")), 0);
    assert_int_equal(store_fetch_discard(s->dir, "f", &old), -1);
    assert_int_equal(errno, ESTALE);
    check_text(s, "f", "newer");
    assert_int_equal(store_fetch_reserve(s->dir, "f", &reserved), 0);
    fd = store_dir_open(s->dir, "f", O_RDONLY, 0);
    assert_int_equal(store_identity_read(fd, &old), 0);
    close(fd);
    assert_int_equal(store_fetch_discard(s->dir, "f", &old), 0);
    assert_int_equal(access(scratch_path(s, "f"), F_OK), -1);
    assert_int_equal(store_fetch_discard(s->dir, "f", &old), -1);
    assert_int_equal(errno, ENOENT);
    /* What stat told of a file to come is so when it has come. */
    assert_int_equal(fetch_text(s, "f", "text", 0), 0);
    assert_int_equal(stat(scratch_path(s, "f"), &again), 0);
    assert_int_equal(again.st_ino, reserved.st_ino);
    assert_int_equal(files_in(s, ".dyad/tmp"), 0);
}

static struct store_fetch *begin_other(struct scratch *s, const char *upath, mode_t mode,
                                       uint64_t size)
{
    struct dyad_entry entry = make_entry(upath, size);

    entry.mode = mode;
    errno = 0;
    return store_fetch_begin(s->dir, &entry);
}

static int fetch_link(struct scratch *s, const char *upath, const char *target, size_t len,
                      int replace, struct store_identity *id)
{
    struct store_fetch *fetch = begin_other(s, upath, S_IFLNK | 0777, len);

    assert_non_null(fetch);
    assert_int_equal(store_fetch_write(fetch, 0, target, len), 0);
    return store_fetch_commit(fetch, replace, id);
}

static void check_link(struct scratch *s, const char *upath, const char *target)
{
    char got[PATH_MAX];
    ssize_t n = store_dir_readlink(s->dir, upath, got, sizeof(got));

    assert_int_equal(n, strlen(target));
    assert_memory_equal(got, target, strlen(target));
}

/* The target may be any text; only the link's own place is below the DMD. */
static void brings_links(void **state)
{
    struct scratch *s = *state;
    char longest[PATH_MAX];
    struct store_identity id;
    struct stat st;

    assert_int_equal(fetch_link(s, "new/dir/l", "../x", 4, 0, &id), 0);
    check_link(s, "new/dir/l", "../x");
    assert_int_equal(lstat(scratch_path(s, "new/dir/l"), &st), 0);
    assert_int_equal(st.st_ino, id.ino);
    assert_int_equal(fetch_link(s, "out", "/etc/../../etc/passwd", 21, 0, NULL), 0);
    check_link(s, "out", "/etc/../../etc/passwd");
    memset(longest, 'x', sizeof(longest));
    longest[PATH_MAX - 1] = '\0';
    assert_int_equal(fetch_link(s, "longest", longest, PATH_MAX - 1, 0, NULL), 0);
    check_link(s, "longest", longest);

    /* Replaced in one step, by another link or by a file, and only when told. */
    assert_int_equal(fetch_link(s, "out", "a", 1, 0, NULL), -1);
    assert_int_equal(errno, EEXIST);
    check_link(s, "out", "/etc/../../etc/passwd");
    assert_int_equal(fetch_link(s, "out", "a", 1, 1, &id), 0);
    check_link(s, "out", "a");
    assert_int_equal(store_fetch_discard(s->dir, "out", &id), 0);
    assert_int_equal(lstat(scratch_path(s, "out"), &st), -1);
    assert_int_equal(fetch_link(s, "out", "/tmp", 4, 0, NULL), 0);
    assert_int_equal(fetch_text(s, "out", "text", 1), 0);
    check_text(s, "out", "text");

    /* Not what a link can be; nothing through a link. */
    assert_null(begin_other(s, "l", S_IFLNK | 0777, 0));
    assert_null(begin_other(s, "l", S_IFLNK | 0777, PATH_MAX));
    assert_int_equal(fetch_link(s, "l", "a\0b", 3, 0, NULL), -1);
    assert_int_equal(errno, EPROTO);
    assert_int_equal(symlink(s->top, scratch_path(s, "away")), 0);
    assert_int_equal(fetch_link(s, "away/l", "a", 1, 0, NULL), -1);
    assert_int_equal(errno, ELOOP);
    assert_int_equal(files_in(s, ".dyad/tmp"), 0);
}

static void brings_directories(void **state)
{
    struct scratch *s = *state;
    struct store_identity id;
    struct stat st;
    mode_t old = umask(0777);
    struct store_fetch *fetch = begin_other(s, "a/b", S_IFDIR | S_ISUID | 0570, 0);

    assert_non_null(fetch);
    assert_int_equal(store_fetch_commit(fetch, 0, &id), 0);
    umask(old);
    assert_int_equal(store_dir_stat(s->dir, "a/b", &st), 0);
    assert_true(S_ISDIR(st.st_mode) && st.st_ino == id.ino);
    assert_int_equal(st.st_mode & 07777, 0770); /* to be filled */
    assert_int_equal(store_dir_stat(s->dir, "a", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);

    /* One that is there is left as it is; what is no directory, too. */
    scratch_write(s, "a/b/f", "text");
    assert_non_null(fetch = begin_other(s, "a/b", S_IFDIR | 0700, 0));
    assert_int_equal(store_fetch_commit(fetch, 1, NULL), 0);
    check_text(s, "a/b/f", "text");
    assert_non_null(fetch = begin_other(s, "a/b/f", S_IFDIR | 0700, 0));
    assert_int_equal(store_fetch_commit(fetch, 1, NULL), -1);
    assert_int_equal(errno, EEXIST);
    check_text(s, "a/b/f", "text");
    assert_int_equal(symlink(s->top, scratch_path(s, "away")), 0);
    assert_non_null(fetch = begin_other(s, "away", S_IFDIR | 0700, 0));
    assert_int_equal(store_fetch_commit(fetch, 1, NULL), -1);
    assert_non_null(fetch = begin_other(s, "away/d", S_IFDIR | 0700, 0));
    assert_int_equal(store_fetch_commit(fetch, 1, NULL), -1);
    assert_int_equal(files_in(s, ".dyad/tmp"), 0);

    /* A peer may not have anything else made. */
    assert_null(begin_other(s, "dev", S_IFBLK | 0666, 0));
    assert_int_equal(errno, EPROTO);
    assert_null(begin_other(s, "dev", S_IFIFO | 0666, 0));
    assert_null(begin_other(s, "dev", 0644, 0));
    assert_null(begin_other(s, ".dyad/x", S_IFDIR | 0700, 0));

    /* Nobody's directory is discarded for the file that had its name, or as what it was. */
    assert_int_equal(store_fetch_discard(s->dir, "a/b", &id), -1);
    assert_int_equal(errno, ESTALE);
    check_text(s, "a/b/f", "text");
    assert_int_equal(files_in(s, ".dyad/tmp"), 0);

    assert_int_equal(store_dir_rmdir(s->dir, "a/b"), -1);
    assert_int_equal(errno, ENOTEMPTY);
    assert_int_equal(unlink(scratch_path(s, "a/b/f")), 0);
    assert_int_equal(store_dir_rmdir(s->dir, "a/b"), 0);
    assert_int_equal(store_dir_rmdir(s->dir, "away"), -1);
}

/* From one process to another: the lock goes with the descriptor. */
static void is_handed_over(void **state)
{
    struct scratch *s = *state;
    struct dyad_entry entry = make_entry("dir/given", 5), other = make_entry("other", 5);
    struct store_identity id;
    struct store_fetch *fetch = store_fetch_begin(s->dir, &entry);
    int fd, copy;

    assert_non_null(fetch);
    assert_int_equal(store_fetch_write(fetch, 0, "whol", 4), 0);
    assert_int_equal(store_fetch_give(fetch), -1); /* not all of it */
    assert_int_equal(errno, EIO);
    assert_int_equal(store_fetch_write(fetch, 4, "e", 1), 0);
    assert_true((fd = store_fetch_give(fetch)) >= 0);
    assert_true((copy = dup(fd)) >= 0); /* as over a socket */
    close(fd);
    assert_null(store_fetch_begin(s->dir, &entry)); /* held still */
    assert_int_equal(errno, EBUSY);
    assert_null(store_fetch_adopt(s->dir, &other, dup(copy)));
    assert_int_equal(errno, ESTALE);
    entry.size = 6;
    assert_null(store_fetch_adopt(s->dir, &entry, dup(copy)));
    assert_int_equal(errno, ESTALE);
    entry.size = 5;
    assert_non_null(fetch = store_fetch_adopt(s->dir, &entry, copy));
    assert_int_equal(access(scratch_path(s, "dir/given"), F_OK), -1);
    struct store_identity before; /* known before it has its name */
    assert_int_equal(store_fetch_identity(fetch, &before), 0);
    assert_int_equal(store_fetch_commit(fetch, 0, &id), 0);
    assert_true(before.ino == id.ino && before.btime == id.btime && before.size == id.size);
    check_text(s, "dir/given", "whole");
    assert_int_equal(files_in(s, ".dyad/tmp"), 0);

    /* Who gave it let go of the lock, and somebody else has begun. */
    assert_non_null(fetch = store_fetch_begin(s->dir, &other));
    assert_int_equal(store_fetch_write(fetch, 0, "other", 5), 0);
    char name[2 * PATH_MAX];
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd = store_fetch_give(fetch));
    copy = open(name, O_RDWR); /* another description: without the lock */
    assert_true(copy >= 0);
    assert_null(store_fetch_adopt(s->dir, &other, copy));
    assert_int_equal(errno, ESTALE);
    assert_non_null(fetch = store_fetch_adopt(s->dir, &other, fd));
    store_fetch_abort(fetch);
    assert_int_equal(files_in(s, ".dyad/tmp"), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(arrives_whole),
        TEST(replaces_only_when_told),
        TEST(never_partial),
        TEST(left_by_whom),
        TEST(one_per_node),
        TEST(a_crowd),
        TEST(cleans_after_the_dead),
        TEST(copies),
        TEST(write_fails),
        TEST(larger_than_the_disk),
        TEST(mounts),
        TEST(discards_unless),
        TEST(finds_what_is_aside),
        TEST(discards_beside_another),
        TEST(mounts),
        TEST(discards_the_same_only),
        TEST(brings_links),
        TEST(brings_directories),
        TEST(is_handed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
