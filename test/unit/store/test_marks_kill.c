/* store/marks.h under kill -9 at random moments: what is left can be ruled upon, what lives
 * is never given up. */
#include <signal.h>
#include <time.h>

#include "closed_by_name.h"

#include "marks_users.h"
#include "store/marks_slot.h"

enum { WRITERS = 3, FILES = 4, ROUNDS = 150 };

/* Writes files until it is killed; after the first one it writes a byte to `begun`. */
static void write_for_ever(int writer, int begun)
{
    char upath[32], path[PATH_MAX];

    for (unsigned i = 0;; i++) {
        /* One file in two is shared by all writers. */
        snprintf(upath, sizeof(upath), "f%d-%u", i % 2 ? 9 : writer, i / 2 % FILES);
        snprintf(path, sizeof(path), "%s/%s", scratch->path, upath);
        store_mark_t mark = store_marks_begin(marks, upath);
        CHILD_CHECK(mark);
        int fd = open(path, O_WRONLY | O_CREAT | (i % 3 ? O_TRUNC : 0), 0644);
        CHILD_CHECK(fd >= 0);
        CHILD_CHECK(store_marks_opened(marks, mark, fd, i % 3) == 0);
        CHILD_CHECK(write(fd, "data", 4) == 4);
        close(fd);
        if (closed_by_name(marks, mark, scratch->dir, upath, false))
            store_marks_clear(marks, mark);
        /* false: a later writer settled it after a ruling of the parent */
        if (i == 0)
            CHILD_CHECK(write(begun, "b", 1) == 1);
    }
}

/* The writer of `live` holds it all the time. */
static pid_t hold(store_mark_t *mark, int *stop)
{
    int pipes[2], ends[2];

    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        close(ends[1]);
        store_mark_t mine = store_marks_begin(marks, "live");
        int fd = open(scratch_path(scratch, "live"), O_WRONLY | O_CREAT, 0644);
        CHILD_CHECK(store_marks_opened(marks, mine, fd, true) == 0);
        CHILD_CHECK(write(pipes[1], &mine, sizeof(mine)) == sizeof(mine));
        CHILD_CHECK(read(ends[0], &byte, 1) == 1);
        close(fd);
        CHILD_CHECK(closed_by_name(marks, mine, scratch->dir, "live", false));
        store_marks_clear(marks, mine);
        _exit(0);
    }
    assert_int_equal(read(pipes[0], mark, sizeof(*mark)), sizeof(*mark));
    close(pipes[0]);
    close(pipes[1]);
    close(ends[0]);
    *stop = ends[1];
    return pid;
}

/* All names that were written, and what is marked under them now. */
static void rule_all(void)
{
    for (int writer = 0; writer < 10; writer++) {
        for (int i = 0; i < FILES; i++) {
            char upath[32];
            struct store_mark_info info;
            struct store_identity id = {0};
            snprintf(upath, sizeof(upath), "f%d-%d", writer, i);
            int ask = open(scratch_path(scratch, upath), O_RDONLY);
            if (ask >= 0)
                assert_int_equal(store_identity_read(ask, &id), 0);
            while (store_marks_dirty(marks, upath, id.ino, id.btime, &info) &&
                   info.state != STORE_MARK_ABANDONED) {
                bool abandoned = store_marks_rule(marks, info.mark, ask);
                struct store_mark_info again;
                /* Nobody lives: it is abandoned or gone. */
                if (!abandoned && store_marks_dirty(marks, upath, id.ino, id.btime, &again))
                    assert_true(again.mark != info.mark);
            }
            if (ask >= 0)
                close(ask);
        }
    }
}

static void killed_at_random(void **state)
{
    store_mark_t live;
    int stop, begun[2], abandoned = 0;
    pid_t holder = hold(&live, &stop), pids[WRITERS];
    unsigned seed = (unsigned)time(NULL);

    (void)state;
    print_message("seed %u\n", seed);
    int ask = open(scratch_path(scratch, "live"), O_RDONLY);
    assert_true(ask >= 0);
    for (int round = 0; round < ROUNDS; round++) {
        char byte;
        assert_int_equal(pipe(begun), 0);
        for (int i = 0; i < WRITERS; i++) {
            pids[i] = fork();
            if (pids[i] == 0)
                write_for_ever(i, begun[1]);
        }
        /* The moment of death is the experiment's variable: counted from the start of the writers
         * or, lest all die before their first file where a start is slow, from the first of their
         * files. */
        if (round % 2)
            assert_int_equal(read(begun[0], &byte, 1), 1);
        usleep((useconds_t)(rand_r(&seed) % 3000));
        for (int i = 0; i < WRITERS; i++) {
            int status;
            kill(pids[i], SIGKILL);
            assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
            assert_true(WIFSIGNALED(status)); /* no check of the child's failed */
            assert_false(store_marks_rule(marks, live, ask));
        }
        close(begun[0]);
        close(begun[1]);
        rule_all();
        for (uint32_t i = 0; i < marks->table->header.top; i++) {
            struct marks_slot *slot = &marks->table->slots[i];
            unsigned slot_state = WORD_STATE(slot->word);
            store_mark_t mark = marks_mark_of(slot->word, i);
            if (slot_state == STORE_MARK_FREE || slot_state == MARKS_STATE_FREEING)
                continue;
            if (mark == live) {
                assert_int_equal(slot_state, STORE_MARK_DIRTY);
                assert_int_equal(store_lock_search(slot->ino, marks_lock_byte(mark)), 1);
            } else if (slot_state == STORE_MARK_ABANDONED) {
                abandoned++;
                assert_int_equal(store_lock_search(slot->ino, marks_lock_byte(mark)), 0);
                store_marks_forget(marks, slot->ino, slot->btime);
            } else {
                /* Cut short inside begin(): it has no file, and nobody finds it by one. */
                assert_int_equal(slot_state, STORE_MARK_OPENING);
                assert_true(slot->ino == 0);
            }
        }
    }
    print_message("%d marks of killed writers were abandoned\n", abandoned);
    assert_true(abandoned > 0);
    assert_int_equal(write(stop, "x", 1), 1);
    assert_int_equal(store_marks_wait(marks, live, ask), 0);
    scratch_join(holder);
    close(stop);
    close(ask);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(killed_at_random, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
