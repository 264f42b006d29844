/* store/marks.h: the life of a mark, and each way in which it can go wrong. */
#include "scratch.h"

#include <poll.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>

#include "store/marks.h"
#include "store/marks_slot.h"

#include "closed_by_name.h"
#include "util/clock.h"

static struct store_marks *marks;
static struct scratch *scratch;

static int setup(void **state)
{
    if (scratch_setup(state) < 0)
        return -1;
    scratch = *state;
    marks = store_marks_create(scratch->dir);
    return marks ? 0 : -1;
}

static int count_marks(void)
{
    int count = 0;

    for (uint32_t i = 0; i < marks->table->header.top; i++) {
        unsigned state = WORD_STATE(marks->table->slots[i].word);
        count += state != STORE_MARK_FREE && state != MARKS_STATE_FREEING;
    }
    return count;
}

/* Every test must leave an empty table and filters of zero: nothing leaks but by a crash.
 */
static int teardown(void **state)
{
    char *path = NULL;
    struct marks_table *table = store_marks_table_map(scratch->dir, NULL, &path);
    int rc = 0;

    if (!table)
        return -1;
    for (unsigned i = 0; i < MARKS_BUCKETS; i++)
        if (table->names[i] || table->inodes[i])
            rc = -1;
    for (unsigned i = 0; i < table->header.top; i++)
        if (WORD_STATE(table->slots[i].word) != STORE_MARK_FREE || table->slots[i].ino ||
            table->slots[i].name)
            rc = -1;
    if (table->header.waiters || rc < 0) {
        fprintf(stderr, "a mark or a count was left behind\n");
        rc = -1;
    }
    store_marks_table_unmap(table);
    free(path);
    store_marks_destroy(marks);
    return scratch_teardown(state) < 0 ? -1 : rc;
}

static int open_marked(const char *upath, int flags, store_mark_t *mark)
{
    *mark = store_marks_begin(marks, upath);
    assert_true(*mark != 0);
    int fd = open(scratch_path(scratch, upath), flags | O_CREAT | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(store_marks_opened(marks, *mark, fd, flags & O_TRUNC), 0);
    return fd;
}

static struct store_identity identify(const char *upath)
{
    struct store_identity id;
    int fd = open(scratch_path(scratch, upath), O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(store_identity_read(fd, &id), 0);
    close(fd);
    return id;
}

static int open_to_ask(const char *upath)
{
    int fd = open(scratch_path(scratch, upath), O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void life_of_a_mark(void **state)
{
    struct store_mark_info info;

    (void)state;
    assert_false(store_marks_dirty(marks, "f", 1, 0, NULL));
    store_mark_t mark = store_marks_begin(marks, "f");
    assert_true(mark != 0);
    assert_true(store_marks_dirty(marks, "f", 0, 0, &info));
    assert_int_equal(info.state, STORE_MARK_OPENING);
    assert_int_equal(info.pid, getpid());
    assert_true(info.mark == mark);
    assert_false(store_marks_dirty(marks, "g", 0, 0, NULL));

    int fd = open(scratch_path(scratch, "f"), O_WRONLY | O_CREAT, 0644);
    struct store_identity id = identify("f");
    assert_int_equal(store_marks_opened(marks, mark, fd, true), 0);
    assert_false(store_marks_dirty(marks, "f", 0, 0, NULL));
    assert_true(store_marks_dirty(marks, "f", id.ino, id.btime, &info));
    assert_int_equal(info.state, STORE_MARK_DIRTY);
    assert_true(store_marks_dirty(marks, NULL, id.ino, 0, NULL));
    if (id.btime)
        assert_false(store_marks_dirty(marks, NULL, id.ino, id.btime + 1, NULL));
    assert_int_equal(store_marks_opened(marks, mark, fd, true), -1);
    assert_int_equal(errno, ESTALE);

    int ask = open_to_ask("f");
    assert_false(store_marks_rule(marks, mark, ask));
    errno = 77;
    assert_false(closed_by_name(marks, mark, scratch->dir, "f", false)); /* still open */
    assert_int_equal(errno, 77);
    close(fd);
    assert_true(closed_by_name(marks, mark, scratch->dir, "f", false));
    assert_false(closed_by_name(marks, mark, scratch->dir, "f", false));
    assert_true(store_marks_dirty(marks, NULL, id.ino, id.btime, &info));
    assert_int_equal(info.state, STORE_MARK_CLOSING);
    assert_false(store_marks_rule(marks, mark, ask)); /* we live */
    store_marks_clear(marks, mark);
    assert_false(store_marks_dirty(marks, "f", id.ino, id.btime, NULL));
    close(ask);
}

static void stale_marks_do_nothing(void **state)
{
    store_mark_t old, mark;

    (void)state;
    old = store_marks_begin(marks, "f");
    store_marks_abort(marks, old);
    int fd = open_marked("f", O_RDWR, &mark);
    assert_int_equal(old & 0xffff, mark & 0xffff); /* the same slot */
    assert_true(old != mark);
    store_marks_abort(marks, old);
    store_marks_clear(marks, old);
    store_marks_abandon(marks, old);
    assert_false(closed_by_name(marks, old, scratch->dir, "f", true));
    assert_false(store_marks_rule(marks, old, fd));
    assert_int_equal(store_marks_opened(marks, old, fd, true), -1);
    assert_int_equal(store_marks_wait(marks, old, -1), 0);
    assert_false(closed_by_name(marks, 0, scratch->dir, "f", true));
    assert_false(closed_by_name(marks, ~0ull, scratch->dir, "f", true));
    assert_int_equal(count_marks(), 1);
    store_marks_abort(marks, mark); /* only OPENING may be aborted */
    store_marks_clear(marks, mark); /* only what was closed may be cleared */
    assert_int_equal(count_marks(), 1);
    assert_int_equal(store_marks_opened(marks, 0, -1, true), -1);
    assert_int_equal(errno, EBADF);
    close(fd);
    assert_true(closed_by_name(marks, mark, scratch->dir, "f", false));
    store_marks_clear(marks, mark);
}

static void two_writers_of_one_file(void **state)
{
    store_mark_t one, two;
    struct store_identity id;

    (void)state;
    int fd1 = open_marked("f", O_WRONLY, &one), fd2 = open_marked("f", O_RDWR, &two);
    id = identify("f");
    assert_true(store_marks_of_fd(marks, fd1) == one);
    assert_true(store_marks_of_fd(marks, fd2) == two);
    int copy = dup(fd1), other = open(scratch_path(scratch, "f"), O_RDWR);
    assert_true(store_marks_of_fd(marks, copy) == one);
    assert_true(store_marks_of_fd(marks, other) == 0);
    int reader = open_to_ask("f");
    assert_true(store_marks_of_fd(marks, reader) == 0);
    close(reader);
    close(other);
    close(fd1);
    assert_false(closed_by_name(marks, one, scratch->dir, "f", false)); /* the dup */
    close(copy);
    assert_true(closed_by_name(marks, one, scratch->dir, "f", false));
    store_marks_clear(marks, one);
    assert_true(store_marks_dirty(marks, NULL, id.ino, id.btime, NULL));
    close(fd2);
    assert_true(closed_by_name(marks, two, scratch->dir, "f", false));
    store_marks_clear(marks, two);
}

static bool unfinished(const struct store_identity *id, struct store_mark_info *info)
{
    return store_marks_unfinished(marks, NULL, id->ino, id->btime, 0, info);
}

static void close_marked(int fd, store_mark_t mark)
{
    close(fd);
    assert_true(closed_by_name(marks, mark, scratch->dir, "f", false));
    store_marks_clear(marks, mark);
}

/* Who found the file empty, or has emptied it, makes it, and so does who came meanwhile. */
static void who_makes_a_file(void **state)
{
    store_mark_t maker, joiner, later;
    struct store_mark_info info;
    int status;

    (void)state;
    int fd1 = open_marked("f", O_RDWR, &maker);
    struct store_identity id = identify("f");
    assert_true(unfinished(&id, &info));
    assert_true(info.mark == maker);
    assert_int_equal(write(fd1, "half", 4), 4);
    int fd2 = open_marked("f", O_RDWR, &joiner);
    close_marked(fd1, maker);
    assert_true(unfinished(&id, &info));
    assert_true(info.mark == joiner);
    close_marked(fd2, joiner);
    assert_false(unfinished(&id, &info));

    fd1 = open_marked("f", O_RDWR, &joiner); /* it is whole */
    fd2 = open_marked("f", O_RDWR | O_APPEND, &later);
    assert_false(unfinished(&id, &info));
    assert_true(store_marks_dirty(marks, NULL, id.ino, id.btime, NULL));
    close(fd2);
    assert_true(closed_by_name(marks, later, scratch->dir, "f", false));
    assert_true(unfinished(&id, &info)); /* CLOSING */
    assert_int_equal(info.state, STORE_MARK_CLOSING);
    store_marks_abandon(marks, later);
    assert_true(unfinished(&id, &info));
    assert_int_equal(info.state, STORE_MARK_ABANDONED);
    store_marks_clear(marks, later);
    fd2 = open_marked("f", O_WRONLY | O_TRUNC, &later);
    assert_true(unfinished(&id, &info));
    assert_true(info.mark == later);
    close_marked(fd2, later);
    assert_int_equal(write(fd1, "whole", 5), 5);
    close_marked(fd1, joiner);

    /* Killed over a whole file, and nobody has ruled. */
    pid_t pid = fork();
    if (pid == 0) {
        later = store_marks_begin(marks, "f");
        int fd = open(scratch_path(scratch, "f"), O_RDWR);
        _exit(store_marks_opened(marks, later, fd, false) < 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_true(unfinished(&id, &info));
    assert_int_equal(info.state, STORE_MARK_DIRTY);
    assert_int_equal(info.pid, pid);
    fd1 = open_to_ask("f");
    assert_true(store_marks_rule(marks, info.mark, fd1));
    close(fd1);
    store_marks_clear(marks, info.mark);
}

/* The program may lock its file as it likes below our byte; a lock over everything (by one
 * that does not run under the wrapper) must not be taken for ours. */
static void locks_of_the_program(void **state)
{
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = (off_t)1 << 62};
    store_mark_t mark;

    (void)state;
    int fd = open_marked("f", O_RDWR, &mark);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(fcntl(fd, F_SETLK, &all), 0);
    assert_int_equal(lockf(fd, F_LOCK, 100), 0);
    close(fd);

    int pipes[2], ready[2];
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        int other = open(scratch_path(scratch, "f"), O_RDWR);
        all.l_len = 0;
        CHILD_CHECK(fcntl(other, F_SETLK, &all) == 0);
        CHILD_CHECK(write(ready[1], "x", 1) == 1);
        close(pipes[1]);
        CHILD_CHECK(read(pipes[0], &byte, 1) == 0);
        _exit(0);
    }
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_true(closed_by_name(marks, mark, scratch->dir, "f", false));
    store_marks_clear(marks, mark);
    /* And a mark that cannot be locked because of it still lives and dies. */
    fd = open_marked("f", O_RDWR, &mark);
    int ask = open_to_ask("f");
    assert_false(store_marks_rule(marks, mark, ask));
    assert_true(store_marks_of_fd(marks, fd) == mark);
    close(fd);
    assert_true(closed_by_name(marks, mark, scratch->dir, "f", false));
    store_marks_clear(marks, mark);
    close(ask);
    close(pipes[0]);
    close(pipes[1]);
    close(ready[0]);
    close(ready[1]);
    scratch_join(pid);
}

static void inherited_by_exec(void **state)
{
    store_mark_t mark;
    int status;

    (void)state;
    int fd = open_marked("f", O_WRONLY, &mark);
    pid_t pid = fork();
    if (pid == 0) { /* the child has the description, as after exec, and writes last */
        CHILD_CHECK(store_marks_of_fd(marks, fd) == mark);
        CHILD_CHECK(write(fd, "x", 1) == 1);
        close(fd);
        _exit(closed_by_name(marks, mark, scratch->dir, "f", false) ? 3 : 4);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), 4); /* we hold it */
    close(fd);
    assert_true(closed_by_name(marks, mark, scratch->dir, "f", false));
    store_marks_clear(marks, mark);
}

static void mapping_outlives_close(void **state)
{
    store_mark_t mark, next;

    (void)state;
    int fd = open_marked("f", O_RDWR, &mark);
    assert_int_equal(ftruncate(fd, 4096), 0);
    void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(map != MAP_FAILED);
    close(fd);
    assert_false(closed_by_name(marks, mark, scratch->dir, "f", false));
    assert_true(closed_by_name(marks, mark, scratch->dir, "f", true));
    store_marks_clear(marks, mark);
    /* The old description still has its lock: the slot's next use must not meet it. */
    fd = open_marked("f", O_RDWR, &next);
    assert_int_equal(next & 0xffff, mark & 0xffff);
    assert_true(store_marks_of_fd(marks, fd) == next);
    close(fd);
    assert_true(closed_by_name(marks, next, scratch->dir, "f", false));
    store_marks_clear(marks, next);
    munmap(map, 4096);
}

static void file_without_its_name(void **state)
{
    store_mark_t mark;

    (void)state;
    /* removed: no probe can be had by its name, /proc/locks must tell */
    int fd = open_marked("f", O_WRONLY, &mark);
    unlink(scratch_path(scratch, "f"));
    assert_false(closed_by_name(marks, mark, scratch->dir, "f", false));
    assert_int_equal(count_marks(), 1); /* still held */
    close(fd);
    assert_true(closed_by_name(marks, mark, scratch->dir, "f", false));
    store_marks_clear(marks, mark);
    assert_int_equal(count_marks(), 0);
    /* replaced by another */
    char from[PATH_MAX];
    fd = open_marked("f", O_WRONLY, &mark);
    scratch_write(scratch, "g", "g");
    strcpy(from, scratch_path(scratch, "g"));
    assert_int_equal(rename(from, scratch_path(scratch, "f")), 0);
    assert_false(closed_by_name(marks, mark, scratch->dir, NULL, false));
    close(fd);
    assert_true(closed_by_name(marks, mark, scratch->dir, NULL, false));
    store_marks_clear(marks, mark);
    assert_int_equal(count_marks(), 0);
    /* a new name, and one that nobody may read */
    fd = open_marked("i", O_WRONLY, &mark);
    strcpy(from, scratch_path(scratch, "i"));
    assert_int_equal(rename(from, scratch_path(scratch, "j")), 0);
    fchmod(fd, 0);
    close(fd);
    assert_true(closed_by_name(marks, mark, scratch->dir, "j", false));
    store_marks_clear(marks, mark);
}

static void *await_opened(void *arg)
{
    struct store_mark_info info = {0};

    store_marks_await_opened(marks, "f");
    store_marks_dirty(marks, "f", identify("f").ino, 0, &info);
    *(enum store_mark_state *)arg = info.state;
    return NULL;
}

/* Is f, or was it left, unfinished? */
static bool is_f_unfinished(store_mark_t own)
{
    return store_marks_unfinished(marks, "f", identify("f").ino, 0, own, NULL);
}

/* Of one killed in the midst of its open, while another is in the midst of its own. */
static void killed_in_an_open(bool joins, store_mark_t own)
{
    struct store_mark_info info;
    store_mark_t left;
    int status, fd;
    pid_t pid = fork();

    if (pid == 0) {
        left =
            joins ? store_marks_begin_joining(marks, "f") : store_marks_begin(marks, "f");
        _exit(left ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    store_marks_await_makers(marks, "f", own);
    assert_int_equal(is_f_unfinished(own), !joins);
    store_marks_abort(marks, own);
    assert_true(store_marks_dirty(marks, "f", 0, 0, &info));
    fd = open_to_ask("f"); /* it is empty: who could make it may have emptied it */
    assert_int_equal(store_marks_rule(marks, info.mark, fd), !joins);
    close(fd);
    store_marks_clear(marks, info.mark);
    assert_false(store_marks_dirty(marks, "f", identify("f").ino, 0, NULL));
}

/* While an open is under way nobody knows whether it finds the file whole; one that cannot
 * make it changes nothing, and those wait for no other of their kind. */
static void opens_that_make_and_that_join(void **state)
{
    store_mark_t own, maker;
    int status;
    pid_t pid;

    (void)state;
    scratch_write(scratch, "f", "");
    own = store_marks_begin_joining(marks, "f");
    assert_false(is_f_unfinished(own));
    assert_false(is_f_unfinished(0));
    maker = store_marks_begin(marks, "f");
    assert_true(is_f_unfinished(own));
    assert_false(store_marks_unfinished(marks, "g", identify("f").ino, 0, 0, NULL));
    store_marks_abort(marks, maker);
    assert_false(is_f_unfinished(own));

    killed_in_an_open(false, own);
    own = store_marks_begin_joining(marks, "f");
    killed_in_an_open(true, own);

    /* Two that live, each in the midst of its open, do not wait for each other. */
    own = store_marks_begin_joining(marks, "f");
    if ((pid = fork()) == 0) {
        maker = store_marks_begin_joining(marks, "f");
        store_marks_await_makers(marks, "f", maker);
        store_marks_abort(marks, maker);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    store_marks_abort(marks, own);
}

static void spawned_in_the_midst_of_an_open(void **state)
{
    enum store_mark_state seen = STORE_MARK_FREE;
    store_mark_t mark;
    pthread_t thread;
    int ready[2], go[2], status;
    char c;

    (void)state;
    store_marks_await_opened(marks, "f"); /* nobody */
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(go), 0);
    scratch_write(scratch, "f", "");
    /* Another process has opened it and not marked it yet. */
    pid_t pid = fork();
    if (pid == 0) {
        mark = store_marks_begin(marks, "f");
        int fd = open(scratch_path(scratch, "f"), O_WRONLY);
        if (write(ready[1], "", 1) != 1 || read(go[0], &c, 1) != 1)
            _exit(1);
        _exit(store_marks_opened(marks, mark, fd, false) < 0 ||
              write(ready[1], "", 1) != 1 || read(go[0], &c, 1) != 1 || close(fd) < 0 ||
              !closed_by_name(marks, mark, scratch->dir, "f", false));
    }
    assert_int_equal(read(ready[0], &c, 1), 1);
    store_marks_await_opened(marks, "g");
    assert_int_equal(pthread_create(&thread, NULL, await_opened, &seen), 0);
    poll(NULL, 0, 20); /* time to go wrong */
    assert_int_equal(write(go[1], "", 1), 1);
    assert_int_equal(read(ready[0], &c, 1), 1);
    pthread_join(thread, NULL);
    assert_int_equal(seen, STORE_MARK_DIRTY);
    assert_int_equal(write(go[1], "", 1), 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    struct store_mark_info info;
    assert_true(store_marks_dirty(marks, NULL, identify("f").ino, 0, &info));
    store_marks_abandon(marks, info.mark);
    store_marks_clear(marks, info.mark);
    /* One that was killed there is not waited for. */
    if ((pid = fork()) == 0) {
        store_marks_begin(marks, "f");
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    store_marks_await_opened(marks, "f");
    assert_true(store_marks_dirty(marks, "f", 0, 0, &info));
    store_marks_rule(marks, info.mark, -1);
    store_marks_clear(marks, info.mark);
    close(ready[0]);
    close(ready[1]);
    close(go[0]);
    close(go[1]);
}

static void abandoned_and_what_ends_it(void **state)
{
    struct store_mark_info info;
    store_mark_t mark, next;

    (void)state;
    for (int how = 0; how < 4; how++) {
        unlink(scratch_path(scratch, "f"));
        int fd = open_marked("f", O_WRONLY | O_TRUNC, &mark);
        assert_int_equal(write(fd, "half", 4), 4);
        struct store_identity id = identify("f");
        close(fd); /* as by kill -9 */
        int ask = open_to_ask("f");
        assert_true(store_marks_rule(marks, mark, ask));
        assert_true(store_marks_rule(marks, mark, ask));
        assert_int_equal(store_marks_wait(marks, mark, ask), 0);
        assert_true(store_marks_dirty(marks, NULL, id.ino, id.btime, &info));
        assert_int_equal(info.state, STORE_MARK_ABANDONED);
        switch (how) {
        case 0: /* the closer was only slow */
            assert_true(closed_by_name(marks, mark, scratch->dir, "f", false));
            store_marks_clear(marks, mark);
            break;
        case 1: /* written anew */
            fd = open_marked("f", O_WRONLY | O_TRUNC, &next);
            assert_true(store_marks_dirty(marks, NULL, id.ino, id.btime, &info));
            assert_true(info.mark == next);
            close(fd);
            assert_false(closed_by_name(marks, mark, scratch->dir, "f", false));
            assert_true(closed_by_name(marks, next, scratch->dir, "f", false));
            store_marks_clear(marks, next);
            break;
        case 2: /* continued by one that was killed too, then by one that ended well */
            fd = open_marked("f", O_WRONLY | O_APPEND, &next);
            close(fd);
            assert_true(store_marks_rule(marks, next, ask));
            assert_int_equal(count_marks(), 2);
            fd = open_marked("f", O_WRONLY | O_APPEND, &next);
            assert_int_equal(write(fd, "rest", 4), 4);
            assert_true(store_marks_dirty(marks, NULL, id.ino, id.btime, &info));
            assert_int_equal(info.state, STORE_MARK_DIRTY); /* the live one first */
            close(fd);
            assert_true(closed_by_name(marks, next, scratch->dir, "f", false));
            store_marks_clear(marks, next);
            break;
        case 3:
            store_marks_forget(marks, id.ino, id.btime ? id.btime + 1 : 0);
            if (id.btime)
                assert_int_equal(count_marks(), 1);
            store_marks_forget(marks, id.ino, id.btime);
            break;
        }
        assert_int_equal(count_marks(), 0);
        assert_false(store_marks_dirty(marks, "f", id.ino, id.btime, NULL));
        close(ask);
    }
    /* A close that failed. */
    int fd = open_marked("f", O_WRONLY | O_TRUNC, &mark);
    assert_int_equal(write(fd, "x", 1), 1);
    close(fd);
    assert_true(closed_by_name(marks, mark, scratch->dir, "f", false));
    store_marks_abandon(marks, mark);
    struct store_identity id = identify("f");
    assert_true(store_marks_dirty(marks, NULL, id.ino, id.btime, &info));
    assert_int_equal(info.state, STORE_MARK_ABANDONED);
    store_marks_forget(marks, id.ino, id.btime);
}

/* Let a child do something and die as by kill -9. */
static store_mark_t in_dead_child(store_mark_t (*fn)(void))
{
    int pipes[2];
    store_mark_t mark = 0;

    assert_int_equal(pipe(pipes), 0);
    pid_t pid = fork();
    if (pid == 0) {
        mark = fn();
        CHILD_CHECK(write(pipes[1], &mark, sizeof(mark)) == sizeof(mark));
        _exit(0);
    }
    assert_int_equal(read(pipes[0], &mark, sizeof(mark)), sizeof(mark));
    scratch_join(pid);
    close(pipes[0]);
    close(pipes[1]);
    return mark;
}

static store_mark_t half_written(void)
{
    store_mark_t mark;
    int fd = open_marked("f", O_WRONLY | O_TRUNC, &mark);

    CHILD_CHECK(write(fd, "half", 4) == 4);
    return mark;
}

static store_mark_t closed_and_killed(void)
{
    store_mark_t mark;
    int fd = open_marked("f", O_WRONLY | O_APPEND, &mark);

    CHILD_CHECK(write(fd, "whole", 5) == 5);
    close(fd);
    CHILD_CHECK(closed_by_name(marks, mark, scratch->dir, "f", false));
    return mark;
}

static store_mark_t closed_with_an_error(void)
{
    store_mark_t mark = closed_and_killed();

    store_marks_abandon(marks, mark);
    return mark;
}

/* Its closer was killed before it could say that it is published: nothing that was written
 * is missing. Not so if a writer was killed before its close, or knew that its own had
 * failed. */
static void killed_in_its_close(void **state)
{
    static store_mark_t (*const bad[])(void) = {half_written, closed_with_an_error};
    store_mark_t mark;

    (void)state;
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        unlink(scratch_path(scratch, "f"));
        close(open(scratch_path(scratch, "f"), O_WRONLY | O_CREAT, 0644));
        struct store_identity id = identify("f");
        int ask = open_to_ask("f");
        mark = in_dead_child(closed_and_killed);
        assert_false(store_marks_take_closed(marks, id.ino, id.btime)); /* not ruled yet */
        assert_true(store_marks_rule(marks, mark, ask));
        int fd = open_marked("f", O_WRONLY, &mark);
        assert_false(store_marks_take_closed(marks, id.ino, id.btime)); /* it lives */
        assert_int_equal(count_marks(), 2);
        close(fd);
        assert_true(closed_by_name(marks, mark, scratch->dir, "f", false));
        store_marks_clear(marks, mark);
        assert_int_equal(count_marks(), 0);

        mark = in_dead_child(closed_and_killed);
        assert_true(store_marks_rule(marks, mark, ask));
        assert_true(store_marks_take_closed(marks, id.ino, id.btime));
        assert_int_equal(count_marks(), 0);
        assert_true(store_marks_take_closed(marks, id.ino, id.btime));

        /* The last is bad, and then one that is good. */
        mark = in_dead_child(closed_and_killed);
        assert_true(store_marks_rule(marks, mark, ask));
        mark = in_dead_child(bad[i]);
        assert_true(store_marks_rule(marks, mark, ask));
        assert_false(store_marks_take_closed(marks, id.ino, id.btime));
        assert_true(count_marks() > 0);
        mark = in_dead_child(closed_and_killed);
        assert_true(store_marks_rule(marks, mark, ask));
        assert_true(store_marks_take_closed(marks, id.ino, id.btime));
        assert_int_equal(count_marks(), 0);
        close(ask);
    }
}

/* Who has closed it waits for nothing any more, and its member does: so the member's end counts. */
static void taken_from_its_closer(void **state)
{
    struct store_mark_info info;
    store_mark_t mark;
    int pipes[2], ask;
    pid_t closer;

    (void)state;
    close(open(scratch_path(scratch, "f"), O_WRONLY | O_CREAT, 0644));
    ask = open_to_ask("f");
    for (int taken = 0; taken < 2; taken++) {
        assert_int_equal(pipe(pipes), 0);
        if ((closer = fork()) == 0) {
            mark = closed_and_killed();
            CHILD_CHECK(write(pipes[1], &mark, sizeof(mark)) == sizeof(mark));
            pause();
        }
        assert_int_equal(read(pipes[0], &mark, sizeof(mark)), sizeof(mark));
        if (taken)
            store_marks_take(marks, mark);
        kill(closer, SIGKILL);
        assert_int_equal(waitpid(closer, NULL, 0), closer);
        assert_int_equal(store_marks_rule(marks, mark, ask), !taken);
        assert_true(store_marks_dirty(marks, NULL, identify("f").ino, 0, &info));
        assert_int_equal(info.state, taken ? STORE_MARK_CLOSING : STORE_MARK_ABANDONED);
        store_marks_take(marks, mark); /* of one that is over */
        store_marks_settle(marks, mark, ENOENT);
        assert_int_equal(count_marks(), 0);
        close(pipes[0]);
        close(pipes[1]);
    }
    close(ask);
}

/* Nobody has looked at the file between its writer's death and the next writer, whose
 * publish must not be held back by the dead one's mark. */
static void killed_writer_then_another(void **state)
{
    static const int flags[] = {O_WRONLY | O_TRUNC, O_WRONLY | O_APPEND};

    (void)state;
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        store_mark_t next;

        unlink(scratch_path(scratch, "f"));
        in_dead_child(half_written);
        struct store_identity id = identify("f");
        int fd = open_marked("f", flags[i], &next);
        assert_int_equal(write(fd, "whole", 5), 5);
        close(fd);
        assert_true(closed_by_name(marks, next, scratch->dir, "f", false));
        store_marks_clear(marks, next);
        assert_false(store_marks_dirty(marks, NULL, id.ino, id.btime, NULL));
        assert_int_equal(count_marks(), 0);
    }
}

static store_mark_t only_begin(void)
{
    return store_marks_begin(marks, "f");
}

static store_mark_t begin_and_truncate(void)
{
    store_mark_t mark = store_marks_begin(marks, "f");
    CHILD_CHECK(open(scratch_path(scratch, "f"), O_WRONLY | O_CREAT | O_TRUNC, 0644) >= 0);
    return mark;
}

static store_mark_t up_to_closing(void)
{
    store_mark_t mark = store_marks_begin(marks, "f");
    int fd = open(scratch_path(scratch, "f"), O_WRONLY | O_CREAT, 0644);
    CHILD_CHECK(store_marks_opened(marks, mark, fd, false) == 0);
    close(fd);
    CHILD_CHECK(closed_by_name(marks, mark, scratch->dir, "f", false));
    return mark;
}

static void killed_between(void **state)
{
    struct store_mark_info info;

    (void)state;
    /* before the open, which was to make the file */
    store_mark_t mark = in_dead_child(only_begin);
    assert_true(store_marks_dirty(marks, "f", 0, 0, &info));
    assert_true(info.mark == mark);
    assert_false(store_marks_rule(marks, mark, -1));
    assert_int_equal(count_marks(), 0);
    /* the same, found by a thread that waits */
    mark = in_dead_child(only_begin);
    assert_int_equal(store_marks_wait(marks, mark, -1), 0);
    assert_int_equal(count_marks(), 0);
    /* before the open of a file that is complete: it stays so */
    scratch_write(scratch, "f", "whole");
    mark = in_dead_child(only_begin);
    int ask = open_to_ask("f");
    assert_false(store_marks_rule(marks, mark, ask));
    assert_int_equal(count_marks(), 0);
    /* after an open that truncated it */
    mark = in_dead_child(begin_and_truncate);
    assert_true(store_marks_rule(marks, mark, ask));
    struct store_identity id = identify("f");
    assert_true(store_marks_dirty(marks, NULL, id.ino, id.btime, &info));
    assert_int_equal(info.state, STORE_MARK_ABANDONED);
    assert_false(store_marks_dirty(marks, "f", 0, 0, NULL));
    store_marks_forget(marks, id.ino, id.btime);
    /* while publishing */
    mark = in_dead_child(up_to_closing);
    assert_int_equal(store_marks_wait(marks, mark, ask), 0);
    assert_true(store_marks_rule(marks, mark, ask));
    store_marks_forget(marks, id.ino, id.btime);
    assert_int_equal(count_marks(), 0);
    close(ask);
}

/* Forked: the description lives in the child when its opener is dead. */
static void held_by_an_orphan(void **state)
{
    store_mark_t mark;
    int pipes[2], done[2], result[2];

    (void)state;
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(pipe(done), 0);
    assert_int_equal(pipe(result), 0);
    pid_t pid = fork();
    if (pid == 0) {
        mark = store_marks_begin(marks, "f");
        int fd = open(scratch_path(scratch, "f"), O_WRONLY | O_CREAT, 0644);
        CHILD_CHECK(store_marks_opened(marks, mark, fd, true) == 0);
        CHILD_CHECK(write(pipes[1], &mark, sizeof(mark)) == sizeof(mark));
        if (fork() == 0) {
            char byte;
            close(done[1]);
            CHILD_CHECK(read(done[0], &byte, 1) == 0);
            CHILD_CHECK(store_marks_of_fd(marks, fd) == mark);
            struct store_mark_info info;
            struct stat st;
            CHILD_CHECK(fstat(fd, &st) == 0);
            CHILD_CHECK(store_marks_dirty(marks, NULL, st.st_ino, 0, &info));
            CHILD_CHECK(info.pid == getpid()); /* the opener is dead: it is ours now */
            close(fd);
            bool last = closed_by_name(marks, mark, scratch->dir, "f", false);
            if (last)
                store_marks_clear(marks, mark);
            CHILD_CHECK(write(result[1], last ? "y" : "n", 1) == 1);
            _exit(0);
        }
        _exit(0);
    }
    assert_int_equal(read(pipes[0], &mark, sizeof(mark)), sizeof(mark));
    scratch_join(pid);
    int ask = open_to_ask("f");
    assert_false(store_marks_rule(marks, mark, ask));
    close(done[0]);
    close(done[1]);
    char answer;
    assert_int_equal(read(result[0], &answer, 1), 1);
    assert_int_equal(answer, 'y');
    assert_int_equal(store_marks_wait(marks, mark, ask), 0);
    assert_int_equal(count_marks(), 0);
    close(ask);
    close(pipes[0]);
    close(pipes[1]);
    close(result[0]);
    close(result[1]);
}

/* Parent and child share descriptions and both close "last": one publisher each, never
 * none. */
static void one_publisher(void **state)
{
    enum { ROUNDS = 1000 };
    static store_mark_t list[ROUNDS];
    static int fds[ROUNDS];
    int published = 0, by_child = 0, status, go[2], names = 0;

    (void)state;
    for (int base = 0; base < ROUNDS; base += 100) {
        char upath[32];
        for (int i = base; i < base + 100; i++) {
            snprintf(upath, sizeof(upath), "f%d", i);
            fds[i] = open_marked(upath, O_WRONLY, &list[i]);
        }
        assert_int_equal(pipe(go), 0);
        pid_t pid = fork();
        if (pid == 0) {
            int won = 0;
            char byte;
            CHILD_CHECK(read(go[0], &byte, 1) == 1);
            for (int i = base; i < base + 100; i++) {
                snprintf(upath, sizeof(upath), "f%d", i);
                close(fds[i]);
                if (closed_by_name(marks, list[i], scratch->dir, upath, false)) {
                    won++;
                    store_marks_clear(marks, list[i]);
                }
            }
            _exit(won);
        }
        assert_int_equal(write(go[1], "g", 1), 1);
        for (int i = base; i < base + 100; i++) {
            snprintf(upath, sizeof(upath), "f%d", i);
            close(fds[i]);
            if (closed_by_name(marks, list[i], scratch->dir, upath, false)) {
                published++;
                store_marks_clear(marks, list[i]);
            }
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        by_child += WEXITSTATUS(status);
        names += 100;
        assert_int_equal(published + by_child, names);
        assert_int_equal(count_marks(), 0);
        close(go[0]);
        close(go[1]);
    }
}

struct waiter {
    store_mark_t mark;
    int fd, rc;
};

static void *wait_in_thread(void *arg)
{
    struct waiter *waiter = arg;
    waiter->rc = store_marks_wait(marks, waiter->mark, waiter->fd);
    return NULL;
}

/* valgrind 3.19 runs one thread at a time and does not know that F_OFD_SETLKW blocks: it
 * would hang. */
static void skip_under_valgrind(void)
{
    const char *preload = getenv("LD_PRELOAD");
    if (preload && strstr(preload, "vgpreload")) {
        print_message("skipped: valgrind cannot block in F_OFD_SETLKW\n");
        skip();
    }
}

static void waits_for_publish(void **state)
{
    store_mark_t mark;
    pthread_t threads[4];
    struct waiter waiters[4];

    (void)state;
    skip_under_valgrind();
    for (int round = 0; round < 50; round++) {
        int fd = open_marked("f", O_WRONLY, &mark);
        for (int i = 0; i < 4; i++) {
            waiters[i] = (struct waiter){.mark = mark, .fd = open_to_ask("f"), .rc = -1};
            pthread_create(&threads[i], NULL, wait_in_thread, &waiters[i]);
        }
        if (round % 2)
            usleep(1000); /* varies where the waiters are; nothing depends on it */
        close(fd);
        uint64_t start = util_clock_now();
        /* Waiters that hold the byte's read lock for an instant must not look like a
         * writer. */
        assert_true(closed_by_name(marks, mark, scratch->dir, "f", false));
        store_marks_clear(marks, mark);
        for (int i = 0; i < 4; i++) {
            pthread_join(threads[i], NULL);
            assert_int_equal(waiters[i].rc, 0);
            close(waiters[i].fd);
        }
        assert_true(util_clock_now() - start <
                    900 * UTIL_NSEC_PER_MSEC); /* no timeout helped */
    }
    /* The name does not exist yet, then it does. */
    mark = store_marks_begin(marks, "new");
    waiters[0] = (struct waiter){.mark = mark, .fd = -1, .rc = 0};
    pthread_create(&threads[0], NULL, wait_in_thread, &waiters[0]);
    usleep(1000);
    int fd = open(scratch_path(scratch, "new"), O_WRONLY | O_CREAT, 0644);
    assert_int_equal(store_marks_opened(marks, mark, fd, true), 0);
    pthread_join(threads[0], NULL);
    assert_int_equal(waiters[0].rc, -1); /* EAGAIN */
    /* A descriptor of another file can tell nothing. */
    scratch_write(scratch, "another", "x");
    int other = open_to_ask("another");
    assert_int_equal(store_marks_wait(marks, mark, other), -1);
    assert_int_equal(errno, ESTALE);
    assert_false(store_marks_rule(marks, mark, other));
    close(other);
    close(fd);
    assert_true(closed_by_name(marks, mark, scratch->dir, "new", false));
    store_marks_clear(marks, mark);
}

static void waits_for_the_dead(void **state)
{
    store_mark_t mark;
    pthread_t thread;

    (void)state;
    skip_under_valgrind();
    int fd = open_marked("f", O_WRONLY | O_TRUNC, &mark), ask = open_to_ask("f");
    struct waiter waiter = {.mark = mark, .fd = ask, .rc = -1};
    assert_int_equal(write(fd, "x", 1), 1);
    pthread_create(&thread, NULL, wait_in_thread, &waiter);
    usleep(1000);
    close(fd); /* and nobody calls closed() */
    pthread_join(thread, NULL);
    assert_int_equal(waiter.rc, 0);
    struct store_mark_info info;
    struct store_identity id = identify("f");
    assert_true(store_marks_dirty(marks, NULL, id.ino, id.btime, &info));
    assert_int_equal(info.state, STORE_MARK_ABANDONED);
    store_marks_forget(marks, id.ino, id.btime);
    close(ask);
}

static void table_full(void **state)
{
    static store_mark_t list[MARKS_SLOTS];
    char upath[32];

    (void)state;
    for (unsigned i = 0; i < MARKS_SLOTS; i++) {
        snprintf(upath, sizeof(upath), "f%u", i);
        list[i] = store_marks_begin(marks, upath);
        assert_true(list[i] != 0);
    }
    errno = 0;
    assert_true(store_marks_begin(marks, "more") == 0);
    assert_int_equal(errno, ENOSPC);
    assert_true(store_marks_dirty(marks, "f65535", 0, 0, NULL));
    store_marks_abort(marks, list[777]);
    list[777] = store_marks_begin(marks, "more");
    assert_true(list[777] != 0);
    for (unsigned i = 0; i < MARKS_SLOTS; i++)
        store_marks_abort(marks, list[i]);
    assert_int_equal(count_marks(), 0);
}

/* Slots of processes that were killed inside begin() or a release come back when slots are
 * short. */
static void reclaims_slots(void **state)
{
    char *path = NULL;
    struct marks_table *table = store_marks_table_map(scratch->dir, NULL, &path);
    pid_t dead = fork();

    (void)state;
    if (dead == 0)
        _exit(0);
    scratch_join(dead);
    for (unsigned i = 0; i < MARKS_STEP; i++)
        table->slots[i].word =
            WORD_MAKE(5, dead, i % 2 ? MARKS_STATE_FREEING : STORE_MARK_OPENING);
    /* Not of which pid namespace they are: so it takes its time. */
    for (unsigned i = 0; i < MARKS_STEP; i++)
        table->slots[i].since = marks_now_seconds() - STORE_PROC_FOREIGN_MAX;
    table->header.top = MARKS_STEP;
    store_mark_t mark = store_marks_begin(marks, "f");
    assert_true(mark != 0);
    assert_int_equal(table->header.limit, MARKS_STEP); /* it did not grow */
    assert_int_equal(count_marks(), 1);
    store_marks_abort(marks, mark);
    store_marks_table_unmap(table);
    free(path);
}

static void after_a_reboot(void **state)
{
    enum { OPEN = 5000 }; /* more than a new table has at first */
    char *path = NULL, *other = NULL;
    struct store_identity id;
    store_mark_t mark, opening;

    (void)state;
    int fd = open_marked("f", O_WRONLY, &mark);
    id = identify("f");
    close(fd);
    opening = store_marks_begin(marks, "g");
    for (int i = 2; i < OPEN; i++)
        assert_true(store_marks_begin(marks, "many") != 0);

    struct marks_table *table = store_marks_table_map(scratch->dir, "next-boot", &path);
    assert_non_null(table);
    assert_int_equal(table->header.top, OPEN);
    assert_true(table->header.limit >= OPEN);
    assert_int_equal(WORD_STATE(table->slots[0].word), STORE_MARK_ABANDONED);
    assert_true(table->slots[0].ino == id.ino && table->slots[0].btime == id.btime);
    assert_int_equal(table->inodes[marks_bucket(id.ino)], 1);
    assert_int_equal(WORD_STATE(table->slots[1].word), STORE_MARK_OPENING);
    assert_int_equal(WORD_PID(table->slots[1].word), 0);
    assert_int_equal(access(path, F_OK), 0);
    store_marks_table_unmap(table);

    /* The one before is gone; who asks again gets the same new one. */
    table = store_marks_table_map(scratch->dir, "next-boot", &other);
    assert_string_equal(path, other);
    assert_int_equal(table->header.top, OPEN);
    store_marks_table_unmap(table);
    free(other);
    other = NULL;
    /* Ours is unlinked: mapped it goes on, but cannot grow. */
    assert_true(store_marks_dirty(marks, NULL, id.ino, id.btime, NULL));
    store_marks_abort(marks, opening);
    /* Back to the real boot id, which takes over what was left once more; a process of it
     * can rule. */
    struct store_marks *again = store_marks_create(scratch->dir);
    assert_non_null(again);
    assert_int_equal(access(path, F_OK), -1);
    struct store_mark_info info;
    assert_true(store_marks_dirty(again, NULL, id.ino, id.btime, &info));
    assert_int_equal(info.state, STORE_MARK_ABANDONED);
    assert_int_equal(info.pid, 0);
    store_marks_forget(again, id.ino, id.btime);
    assert_true(store_marks_dirty(again, "g", 0, 0, &info));
    assert_false(store_marks_rule(again, info.mark, -1));
    assert_false(store_marks_dirty(again, "g", 0, 0, NULL));
    while (store_marks_dirty(again, "many", 0, 0, &info))
        assert_false(store_marks_rule(again, info.mark, -1));
    store_marks_destroy(marks);
    marks = again;
    free(path);
}

static void damaged_table(void **state)
{
    char *path = NULL;
    struct marks_table *table = store_marks_table_map(scratch->dir, "damaged", &path);

    (void)state;
    assert_non_null(table);
    store_marks_table_unmap(table);
    assert_int_equal(truncate(path, 100), 0);
    char *none = NULL;
    assert_null(store_marks_table_map(scratch->dir, "damaged", &none));
    assert_int_equal(errno, EUCLEAN);
    /* It was made as the heir of the real one, which has to be made again for the checks at
     * the end. */
    assert_int_equal(unlink(path), 0);
    free(path);
}

/* Several processes at once make one table. */
static void one_table(void **state)
{
    enum { PROCESSES = 12 };
    pid_t pids[PROCESSES];
    char *path = NULL;
    int go[2];

    (void)state;
    assert_int_equal(pipe(go), 0);
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            char byte, *name = NULL;
            close(go[1]);
            CHILD_CHECK(read(go[0], &byte, 1) == 0);
            struct marks_table *table = store_marks_table_map(scratch->dir, "race", &name);
            CHILD_CHECK(table);
            atomic_fetch_add(&table->names[7], 1);
            _exit(0);
        }
    }
    close(go[0]);
    close(go[1]);
    for (int i = 0; i < PROCESSES; i++)
        scratch_join(pids[i]);
    struct marks_table *table = store_marks_table_map(scratch->dir, "race", &path);
    assert_int_equal(table->names[7], PROCESSES);
    store_marks_table_unmap(table);
    assert_int_equal(unlink(path), 0);
    free(path);
}

struct hammer {
    unsigned id;
    int failures;
};

/* Threads that open, close and look, all over the same few files. */
static void *hammer_thread(void *arg)
{
    struct hammer *hammer = arg;
    unsigned seed = hammer->id;
    char upath[16], path[PATH_MAX];

    for (int i = 0; i < 400; i++) {
        snprintf(upath, sizeof(upath), "h%d", rand_r(&seed) % 4);
        snprintf(path, sizeof(path), "%s/%s", scratch->path, upath);
        store_mark_t mark = store_marks_begin(marks, upath);
        int fd = open(path, O_WRONLY | O_CREAT, 0644);
        struct store_identity id;
        if (!mark || fd < 0 || store_marks_opened(marks, mark, fd, false) < 0 ||
            store_identity_read(fd, &id) < 0 ||
            !store_marks_dirty(marks, NULL, id.ino, id.btime, NULL)) {
            hammer->failures++;
            break;
        }
        int ask = open(path, O_RDONLY);
        if (store_marks_rule(marks, mark, ask)) /* alive: must never be ruled so */
            hammer->failures++;
        close(fd);
        /* A ruling against a slow closer: it still wins, unless a later writer of the file
         * has settled what was abandoned. */
        bool ruled = rand_r(&seed) % 8 == 0 && store_marks_rule(marks, mark, ask);
        close(ask);
        if (!closed_by_name(marks, mark, scratch->dir, upath, false) && !ruled)
            hammer->failures++;
        store_marks_clear(marks, mark);
    }
    return NULL;
}

static void threads(void **state)
{
    pthread_t list[4];
    struct hammer hammers[4];

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        hammers[i] = (struct hammer){.id = i + 1};
        pthread_create(&list[i], NULL, hammer_thread, &hammers[i]);
    }
    for (unsigned i = 0; i < 4; i++) {
        pthread_join(list[i], NULL);
        assert_int_equal(hammers[i].failures, 0);
    }
    assert_int_equal(count_marks(), 0);
}

/* A child holds what this process has closed, and lets go without a word. */
static void left_to_others(void **state)
{
    store_mark_t mark;
    int gate[2], status;

    (void)state;
    assert_int_equal(pipe(gate), 0);
    int fd = open_marked("f", O_RDWR, &mark), ask = open_to_ask("f");
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        close(gate[1]);
        CHILD_CHECK(!store_marks_left(marks, mark)); /* who opened it lives */
        CHILD_CHECK(read(gate[0], &byte, 1) == 0);
        _exit(0);
    }
    close(fd);
    assert_false(store_marks_closed(marks, mark, ask, false));
    assert_true(store_marks_left(marks, mark) && store_marks_held(mark, ask));
    store_marks_await_closer(marks, mark); /* nobody is closing: at once */
    assert_true(store_marks_stays_dirty(marks, mark, 20));
    close(gate[1]);
    assert_int_equal(store_marks_await_release(mark, ask), 0);
    assert_false(store_marks_held(mark, ask));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_true(store_marks_stays_dirty(marks, mark, 0));
    assert_true(store_marks_closed(marks, mark, ask, false));
    assert_false(store_marks_left(marks, mark) || store_marks_stays_dirty(marks, mark, 0));
    store_marks_clear(marks, mark);
    assert_false(store_marks_left(marks, mark) ||
                 store_marks_stays_dirty(marks, mark, 1000));
    close(ask);
    close(gate[0]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* On storage that nodes share the table is of another name: a node's own, though it be of
 * the same boot. Neither takes the other for that of an earlier boot. */
static void has_a_table_for_shared_storage(void **state)
{
    struct store_mark_info info;
    char *local = NULL, *shared = NULL;
    store_mark_t mark;

    (void)state;
    bool was = store_dir_shared(scratch->dir);
    int fd = open_marked("f", O_WRONLY, &mark);
    struct store_identity id = identify("f");
    store_dir_set_shared(scratch->dir, false);
    struct marks_table *table = store_marks_table_map(scratch->dir, NULL, &local);
    assert_non_null(table);
    store_marks_table_unmap(table);
    store_dir_set_shared(scratch->dir, true);
    assert_true(store_dir_shared(scratch->dir));
    table = store_marks_table_map(scratch->dir, NULL, &shared);
    assert_non_null(table);
    store_marks_table_unmap(table);
    assert_string_not_equal(local, shared);
    assert_int_equal(access(local, F_OK), 0);
    assert_int_equal(access(shared, F_OK), 0);

    struct store_marks *other = store_marks_create(scratch->dir);
    assert_int_equal(store_marks_dirty(other, NULL, id.ino, id.btime, &info), was);
    store_marks_destroy(other);
    store_dir_set_shared(scratch->dir, was);
    assert_true(store_marks_dirty(marks, NULL, id.ino, id.btime, &info));
    assert_int_equal(info.state, STORE_MARK_DIRTY);
    close(fd);
    assert_true(store_marks_closed(marks, mark, -1, false));
    store_marks_clear(marks, mark);
    free(local);
    free(shared);
}

/* What one process of the node has found out all know, also those that come later. */
static void says_that_it_is_shared(void **state)
{
    (void)state;
    struct store_marks *other = store_marks_create(scratch->dir);
    assert_non_null(other);
    assert_false(store_marks_shared(marks));
    assert_false(store_marks_shared(other));
    store_marks_share(marks);
    assert_true(store_marks_shared(other));
    store_marks_destroy(other);
    other = store_marks_create(scratch->dir);
    assert_true(store_marks_shared(other));
    store_marks_destroy(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(life_of_a_mark),
        TEST(stale_marks_do_nothing),
        TEST(two_writers_of_one_file),
        TEST(who_makes_a_file),
        TEST(locks_of_the_program),
        TEST(inherited_by_exec),
        TEST(mapping_outlives_close),
        TEST(file_without_its_name),
        TEST(spawned_in_the_midst_of_an_open),
        TEST(opens_that_make_and_that_join),
        TEST(taken_from_its_closer),
        TEST(killed_in_its_close),
        TEST(killed_writer_then_another),
        TEST(abandoned_and_what_ends_it),
        TEST(killed_between),
        TEST(held_by_an_orphan),
        TEST(left_to_others),
        TEST(one_publisher),
        TEST(waits_for_publish),
        TEST(waits_for_the_dead),
        TEST(has_a_table_for_shared_storage),
        TEST(says_that_it_is_shared),
        TEST(table_full),
        TEST(reclaims_slots),
        TEST(after_a_reboot),
        TEST(damaged_table),
        TEST(one_table),
        TEST(threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
