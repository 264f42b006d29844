/*
 * crash.c - the end, at a place that a test has chosen
 *
 * Empty in any build but that of test/integration/test_crash_points.sh.
 */
#include "util/crash.h"

#ifdef DYAD_CRASH_POINTS
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void util_crash_point(const char *name, unsigned *times)
{
    const char *wanted = getenv("DYAD_CRASH");
    size_t n = strlen(name);
    unsigned at;

    if (!wanted || strncmp(wanted, name, n) != 0 || (wanted[n] && wanted[n] != ':'))
        return;
    at = wanted[n] ? (unsigned)strtoul(wanted + n + 1, NULL, 10) : 1;
    if (__atomic_add_fetch(times, 1, __ATOMIC_RELAXED) == at)
        kill(getpid(), SIGKILL);
}
#else
typedef int util_crash_nothing; /* ISO C wants something in each file */
#endif
