/*
 * gate.c - a counter with a futex
 *
 * `state` counts who is inside, and SHUT for each thread that forks or is about to. Who
 * would enter a shut gate sleeps; who leaves one last wakes the forking threads. Both
 * re-check after every sleep, and each change that somebody may sleep for is followed by a
 * wake. Entering an open gate is one atomic addition, so is leaving.
 */
#include "wrapper/gate.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "util/clock.h"

#define SHUT         (1u << 20)
#define INSIDE(s)    ((s) & (SHUT - 1))
#define PATIENCE_NS  (5 * UTIL_NSEC_PER_SEC)
#define LOOK_AGAIN_S 1

static _Atomic uint32_t state;
static __thread unsigned depth __attribute__((tls_model("initial-exec")));

static void sleep_while(uint32_t seen, uint64_t ns)
{
    struct timespec ts = {.tv_sec = (time_t)(ns / UTIL_NSEC_PER_SEC),
                          .tv_nsec = (long)(ns % UTIL_NSEC_PER_SEC)};

    syscall(SYS_futex, &state, FUTEX_WAIT_PRIVATE, seen, &ts, NULL, 0);
}

static void wake(void)
{
    syscall(SYS_futex, &state, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

void wrapper_gate_enter(void)
{
    int saved = errno;
    uint32_t seen;

    if (depth++ > 0)
        return;
    seen = atomic_load_explicit(&state, memory_order_relaxed);
    for (;;) {
        if (seen < SHUT) {
            if (atomic_compare_exchange_weak(&state, &seen, seen + 1))
                break;
        } else {
            sleep_while(seen, LOOK_AGAIN_S * UTIL_NSEC_PER_SEC);
            seen = atomic_load(&state);
        }
    }
    errno = saved;
}

void wrapper_gate_leave(void)
{
    int saved = errno;
    uint32_t before;

    if (--depth > 0)
        return;
    before = atomic_fetch_sub(&state, 1);
    if (before > SHUT && INSIDE(before) == 1)
        wake();
    errno = saved;
}

void wrapper_gate_leave_cleanup(void *unused)
{
    (void)unused;
    wrapper_gate_leave();
}

void wrapper_gate_shut(void)
{
    uint64_t until = util_clock_now() + PATIENCE_NS, now;
    uint32_t self = depth > 0 ? 1 : 0, seen;
    int saved = errno;

    atomic_fetch_add(&state, SHUT);
    while (INSIDE(seen = atomic_load(&state)) > self && (now = util_clock_now()) < until)
        sleep_while(seen, until - now);
    errno = saved;
}

void wrapper_gate_open(void)
{
    int saved = errno;

    atomic_fetch_sub(&state, SHUT);
    wake();
    errno = saved;
}

void wrapper_gate_fork_child(void)
{
    atomic_store(&state, depth > 0 ? 1 : 0);
}
