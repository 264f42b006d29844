/*
 * fake_clock.c - see fake_clock.h
 */
#include "fake_clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>
#include <utlist.h>

#include "net/loop.h"

struct net_timer {
    struct net_timer *prev, *next; /* utlist */
    net_loop_fn fn;
    void *arg;
    uint64_t at; /* 0: not set */
};

uint64_t fake_now;
static struct net_timer *timers;

int clock_gettime(clockid_t clock, struct timespec *ts)
{
    (void)clock;
    ts->tv_sec = (time_t)(fake_now / UTIL_NSEC_PER_SEC);
    ts->tv_nsec = (long)(fake_now % UTIL_NSEC_PER_SEC);
    return 0;
}

struct net_timer *net_timer_create(struct net_loop *loop, net_loop_fn fn, void *arg)
{
    struct net_timer *timer = calloc(1, sizeof(*timer));

    (void)loop;
    assert_non_null(timer);
    timer->fn = fn;
    timer->arg = arg;
    DL_APPEND(timers, timer);
    return timer;
}

void net_timer_start(struct net_timer *timer, uint64_t when_ns)
{
    timer->at = when_ns;
}

void net_timer_stop(struct net_timer *timer)
{
    timer->at = 0;
}

void net_timer_destroy(struct net_timer *timer)
{
    if (!timer)
        return;
    DL_DELETE(timers, timer);
    free(timer);
}

void fake_clock_begin(uint64_t now)
{
    struct net_timer *timer, *tmp;

    DL_FOREACH_SAFE(timers, timer, tmp)
    {
        net_timer_destroy(timer);
    }
    fake_now = now;
}

void fake_clock_end(void)
{
    assert_null(timers);
}

static struct net_timer *next_timer(void)
{
    struct net_timer *timer, *next = NULL;

    DL_FOREACH(timers, timer)
    {
        if (timer->at != 0 && (!next || timer->at < next->at))
            next = timer;
    }
    return next;
}

uint64_t fake_clock_next(void)
{
    const struct net_timer *next = next_timer();

    return next ? next->at : 0;
}

bool fake_clock_step(uint64_t end)
{
    struct net_timer *next = next_timer();
    bool is_due = next && next->at <= end;
    uint64_t to = is_due ? next->at : end;

    if (fake_now < to)
        fake_now = to;
    if (!is_due)
        return false;
    next->at = 0;
    next->fn(next->arg);
    return true;
}

void fake_clock_pass(uint64_t ns)
{
    uint64_t end = fake_now + ns;

    while (fake_clock_step(end))
        ;
}
