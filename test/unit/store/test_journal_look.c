/* store/journal.h: what is read in a journal while its owner writes to it was there at some
 * moment of the reading, whatever the owner does: appends, rewrites, fails for want of
 * space, is stopped, dies. */
#include "scratch.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "store/journal.h"
#include "util/clock.h"

#define NAMES 48
#define NAME  "rank.7"

/* The versions of a name that the writer began to put, and those that are in the file; odd
 * ones are deletions. */
struct shared {
    _Atomic uint64_t begun[NAMES], done[NAMES];
    _Atomic uint64_t failed;
};

static char name_of[NAMES][DYAD_UPATH_MAX + 1];

/* Of any length, so that they do not come to lie at the ends of pages and buffers only. */
static void names_init(void)
{
    for (int i = 0; i < NAMES; i++) {
        size_t len = 1 + (size_t)i * 80;
        memset(name_of[i], 'a' + i % 26, len);
        for (size_t at = 100; at < len - 1; at += 100)
            name_of[i][at] = '/';
        snprintf(name_of[i] + len, 8, "%d", i);
    }
}

static struct store_record make_record(int i, uint64_t counter)
{
    return (struct store_record){
        .kind = STORE_RECORD_COPY,
        .entry = {.upath = name_of[i],
                  .version = {counter, (uint32_t)i, 4},
                  .owner = 5,
                  .state = DYAD_ENTRY_PUBLISHED,
                  .size = counter * 10},
        .identity = {.dev = 1, .ino = counter ^ 0x5555, .size = 5},
    };
}

static void write_one(struct store_journal *journal, struct shared *shared, int i)
{
    uint64_t counter = atomic_load(&shared->begun[i]) + 1;
    struct store_record record = make_record(i, counter);
    int rc;

    atomic_store(&shared->begun[i], counter);
    if (counter % 2 == 1 && store_journal_find(journal, name_of[i]))
        rc = store_journal_delete(journal, name_of[i]);
    else if (counter % 2 == 1)
        rc = 0;
    else
        rc = store_journal_put(journal, &record);
    if (rc == 0)
        atomic_store(&shared->done[i], counter);
    else
        atomic_fetch_add(&shared->failed, 1);
}

/* Writes until it is killed. Each 2000th time the disk is full in the midst of a record. */
static void writer(struct scratch *s, struct shared *shared)
{
    uint32_t incarnation;
    struct store_journal *journal = store_journal_create(s->dir, NAME, &incarnation);
    struct rlimit limit, none;
    uint64_t rng = 1;

    signal(SIGXFSZ, SIG_IGN);
    if (!journal || freopen("/dev/null", "w", stderr) == NULL ||
        getrlimit(RLIMIT_FSIZE, &none) < 0)
        _exit(1);
    for (unsigned n = 1;; n++) {
        rng = rng * 6364136223846793005u + 1442695040888963407u;
        if (n % 2000 == 0) {
            limit = none;
            struct stat st;
            CHILD_CHECK(stat(scratch_path(s, ".dyad/owner/" NAME), &st) == 0);
            limit.rlim_cur = (rlim_t)st.st_size + 60 + (rng >> 40) % 200;
            setrlimit(RLIMIT_FSIZE, &limit);
        }
        write_one(journal, shared, (int)((rng >> 33) % NAMES));
        if (n % 2000 == 0)
            setrlimit(RLIMIT_FSIZE, &none);
    }
}

/* All names, some of them twice. */
static void look(struct scratch *s, struct shared *shared)
{
    struct store_look looks[NAMES + 3] = {{0}};
    uint64_t done[NAMES], begun[NAMES];

    for (int i = 0; i < NAMES + 3; i++)
        looks[i] =
            (struct store_look){.upath = name_of[i % NAMES], .arg = &name_of[i % NAMES]};
    for (int i = 0; i < NAMES; i++)
        done[i] = atomic_load(&shared->done[i]);
    assert_int_equal(store_journal_look(s->dir, NAME, looks, NAMES + 3), 0);
    for (int i = 0; i < NAMES; i++)
        begun[i] = atomic_load(&shared->begun[i]);
    for (int l = 0; l < NAMES + 3; l++) {
        const struct store_record *found = &looks[l].record;
        ptrdiff_t i = (char(*)[DYAD_UPATH_MAX + 1]) looks[l].arg - name_of;
        assert_ptr_equal(looks[l].upath, name_of[i]);
        if (!looks[l].found) { /* a deletion, or nothing was written yet */
            if (done[i] % 2 == 0 && done[i] > 0)
                assert_true(begun[i] > done[i]);
            continue;
        }
        uint64_t counter = found->entry.version.counter;
        assert_in_range(counter, done[i] - (done[i] % 2), begun[i]);
        if (counter < done[i]) /* it was deleted since */
            fail_msg("%s: version %llu was there after the deletion %llu", looks[l].upath,
                     (unsigned long long)counter, (unsigned long long)done[i]);
        struct store_record want = make_record((int)i, counter);
        assert_ptr_equal(found->entry.upath, name_of[i]);
        assert_int_equal(found->kind, want.kind);
        assert_int_equal(found->entry.version.rank, i);
        assert_int_equal(found->entry.size, want.entry.size);
        assert_true(store_identity_equal(&found->identity, &want.identity));
    }
}

static ino_t inode_of(struct scratch *s)
{
    char path[128];
    struct stat st;

    snprintf(path, sizeof(path), "%s/.dyad/owner/%s", s->path, NAME);
    return stat(path, &st) == 0 ? st.st_ino : 0;
}

static void beside_the_writer(void **state)
{
    struct scratch *s = *state;
    struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned looks = 0, rewritten = 0;
    ino_t ino = 0;
    int status;

    assert_ptr_not_equal(shared, MAP_FAILED);
    names_init();
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        writer(s, shared);
    while (inode_of(s) == 0)
        sched_yield();
    uint64_t end = util_clock_now() + 4 * UTIL_NSEC_PER_SEC;
    while (util_clock_now() < end || rewritten < 3 || atomic_load(&shared->failed) < 3) {
        look(s, shared);
        looks++;
        rewritten += inode_of(s) != ino;
        ino = inode_of(s);
        if (looks % 16 == 0) { /* wherever it is: it holds nobody up */
            assert_int_equal(kill(pid, SIGSTOP), 0);
            assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
            assert_true(WIFSTOPPED(status));
            look(s, shared);
            assert_int_equal(kill(pid, SIGCONT), 0);
        }
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    look(s, shared);
    print_message("%u looks, %u files, %llu writes failed\n", looks, rewritten,
                  (unsigned long long)atomic_load(&shared->failed));
    munmap(shared, sizeof(*shared));
}

static void nothing_there(void **state)
{
    struct scratch *s = *state;
    struct store_look one = {.upath = "a"};
    char path[128];

    errno = 0;
    assert_int_equal(store_journal_look(s->dir, "none", &one, 1), -1);
    assert_int_equal(errno, ENOENT);
    snprintf(path, sizeof(path), "%s/.dyad/owner/other", s->path);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(fd, "no journal", 10), 10);
    close(fd);
    assert_int_equal(store_journal_look(s->dir, "other", &one, 1), -1);
    assert_int_equal(errno, EUCLEAN);
    /* Nor does it change anything: the owner repairs what is damaged. */
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 10);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(beside_the_writer),
        TEST(nothing_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
