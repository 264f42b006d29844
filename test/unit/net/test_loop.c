/*
 * test_loop.c - posts from many threads, the doorbell in hostile signal settings, timers,
 * watches
 *
 * Every run of a loop is bounded by a guard timer that fails the test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "net/loop.h"
#include "util/clock.h"

#define BOUND   (20 * UTIL_NSEC_PER_SEC)
#define POSTERS 4
#define POSTS   20000

static bool timed_out;

static void stop(void *loop)
{
    net_loop_stop(loop);
}

static void give_up(void *loop)
{
    timed_out = true;
    net_loop_stop(loop);
}

/* Run until somebody stops the loop; fails if nobody does. */
static void run(struct net_loop *loop)
{
    struct net_timer *guard = net_timer_create(loop, give_up, loop);

    timed_out = false;
    net_timer_start(guard, util_clock_now() + BOUND);
    assert_int_equal(net_loop_run(loop), 0);
    assert_false(timed_out);
    net_timer_destroy(guard);
}

static void block_all(sigset_t *old)
{
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, old);
}

/* The calling thread becomes the loop's. */
static int setup(void **state)
{
    block_all(NULL);
    *state = net_loop_create();
    return *state ? 0 : -1;
}

static int teardown(void **state)
{
    sigset_t none;

    net_loop_destroy(*state);
    sigemptyset(&none);
    return pthread_sigmask(SIG_SETMASK, &none, NULL);
}

/* --- posts --- */

struct poster {
    struct net_loop *loop;
    pthread_t thread;
    unsigned *arrived; /* posts of all that have run */
    unsigned last;
    bool disorder;
    struct item {
        struct net_post post;
        struct poster *poster;
        unsigned number;
    } items[POSTS];
};

static void on_item(void *arg)
{
    struct item *item = arg;
    struct poster *poster = item->poster;

    if (item->number != poster->last + 1)
        poster->disorder = true;
    poster->last = item->number;
    if (++*poster->arrived == POSTERS * POSTS)
        net_loop_stop(poster->loop);
}

static void *post_all(void *arg)
{
    struct poster *poster = arg;

    for (unsigned i = 0; i < POSTS; i++) {
        struct item *item = &poster->items[i];
        item->poster = poster;
        item->number = i + 1;
        errno = 77;
        net_loop_post(poster->loop, &item->post, on_item, item);
        if (errno != 77)
            abort();
        if (i % 64 == 0)
            sched_yield(); /* so that the loop sleeps in between and must be woken */
    }
    return NULL;
}

static void test_posts(void **state)
{
    struct poster *posters = calloc(POSTERS, sizeof(*posters));
    unsigned arrived = 0;

    for (int i = 0; i < POSTERS; i++) {
        posters[i].loop = *state;
        posters[i].arrived = &arrived;
        assert_int_equal(pthread_create(&posters[i].thread, NULL, post_all, &posters[i]),
                         0);
    }
    run(*state);
    for (int i = 0; i < POSTERS; i++) {
        pthread_join(posters[i].thread, NULL);
        assert_false(posters[i].disorder);
        assert_int_equal(posters[i].last, POSTS);
    }
    assert_int_equal(arrived, POSTERS * POSTS);
    free(posters);
}

/* A post may free its node, or post it again. */
struct again {
    struct net_post post;
    struct net_loop *loop;
    int left;
};

static void on_again(void *arg)
{
    struct again *again = arg;

    if (again->left-- > 0) {
        net_loop_post(again->loop, &again->post, on_again, again);
        return;
    }
    net_loop_stop(again->loop);
    free(again);
}

static void test_post_again(void **state)
{
    struct again *again = malloc(sizeof(*again));

    again->loop = *state;
    again->left = 1000;
    net_loop_post(again->loop, &again->post, on_again, again);
    run(*state);
}

/* --- the doorbell: a loop in a thread of its own, and a program that does things with
 * SIGURG --- */

struct remote {
    struct net_loop *loop;
    pthread_t thread;
    sem_t ready, done;
};

static void *run_remote(void *arg)
{
    struct remote *remote = arg;

    remote->loop = net_loop_create();
    sem_post(&remote->ready);
    if (!remote->loop || net_loop_run(remote->loop) != 0)
        abort();
    net_loop_destroy(remote->loop);
    return NULL;
}

static void remote_start(struct remote *remote)
{
    sigset_t old;

    sem_init(&remote->ready, 0, 0);
    sem_init(&remote->done, 0, 0);
    block_all(&old); /* the thread inherits it */
    assert_int_equal(pthread_create(&remote->thread, NULL, run_remote, remote), 0);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    sem_wait(&remote->ready);
}

static void on_remote(void *arg)
{
    sem_post(arg);
}

static void wait_bounded(sem_t *sem)
{
    struct timespec end;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 20;
    int rc;
    do
        rc = sem_timedwait(sem, &end);
    while (rc < 0 && errno == EINTR);
    assert_int_equal(rc, 0);
}

/* One post at a time, each of which finds the loop asleep or going to sleep. */
static void remote_ping(struct remote *remote, int times)
{
    struct net_post post;

    for (int i = 0; i < times; i++) {
        net_loop_post(remote->loop, &post, on_remote, &remote->done);
        wait_bounded(&remote->done);
    }
}

static void remote_end(struct remote *remote)
{
    struct net_post post;

    net_loop_post(remote->loop, &post, stop, remote->loop);
    pthread_join(remote->thread, NULL);
    sem_destroy(&remote->ready);
    sem_destroy(&remote->done);
}

static void test_doorbell_ignored(void **state)
{
    struct remote remote;

    (void)state;
    signal(SIGURG, SIG_IGN);
    remote_start(&remote);
    remote_ping(&remote, 2000);
    remote_end(&remote);
    signal(SIGURG, SIG_DFL);
}

static atomic_int handled;

static void on_urg(int signo)
{
    (void)signo;
    atomic_fetch_add(&handled, 1);
}

static void test_doorbell_handler(void **state)
{
    struct remote remote;
    struct sigaction action = {.sa_handler = on_urg}, old;

    (void)state;
    sigaction(SIGURG, &action, &old);
    remote_start(&remote);
    remote_ping(&remote, 2000);
    assert_int_equal(atomic_load(&handled), 0);
    raise(SIGURG); /* the program's own still work */
    assert_int_equal(atomic_load(&handled), 1);
    kill(getpid(), SIGURG);
    assert_int_equal(atomic_load(&handled), 2);
    remote_ping(&remote, 10);
    remote_end(&remote);
    sigaction(SIGURG, &old, NULL);
}

/* A program that has SIGURG blocked in every thread and takes it with sigwait still gets
 * it. */
static void test_doorbell_foreign(void **state)
{
    struct remote remote;
    sigset_t urg, old;
    struct timespec bound = {.tv_sec = 20};

    (void)state;
    sigemptyset(&urg);
    sigaddset(&urg, SIGURG);
    pthread_sigmask(SIG_BLOCK, &urg, &old);
    remote_start(&remote);
    remote_ping(&remote, 10);
    kill(getpid(), SIGURG);
    int rc;
    do
        rc = sigtimedwait(&urg, NULL, &bound);
    while (rc < 0 && errno == EINTR);
    assert_int_equal(rc, SIGURG);
    remote_ping(&remote, 10);
    remote_end(&remote);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

struct resetter {
    sem_t go;
    atomic_bool end;
};

/* The kernel drops a pending SIGURG when its disposition is set to "ignore": who rings
 * again is heard. */
static void *reset_urg(void *arg)
{
    struct resetter *resetter = arg;

    /* A burst for each post: one that never ends could keep any doorbell from being heard.
     */
    for (;;) {
        sem_wait(&resetter->go);
        if (atomic_load(&resetter->end))
            return NULL;
        for (int i = 0; i < 2000; i++)
            signal(SIGURG, SIG_IGN);
    }
}

static void test_doorbell_flushed(void **state)
{
    struct remote remote;
    struct net_post post;
    pthread_t thread;
    struct resetter resetter = {.end = false};

    (void)state;
    sem_init(&resetter.go, 0, 0);
    remote_start(&remote);
    assert_int_equal(pthread_create(&thread, NULL, reset_urg, &resetter), 0);
    for (int i = 0; i < 100; i++) {
        sem_post(&resetter.go);
        net_loop_post(remote.loop, &post, on_remote, &remote.done);
        for (int tries = 0;; tries++) {
            struct timespec soon;
            clock_gettime(CLOCK_REALTIME, &soon);
            soon.tv_nsec += 20000000;
            if (soon.tv_nsec >= 1000000000) {
                soon.tv_sec++;
                soon.tv_nsec -= 1000000000;
            }
            if (sem_timedwait(&remote.done, &soon) == 0)
                break;
            assert_true(tries < 500);
            net_loop_ring(remote.loop);
        }
    }
    atomic_store(&resetter.end, true);
    sem_post(&resetter.go);
    pthread_join(thread, NULL);
    sem_destroy(&resetter.go);
    remote_end(&remote);
    signal(SIGURG, SIG_DFL);
}

/* --- timers --- */

struct shot {
    struct net_timer *timer;
    struct net_loop *loop;
    uint64_t when;
    uint64_t *last; /* the one that fired before */
    unsigned *fired;
    bool bad;
    int again;
};

static void on_shot(void *arg)
{
    struct shot *shot = arg;

    shot->bad = shot->bad || util_clock_now() < shot->when || *shot->last > shot->when;
    *shot->last = shot->when;
    (*shot->fired)++;
}

static void test_timers(void **state)
{
    enum { N = 500 };
    static struct shot shots[N];
    uint64_t last = 0, start = util_clock_now();
    unsigned fired = 0, seed = 1;

    for (int i = 0; i < N; i++) {
        struct shot *shot = &shots[i];
        shot->timer = net_timer_create(*state, on_shot, shot);
        assert_non_null(shot->timer);
        shot->last = &last;
        shot->fired = &fired;
        shot->when = start + (uint64_t)(rand_r(&seed) % 50000) * 1000;
        net_timer_start(shot->timer, start + (uint64_t)rand_r(&seed) % 1000);
        net_timer_start(shot->timer, shot->when); /* moved */
    }
    for (int i = 0; i < N; i += 5)
        net_timer_stop(shots[i].timer);
    struct net_timer *end = net_timer_create(*state, stop, *state);
    net_timer_start(end, start + 60 * UTIL_NSEC_PER_MSEC);
    run(*state);
    assert_int_equal(fired, N - N / 5);
    for (int i = 0; i < N; i++) {
        assert_false(shots[i].bad);
        net_timer_destroy(shots[i].timer);
    }
    net_timer_destroy(end);
}

static void on_restart(void *arg)
{
    struct shot *shot = arg;

    if (--shot->again > 0)
        net_timer_start(shot->timer, 0); /* long past */
    else
        net_loop_stop(shot->loop);
}

static void on_event_count(void *arg, int fd, uint32_t events)
{
    uint64_t value;

    (void)events;
    assert_int_equal(read(fd, &value, sizeof(value)), sizeof(value));
    ++*(int *)arg;
}

/* A timer that is always due starves nobody. */
static void test_timer_restart(void **state)
{
    struct shot shot = {.loop = *state, .again = 1000};
    int fd = eventfd(1, EFD_NONBLOCK), seen = 0;
    struct net_watch *watch = net_loop_watch(*state, fd, EPOLLIN, on_event_count, &seen);

    shot.timer = net_timer_create(*state, on_restart, &shot);
    net_timer_start(shot.timer, 0);
    run(*state);
    assert_int_equal(shot.again, 0);
    assert_int_equal(seen, 1);
    net_timer_destroy(shot.timer);
    net_watch_destroy(watch);
    close(fd);
}

/* Nobody wakes an idle loop: one sleep until the one timer. */
static void test_idle(void **state)
{
    struct net_timer *end = net_timer_create(*state, stop, *state);
    struct rusage before, after;
    uint64_t start = util_clock_now();

    net_timer_start(end, start + 300 * UTIL_NSEC_PER_MSEC);
    getrusage(RUSAGE_THREAD, &before);
    run(*state);
    getrusage(RUSAGE_THREAD, &after);
    assert_true(util_clock_now() - start >= 300 * UTIL_NSEC_PER_MSEC);
    assert_in_range(after.ru_nvcsw - before.ru_nvcsw, 0, 3);
    net_timer_destroy(end);
}

struct pulse {
    struct net_loop *loop;
    struct net_timer *timer;
    unsigned told;
    uint64_t ns;
    bool first; /* it was told before the timer that was due fired */
};

static void stood_still(void *arg, uint64_t ns)
{
    struct pulse *pulse = arg;
    pulse->told++;
    pulse->ns += ns;
}

static void after_the_stop(void *arg)
{
    struct pulse *pulse = arg;
    pulse->first = pulse->told > 0;
    net_loop_stop(pulse->loop);
}

/* As if the process had been stopped. */
static void stand_still(void *arg)
{
    struct pulse *pulse = arg;
    struct timespec second = {.tv_sec = 1};

    net_timer_destroy(pulse->timer);
    pulse->timer = net_timer_create(pulse->loop, after_the_stop, pulse);
    net_timer_start(pulse->timer, util_clock_now() + 500 * UTIL_NSEC_PER_MSEC);
    nanosleep(&second, NULL);
}

/* It is told of a stop before anything else is done, and not of sleep. */
static void test_pulse(void **state)
{
    struct pulse pulse = {.loop = *state};

    pulse.timer = net_timer_create(*state, stand_still, &pulse);
    net_loop_set_pulse(*state, 400 * UTIL_NSEC_PER_MSEC, stood_still, &pulse);
    net_timer_start(pulse.timer, util_clock_now() + 1000 * UTIL_NSEC_PER_MSEC);
    run(*state);
    assert_int_equal(pulse.told, 1);
    assert_true(pulse.first);
    assert_in_range(pulse.ns, 500 * UTIL_NSEC_PER_MSEC, UTIL_NSEC_PER_SEC * 2);
    net_timer_destroy(pulse.timer);
}

/* --- watches --- */

struct trap {
    struct net_loop *loop;
    struct net_watch *watches[8];
    int fds[8];
    int calls;
};

/* The first one that is called destroys all, itself included; the others' events are there
 * already. */
static void on_trap(void *arg, int fd, uint32_t events)
{
    struct trap *trap = arg;

    (void)fd;
    assert_true(events & EPOLLIN);
    trap->calls++;
    for (int i = 0; i < 8; i++) {
        net_watch_destroy(trap->watches[i]);
        close(trap->fds[i]);
    }
    net_loop_stop(trap->loop);
}

static void test_watch_destroyed(void **state)
{
    struct trap trap = {.loop = *state};

    for (int i = 0; i < 8; i++) {
        trap.fds[i] = eventfd(1, EFD_NONBLOCK);
        trap.watches[i] = net_loop_watch(*state, trap.fds[i], EPOLLIN, on_trap, &trap);
        assert_non_null(trap.watches[i]);
    }
    run(*state);
    assert_int_equal(trap.calls, 1);
    assert_null(net_loop_watch(*state, trap.fds[0], EPOLLIN, on_trap, &trap));
    assert_int_equal(errno, EBADF);
}

struct pair {
    struct net_loop *loop;
    struct net_watch *other;
    int other_fd;
    int replaced, calls;
};

static void on_new(void *arg, int fd, uint32_t events)
{
    struct pair *pair = arg;

    (void)fd;
    (void)events;
    pair->calls++;
    net_loop_stop(pair->loop);
}

static void on_old(void *arg, int fd, uint32_t events)
{
    (void)arg;
    (void)fd;
    (void)events;
    fail_msg("a watch that was destroyed was called");
}

/* Replace the other watch on the same descriptor while its event is in the batch. */
static void on_replace(void *arg, int fd, uint32_t events)
{
    struct pair *pair = arg;
    uint64_t value;

    (void)events;
    assert_int_equal(read(fd, &value, sizeof(value)), sizeof(value));
    net_watch_destroy(pair->other);
    pair->other = net_loop_watch(pair->loop, pair->other_fd, EPOLLIN, on_new, pair);
    pair->replaced++;
}

static void test_watch_replaced(void **state)
{
    struct pair pair = {.loop = *state};
    int fd = eventfd(0, EFD_NONBLOCK);

    pair.other_fd = eventfd(0, EFD_NONBLOCK);
    struct net_watch *watch = net_loop_watch(*state, fd, EPOLLIN, on_replace, &pair);
    pair.other = net_loop_watch(*state, pair.other_fd, EPOLLIN, on_old, &pair);
    uint64_t one = 1;
    assert_int_equal(write(fd, &one, sizeof(one)), sizeof(one)); /* becomes ready first */
    assert_int_equal(write(pair.other_fd, &one, sizeof(one)), sizeof(one));
    run(*state);
    assert_int_equal(pair.replaced, 1);
    assert_int_equal(pair.calls, 1);
    net_watch_destroy(watch);
    net_watch_destroy(pair.other);
    close(fd);
    close(pair.other_fd);
}

static void test_watch_modify(void **state)
{
    int fd = eventfd(0, EFD_NONBLOCK), seen = 0;
    struct net_watch *watch = net_loop_watch(*state, fd, 0, on_event_count, &seen);
    struct net_timer *end = net_timer_create(*state, stop, *state);
    uint64_t one = 1;

    assert_int_equal(write(fd, &one, sizeof(one)), sizeof(one));
    net_timer_start(end, util_clock_now() + 5 * UTIL_NSEC_PER_MSEC);
    run(*state);
    assert_int_equal(seen, 0);
    assert_int_equal(net_watch_modify(watch, EPOLLIN), 0);
    net_timer_start(end, util_clock_now() + 5 * UTIL_NSEC_PER_MSEC);
    run(*state);
    assert_int_equal(seen, 1);
    net_watch_destroy(watch);
    net_timer_destroy(end);
    close(fd);
}

/* --- progress --- */

struct progress {
    struct net_loop *loop;
    int left, armed, refused, turns;
};

static unsigned do_progress(void *arg)
{
    struct progress *progress = arg;

    return progress->left > 0 ? (unsigned)progress->left-- : 0;
}

static bool do_arm(void *arg)
{
    struct progress *progress = arg;

    assert_int_equal(progress->left, 0);
    if (++progress->armed <= progress->refused) {
        progress->left = 3; /* something came in since */
        return false;
    }
    return true;
}

static void test_progress(void **state)
{
    struct progress progress = {.loop = *state, .left = 10, .refused = 5};
    struct net_timer *end = net_timer_create(*state, stop, *state);

    net_loop_set_progress(*state, do_progress, do_arm, &progress);
    net_timer_start(end, util_clock_now() + 5 * UTIL_NSEC_PER_MSEC);
    run(*state);
    assert_int_equal(progress.left, 0);
    assert_in_range(progress.armed, 6, 8);
    net_loop_set_progress(*state, NULL, NULL, NULL);
    net_timer_destroy(end);
}

static unsigned count_turn(void *arg)
{
    struct progress *progress = arg;

    if (++progress->turns == 100)
        net_loop_stop(progress->loop);
    return 0;
}

/* For so long after an event the loop does not sleep, and then it does. However long the machine stands still
 * meanwhile: the first run ends by turns, which a loop that sleeps does not take, and the second by a timer. */
static void test_polling(void **state)
{
    struct progress progress = {.loop = *state};
    struct net_timer *end = net_timer_create(*state, stop, *state);
    int fd = eventfd(1, EFD_NONBLOCK), seen = 0;
    struct net_watch *watch = net_loop_watch(*state, fd, EPOLLIN, on_event_count, &seen);

    net_loop_set_progress(*state, count_turn, do_arm, &progress);
    net_loop_set_polling(*state, 10 * BOUND);
    run(*state);
    assert_int_equal(seen, 1);
    assert_int_equal(progress.armed, 1); /* before the event */
    assert_int_equal(progress.turns, 100);
    progress.turns = 0;
    assert_int_equal(eventfd_write(fd, 1), 0);
    net_loop_set_polling(*state, 0);
    net_timer_start(end, util_clock_now() + 20 * UTIL_NSEC_PER_MSEC);
    run(*state);
    assert_int_equal(seen, 2);
    assert_in_range(progress.turns, 1, 10);
    net_loop_set_progress(*state, NULL, NULL, NULL);
    net_watch_destroy(watch);
    net_timer_destroy(end);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_posts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_post_again, setup, teardown),
        cmocka_unit_test(test_doorbell_ignored),
        cmocka_unit_test(test_doorbell_handler),
        cmocka_unit_test(test_doorbell_foreign),
        cmocka_unit_test(test_doorbell_flushed),
        cmocka_unit_test_setup_teardown(test_timers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_timer_restart, setup, teardown),
        cmocka_unit_test_setup_teardown(test_idle, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pulse, setup, teardown),
        cmocka_unit_test_setup_teardown(test_watch_destroyed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_watch_replaced, setup, teardown),
        cmocka_unit_test_setup_teardown(test_watch_modify, setup, teardown),
        cmocka_unit_test_setup_teardown(test_progress, setup, teardown),
        cmocka_unit_test_setup_teardown(test_polling, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
