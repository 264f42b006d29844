/*
 * iopool.c - a queue under a mutex, and threads that wait for it
 *
 * `lock` guards the queue and the counters. A doorbell of the loop can be lost in one rare
 * case (net_loop_ring()), so a pool thread that goes idle while finished jobs have not been
 * taken by the loop (`untaken`) rings again. A spawned thread may outlive the pool's owner:
 * the pool itself is freed by whoever drops the last reference (owner and spawned threads
 * hold one each), and `closing` tells a spawned thread that the loop is gone.
 */
#include "engine/core/iopool.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "util/clock.h"
#include "util/stack.h"

#define THREADS_MAX 16
#define STACK_SIZE  (256 * 1024)

/* A storage is near while its jobs take less than this on average, in ns. */
#define NEAR_MAX    (2 * UTIL_NSEC_PER_MSEC)
#define NEAR_SHARE  8 /* of the average that the last job makes: one in so many */
#define NEAR_CLOSED UTIL_NSEC_PER_SEC
#define NEAR_SLOW   (500 * UTIL_NSEC_PER_MSEC) /* beyond that it may have been stopped */

struct engine_iopool {
    struct net_loop *loop;
    void (*thread_enter)(void);
    pthread_mutex_t lock;
    pthread_cond_t wakeup;
    struct engine_io *head, **tail;
    pthread_t threads[THREADS_MAX];
    unsigned nthreads, max_threads, idle;
    unsigned queued; /* not begun */
    unsigned refs;
    unsigned untaken; /* posted to the loop, done() not begun */
    bool closing;
};

#define RING_AGAIN_S 1

static void pool_unref_unlock(struct engine_iopool *pool)
{
    bool last = --pool->refs == 0;

    pthread_mutex_unlock(&pool->lock);
    if (last) {
        pthread_cond_destroy(&pool->wakeup);
        pthread_mutex_destroy(&pool->lock);
        free(pool);
    }
}

/* On the loop. */
static void io_taken(void *arg)
{
    struct engine_io *io = arg;
    struct engine_iopool *pool = io->pool;

    pthread_mutex_lock(&pool->lock);
    pool->untaken--;
    pthread_mutex_unlock(&pool->lock);
    io->done(io->arg);
}

static void io_finish(struct engine_iopool *pool, struct engine_io *io)
{
    pool->untaken++;
    net_loop_post(pool->loop, &io->post, io_taken, io);
}

/* With the lock held. */
static void pool_idle(struct engine_iopool *pool)
{
    struct timespec until;

    pool->idle++;
    if (pool->untaken > 0) {
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += RING_AGAIN_S;
        if (pthread_cond_timedwait(&pool->wakeup, &pool->lock, &until) == ETIMEDOUT &&
            pool->untaken > 0)
            net_loop_ring(pool->loop);
    } else {
        pthread_cond_wait(&pool->wakeup, &pool->lock);
    }
    pool->idle--;
}

static void *pool_main(void *arg)
{
    struct engine_iopool *pool = arg;

    if (pool->thread_enter)
        pool->thread_enter();
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        struct engine_io *io = pool->head;
        if (!io) {
            if (pool->closing)
                break;
            pool_idle(pool);
            continue;
        }
        if (!(pool->head = io->next))
            pool->tail = &pool->head;
        pool->queued--;
        pthread_mutex_unlock(&pool->lock);
        io->work(io->arg);
        pthread_mutex_lock(&pool->lock);
        io_finish(pool, io);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

struct engine_iopool *engine_iopool_create(struct net_loop *loop, unsigned max_threads,
                                           void (*thread_enter)(void))
{
    struct engine_iopool *pool = calloc(1, sizeof(*pool));
    pthread_condattr_t attr;

    if (!pool)
        return NULL;
    pool->loop = loop;
    pool->thread_enter = thread_enter;
    pool->max_threads = max_threads < THREADS_MAX ? max_threads : THREADS_MAX;
    pool->tail = &pool->head;
    pool->refs = 1;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&pool->wakeup, &attr);
    pthread_condattr_destroy(&attr);
    return pool;
}

void engine_iopool_destroy(struct engine_iopool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->closing = true;
    pthread_cond_broadcast(&pool->wakeup);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->nthreads; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_mutex_lock(&pool->lock);
    pool_unref_unlock(pool);
}

static int thread_start(pthread_t *thread, void *(*fn)(void *), void *arg)
{
    pthread_attr_t attr;
    int rc;

    pthread_attr_init(&attr);
    util_stack_set(&attr, STACK_SIZE);
    rc = pthread_create(thread, &attr, fn, arg);
    pthread_attr_destroy(&attr);
    errno = rc;
    return rc == 0 ? 0 : -1;
}

void engine_io_submit(struct engine_iopool *pool, struct engine_io *io,
                      void (*work)(void *arg), void (*done)(void *arg), void *arg)
{
    io->work = work;
    io->done = done;
    io->arg = arg;
    io->next = NULL;
    io->pool = pool;
    pthread_mutex_lock(&pool->lock);
    *pool->tail = io;
    pool->tail = &io->next;
    pool->queued++;
    /* An idle thread that was woken for the job before this one still counts as idle. */
    if (pool->queued > pool->idle && pool->nthreads < pool->max_threads &&
        thread_start(&pool->threads[pool->nthreads], pool_main, pool) == 0)
        pool->nthreads++;
    if (pool->nthreads == 0) { /* no thread at all can be had: better slow than not */
        pool->head = NULL;
        pool->tail = &pool->head;
        pool->queued = 0;
        work(arg);
        io_finish(pool, io);
        pthread_mutex_unlock(&pool->lock);
        return;
    }
    pthread_mutex_unlock(&pool->lock);
    pthread_cond_signal(&pool->wakeup); /* who wakes finds the lock free */
}

static void near_done(void *arg)
{
    struct engine_io *io = arg;
    io->done(io->arg);
}

/* One job that takes NEAR_SHARE times the average that is allowed closes it as many a
 * little slow ones do. It stays closed for so long that jobs that are all as slow as this
 * one take a hundredth of the loop's time. What took very long counts as NEAR_SLOW: it may
 * have been this process that was stopped. */
static void near_measure(struct engine_near *near, uint64_t took, uint64_t now)
{
    if (took > NEAR_SLOW)
        took = NEAR_SLOW;
    uint64_t closed = took * 100;

    near->average += took / NEAR_SHARE - near->average / NEAR_SHARE;
    if (near->average <= NEAR_MAX)
        return;
    near->average = 0;
    near->closed_till = now + (closed > NEAR_CLOSED ? closed : NEAR_CLOSED);
}

bool engine_io_is_near(const struct engine_near *near)
{
    return util_clock_now() >= near->closed_till;
}

void engine_io_near(struct engine_iopool *pool, struct engine_near *near,
                    struct engine_io *io, void (*work)(void *arg), void (*done)(void *arg),
                    void *arg)
{
    uint64_t begun = util_clock_now(), now;

    if (begun < near->closed_till) {
        engine_io_submit(pool, io, work, done, arg);
        return;
    }
    work(arg);
    now = util_clock_now();
    near_measure(near, now - begun, now);
    io->done = done;
    io->arg = arg;
    net_loop_post(pool->loop, &io->post, near_done, io);
}

static void *spawn_main(void *arg)
{
    struct engine_io *io = arg;
    struct engine_iopool *pool = io->pool;

    if (pool->thread_enter)
        pool->thread_enter();
    io->work(io->arg);
    pthread_mutex_lock(&pool->lock);
    /* The owner sets `closing` under the lock before it destroys the loop. */
    if (pool->closing)
        free(io);
    else
        io_finish(pool, io);
    pool_unref_unlock(pool);
    return NULL;
}

int engine_io_spawn(struct engine_iopool *pool, struct engine_io *io,
                    void (*work)(void *arg), void (*done)(void *arg), void *arg)
{
    pthread_t thread;

    io->work = work;
    io->done = done;
    io->arg = arg;
    io->pool = pool;
    pthread_mutex_lock(&pool->lock);
    pool->refs++;
    pthread_mutex_unlock(&pool->lock);
    if (thread_start(&thread, spawn_main, io) < 0) {
        int saved = errno;
        pthread_mutex_lock(&pool->lock);
        pool_unref_unlock(pool);
        errno = saved;
        return -1;
    }
    pthread_detach(thread);
    return 0;
}
