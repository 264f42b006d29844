/*
 * test_fd.c - the descriptor table between threads: each description is settled once, by
 * its last close
 *
 * The table is linked into this program; a few stubs stand for the rest of the wrapper. (A
 * preloaded library cannot run under the thread sanitizer: its wrappers run before the
 * sanitizer has started.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "wrapper/unshare_thread.h"
#include "wrapper/engine_load.h"
#include "wrapper/fd.h"
#include "wrapper/gate.h"

#define NTHREADS 4
#define ROUNDS   500
#define NTOKENS  (NTHREADS * ROUNDS + 16)

static _Atomic int closing[NTOKENS], closed[NTOKENS];
static _Atomic int failed_with;
static int shared_fd, spare[NTHREADS];

static void write_closing(engine_token token, int fd, struct engine_closing *out)
{
    out->token = token;
    (void)fd;
    atomic_fetch_add(&closing[token], 1);
}

static int write_closed(struct engine_closing *what, int error, bool mapped)
{
    (void)mapped;
    atomic_fetch_add(&closed[what->token], 1);
    atomic_store(&failed_with, error);
    return 0;
}

/* The description of that token is recorded. */
static engine_token recorded;
static uint64_t record_last, record_offset, record_length, record_ended_at;

static bool write_recorded(engine_token token)
{
    return token == recorded;
}

static uint64_t write_record(engine_token token, uint64_t last, uint64_t offset,
                             uint64_t length)
{
    assert_int_equal(token, recorded);
    record_last = last;
    record_offset = offset;
    record_length = length;
    return offset == 666 ? 0 : 42 + offset;
}

static void write_record_end(engine_token token, uint64_t number, uint64_t planned_end,
                             uint64_t end)
{
    assert_int_equal(token, recorded);
    assert_int_equal(number, 42 + record_offset);
    assert_int_equal(planned_end, record_offset + record_length);
    record_ended_at = end;
}

static int write_lock(engine_token token, int fd, uint64_t offset, uint64_t length,
                      enum engine_lock type, unsigned flags)
{
    assert_int_equal(token, recorded);
    assert_true(fd >= 0 && offset == 1 && length == 2 && type == ENGINE_LOCK_READ);
    errno = EAGAIN;
    return flags == ENGINE_LOCK_TEST ? 0 : -1;
}

/* So many times what other nodes have written is put into the file just then. */
static int holds, nawaited;

static bool write_held(engine_token token)
{
    assert_int_equal(token, recorded);
    return holds > 0 && holds-- > 0;
}

static void write_await(engine_token token, int fd)
{
    assert_int_equal(token, recorded);
    assert_true(fd >= 0);
    /* As if nothing had been written, or cut. */
    assert_int_equal(record_ended_at, record_length ? record_offset : ~record_offset);
    nawaited++;
}

static void write_unrecord(engine_token token)
{
    assert_int_equal(token, recorded);
    recorded = 0;
}

const struct engine_ops *wrapper_engine_loaded(void)
{
    static const struct engine_ops ops = {.write_recorded = write_recorded,
                                          .write_record = write_record,
                                          .write_held = write_held,
                                          .write_await = write_await,
                                          .write_record_end = write_record_end,
                                          .write_lock = write_lock,
                                          .write_unrecord = write_unrecord,
                                          .write_closing = write_closing,
                                          .write_closed = write_closed};
    return &ops;
}

void wrapper_apart_wait(void)
{
}

static int new_file(void)
{
    char name[] = "/tmp/dyad-test-fd-XXXXXX";
    int fd = mkstemp(name);

    assert_true(fd >= 0);
    unlink(name);
    return fd;
}

/* Its own files: open, dup, close both, in either order. */
static void *own_files(void *arg)
{
    int base = (int)(intptr_t)arg * ROUNDS;

    for (int i = 0; i < ROUNDS; i++) {
        int fd = dup(spare[(intptr_t)arg]), other;
        struct wrapper_desc *desc;
        if (wrapper_fd_add(fd, (engine_token)(base + i + 1), ENGINE_PRODUCER) < 0)
            return (void *)1;
        desc = wrapper_fd_hold(fd);
        other = wrapper_fd_give(desc, dup(fd));
        wrapper_fd_close_real(i % 2 ? fd : other);
        if (atomic_load(&closed[base + i + 1]) != 0)
            return (void *)2;
        wrapper_fd_close_real(i % 2 ? other : fd);
        if (atomic_load(&closed[base + i + 1]) != 1)
            return (void *)3;
    }
    return NULL;
}

static void *dup_shared(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        struct wrapper_desc *desc = wrapper_fd_hold(shared_fd);
        int fd = wrapper_fd_give(desc, dup(shared_fd));
        if (!desc || fd < 0 || wrapper_fd_close_real(fd) < 0)
            return (void *)1;
    }
    return arg;
}

static void *move_shared(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        int aside = wrapper_fd_move_aside(*(int *)arg);
        if (aside < 0)
            return (void *)1;
        wrapper_fd_move_back(aside, *(int *)arg);
    }
    return NULL;
}

static void run(void *(*fn)(void *), void *(*arg_of)(int))
{
    pthread_t thread[NTHREADS];
    void *result;

    for (int i = 0; i < NTHREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, fn, arg_of(i)), 0);
    for (int i = 0; i < NTHREADS; i++) {
        assert_int_equal(pthread_join(thread[i], &result), 0);
        assert_null(result);
    }
}

static void *number(int i)
{
    return (void *)(intptr_t)i;
}

static void *nothing(int i)
{
    (void)i;
    return NULL;
}

static void *spare_fd(int i)
{
    return &spare[i];
}

static void reset(void)
{
    for (int i = 0; i < NTOKENS; i++) {
        atomic_store(&closing[i], 0);
        atomic_store(&closed[i], 0);
    }
}

static void test_own(void **state)
{
    (void)state;
    reset();
    for (int i = 0; i < NTHREADS; i++)
        spare[i] = new_file();
    run(own_files, number);
    for (int i = 1; i <= NTHREADS * ROUNDS; i++) {
        assert_int_equal(atomic_load(&closing[i]), 1);
        assert_int_equal(atomic_load(&closed[i]), 1);
    }
    for (int i = 0; i < NTHREADS; i++)
        close(spare[i]);
}

static void test_shared(void **state)
{
    (void)state;
    reset();
    shared_fd = new_file();
    assert_int_equal(wrapper_fd_add(shared_fd, 1, ENGINE_PRODUCER), 0);
    run(dup_shared, nothing);
    assert_int_equal(atomic_load(&closed[1]), 0);
    for (int i = 0; i < NTHREADS; i++)
        spare[i] = wrapper_fd_give(wrapper_fd_hold(shared_fd), dup(shared_fd));
    run(move_shared, spare_fd);
    assert_int_equal(atomic_load(&closed[1]), 0);
    for (int i = 0; i < NTHREADS; i++)
        assert_int_equal(wrapper_fd_close_real(spare[i]), 0);
    assert_int_equal(atomic_load(&closed[1]), 0);
    assert_int_equal(wrapper_fd_close_real(shared_fd), 0);
    assert_int_equal(atomic_load(&closed[1]), 1);
    assert_int_equal(atomic_load(&closing[1]), 1);
    assert_false(wrapper_fd_marked(shared_fd));
}

static int fail_close(int fd, void *arg)
{
    (void)arg;
    close(fd);
    errno = EDQUOT;
    return -1;
}

static void test_error(void **state)
{
    int fd = new_file();

    (void)state;
    reset();
    assert_int_equal(wrapper_fd_add(fd, 2, ENGINE_PRODUCER), 0);
    assert_int_equal(wrapper_fd_close(fd, fail_close, NULL), -1);
    assert_int_equal(errno, EDQUOT);
    assert_int_equal(atomic_load(&failed_with), EDQUOT);
    assert_int_equal(atomic_load(&closed[2]), 1);
}

static void test_adopt_and_limits(void **state)
{
    int fd = new_file(), other = dup(fd);

    (void)state;
    reset();
    assert_int_equal(wrapper_fd_inherit(fd, 3, ENGINE_PRODUCER), 0);
    assert_int_equal(wrapper_fd_inherit(other, 3, ENGINE_PRODUCER), 0);
    assert_int_equal(wrapper_fd_close_real(fd), 0);
    assert_int_equal(atomic_load(&closed[3]), 0);
    wrapper_fd_close_all(0, UINT32_MAX);
    assert_int_equal(atomic_load(&closed[3]), 1);
    assert_false(wrapper_fd_marked(-1));
    assert_false(wrapper_fd_marked(WRAPPER_FD_MAX));
    assert_int_equal(wrapper_fd_add(WRAPPER_FD_MAX, 4, ENGINE_PRODUCER), -1);
}

static _Atomic bool is_inside, has_closed;

static int slow_close(int fd, void *arg)
{
    const struct timespec slow = {.tv_nsec = 400 * 1000000};

    (void)arg;
    atomic_store(&is_inside, true);
    nanosleep(&slow, NULL);
    int rc = close(fd);
    atomic_store(&has_closed, true);
    return rc;
}

static void *close_slowly(void *fd)
{
    wrapper_fd_close(*(int *)fd, slow_close, NULL);
    return NULL;
}

/* A thread that gets no processor, or a slow disk, between the entry that is taken out and
 * the close: a fork waits for it, or the child would have the descriptor without an entry.
 */
static void test_fork_waits(void **state)
{
    int fd = new_file();
    pthread_t thread;

    (void)state;
    reset();
    assert_int_equal(wrapper_fd_add(fd, 3, ENGINE_PRODUCER), 0);
    assert_int_equal(pthread_create(&thread, NULL, close_slowly, &fd), 0);
    while (!atomic_load(&is_inside))
        sched_yield();
    wrapper_gate_shut();
    bool closed_before = atomic_load(&has_closed);
    wrapper_gate_open();
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(closed_before);
    assert_int_equal(atomic_load(&closed[3]), 1);
}

static void test_recorded(void **state)
{
    int fd = new_file(), copy;

    (void)state;
    recorded = NTOKENS - 1;
    assert_int_equal(wrapper_fd_add(fd, NTOKENS - 1, ENGINE_PRODUCER), 0);
    assert_true(wrapper_fd_recorded(fd));
    assert_int_equal(wrapper_fd_record(fd, 10, 5), 52);
    assert_int_equal(record_last, 0);
    copy = wrapper_fd_give(wrapper_fd_hold(fd), dup(fd));
    assert_true(wrapper_fd_recorded(copy));
    assert_int_equal(wrapper_fd_record(copy, 20, 0), 62); /* a cut: nothing follows on it */
    assert_int_equal(record_last, 52);
    assert_int_equal(wrapper_fd_record(copy, 30, 1), 72);
    assert_int_equal(record_last, 52);
    assert_int_equal(record_offset, 30);
    assert_int_equal(record_length, 1);

    /* A lock between two writes: they are not one range. */
    assert_int_equal(wrapper_fd_lock(fd, 1, 2, ENGINE_LOCK_READ, ENGINE_LOCK_TEST), 0);
    assert_int_equal(wrapper_fd_lock(fd, 1, 2, ENGINE_LOCK_READ, 0), -1);
    assert_int_equal(wrapper_fd_record(fd, 31, 1), 73);
    assert_int_equal(record_last, 0);
    assert_int_equal(wrapper_fd_record(fd, 32, 1), 74);
    assert_int_equal(record_last, 73);

    holds = 1;
    assert_int_equal(wrapper_fd_record(fd, 33, 1), 75);
    assert_int_equal(nawaited, 1);
    assert_int_equal(record_last, 0);
    assert_int_equal(record_ended_at, 33); /* taken back */
    holds = 1;
    assert_int_equal(wrapper_fd_record(fd, 0, 0), 42); /* a cut waits, too */
    assert_int_equal(nawaited, 2);
    holds = 100; /* the holder was killed */
    assert_int_equal(wrapper_fd_record(fd, 34, 1), 76);
    assert_int_equal(nawaited, 5);
    holds = 0;
    wrapper_fd_unrecord(fd);
    assert_int_equal(recorded, 0);
    assert_false(wrapper_fd_recorded(copy));
    wrapper_fd_close_real(copy);
    wrapper_fd_close_real(fd);
    assert_false(wrapper_fd_recorded(fd));

    recorded = NTOKENS - 2;
    fd = new_file();
    assert_int_equal(wrapper_fd_add(fd, NTOKENS - 2, ENGINE_PRODUCER), 0);
    assert_int_equal(wrapper_fd_record(fd, 666, 1), 0); /* no space: it is over */
    assert_false(wrapper_fd_recorded(fd));
    wrapper_fd_close_real(fd);
    recorded = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own),        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_error),      cmocka_unit_test(test_adopt_and_limits),
        cmocka_unit_test(test_fork_waits), cmocka_unit_test(test_recorded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
