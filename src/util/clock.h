/*
 * util/clock.h - the one clock that deadlines are counted in
 */
#ifndef DYAD_UTIL_CLOCK_H
#define DYAD_UTIL_CLOCK_H

#include <stdint.h>
#include <time.h>

#define UTIL_NSEC_PER_SEC  1000000000ull
#define UTIL_NSEC_PER_MSEC 1000000ull

/* CLOCK_MONOTONIC in nanoseconds. Async-signal-safe. */
static inline uint64_t util_clock_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * UTIL_NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* The same clock as of its last tick (1 to 10 ms ago), for a third of the cost: compare
 * its times only with its own. Async-signal-safe. */
static inline uint64_t util_clock_coarse(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
    return (uint64_t)ts.tv_sec * UTIL_NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* CLOCK_REALTIME in nanoseconds since 1970: only to compare what nodes did, as far as their
 * clocks agree; it may jump. Async-signal-safe. */
static inline uint64_t util_clock_wall_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (uint64_t)ts.tv_sec * UTIL_NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* The same in microseconds. */
static inline uint64_t util_clock_wall(void)
{
    return util_clock_wall_ns() / 1000u;
}

/* Move a moment in the past by ns in which this process did not run; not into the future.
 */
static inline uint64_t util_clock_moved(uint64_t when, uint64_t ns, uint64_t now)
{
    return now - when > ns ? when + ns : now;
}

#endif
