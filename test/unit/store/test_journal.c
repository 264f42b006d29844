/* store/journal.h: what was put is there again, whatever happened to the process or the
 * file. `--long`: 10^6 files. */
#include "scratch.h"

#include <signal.h>
#include <sys/resource.h>

#include "store/journal.h"
#include "util/clock.h"

static unsigned long many = 200000;

/* Where a leak checker sees what a child has when it ends without a word. */
static struct store_journal *volatile in_use;

static struct store_record make_record(const char *upath, uint64_t counter)
{
    struct store_record record = {
        .kind = counter % 2 ? STORE_RECORD_ORIGINAL : STORE_RECORD_COPY,
        .entry = {.upath = upath,
                  .version = {counter, 3, 4},
                  .owner = 5,
                  .state = DYAD_ENTRY_PUBLISHED,
                  .recorded = true,
                  .emptied = counter % 3 == 0,
                  .size = counter * 10,
                  .mode = S_IFREG | 0640,
                  .mtime_sec = -7,
                  .mtime_nsec = 8},
        .identity = {.dev = 1, .ino = counter, .btime = 3, .ctime = 4, .size = 5},
        .base = {.kind = counter % 5, .size = counter * 7, .time = counter * 9},
    };
    memset(record.entry.storage, 0xab, sizeof(record.entry.storage));
    return record;
}

static void put(struct store_journal *journal, const char *upath, uint64_t counter)
{
    struct store_record record = make_record(upath, counter);
    assert_int_equal(store_journal_put(journal, &record), 0);
}

static void check(struct store_journal *journal, const char *upath, uint64_t counter)
{
    const struct store_record *found = store_journal_find(journal, upath);
    struct store_record want = make_record(upath, counter);
    assert_non_null(found);
    assert_int_equal(found->kind, want.kind);
    assert_string_equal(found->entry.upath, upath);
    assert_int_equal(dyad_version_cmp(&found->entry.version, &want.entry.version), 0);
    assert_int_equal(found->entry.owner, 5);
    assert_int_equal(found->entry.state, DYAD_ENTRY_PUBLISHED);
    assert_int_equal(found->entry.recorded, want.entry.recorded);
    assert_int_equal(found->entry.emptied, want.entry.emptied);
    assert_int_equal(found->base.kind, want.base.kind);
    assert_int_equal(found->base.size, want.base.size);
    assert_int_equal(found->base.time, want.base.time);
    assert_int_equal(found->entry.size, want.entry.size);
    assert_int_equal(found->entry.mode, want.entry.mode);
    assert_int_equal(found->entry.mtime_sec, -7);
    assert_int_equal(found->entry.mtime_nsec, 8);
    assert_memory_equal(found->entry.storage, want.entry.storage, DYAD_STORAGE_ID_LEN);
    assert_true(store_identity_equal(&found->identity, &want.identity));
}

static uint64_t journal_bytes(struct scratch *s)
{
    struct stat st;

    assert_int_equal(stat(scratch_path(s, ".dyad/owner/rank.0"), &st), 0);
    return (uint64_t)st.st_size;
}

static const char *label_of(struct scratch *s, const char *name)
{
    static char label[DYAD_UPATH_MAX + 1];

    return store_journal_read_label(s->dir, name, label) == 0 ? label : NULL;
}

static struct store_journal *reopen(struct scratch *s, struct store_journal *journal,
                                    uint32_t want_incarnation)
{
    uint32_t incarnation = 99;
    store_journal_destroy(journal);
    journal = store_journal_create(s->dir, "rank.0", &incarnation);
    assert_non_null(journal);
    assert_int_equal(incarnation, want_incarnation);
    return journal;
}

static int sum_one(const struct store_record *record, void *arg)
{
    *(uint64_t *)arg += record->entry.version.counter;
    return 0;
}

/* What is retired is not found here, and stays for others and for the next opening. */
static void retires(void **state)
{
    struct scratch *s = *state;
    struct store_journal *journal = reopen(s, NULL, 0);
    struct store_look look = {.upath = "old"};
    uint64_t sum = 0;

    put(journal, "old", 2);
    put(journal, "other", 4);
    assert_int_equal(store_journal_retire(journal, "old"), 0);
    errno = 0;
    assert_int_equal(store_journal_retire(journal, "old"), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(store_journal_retire(journal, "none"), -1);
    assert_null(store_journal_find(journal, "old"));
    assert_int_equal(store_journal_foreach(journal, sum_one, &sum), 0);
    assert_int_equal(sum, 4);
    assert_int_equal(store_journal_look(s->dir, "rank.0", &look, 1), 0);
    assert_true(look.found);
    assert_int_equal(look.record.entry.version.counter, 2);
    journal = reopen(s, journal, 1);
    check(journal, "old", 2);

    /* A label makes the file anew. */
    assert_int_equal(store_journal_retire(journal, "old"), 0);
    assert_int_equal(store_journal_set_label(journal, "whose"), 0);
    journal = reopen(s, journal, 2);
    check(journal, "old", 2);

    assert_int_equal(store_journal_retire(journal, "old"), 0);
    assert_int_equal(store_journal_delete(journal, "old"), 0);
    assert_int_equal(store_journal_look(s->dir, "rank.0", &look, 1), 0);
    assert_false(look.found);
    assert_int_equal(store_journal_delete(journal, "old"), -1);

    /* What is put there is as good as any. */
    put(journal, "old", 6);
    assert_int_equal(store_journal_retire(journal, "old"), 0);
    put(journal, "old", 8);
    check(journal, "old", 8);
    journal = reopen(s, journal, 3);
    check(journal, "old", 8);
    store_journal_destroy(journal);
}

static void remembers(void **state)
{
    struct scratch *s = *state;
    struct store_journal *journal = reopen(s, NULL, 0);
    char longest[DYAD_UPATH_MAX + 1];
    uint64_t sum = 0;

    memset(longest, 'd', sizeof(longest));
    for (int i = 100; i < DYAD_UPATH_MAX; i += 100)
        longest[i] = '/';
    longest[DYAD_UPATH_MAX] = '\0';
    put(journal, "a", 1);
    put(journal, "dir/with space\nand line/\xc3\xa9", 2);
    put(journal, longest, 3);
    put(journal, "a", 4);
    put(journal, "gone", 5);
    assert_int_equal(store_journal_delete(journal, "gone"), 0);
    errno = 0;
    assert_int_equal(store_journal_delete(journal, "gone"), -1);
    assert_int_equal(errno, ENOENT);
    struct store_record bad = make_record("../x", 1);
    assert_int_equal(store_journal_put(journal, &bad), -1);
    assert_int_equal(errno, EXDEV);
    bad = make_record("x", 1);
    bad.kind = 100;
    assert_int_equal(store_journal_put(journal, &bad), -1);
    assert_int_equal(errno, EINVAL);
    for (uint32_t round = 0; round < 3; round++) {
        assert_int_equal(store_journal_count(journal), 3);
        check(journal, "a", 4);
        check(journal, "dir/with space\nand line/\xc3\xa9", 2);
        check(journal, longest, 3);
        assert_null(store_journal_find(journal, "gone"));
        assert_null(store_journal_find(journal, "x"));
        journal = reopen(s, journal, round + 1);
    }
    /* A record may be put back from where it is kept. */
    assert_int_equal(store_journal_put(journal, store_journal_find(journal, "a")), 0);
    check(journal, "a", 4);
    assert_int_equal(store_journal_foreach(journal, sum_one, &sum), 0);
    assert_int_equal(sum, 9);
    struct stat st;
    assert_int_equal(stat(scratch_path(s, ".dyad/owner/rank.0"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(store_journal_remove(journal), 0);
    assert_int_equal(access(scratch_path(s, ".dyad/owner/rank.0"), F_OK), -1);
    store_journal_destroy(reopen(s, NULL, 0));
}

static void checks_names(void **state)
{
    struct scratch *s = *state;
    static const char *const bad[] = {"", ".", "..", "a/b", "a b", "a\n", "\xc3\xa9"};
    char name[202];
    uint32_t incarnation;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        errno = 0;
        assert_null(store_journal_create(s->dir, bad[i], &incarnation));
        assert_int_equal(errno, EINVAL);
    }
    memset(name, 'n', 201);
    name[201] = '\0';
    assert_null(store_journal_create(s->dir, name, &incarnation));
    assert_int_equal(errno, EINVAL);
    name[200] = '\0';
    struct store_journal *journal = store_journal_create(s->dir, name, &incarnation);
    assert_non_null(journal);
    store_journal_destroy(journal);
}

static void one_writer(void **state)
{
    struct scratch *s = *state;
    struct store_journal *journal = in_use = reopen(s, NULL, 0);
    uint32_t incarnation;

    assert_null(store_journal_create(s->dir, "rank.0", &incarnation));
    assert_int_equal(errno, EBUSY);
    pid_t pid = fork();
    if (pid == 0) {
        CHILD_CHECK(!store_journal_create(s->dir, "rank.0", &incarnation) &&
                    errno == EBUSY);
        _exit(0);
    }
    scratch_join(pid);
    /* The claim goes along when the file is written anew. */
    unlink(scratch_path(s, ".dyad/owner/rank.0"));
    put(journal, "a", 1);
    assert_null(store_journal_create(s->dir, "rank.0", &incarnation));
    assert_int_equal(errno, EBUSY);
    store_journal_destroy(journal);
}

static void written_anew_when_removed(void **state)
{
    struct scratch *s = *state;
    struct store_journal *journal = reopen(s, NULL, 0);

    put(journal, "a", 1);
    put(journal, "b", 2);
    scratch_remove(scratch_path(s, ".dyad"));
    put(journal, "c", 3);
    journal = reopen(s, journal, 1);
    check(journal, "a", 1);
    check(journal, "b", 2);
    check(journal, "c", 3);
    scratch_remove(scratch_path(s, ".dyad/owner"));
    assert_int_equal(store_journal_delete(journal, "b"), 0);
    journal = reopen(s, journal, 2);
    assert_int_equal(store_journal_count(journal), 2);
    store_journal_destroy(journal);
}

/* Cut the file at every byte of its last record; then damage each byte of it. */
static void torn_tail(void **state)
{
    struct scratch *s = *state;
    struct store_journal *journal = reopen(s, NULL, 0);
    char path[PATH_MAX], saved[8192], byte;
    uint32_t incarnation;

    strcpy(path, scratch_path(s, ".dyad/owner/rank.0"));
    put(journal, "first", 1);
    uint64_t whole = journal_bytes(s);
    put(journal, "second", 2);
    uint64_t end = journal_bytes(s);
    store_journal_destroy(journal);
    int fd = open(path, O_RDWR);
    assert_int_equal(read(fd, saved, sizeof(saved)), end);
    for (uint64_t damage = whole; damage < 2 * end - whole; damage++) {
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, saved, end, 0), end);
        if (damage < end) {
            assert_int_equal(ftruncate(fd, (off_t)damage), 0);
        } else {
            byte = (char)~saved[damage - end + whole];
            assert_int_equal(pwrite(fd, &byte, 1, (off_t)(damage - end + whole)), 1);
        }
        journal = store_journal_create(s->dir, "rank.0", &incarnation);
        assert_non_null(journal);
        assert_int_equal(incarnation, 1);
        assert_int_equal(store_journal_count(journal), 1);
        check(journal, "first", 1);
        put(journal, "third", 3);
        journal = reopen(s, journal, 2);
        assert_int_equal(store_journal_count(journal), 2);
        check(journal, "third", 3);
        store_journal_destroy(journal);
    }
    /* No journal at all. */
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(pwrite(fd, "nonsense nonsense", 17, 0), 17);
    close(fd);
    journal = reopen(s, NULL, 0);
    assert_int_equal(store_journal_count(journal), 0);
    put(journal, "a", 1);
    journal = reopen(s, journal, 1);
    check(journal, "a", 1);
    store_journal_destroy(journal);
}

/* Writes that end half-way: the limit on file size stands for the full disk. */
static void full_disk(void **state)
{
    struct scratch *s = *state;
    struct store_journal *journal = reopen(s, NULL, 0);
    struct rlimit limit, none;

    signal(SIGXFSZ, SIG_IGN);
    put(journal, "a", 1);
    put(journal, "gone", 1);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &none), 0);
    limit = none;
    limit.rlim_cur = journal_bytes(s) + 50;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    struct store_record record = make_record("a", 2), other = make_record("b", 3);
    assert_int_equal(store_journal_put(journal, &record), -1);
    assert_int_equal(errno, EFBIG);
    assert_int_equal(store_journal_put(journal, &other), -1);
    assert_int_equal(store_journal_delete(journal, "gone"), -1);
    /* What is published is served, recorded or not. */
    check(journal, "a", 2);
    check(journal, "b", 3);
    assert_int_equal(store_journal_count(journal), 2);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    put(journal, "c", 5);
    put(journal, "d", 6);
    journal = reopen(s, journal, 1);
    check(journal, "a", 2);
    check(journal, "b", 3);
    check(journal, "c", 5);
    check(journal, "d", 6);
    assert_int_equal(store_journal_count(journal), 4);
    store_journal_destroy(journal);
}

static void count_one(void *arg)
{
    (*(int *)arg)++;
}

/* What could not be written is, without another put, as soon as that can be. */
static void catches_up(void **state)
{
    struct scratch *s = *state;
    struct store_journal *journal = reopen(s, NULL, 0);
    struct rlimit limit, none;
    char upath[16];
    int behind = 0;

    signal(SIGXFSZ, SIG_IGN);
    put(journal, "a", 1);
    put(journal, "gone", 1);
    store_journal_on_behind(journal, count_one, &behind);
    assert_true(store_journal_catch_up(journal));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &none), 0);
    limit = none;
    limit.rlim_cur = journal_bytes(s);
    uint64_t bytes = journal_bytes(s);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    struct store_record record = make_record("a", 2);
    assert_int_equal(store_journal_put(journal, &record), -1);
    record = make_record("a", 3); /* once in the list */
    assert_int_equal(store_journal_put(journal, &record), -1);
    for (int i = 0; i < 2500; i++) { /* more than at a time */
        snprintf(upath, sizeof(upath), "f%d", i);
        record = make_record(upath, 4);
        assert_int_equal(store_journal_put(journal, &record), -1);
    }
    record = make_record("gone", 2);
    assert_int_equal(store_journal_put(journal, &record), -1);
    assert_int_equal(behind, 1);
    assert_false(store_journal_catch_up(journal));
    assert_int_equal(journal_bytes(s), bytes);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    assert_int_equal(store_journal_delete(journal, "gone"), 0);
    int calls = 1;
    while (!store_journal_catch_up(journal))
        assert_true(++calls < 10);
    assert_int_equal(calls, 3);
    bytes = journal_bytes(s);
    assert_true(store_journal_catch_up(journal));
    assert_int_equal(journal_bytes(s), bytes);
    assert_int_equal(behind, 1);
    journal = reopen(s, journal, 1);
    check(journal, "a", 3);
    check(journal, "f0", 4);
    check(journal, "f2499", 4);
    assert_null(store_journal_find(journal, "gone"));
    assert_int_equal(store_journal_count(journal), 2501);
    store_journal_destroy(journal);
}

/* A limit on the size of this process's files stands for the full disk: nothing can be
 * written beyond `bytes`. */
static void limit_files(uint64_t bytes)
{
    struct rlimit limit;

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes == UINT64_MAX ? limit.rlim_max : bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* What other processes see. */
static bool file_names(struct scratch *s, const char *upath)
{
    struct store_look look = {.upath = upath};

    assert_int_equal(store_journal_look(s->dir, "rank.0", &look, 1), 0);
    return look.found;
}

static int note_record(const struct store_record *record, void *arg)
{
    strcat(strcat(arg, record->entry.upath), " ");
    return 0;
}

static int delete_it(const struct store_record *record, void *arg)
{
    assert_int_equal(store_journal_delete(arg, record->entry.upath), -1);
    return 0;
}

/* A deletion that could not be written is one for this process, and is written later. */
static void catches_up_with_deletions(void **state)
{
    struct scratch *s = *state;
    struct store_journal *journal = reopen(s, NULL, 0);
    struct store_record record = make_record("kept", 2);
    char names[256] = "";
    int behind = 0;

    put(journal, "gone", 1);
    put(journal, "kept", 1);
    put(journal, "retired", 1);
    put(journal, "stays", 1);
    store_journal_on_behind(journal, count_one, &behind);
    uint64_t bytes = journal_bytes(s);
    limit_files(bytes);
    errno = 0;
    assert_int_equal(store_journal_delete(journal, "gone"), -1);
    assert_int_equal(errno, EFBIG);
    assert_int_equal(behind, 1);
    assert_int_equal(store_journal_delete(journal, "gone"), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(store_journal_retire(journal, "gone"), -1);
    assert_int_equal(store_journal_delete(journal, "kept"), -1);
    assert_int_equal(store_journal_retire(journal, "retired"), 0);
    assert_int_equal(store_journal_delete(journal, "retired"), -1);
    record = make_record("new", 1); /* the file has never had it */
    assert_int_equal(store_journal_put(journal, &record), -1);
    assert_int_equal(store_journal_delete(journal, "new"), -1);
    assert_null(store_journal_find(journal, "gone"));
    assert_int_equal(store_journal_count(journal), 1);
    assert_int_equal(store_journal_foreach(journal, note_record, names), 0);
    assert_string_equal(names, "stays ");
    assert_false(store_journal_catch_up(journal));
    assert_int_equal(journal_bytes(s), bytes);
    assert_true(file_names(s, "gone"));
    /* It is there again. */
    record = make_record("kept", 2);
    assert_int_equal(store_journal_put(journal, &record), -1);
    check(journal, "kept", 2);
    assert_int_equal(store_journal_count(journal), 2);

    limit_files(UINT64_MAX);
    assert_true(store_journal_catch_up(journal));
    assert_int_equal(behind, 1);
    bytes = journal_bytes(s);
    assert_true(store_journal_catch_up(journal));
    assert_int_equal(journal_bytes(s), bytes);
    assert_false(file_names(s, "gone"));
    assert_false(file_names(s, "retired"));
    journal = reopen(s, journal, 1);
    check(journal, "kept", 2);
    check(journal, "stays", 1);
    assert_int_equal(store_journal_count(journal), 2);

    /* All at once, while it is gone through; then the file is written anew. */
    store_journal_on_behind(journal, count_one, &behind);
    limit_files(journal_bytes(s));
    assert_int_equal(store_journal_foreach(journal, delete_it, journal), 0);
    assert_int_equal(behind, 2);
    assert_int_equal(store_journal_count(journal), 0);
    limit_files(UINT64_MAX);
    assert_int_equal(store_journal_set_label(journal, "whose"), 0);
    assert_false(file_names(s, "stays"));
    put(journal, "stays", 3);
    assert_true(store_journal_catch_up(journal));
    limit_files(journal_bytes(s));
    assert_int_equal(store_journal_delete(journal, "stays"), -1);
    limit_files(UINT64_MAX);
    assert_int_equal(store_journal_clear(journal), 0);
    assert_true(store_journal_catch_up(journal));
    assert_int_equal(store_journal_count(journal), 0);
    put(journal, "stays", 4);
    journal = reopen(s, journal, 2);
    check(journal, "stays", 4);
    assert_int_equal(store_journal_count(journal), 1);
    store_journal_destroy(journal);
}

/* A label that could not be written, of a new journal or one that has records, is. */
static void catches_up_with_its_label(void **state)
{
    struct scratch *s = *state;
    struct store_journal *journal = reopen(s, NULL, 0);
    int behind = 0;

    uint64_t bytes = journal_bytes(s);
    limit_files(bytes);
    assert_int_equal(store_journal_set_label(journal, "whose"), -1);
    assert_int_equal(errno, EFBIG);
    store_journal_on_behind(journal, count_one, &behind);
    assert_int_equal(behind, 1); /* it was before it was asked to say so */
    struct store_record record = make_record("a", 1);
    assert_int_equal(store_journal_put(journal, &record), -1);
    assert_false(store_journal_catch_up(journal));
    assert_int_equal(journal_bytes(s), bytes);
    limit_files(UINT64_MAX);
    assert_true(store_journal_catch_up(journal));
    assert_int_equal(behind, 1);
    assert_string_equal(label_of(s, "rank.0"), "whose");
    assert_true(file_names(s, "a"));

    put(journal, "b", 1);
    bytes = journal_bytes(s);
    limit_files(100);
    assert_int_equal(store_journal_set_label(journal, "other"), -1);
    assert_int_equal(behind, 2);
    assert_false(store_journal_catch_up(journal));
    assert_string_equal(label_of(s, "rank.0"), "whose");
    limit_files(UINT64_MAX);
    assert_true(store_journal_catch_up(journal));
    assert_string_equal(label_of(s, "rank.0"), "other");
    assert_true(journal_bytes(s) < bytes); /* one count */
    journal = reopen(s, journal, 1);
    assert_string_equal(label_of(s, "rank.0"), "other");
    assert_int_equal(store_journal_count(journal), 2);
    check(journal, "b", 1);
    store_journal_destroy(journal);
}

/* After `many` files, written several times over, the file is at most twice what it must
 * hold. */
static void stays_compact(void **state)
{
    struct scratch *s = *state;
    struct store_journal *journal = reopen(s, NULL, 0);
    char upath[64];
    uint64_t least = 0, start = util_clock_now();

    for (unsigned long i = 0; i < many; i++) {
        snprintf(upath, sizeof(upath), "run/step%04lu/file%lu.dat", i / 1000, i);
        put(journal, upath, 1);
    }
    uint64_t first = journal_bytes(s);
    double put_us = (double)(util_clock_now() - start) / 1e3 / (double)many;
    for (int round = 2; round < 5; round++) {
        for (unsigned long i = 0; i < many; i++) {
            snprintf(upath, sizeof(upath), "run/step%04lu/file%lu.dat", i / 1000, i);
            put(journal, upath, (uint64_t)round);
        }
        assert_true(journal_bytes(s) <= 2 * first + 8192);
    }
    start = util_clock_now();
    journal = reopen(s, journal, 1);
    print_message("%lu files: %.2f us for a put, %llu bytes each, opened in %.0f ms\n",
                  many, put_us, (unsigned long long)(first / many),
                  (double)(util_clock_now() - start) / 1e6);
    assert_int_equal(store_journal_count(journal), many);
    check(journal, "run/step0000/file7.dat", 4);
    for (unsigned long i = 10; i < many; i++) {
        snprintf(upath, sizeof(upath), "run/step%04lu/file%lu.dat", i / 1000, i);
        assert_int_equal(store_journal_delete(journal, upath), 0);
    }
    least = journal_bytes(s);
    assert_true(least <= 1u << 20);
    journal = reopen(s, journal, 2);
    assert_int_equal(store_journal_count(journal), 10);
    check(journal, "run/step0000/file7.dat", 4);
    assert_int_equal(store_journal_remove(journal), 0);
}

/* Killed at any moment, compaction included: no record that was acknowledged is lost. */
static void killed_at_random(void **state)
{
    struct scratch *s = *state;
    unsigned seed = (unsigned)util_clock_now();
    uint64_t next = 1;

    print_message("seed %u\n", seed);
    for (uint32_t round = 0; round < 40; round++) {
        int pipes[2], status;
        uint64_t last = next - 1, seen;
        assert_int_equal(pipe(pipes), 0);
        pid_t pid = fork();
        if (pid == 0) {
            uint32_t incarnation;
            struct store_journal *journal =
                store_journal_create(s->dir, "rank.0", &incarnation);
            CHILD_CHECK(journal && incarnation >= round);
            for (uint64_t i = next;; i++) {
                char upath[1100];
                memset(upath, 'x', 1000); /* long, so that it is compacted often */
                snprintf(upath + 1000, 100, "%d", (int)(i % 50));
                upath[200] = upath[400] = upath[600] = upath[800] = '/';
                struct store_record record = make_record(upath, i);
                CHILD_CHECK(store_journal_put(journal, &record) == 0);
                CHILD_CHECK(write(pipes[1], &i, sizeof(i)) == sizeof(i));
            }
        }
        close(pipes[1]);
        unsigned stop = rand_r(&seed) % 2500;
        for (unsigned i = 0;
             i < stop && read(pipes[0], &seen, sizeof(seen)) == sizeof(seen); i++)
            last = seen;
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        while (read(pipes[0], &seen, sizeof(seen)) == sizeof(seen))
            last = seen;
        close(pipes[0]);

        uint32_t incarnation;
        struct store_journal *journal =
            store_journal_create(s->dir, "rank.0", &incarnation);
        assert_non_null(journal);
        uint64_t sum = 0, least = 0;
        store_journal_foreach(journal, sum_one, &sum);
        for (uint64_t i = last; i > 0 && i + 50 > last; i--)
            least += i;
        assert_true(sum >= least); /* the last 50, or one newer that was not acknowledged */
        assert_true(journal_bytes(s) < 3u << 20);
        store_journal_destroy(journal);
        next = last + 1;
    }
}

static int note_name(const char *name, void *arg)
{
    char *names = arg;

    strcat(strcat(names, name), " ");
    return 0;
}

/* The test's opinion, and what it was asked. */
static bool wanted(const char *label, void *arg)
{
    const char **want = arg;

    if (!want[0])
        assert_null(label);
    else
        assert_string_equal(label, want[0]);
    return !want[1];
}

static struct store_journal *take(struct scratch *s, const char *name, const char *label)
{
    const char *want[2] = {label, NULL};
    return store_journal_open(s->dir, name, wanted, want);
}

/* Another process takes over what a dead one has left: the count of openings stays, so that
 * an owner who comes back all the same does not begin with a number that it had before. */
static void taken_over(void **state)
{
    struct scratch *s = *state;
    struct store_journal *journal = reopen(s, NULL, 0), *other;
    char names[256] = "";
    const char *unwanted[2] = {"dyad/0/abc/0 node", "no"};
    char label[DYAD_UPATH_MAX + 1];
    uint32_t incarnation;

    assert_null(label_of(s, "rank.0"));
    assert_int_equal(store_journal_set_label(journal, "dyad/0/abc/0 node"), 0);
    put(journal, "a", 1);
    put(journal, "b", 2);
    errno = 0;
    assert_null(take(s, "rank.0", "dyad/0/abc/0 node"));
    assert_int_equal(errno, EBUSY);
    assert_null(take(s, "rank.9", NULL));
    assert_int_equal(errno, ENOENT);
    assert_null(take(s, "../rank.0", NULL));
    assert_int_equal(errno, EINVAL);
    assert_non_null(other = store_journal_create(s->dir, "rank.10", &incarnation));
    assert_null(label_of(s, "rank.10"));
    store_journal_destroy(other);
    assert_string_equal(label_of(s, "rank.0"), "dyad/0/abc/0 node");
    assert_int_equal(store_journal_read_label(s->dir, "rank.10", label), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(store_journal_read_label(s->dir, "rank.9", label), -1);
    assert_int_equal(errno, ENOENT);
    assert_non_null(other = take(s, "rank.10", NULL));
    store_journal_destroy(other);
    assert_int_equal(store_journal_list(s->dir, "rank.", note_name, names), 0);
    assert_true(strcmp(names, "rank.0 rank.10 ") == 0 ||
                strcmp(names, "rank.10 rank.0 ") == 0);
    names[0] = '\0';
    assert_int_equal(store_journal_list(s->dir, "rank.1", note_name, names), 0);
    assert_string_equal(names, "rank.10 ");

    /* Its owner is gone. */
    store_journal_destroy(journal);
    assert_null(store_journal_open(s->dir, "rank.0", wanted, unwanted));
    assert_int_equal(errno, ECANCELED);
    for (int round = 0; round < 2; round++) {
        assert_non_null(other = take(s, "rank.0", "dyad/0/abc/0 node"));
        assert_string_equal(label_of(s, "rank.0"), "dyad/0/abc/0 node");
        assert_int_equal(store_journal_count(other), 2);
        check(other, "a", 1);
        store_journal_destroy(other); /* it was killed before it had all of it */
    }
    assert_non_null(other = take(s, "rank.0", "dyad/0/abc/0 node"));
    assert_int_equal(store_journal_clear(other), 0);
    assert_int_equal(store_journal_count(other), 0);
    uint64_t bytes = journal_bytes(s);
    put(other, "c", 3);
    assert_int_equal(store_journal_clear(other), 0);
    assert_int_equal(journal_bytes(s), bytes);
    store_journal_destroy(other);
    journal = reopen(s, NULL, 1);
    assert_int_equal(store_journal_count(journal), 0);
    assert_string_equal(label_of(s, "rank.0"), "dyad/0/abc/0 node");

    /* Another label takes the place of the first, through a compaction as well. */
    assert_int_equal(store_journal_set_label(journal, "other"), 0);
    for (uint64_t i = 0; i < 8000; i++)
        put(journal, "a", 2 * i + 2);
    assert_true(journal_bytes(s) < 2u << 20);
    journal = reopen(s, journal, 2);
    assert_string_equal(label_of(s, "rank.0"), "other");
    for (uint32_t i = 3; i < 10; i++)
        journal = reopen(s, journal, i);
    assert_string_equal(label_of(s, "rank.0"), "other");
    assert_int_equal(store_journal_set_label(journal, "third"), 0);
    assert_string_equal(label_of(s, "rank.0"), "third");
    check(journal, "a", 16000);
    char *longest = malloc(DYAD_UPATH_MAX + 2);
    memset(longest, 'x', DYAD_UPATH_MAX + 1);
    longest[DYAD_UPATH_MAX + 1] = '\0';
    assert_int_equal(store_journal_set_label(journal, longest), -1);
    assert_int_equal(errno, ENAMETOOLONG);
    free(longest);
    store_journal_destroy(journal);

    /* What is no journal is not touched. */
    assert_int_equal(truncate(scratch_path(s, ".dyad/owner/rank.10"), 0), 0);
    assert_null(take(s, "rank.10", NULL));
    assert_int_equal(errno, EUCLEAN);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(remembers),
        TEST(retires),
        TEST(taken_over),
        TEST(checks_names),
        TEST(one_writer),
        TEST(written_anew_when_removed),
        TEST(torn_tail),
        TEST(full_disk),
        TEST(catches_up),
        TEST(catches_up_with_deletions),
        TEST(catches_up_with_its_label),
        TEST(stays_compact),
        TEST(killed_at_random),
    };
    if (argc > 1 && strcmp(argv[1], "--long") == 0)
        many = 1000000;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
