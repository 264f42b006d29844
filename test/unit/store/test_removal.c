/* Two processes open a file for writing while a third one removes it, unless somebody writes it: both have the same file. */
#include "scratch.h"

#include <stdatomic.h>
#include <sched.h>
#include <sys/mman.h>

#include "store/fetch.h"
#include "store/marks.h"

#define ROUNDS 4000

/* Shared with the children. A round begins when `round` is raised and ends when all have said so in `done`. */
struct stage {
    atomic_uint round, done;
    _Atomic uint64_t ino[2];
    struct store_identity id;
};

static void await(atomic_uint *value, unsigned least)
{
    while (atomic_load(value) < least)
        sched_yield();
}

/* In a child, where no assertion of cmocka's may be. */
static void need(bool is)
{
    if (!is)
        abort();
}

/* So that every order comes about. */
static void pause_for(unsigned n)
{
    for (volatile unsigned spin = 0; spin < n * 32; spin++)
        ;
}

/* One that writes: it leaves the file open until the round is over. */
static void writes(struct scratch *s, struct stage *stage, int who)
{
    struct store_marks *marks = store_marks_create(s->dir);
    const char *path = scratch_path(s, "f");
    struct stat st;

    for (unsigned round = 1; round <= ROUNDS; round++) {
        await(&stage->round, round);
        pause_for(round * (unsigned)(who + 2) % 53);
        store_mark_t mark = store_marks_begin(marks, "f");
        store_marks_await_name(marks, "f");
        int fd = open(path, O_RDWR | O_CREAT, 0644);
        need(fd >= 0 && fstat(fd, &st) == 0);
        need(store_marks_opened(marks, mark, fd, false) == 0);
        atomic_store(&stage->ino[who], st.st_ino);
        atomic_fetch_add(&stage->done, 1);
        await(&stage->done, 3);
        store_marks_closed(marks, mark, -1, true);
        close(fd);
        store_marks_clear(marks, mark);
        atomic_fetch_add(&stage->done, 1);
    }
    store_marks_destroy(marks);
}

struct look {
    struct store_marks *marks;
    const struct store_identity *id;
};

static bool is_written(void *arg)
{
    const struct look *look = arg;

    return store_marks_dirty(look->marks, "f", look->id->ino, look->id->btime, NULL);
}

/* In turns: it is removed, or a newer one takes its place. */
static int takes_away(struct scratch *s, struct store_marks *marks, struct look *look,
                      unsigned round)
{
    struct dyad_entry entry = {
        .upath = "f", .state = DYAD_ENTRY_PUBLISHED, .size = 5, .mode = S_IFREG | 0644};
    struct store_fetch *fetch;

    if (round % 2 == 0)
        return store_fetch_discard_unless(s->dir, marks, "f", look->id, is_written, look);
    fetch = store_fetch_begin(s->dir, &entry);
    assert_non_null(fetch);
    assert_int_equal(store_fetch_write(fetch, 0, "newer", 5), 0);
    return store_fetch_commit_over(fetch, marks, look->id, is_written, look, NULL);
}

static void two_writers_one_file(void **state)
{
    struct scratch *s = *state;
    struct stage *stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct store_marks *marks = store_marks_create(s->dir);
    struct look look = {marks, &stage->id};
    unsigned removed = 0, kept = 0;
    pid_t pid[2];

    assert_true(stage != MAP_FAILED);
    for (int who = 0; who < 2; who++) {
        pid[who] = fork();
        assert_true(pid[who] >= 0);
        if (pid[who] == 0) {
            writes(s, stage, who);
            _exit(0);
        }
    }
    for (unsigned round = 1; round <= ROUNDS; round++) {
        scratch_write(s, "f", "text");
        int fd = store_dir_open(s->dir, "f", O_RDONLY, 0);
        assert_int_equal(store_identity_read(fd, &stage->id), 0);
        close(fd);
        atomic_store(&stage->done, 0);
        atomic_store(&stage->round, round);
        pause_for(round % 61);
        if (takes_away(s, marks, &look, round) == 0) {
            removed++;
        } else {
            assert_true(errno == EBUSY || errno == EEXIST);
            kept++;
        }
        atomic_fetch_add(&stage->done, 1);
        await(&stage->done, 5);
        assert_int_equal(atomic_load(&stage->ino[0]), atomic_load(&stage->ino[1]));
    }
    for (int who = 0; who < 2; who++) {
        int status;
        assert_int_equal(waitpid(pid[who], &status, 0), pid[who]);
        assert_int_equal(status, 0);
    }
    print_message("removed in %u rounds, kept in %u\n", removed, kept);
    store_marks_destroy(marks);
    munmap(stage, sizeof(*stage));
}

/* Who is killed while it takes the name does not keep a writer waiting. */
static void killed_remover(void **state)
{
    struct scratch *s = *state;
    struct store_marks *marks = store_marks_create(s->dir);
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        store_marks_begin_removal(marks, "f");
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    store_marks_await_name(marks, "f");
    assert_false(store_marks_dirty(marks, "f", 0, 0, NULL));
    assert_int_equal(store_mark_slot(store_marks_begin(marks, "f")),
                     0); /* it is free again */
    store_marks_destroy(marks);
}

/* A removal is seen by who waits for that name, and by nobody as an open of another one: not for names of the first lengths, in
 * which a hash's seed and its bytes meet. */
static void another_name(void **state)
{
    static const char letters[] = "./0123456789abxyz";
    struct scratch *s = *state;
    struct store_marks *marks = store_marks_create(s->dir);

    for (unsigned len = 1; len <= 20; len++) {
        char removed[24] = "", other[24];
        memset(removed, '5', len);
        store_mark_t mark = store_marks_begin_removal(marks, removed);
        for (unsigned i = 0; i < len; i++)
            for (unsigned k = 0; k < len; k++)
                for (const char *a = letters; *a; a++)
                    for (const char *b = letters; *b; b++) {
                        strcpy(other, removed);
                        other[i] = *a;
                        other[k] = *b;
                        assert_false(store_marks_dirty(marks, other, 0, 0, NULL));
                    }
        store_marks_abort(marks, mark);
    }
    store_marks_destroy(marks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(another_name, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(two_writers_one_file, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(killed_remover, scratch_setup, scratch_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
