/*
 * crash.c - the end, at a place that a test has chosen
 *
 * Empty in any build but that of test/integration/test_crash_points.sh.
 */
#include "util/crash.h"

#ifdef DYAD_CRASH_POINTS
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void util_crash_point(const char *name, unsigned *times)
{
    const char *at = getenv("DYAD_CRASH"), *rank = getenv("PMIX_RANK");
    const char *once = getenv("DYAD_CRASH_ONCE");
    size_t rank_len = rank ? strlen(rank) : 0, name_len = strlen(name);
    unsigned time = __atomic_add_fetch(times, 1, __ATOMIC_RELAXED);

    for (; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        if (strncmp(at, rank ? rank : "", rank_len) != 0 || at[rank_len] != '/')
            continue;
        const char *point = at + rank_len + 1;
        bool aborts = strncmp(point, "abort:", 6) == 0;
        point += aborts ? 6 : 0;
        if (strncmp(point, name, name_len) != 0)
            continue;
        const char *end = point + name_len;
        unsigned wanted = *end == ':' ? (unsigned)strtoul(end + 1, NULL, 10) : 1;
        if ((*end == ':' || *end == ',' || !*end) &&
            (once ? time >= wanted && unlink(once) == 0 : time == wanted)) {
            if (aborts)
                abort();
            kill(getpid(), SIGKILL);
        }
    }
}
#else
typedef int util_crash_nothing; /* ISO C wants something in each file */
#endif
