/* store/marks.h: was a file written while it was open? Whatever the clock's tick. */
#include "scratch.h"

#include <time.h>

#include "store/marks.h"

#define TRIES 40 /* of what happens within one tick, or not */
#define LONG  ((1u << 20) + 1)

static struct scratch *scratch;
static struct store_marks *marks;

static int setup(void **state)
{
    if (scratch_setup(state) < 0)
        return -1;
    scratch = *state;
    marks = store_marks_create(scratch->dir);
    return marks ? 0 : -1;
}

static int teardown(void **state)
{
    store_marks_destroy(marks);
    return scratch_teardown(state);
}

static const struct timespec past[2] = {{.tv_sec = 1000000000, .tv_nsec = 5},
                                        {.tv_sec = 1000000000, .tv_nsec = 5}};

/* As a fetch leaves it: the mtime of the original, a ctime of now. */
static void make_copy(const char *name, size_t size)
{
    unlink(scratch_path(scratch, name));
    int fd = open(scratch_path(scratch, name), O_RDWR | O_CREAT | O_TRUNC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    assert_int_equal(futimens(fd, past), 0);
    close(fd);
}

static store_mark_t mark_of_open;

static int begin(const char *name, int flags)
{
    mark_of_open = store_marks_begin(marks, name);
    assert_true(mark_of_open != 0);
    int fd = open(scratch_path(scratch, name), flags, 0644);
    assert_true(fd >= 0);
    assert_int_equal(store_marks_opened(marks, mark_of_open, fd, false), 0);
    errno = EXDEV;
    store_marks_look(marks, mark_of_open, fd);
    assert_int_equal(errno, EXDEV);
    return fd;
}

static bool end(const char *name, int fd)
{
    int probe = open(scratch_path(scratch, name), O_RDONLY);
    bool written;

    close(fd);
    assert_true(store_marks_closed(marks, mark_of_open, probe, false));
    written = store_marks_written(marks, mark_of_open, probe);
    close(probe);
    store_marks_clear(marks, mark_of_open);
    return written;
}

static void test_copy_unchanged(void **state)
{
    static const size_t sizes[] = {0, 1, 100000, LONG};

    (void)state;
    for (int i = 0; i < TRIES; i++) {
        size_t size = sizes[i % 4];
        int flags = i / 4 % 2 ? O_RDWR | O_CREAT : O_RDWR;
        make_copy("copy", size);
        assert_false(end("copy", begin("copy", flags)));
        assert_false(end("copy", begin("copy", O_WRONLY | O_APPEND)));
    }
}

/* Of the same length, and with its time given back. */
static void test_copy_rewritten(void **state)
{
    (void)state;
    for (int i = 0; i < TRIES; i++) {
        make_copy("copy", i % 2 ? 100 : LONG);
        int fd = begin("copy", i / 2 % 2 ? O_RDWR : O_WRONLY);
        assert_int_equal(pwrite(fd, "x", 1, 50), 1);
        if (i / 4 % 2)
            assert_int_equal(futimens(fd, past), 0);
        assert_true(end("copy", fd));
    }
}

static void test_changed_otherwise(void **state)
{
    (void)state;
    for (int i = 0; i < TRIES; i++) {
        make_copy("copy", 100);
        int fd = begin("copy", O_RDWR);
        switch (i % 3) {
        case 0:
            assert_int_equal(fchmod(fd, 0600), 0);
            break;
        case 1:
            assert_int_equal(futimens(fd, NULL), 0);
            break;
        case 2:
            assert_int_equal(ftruncate(fd, 99), 0);
        }
        assert_true(end("copy", fd));
    }
}

/* What was written a moment before the open, so that its times may be those of a write that
 * follows. */
static void test_original(void **state)
{
    (void)state;
    for (int i = 0; i < TRIES; i++) {
        int fd = open(scratch_path(scratch, "own"), O_RDWR | O_CREAT | O_TRUNC, 0644);
        assert_int_equal(write(fd, "abc", 3), 3);
        close(fd);
        assert_false(end("own", begin("own", O_RDWR)));
        fd = begin("own", O_RDWR);
        assert_int_equal(pwrite(fd, "x", 1, 1), 1);
        assert_true(end("own", fd));
    }
}

static void test_made(void **state)
{
    (void)state;
    for (int i = 0; i < TRIES; i++) {
        unlink(scratch_path(scratch, "made"));
        assert_true(end("made", begin("made", O_WRONLY | O_CREAT | O_APPEND)));
        nanosleep(&(struct timespec){.tv_nsec = 100000 * (i % 9)}, NULL);
    }
}

static void test_not_looked_at(void **state)
{
    (void)state;
    make_copy("copy", 10);
    mark_of_open = store_marks_begin(marks, "copy");
    int fd = open(scratch_path(scratch, "copy"), O_RDWR);
    assert_int_equal(store_marks_opened(marks, mark_of_open, fd, false), 0);
    assert_true(end("copy", fd));
    fd = begin("copy", O_RDWR);
    store_marks_set_written(marks, mark_of_open);
    assert_true(end("copy", fd));
    /* The slot's next use knows nothing of it. */
    assert_false(end("copy", begin("copy", O_RDWR)));
    /* Nothing to look at is no proof. */
    fd = begin("copy", O_RDWR);
    assert_true(store_marks_written(marks, mark_of_open, -1));
    assert_false(end("copy", fd));
}

/* Who was not there at the open. */
static void test_another_process(void **state)
{
    (void)state;
    for (int writes = 0; writes < 2; writes++) {
        make_copy("copy", 10);
        int fd = begin("copy", O_RDWR), closed[2];
        assert_int_equal(pipe(closed), 0);
        pid_t pid = fork();
        if (pid == 0) {
            char byte;
            close(closed[1]);
            CHILD_CHECK(!writes || pwrite(fd, "x", 1, 0) == 1);
            CHILD_CHECK(read(closed[0], &byte, 1) == 0);
            int probe = open(scratch_path(scratch, "copy"), O_RDONLY);
            close(fd);
            CHILD_CHECK(store_marks_closed(marks, mark_of_open, probe, false));
            CHILD_CHECK(store_marks_written(marks, mark_of_open, probe) == writes);
            store_marks_clear(marks, mark_of_open);
            _exit(0);
        }
        close(fd);
        close(closed[0]);
        close(closed[1]);
        scratch_join(pid);
    }
}

/* A second name changes the ctime, and nothing else. */
static void test_linked(void **state)
{
    (void)state;
    make_copy("copy", LONG);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    int fd = begin("copy", O_RDWR);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    char other[PATH_MAX];
    snprintf(other, sizeof(other), "%s/second", scratch->path);
    assert_int_equal(link(scratch_path(scratch, "copy"), other), 0);
    assert_false(end("copy", fd));
    unlink(other);
}

/* What a publish says of its writer: the file as its open found it, or when that emptied
 * or made it; and whether its node has been told since that it is an older one. */
static void test_base(void **state)
{
    struct dyad_entry newer = {.size = 100, .mtime_sec = 1000000000, .mtime_nsec = 6};
    store_mark_t joining, other;
    struct store_identity id;
    struct dyad_base base;
    int fd, second;

    (void)state;
    make_copy("base", 100);
    fd = begin("base", O_RDWR);
    assert_int_equal(pwrite(fd, "longer", 6, 98), 6);
    store_marks_base(marks, mark_of_open, &base);
    assert_int_equal(base.kind, DYAD_BASE_FROM);
    assert_int_equal(base.size, 100);
    assert_int_equal(base.time, 1000000000000000005);

    make_copy("other", 100);
    other = store_marks_begin(marks, "other");
    second = open(scratch_path(scratch, "other"), O_RDWR);
    assert_int_equal(store_identity_read(second, &id), 0);
    store_marks_overtaken(marks, 0, id.ino, id.btime, NULL); /* it is not that one yet */
    assert_int_equal(store_marks_opened(marks, other, second, true), 0);
    store_marks_base(marks, other, &base);
    assert_int_equal(base.kind, DYAD_BASE_SINCE);
    assert_true(base.time > past[0].tv_sec * 1000000000ull + 5);
    close(second);

    assert_int_equal(store_identity_read(fd, &id), 0);
    store_marks_overtaken(marks, 0, id.ino, id.btime, &newer); /* which is not like it */
    store_marks_base(marks, mark_of_open, &base);
    assert_int_equal(base.kind, DYAD_BASE_FROM);
    newer.mtime_nsec = 5;
    store_marks_overtaken(marks, 0, id.ino, id.btime, &newer);
    store_marks_overtaken(marks, other, 0, 0, NULL); /* which has begun with nothing */
    store_marks_base(marks, mark_of_open, &base);
    assert_int_equal(base.kind, DYAD_BASE_OVERTAKEN);
    assert_int_equal(base.size, 100);
    store_marks_base(marks, other, &base);
    assert_int_equal(base.kind, DYAD_BASE_SINCE);

    /* Who joins it has the same older file; who opens it when the others have closed it, and
     * uses their slot, has not. */
    joining = mark_of_open;
    second = begin("base", O_RDWR);
    store_marks_base(marks, mark_of_open, &base);
    assert_int_equal(base.kind, DYAD_BASE_OVERTAKEN);
    end("base", second);
    mark_of_open = joining;
    end("base", fd);
    store_marks_base(marks, joining, &base);
    assert_int_equal(base.kind, DYAD_BASE_NONE);
    fd = begin("base", O_RDWR);
    store_marks_base(marks, mark_of_open, &base);
    assert_int_equal(base.kind, DYAD_BASE_FROM);
    end("base", fd);
    store_marks_abort(marks, other);
}

/* A file that is ahead of a version: that is what it counts as, by number, also for who opens it beside. */
static void test_ahead(void **state)
{
    const struct dyad_version version = {.counter = 7, .rank = 3, .incarnation = 1};
    struct dyad_version is;
    store_mark_t first;
    int fd, second;

    (void)state;
    make_copy("ahead", 100);
    first = store_marks_begin(marks, "ahead");
    assert_false(store_marks_ahead(marks, first, &is));
    store_marks_set_ahead(marks, first, &version);
    fd = open(scratch_path(scratch, "ahead"), O_RDWR);
    assert_int_equal(store_marks_opened(marks, first, fd, false), 0);
    store_marks_look(marks, first, fd);
    store_marks_overtaken(marks, first, 0, 0, NULL);
    assert_true(store_marks_ahead(marks, first, &is));
    assert_int_equal(dyad_version_cmp(&is, &version), 0);
    second = begin("ahead", O_RDWR);
    assert_true(store_marks_ahead(marks, mark_of_open, &is));
    assert_int_equal(dyad_version_cmp(&is, &version), 0);
    assert_false(end("ahead", second)); /* nothing was written */
    mark_of_open = first;
    assert_int_equal(pwrite(fd, "change", 6, 0), 6);
    assert_true(end("ahead", fd));
    assert_false(store_marks_ahead(marks, first, &is));
    fd = begin("ahead", O_RDWR);
    assert_false(store_marks_ahead(marks, mark_of_open, &is)); /* another use of the slot */
    end("ahead", fd);
}

/* Who opens it while another one changes it has found no version of it; by chance it may look
 * like one. */
static void test_base_joined(void **state)
{
    store_mark_t first, second;
    struct dyad_base base;
    int fd, more, third;

    (void)state;
    make_copy("joined", 100);
    second = store_marks_begin(marks, "joined"); /* another one is about to look */
    more = open(scratch_path(scratch, "joined"), O_RDWR);
    assert_int_equal(store_marks_opened(marks, second, more, false), 0);
    fd = begin("joined", O_RDWR);
    first = mark_of_open;
    store_marks_base(marks, first, &base);
    assert_int_equal(base.time, 1000000000000000005);
    mark_of_open = second;
    end("joined", more);
    more = begin("joined", O_RDWR);
    second = mark_of_open;
    store_marks_base(marks, second, &base); /* which is not changed yet */
    assert_int_equal(base.kind, DYAD_BASE_FROM);
    assert_int_equal(base.time, 1000000000000000005);
    assert_int_equal(pwrite(fd, "change", 6, 0), 6);
    third = begin("joined", O_RDWR);
    store_marks_base(marks, mark_of_open, &base);
    assert_int_equal(base.kind, DYAD_BASE_FROM);
    assert_int_equal(base.size, 100);
    assert_int_equal(base.time, 0);
    end("joined", third);
    mark_of_open = first;
    end("joined", fd);
    mark_of_open = second;
    end("joined", more);
    fd = begin("joined", O_RDWR);
    store_marks_base(marks, mark_of_open, &base);
    assert_int_not_equal(base.time, 0);
    end("joined", fd);
}

/* --- store_marks_recorded() --- */

/* As begin(), by an open that records, or (`plain`) may not. True: it does. */
static bool records(const char *name, bool plain, int *fd)
{
    bool later;

    mark_of_open = store_marks_begin(marks, name);
    if (!plain)
        store_marks_may_record(marks, mark_of_open, false);
    *fd = open(scratch_path(scratch, name), O_RDWR | O_CREAT, 0644);
    assert_true(*fd >= 0);
    assert_int_equal(store_marks_opened(marks, mark_of_open, *fd, plain), 0);
    if (plain)
        return false;
    store_marks_look(marks, mark_of_open, *fd);
    if (store_marks_record(marks, mark_of_open, false, &later))
        return true;
    if (later)
        store_marks_record_later(marks, mark_of_open);
    return false;
}

/* An existing file, whose changes are recorded; two that open it at once. */
static void test_record_since(void **state)
{
    store_mark_t mark[2];
    uint64_t ino, btime;
    bool later;
    int fd[2];

    (void)state;
    make_copy("since", 100);
    for (int i = 0; i < 2; i++) {
        mark[i] = store_marks_begin(marks, "since");
        store_marks_may_record(marks, mark[i], false);
        fd[i] = open(scratch_path(scratch, "since"), O_RDWR);
        assert_int_equal(store_marks_opened(marks, mark[i], fd[i], false), 0);
        store_marks_look(marks, mark[i], fd[i]);
    }
    assert_true(store_marks_file(marks, mark[0], &ino, &btime));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(store_marks_all_begin(marks, ino, btime), i == 0);
        assert_true(store_marks_record(marks, mark[i], true, &later));
    }
    assert_false(store_marks_all_begin(marks, ino, btime));
    assert_true(store_marks_recorded(marks, 0, ino, btime));
    for (int i = 0; i < 2; i++) {
        mark_of_open = mark[i];
        end("since", fd[i]);
    }
    assert_false(store_marks_all_begin(marks, ino, btime)); /* nobody */
    /* Not if somebody has it open who does not record. */
    records("since", true, &fd[0]);
    mark[0] = mark_of_open;
    mark[1] = store_marks_begin(marks, "since");
    store_marks_may_record(marks, mark[1], false);
    fd[1] = open(scratch_path(scratch, "since"), O_RDWR);
    assert_int_equal(store_marks_opened(marks, mark[1], fd[1], false), 0);
    store_marks_look(marks, mark[1], fd[1]);
    assert_false(store_marks_all_begin(marks, ino, btime));
    assert_false(store_marks_record(marks, mark[1], true, &later));
    for (int i = 0; i < 2; i++) {
        mark_of_open = mark[i];
        end("since", fd[i]);
    }
}

static bool is_kind(void *arg, const struct dyad_base *base)
{
    return base->kind == *(enum dyad_base_kind *)arg;
}

/* Between the open and the look it is not known what a description began from, unless it has emptied the file. */
static void test_base_of_any(void **state)
{
    enum dyad_base_kind since = DYAD_BASE_SINCE, from = DYAD_BASE_FROM;
    struct stat st;
    int fd;

    (void)state;
    for (int looks = 0; looks < 2; looks++) {
        make_copy("any", 100);
        mark_of_open = store_marks_begin(marks, "any");
        if (looks)
            store_marks_will_look(marks, mark_of_open);
        fd = open(scratch_path(scratch, "any"), looks ? O_RDWR : O_RDWR | O_TRUNC);
        assert_int_equal(store_marks_opened(marks, mark_of_open, fd, !looks), 0);
        assert_int_equal(fstat(fd, &st), 0);
        assert_int_equal(store_marks_any_base(marks, st.st_ino, 0, is_kind, &since),
                         !looks);
        assert_false(store_marks_any_base(marks, st.st_ino, 0, is_kind, &from));
        if (looks) {
            store_marks_look(marks, mark_of_open, fd);
            assert_false(store_marks_any_base(marks, st.st_ino, 0, is_kind, &since));
            assert_true(store_marks_any_base(marks, st.st_ino, 0, is_kind, &from));
        }
        end("any", fd);
    }
}

static void test_record(void **state)
{
    store_mark_t first, second;
    uint64_t ino, btime;
    int fd, more, third;

    (void)state;
    assert_true(records("recorded", false, &fd));
    first = mark_of_open;
    assert_true(store_marks_recorded(marks, first, 0, 0));
    assert_true(store_marks_file(marks, first, &ino, &btime));
    assert_true(store_marks_recorded(marks, 0, ino, btime));
    assert_int_equal(write(fd, "x", 1), 1);
    /* A later one, while it is open, records on. */
    assert_true(records("recorded", false, &more));
    second = mark_of_open;
    assert_true(store_marks_recorded(marks, first, 0, 0));
    /* One who does not spoils it for all, as long as it is open. */
    assert_false(records("recorded", true, &third));
    assert_false(store_marks_recorded(marks, first, 0, 0));
    assert_false(store_marks_recorded(marks, 0, ino, btime));
    end("recorded", third);
    assert_true(store_marks_recorded(marks, first, 0, 0));
    store_marks_unrecord(marks, second);
    assert_false(store_marks_recorded(marks, first, 0, 0));
    assert_false(store_marks_file(marks, second, &ino, &btime));
    mark_of_open = second;
    end("recorded", more);
    store_marks_set_written(marks, first); /* a shared map */
    assert_false(store_marks_recorded(marks, first, 0, 0));
    mark_of_open = first;
    end("recorded", fd);
    assert_false(store_marks_recorded(marks, first, 0, 0));
    assert_true(store_marks_recorded(marks, 0, ino, btime)); /* nobody is left */

    /* A file with bytes that nobody has a record of. */
    assert_false(records("recorded", false, &fd));
    first = mark_of_open;
    assert_false(records("recorded", false, &more));
    end("recorded", more);
    mark_of_open = first;
    end("recorded", fd);
}

/* Nobody records what is written to a file that was emptied, until another node joins. */
static void test_record_later(void **state)
{
    store_mark_t first;
    uint64_t ino, btime;
    struct dyad_base base;
    int fd, more, third;

    (void)state;
    unlink(scratch_path(scratch, "later"));
    records("later", true, &fd);
    first = mark_of_open;
    store_marks_record_later(marks, first);
    assert_false(store_marks_file(marks, first, &ino, &btime));
    assert_int_equal(store_marks_record_all(marks, ino, btime, STORE_MARKS_MEET), 1);
    /* One that joins it here waits for the same, and has to be met first: a reset that came before it
     * does not take away what it has put on record. */
    assert_false(records("later", false, &more));
    assert_int_equal(store_marks_record_all(marks, ino, btime, STORE_MARKS_BEGIN), -1);
    assert_int_equal(store_marks_record_all(marks, ino, btime, STORE_MARKS_LOOK),
                     1); /* that is no meeting */
    assert_int_equal(store_marks_record_all(marks, ino, btime, STORE_MARKS_BEGIN), -1);
    assert_false(store_marks_recorded(marks, 0, ino, btime));
    assert_int_equal(store_marks_record_all(marks, ino, btime, STORE_MARKS_MEET), 1);
    assert_false(store_marks_recorded(marks, first, 0, 0));
    assert_int_equal(store_marks_record_all(marks, ino, btime, STORE_MARKS_BEGIN), 1);
    assert_true(store_marks_recorded(marks, first, 0, 0));
    assert_true(store_marks_recorded(marks, mark_of_open, 0, 0));
    assert_int_equal(store_marks_record_all(marks, ino, btime, STORE_MARKS_LOOK),
                     0); /* they do */
    store_marks_base(marks, first, &base);
    assert_int_equal(base.kind, DYAD_BASE_FROM);
    assert_int_equal(base.size, 0);
    end("later", more);
    mark_of_open = first;
    end("later", fd);

    /* Not if one of them cannot. */
    unlink(scratch_path(scratch, "later"));
    records("later", true, &fd);
    first = mark_of_open;
    store_marks_record_later(marks, first);
    assert_false(store_marks_file(marks, first, &ino, &btime));
    assert_int_equal(store_marks_record_all(marks, ino, btime, STORE_MARKS_MEET), 1);
    records("later", true, &third);
    assert_int_equal(store_marks_record_all(marks, ino, btime, STORE_MARKS_BEGIN), 0);
    end("later", third);
    assert_int_equal(store_marks_record_all(marks, ino, btime, STORE_MARKS_LOOK), 1);
    store_marks_unrecord(marks, first);
    assert_int_equal(store_marks_record_all(marks, ino, btime, STORE_MARKS_BEGIN), 0);
    assert_false(store_marks_recorded(marks, first, 0, 0));
    mark_of_open = first;
    end("later", fd);
}

/* As many processes of a node as there are may have the file open. */
static void test_record_later_many(void **state)
{
    enum { N = 40 };
    store_mark_t mark[N];
    uint64_t ino, btime;
    int fd[N];

    (void)state;
    unlink(scratch_path(scratch, "many"));
    for (int i = 0; i < N; i++) {
        records("many", i == 0, &fd[i]);
        mark[i] = mark_of_open;
        store_marks_record_later(marks, mark[i]);
    }
    store_marks_file(marks, mark[0], &ino, &btime);
    assert_int_equal(store_marks_record_all(marks, ino, btime, STORE_MARKS_MEET), 1);
    assert_int_equal(store_marks_record_all(marks, ino, btime, STORE_MARKS_BEGIN), 1);
    assert_true(store_marks_recorded(marks, 0, ino, btime));
    store_marks_unrecord_all(marks, ino, btime);
    assert_false(store_marks_recorded(marks, 0, ino, btime));
    for (int i = 0; i < N; i++) {
        assert_false(store_marks_file(marks, mark[i], &ino, &btime));
        mark_of_open = mark[i];
        end("many", fd[i]);
    }
}

/* Two that open an empty file at once both record; of a whole file neither does. */
static void test_record_at_once(void **state)
{
    (void)state;
    for (int size = 0; size < 2; size++) {
        store_mark_t mark[2];
        struct stat st;
        bool later = false;
        int fd[2];
        make_copy("at once", (size_t)size);
        for (int i = 0; i < 2; i++) {
            mark[i] = store_marks_begin(marks, "at once");
            store_marks_may_record(marks, mark[i], i);
            fd[i] = open(scratch_path(scratch, "at once"), O_RDWR);
            assert_int_equal(store_marks_opened(marks, mark[i], fd[i], false), 0);
            store_marks_look(marks, mark[i], fd[i]);
        }
        assert_int_equal(fstat(fd[0], &st), 0);
        for (int i = 0; i < 2; i++) {
            assert_true(store_marks_undecided(marks, st.st_ino, 0));
            assert_int_equal(store_marks_record(marks, mark[i], false, &later), size == 0);
            assert_false(size && later);
            if (size)
                store_marks_unrecord(marks, mark[i]);
            assert_int_equal(store_marks_joins(marks, mark[i]), i);
        }
        assert_false(store_marks_undecided(marks, st.st_ino, 0));
        for (int i = 0; i < 2; i++) {
            mark_of_open = mark[i];
            end("at once", fd[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base),
        cmocka_unit_test(test_base_joined),
        cmocka_unit_test(test_ahead),
        cmocka_unit_test(test_base_of_any),
        cmocka_unit_test(test_copy_unchanged),
        cmocka_unit_test(test_copy_rewritten),
        cmocka_unit_test(test_changed_otherwise),
        cmocka_unit_test(test_original),
        cmocka_unit_test(test_made),
        cmocka_unit_test(test_not_looked_at),
        cmocka_unit_test(test_another_process),
        cmocka_unit_test(test_linked),
        cmocka_unit_test(test_record),
        cmocka_unit_test(test_record_since),
        cmocka_unit_test(test_record_at_once),
        cmocka_unit_test(test_record_later),
        cmocka_unit_test(test_record_later_many),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
