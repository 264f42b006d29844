/*
 * loop.c - epoll, a heap of timers, a lock-free queue of posts and SIGURG as its doorbell
 *
 * One turn: notice if this thread stood still, run what was posted, fire the timers that
 * are due, call progress until it has nothing to do, arm it, sleep in epoll until an
 * event or the next timer, dispatch the events.
 *
 * A post that did not wake the loop would wait for ever: the section "posts" says why
 * none is lost, and answer_doorbell() what the program can do to the signal.
 */
#include "net/loop.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/clock.h"

#define EVENTS_AT_ONCE 64

struct net_watch {
    struct net_loop *loop;
    struct net_watch *next_dead;
    int fd;
    net_watch_fn fn; /* NULL: destroyed while events of its batch were being dispatched */
    void *arg;
};

struct net_timer {
    struct net_loop *loop;
    net_loop_fn fn;
    void *arg;
    uint64_t when;
    size_t index; /* in the heap, from 1; 0: not running */
};

struct net_loop {
    /* Written by any thread. */
    _Atomic(struct net_post *) posts;

    /* Immutable. */
    pthread_t thread;
    pid_t pid, tid;
    int epoll;
    int doorbell;

    /* The loop's thread only. */
    bool stop;
    bool dispatching;
    bool no_pwait2; /* the kernel has no epoll_pwait2 */
    struct net_watch *dead;
    struct net_timer **heap; /* heap[1] is the earliest */
    size_t heap_len, heap_size;
    size_t timers; /* that exist; the heap has room for all, so starting one cannot fail */
    unsigned (*progress)(void *arg);
    bool (*arm)(void *arg);
    void *progress_arg;
    uint64_t poll_for, poll_until; /* ns after an event; when that is over */
    uint64_t pulse, pulse_at;      /* its period, or 0; when it is due */
    net_loop_still_fn still;
    void *still_arg;
};

static void ring(pid_t pid, pid_t tid)
{
    int saved = errno;

    syscall(SYS_tgkill, pid, tid, SIGURG);
    errno = saved;
}

struct net_loop *net_loop_create(void)
{
    struct net_loop *loop = calloc(1, sizeof(*loop));
    struct epoll_event event = {.events = EPOLLIN};
    sigset_t mask;

    if (!loop)
        return NULL;
    atomic_init(&loop->posts, NULL);
    loop->thread = pthread_self();
    loop->pid = getpid();
    loop->tid = (pid_t)syscall(SYS_gettid);

    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll < 0)
        goto free_loop;
    sigemptyset(&mask);
    sigaddset(&mask, SIGURG);
    loop->doorbell = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (loop->doorbell < 0)
        goto close_epoll;
    event.data.ptr = loop; /* no watch has this address */
    if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, loop->doorbell, &event) < 0)
        goto close_doorbell;
    return loop;

close_doorbell:
    close(loop->doorbell);
close_epoll:
    close(loop->epoll);
free_loop:
    free(loop);
    return NULL;
}

void net_loop_destroy(struct net_loop *loop)
{
    if (!loop)
        return;
    close(loop->doorbell);
    close(loop->epoll);
    free(loop->heap);
    free(loop);
}

void net_loop_stop(struct net_loop *loop)
{
    loop->stop = true;
}

/* --- posts --- */

/* A stack that posters push with compare-and-swap and the loop takes whole with one
 * exchange and turns round, which keeps each poster's order. The push is a release and
 * the exchange an acquire, so what the poster wrote is seen by fn; nothing is ever popped
 * singly, so there is no ABA.
 *
 * Whoever pushes on the empty stack rings. No wake-up is lost: the loop looks at the
 * stack before it sleeps; a push that it did not see found the stack empty (or came after
 * one that did), and that poster's SIGURG is either pending already, which makes the
 * signalfd readable and epoll return at once, or wakes it. A ring that comes after its
 * post has been taken costs one needless turn. */

void net_loop_post(struct net_loop *loop, struct net_post *node, net_loop_fn fn, void *arg)
{
    struct net_post *head = atomic_load_explicit(&loop->posts, memory_order_relaxed);
    bool own_thread = pthread_equal(pthread_self(), loop->thread);
    pid_t pid = loop->pid, tid = loop->tid;

    node->fn = fn;
    node->arg = arg;
    do
        node->next = head;
    while (!atomic_compare_exchange_weak_explicit(
        &loop->posts, &head, node, memory_order_release, memory_order_relaxed));
    /* From here on node and loop may be gone: fn may have been the one that ends the loop.
     * The loop's own thread need not be rung: it looks before it sleeps. */
    if (!head && !own_thread)
        ring(pid, tid);
}

void net_loop_ring(struct net_loop *loop)
{
    if (atomic_load_explicit(&loop->posts, memory_order_relaxed))
        ring(loop->pid, loop->tid);
}

static bool posted(struct net_loop *loop)
{
    return atomic_load_explicit(&loop->posts, memory_order_relaxed) != NULL;
}

static void run_posts(struct net_loop *loop)
{
    if (!posted(loop))
        return;

    struct net_post *stack =
        atomic_exchange_explicit(&loop->posts, NULL, memory_order_acquire);
    struct net_post *queue = NULL;
    while (stack) {
        struct net_post *next = stack->next;
        stack->next = queue;
        queue = stack;
        stack = next;
    }
    while (queue) {
        struct net_post *next = queue->next; /* fn may free the node or post it again */
        queue->fn(queue->arg);
        queue = next;
    }
}

/* Empty the doorbell. A signal that we did not send was meant for the program.
 *
 * The signal is blocked in the loop's thread, so the kernel keeps it whatever the program
 * has set for SIGURG (a blocked signal is not discarded even if it is ignored), and no
 * handler of the program runs, since tgkill names our thread. Two things could go wrong.
 * A signalfd also takes a signal that was sent to the whole process when every thread of
 * the program blocks it: such a one is passed on to the program's main thread here. And
 * sigaction(SIGURG, SIG_IGN or SIG_DFL) makes the kernel discard a SIGURG that is pending
 * in any thread at that moment: who waits for a posted operation for long calls
 * net_loop_ring(). */
static void answer_doorbell(struct net_loop *loop)
{
    struct signalfd_siginfo info;

    while (read(loop->doorbell, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_code != SI_TKILL)
            ring(loop->pid, loop->pid);
    }
}

/* --- timers: a binary heap --- */

static void heap_put(struct net_loop *loop, size_t i, struct net_timer *timer)
{
    loop->heap[i] = timer;
    timer->index = i;
}

/* Place the timer at hole i, or above or below it, where the heap's order wants it. */
static void heap_place(struct net_loop *loop, size_t i, struct net_timer *timer)
{
    while (i > 1 && loop->heap[i / 2]->when > timer->when) {
        heap_put(loop, i, loop->heap[i / 2]);
        i /= 2;
    }
    for (size_t child; (child = 2 * i) <= loop->heap_len; i = child) {
        if (child < loop->heap_len && loop->heap[child + 1]->when < loop->heap[child]->when)
            child++;
        if (loop->heap[child]->when >= timer->when)
            break;
        heap_put(loop, i, loop->heap[child]);
    }
    heap_put(loop, i, timer);
}

struct net_timer *net_timer_create(struct net_loop *loop, net_loop_fn fn, void *arg)
{
    struct net_timer *timer = calloc(1, sizeof(*timer));

    if (!timer)
        return NULL;
    if (loop->timers + 1 >= loop->heap_size) {
        size_t size = loop->heap_size ? 2 * loop->heap_size : 16;
        struct net_timer **heap = realloc(loop->heap, size * sizeof(*heap));
        if (!heap) {
            free(timer);
            return NULL;
        }
        loop->heap = heap;
        loop->heap_size = size;
    }
    loop->timers++;
    timer->loop = loop;
    timer->fn = fn;
    timer->arg = arg;
    return timer;
}

void net_timer_start(struct net_timer *timer, uint64_t when_ns)
{
    struct net_loop *loop = timer->loop;

    timer->when = when_ns;
    heap_place(loop, timer->index ? timer->index : ++loop->heap_len, timer);
}

void net_timer_stop(struct net_timer *timer)
{
    struct net_loop *loop = timer->loop;
    size_t i = timer->index;

    if (!i)
        return;
    timer->index = 0;
    struct net_timer *last = loop->heap[loop->heap_len--];
    if (last != timer)
        heap_place(loop, i, last);
}

void net_timer_destroy(struct net_timer *timer)
{
    if (!timer)
        return;
    net_timer_stop(timer);
    timer->loop->timers--;
    free(timer);
}

/* Fire what is due now. One that starts itself again in the past waits for the next turn.
 */
static void run_timers(struct net_loop *loop)
{
    if (loop->heap_len == 0)
        return;

    uint64_t now = util_clock_now();
    for (size_t n = loop->heap_len; n > 0 && loop->heap_len > 0 && !loop->stop; n--) {
        struct net_timer *timer = loop->heap[1];
        if (timer->when > now)
            break;
        net_timer_stop(timer);
        timer->fn(timer->arg);
    }
}

/* --- standing still --- */

void net_loop_set_pulse(struct net_loop *loop, uint64_t period, net_loop_still_fn fn,
                        void *arg)
{
    loop->pulse = period;
    loop->pulse_at = util_clock_now() + period;
    loop->still = fn;
    loop->still_arg = arg;
}

/* Only the kernel, or a stop of this process, makes the loop late by that much. */
static void feel_pulse(struct net_loop *loop)
{
    uint64_t now, due = loop->pulse_at;

    if (!loop->pulse || (now = util_clock_now()) < due)
        return;
    loop->pulse_at = now + loop->pulse;
    if (now - due > loop->pulse / 2)
        loop->still(loop->still_arg, now - due);
}

/* When to wake at the latest; 0: not by time. */
static uint64_t wake_at(const struct net_loop *loop)
{
    uint64_t when = loop->pulse ? loop->pulse_at : 0;

    if (loop->heap_len > 0 && (!when || loop->heap[1]->when < when))
        when = loop->heap[1]->when ? loop->heap[1]->when : 1;
    return when;
}

/* --- watches --- */

struct net_watch *net_loop_watch(struct net_loop *loop, int fd, uint32_t events,
                                 net_watch_fn fn, void *arg)
{
    struct net_watch *watch = calloc(1, sizeof(*watch));
    struct epoll_event event = {.events = events, .data.ptr = watch};

    if (!watch)
        return NULL;
    watch->loop = loop;
    watch->fd = fd;
    watch->fn = fn;
    watch->arg = arg;
    if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
        free(watch);
        return NULL;
    }
    return watch;
}

int net_watch_modify(struct net_watch *watch, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};

    return epoll_ctl(watch->loop->epoll, EPOLL_CTL_MOD, watch->fd, &event);
}

void net_watch_destroy(struct net_watch *watch)
{
    if (!watch)
        return;

    struct net_loop *loop = watch->loop;
    epoll_ctl(loop->epoll, EPOLL_CTL_DEL, watch->fd, NULL);
    if (!loop->dispatching) {
        free(watch);
        return;
    }
    watch->fn = NULL; /* an event of it may be further on in the batch */
    watch->next_dead = loop->dead;
    loop->dead = watch;
}

void net_loop_set_progress(struct net_loop *loop, unsigned (*progress)(void *arg),
                           bool (*arm)(void *arg), void *arg)
{
    loop->progress = progress;
    loop->arm = arm;
    loop->progress_arg = arg;
}

/* --- the turn --- */

void net_loop_set_polling(struct net_loop *loop, uint64_t ns)
{
    loop->poll_for = ns;
}

/* Something has happened, so more may soon. */
static void poll_on(struct net_loop *loop)
{
    if (loop->poll_for)
        loop->poll_until = util_clock_now() + loop->poll_for;
}

static bool polls(const struct net_loop *loop)
{
    return loop->poll_for && util_clock_now() < loop->poll_until;
}

/* Sleep until an event or the earliest timer. */
static int wait_events(struct net_loop *loop, struct epoll_event *events)
{
    uint64_t left = 0, when = wake_at(loop);

    if (when) {
        uint64_t now = util_clock_now();
        left = when > now ? when - now : 0;
    }
#ifdef SYS_epoll_pwait2
    if (!loop->no_pwait2) {
        /* time64 layout whatever time_t is, hence not the libc's own wrapper (glibc >= 2.35
         * only) */
        struct {
            int64_t sec, nsec;
        } timeout = {(int64_t)(left / UTIL_NSEC_PER_SEC),
                     (int64_t)(left % UTIL_NSEC_PER_SEC)};
        int n = (int)syscall(SYS_epoll_pwait2, loop->epoll, events, EVENTS_AT_ONCE,
                             when ? &timeout : NULL, NULL, 0);
        if (n >= 0 || (errno != ENOSYS && errno != EPERM))
            return n;
        loop->no_pwait2 =
            true; /* a kernel before 5.11, or a seccomp filter older than it */
    }
#endif
    int ms = -1;
    if (when) {
        uint64_t up = (left + UTIL_NSEC_PER_MSEC - 1) / UTIL_NSEC_PER_MSEC;
        ms = up < INT32_MAX ? (int)up : INT32_MAX;
    }
    return epoll_wait(loop->epoll, events, EVENTS_AT_ONCE, ms);
}

static void dispatch(struct net_loop *loop, const struct epoll_event *events, int n)
{
    loop->dispatching = true;
    for (int i = 0; i < n && !loop->stop; i++) {
        if (events[i].data.ptr == loop) {
            answer_doorbell(loop);
            continue;
        }
        struct net_watch *watch = events[i].data.ptr;
        if (watch->fn)
            watch->fn(watch->arg, watch->fd, events[i].events);
    }
    loop->dispatching = false;
    while (loop->dead) {
        struct net_watch *next = loop->dead->next_dead;
        free(loop->dead);
        loop->dead = next;
    }
}

int net_loop_run(struct net_loop *loop)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    int rc = 0;

    while (!loop->stop) {
        feel_pulse(loop);
        run_posts(loop);
        if (loop->stop)
            break;
        run_timers(loop);
        while (!loop->stop && loop->progress && loop->progress(loop->progress_arg) > 0) {
            /* Posts and timers do not wait for a flood of messages to end. */
            feel_pulse(loop);
            run_posts(loop);
            if (!loop->stop)
                run_timers(loop);
            poll_on(loop);
        }
        if (loop->stop || posted(loop))
            continue;

        int n;
        if (polls(loop)) {
            n = epoll_wait(loop->epoll, events, EVENTS_AT_ONCE, 0);
            if (n == 0)
                sched_yield(); /* a program that has no core to itself goes first */
            else if (loop->arm)
                loop->arm(
                    loop->progress_arg); /* it empties a descriptor that is an event */
        } else if (loop->arm && !loop->arm(loop->progress_arg)) {
            continue;
        } else {
            n = wait_events(loop, events);
        }
        if (n < 0 && errno != EINTR) {
            rc = -1;
            break;
        }
        if (n > 0)
            poll_on(loop);
        feel_pulse(loop);
        dispatch(loop, events, n);
    }
    loop->stop = false;
    return rc;
}
