/*
 * test_iopool.c - jobs on the pool's threads: order, no waiting behind a slow one, teardown
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/core/iopool.h"
#include "util/clock.h"

/* What a program's thread-local variables do to the stack of every thread. */
static __thread char large[1 << 20];

struct fixture {
    struct net_loop *loop;
    struct engine_iopool *pool;
    int left; /* callbacks until the loop stops */
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    f->loop = net_loop_create();
    f->pool = engine_iopool_create(f->loop, 4, NULL);
    *state = f;
    return f->loop && f->pool ? 0 : -1;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    engine_iopool_destroy(f->pool);
    net_loop_destroy(f->loop);
    free(f);
    return 0;
}

struct job {
    struct engine_io io;
    struct fixture *f;
    sem_t *wait, *tell;
    pthread_t thread;
    bool in_time, is_done;
};

static bool sem_wait_5s(sem_t *sem)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 5;
    return sem_timedwait(sem, &until) == 0;
}

static void work(void *arg)
{
    struct job *job = arg;

    job->thread = pthread_self();
    memset(large, 1, sizeof(large));
    if (job->tell)
        sem_post(job->tell);
    job->in_time = !job->wait || sem_wait_5s(job->wait);
}

static void done(void *arg)
{
    struct job *job = arg;

    job->is_done = true;
    if (--job->f->left == 0)
        net_loop_stop(job->f->loop);
}

/* The loop's thread submits, a thread of the pool works, the loop's thread hears of it;
 * also where the program's thread-local variables are larger than a thread's stack would
 * be. */
static void other_thread(void **state)
{
    struct fixture *f = *state;
    struct job job = {.f = f};

    f->left = 1;
    engine_io_submit(f->pool, &job.io, work, done, &job);
    assert_int_equal(net_loop_run(f->loop), 0);
    assert_true(job.is_done);
    assert_false(pthread_equal(job.thread, pthread_self()));
}

/* Two jobs at once while one thread is idle: the second must not wait behind the first,
 * which here waits for the second. */
static void no_waiting_behind(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < 20; i++) {
        sem_t second;
        struct job first = {.f = f}, slow = {.f = f}, quick = {.f = f};
        struct engine_iopool *pool = engine_iopool_create(f->loop, 2, NULL);

        assert_non_null(pool);
        sem_init(&second, 0, 0);
        slow.wait = quick.tell = &second;
        f->left = 1;
        engine_io_submit(pool, &first.io, work, done, &first);
        assert_int_equal(net_loop_run(f->loop), 0); /* its thread is idle, or soon is */
        usleep(1000);
        f->left = 2;
        engine_io_submit(pool, &slow.io, work, done, &slow);
        engine_io_submit(pool, &quick.io, work, done, &quick);
        assert_int_equal(net_loop_run(f->loop), 0);
        assert_true(slow.in_time);
        engine_iopool_destroy(pool);
        sem_destroy(&second);
    }
}

/* Queued jobs run before the pool is gone; nobody is called back for them. */
static void destroy_finishes(void **state)
{
    struct fixture *f = *state;
    struct job job[8];

    for (int i = 0; i < 8; i++) {
        job[i] = (struct job){.f = f};
        engine_io_submit(f->pool, &job[i].io, work, done, &job[i]);
    }
    engine_iopool_destroy(f->pool);
    f->pool = NULL;
    for (int i = 0; i < 8; i++) {
        assert_true(job[i].in_time);
        assert_false(job[i].is_done);
    }
}

static void slow_work(void *arg)
{
    struct job *job = arg;

    job->thread = pthread_self();
    usleep(30 * 1000);
}

/* Runs a job at `near`; was it on the loop? Its end is told in a later turn. */
static bool on_loop(struct fixture *f, struct engine_near *near, void (*fn)(void *arg))
{
    struct job job = {.f = f};

    f->left = 1;
    engine_io_near(f->pool, near, &job.io, fn, done, &job);
    assert_false(job.is_done);
    assert_int_equal(net_loop_run(f->loop), 0);
    assert_true(job.is_done);
    return pthread_equal(job.thread, pthread_self());
}

/* The loop does what is quick. Slow storage goes to the pool for a hundred times as long as
 * it was slow, and comes back; if it is slow still, it goes again at once. */
static void slow_goes_to_pool(void **state)
{
    struct fixture *f = *state;
    struct engine_near near = {0};
    uint64_t before;

    for (int i = 0; i < 100; i++)
        assert_true(on_loop(f, &near, work));
    for (int i = 0; i < 2; i++) {
        before = util_clock_now();
        assert_true(on_loop(f, &near, slow_work));
        assert_true(near.closed_till >= before + 3 * UTIL_NSEC_PER_SEC);
        assert_false(on_loop(f, &near, work));
        near.closed_till = util_clock_now(); /* the time has passed */
    }
    assert_true(on_loop(f, &near, work));
}

static void stopped_work(void *arg)
{
    struct job *job = arg;

    job->thread = pthread_self();
    usleep(700 * 1000);
}

/* A process that was stopped in a job has not had slow storage for as long. */
static void stop_is_not_slow(void **state)
{
    struct fixture *f = *state;
    struct engine_near near = {0};

    assert_true(on_loop(f, &near, stopped_work));
    assert_in_range(near.closed_till - util_clock_now(), 40 * UTIL_NSEC_PER_SEC,
                    50 * UTIL_NSEC_PER_SEC);
}

/* A pool that is gone before the loop's turn calls nobody back. */
static void near_is_not_told(void **state)
{
    struct fixture *f = *state;
    struct engine_near near = {0};
    struct job job = {.f = f};

    engine_io_near(f->pool, &near, &job.io, work, done, &job);
    engine_iopool_destroy(f->pool);
    f->pool = NULL;
    assert_true(job.in_time);
    assert_false(job.is_done);
}

struct spawned {
    struct engine_io io;
    sem_t *wait, *tell;
};

static void spawned_work(void *arg)
{
    struct spawned *s = arg;

    memset(large, 1, sizeof(large));
    sem_post(s->tell);
    sem_wait_5s(s->wait);
    sem_post(s->tell);
}

static void spawned_done(void *arg)
{
    (void)arg;
    fail_msg("called back after the pool was destroyed");
}

/* A thread that outlives the pool frees its job and touches nothing of the pool's owner. */
static void spawn_outlives(void **state)
{
    struct fixture *f = *state;
    struct spawned *s = calloc(1, sizeof(*s));
    sem_t wait, tell;

    sem_init(&wait, 0, 0);
    sem_init(&tell, 0, 0);
    s->wait = &wait;
    s->tell = &tell;
    assert_int_equal(engine_io_spawn(f->pool, &s->io, spawned_work, spawned_done, s), 0);
    assert_true(sem_wait_5s(&tell));
    engine_iopool_destroy(f->pool);
    f->pool = NULL;
    sem_post(&wait);
    assert_true(sem_wait_5s(&tell));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(other_thread, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_waiting_behind, set_up, tear_down),
        cmocka_unit_test_setup_teardown(destroy_finishes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(slow_goes_to_pool, set_up, tear_down),
        cmocka_unit_test_setup_teardown(stop_is_not_slow, set_up, tear_down),
        cmocka_unit_test_setup_teardown(near_is_not_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(spawn_outlives, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
