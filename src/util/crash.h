/*
 * util/crash.h - places where a test may kill the process
 *
 * DYAD_CRASH_POINT("name") is nothing, unless the build has the option DYAD_CRASH_POINTS
 * (for a test only). Then DYAD_CRASH=RANK/[abort:]name[:N][,...] names the places where
 * processes of these ranks end by SIGKILL, at the first or N-th time that they come
 * there; with abort: they call abort(), as UCX does when a check of its own fails. Each
 * copy of the library counts for itself. DYAD_CRASH_ONCE names a file: then the process
 * ends at the first of these times or later at which the file exists, and removes it.
 */
#ifndef DYAD_UTIL_CRASH_H
#define DYAD_UTIL_CRASH_H

#ifdef DYAD_CRASH_POINTS
#define DYAD_CRASH_POINT(name)                     \
    do {                                           \
        static unsigned dyad_crash_times;          \
        util_crash_point(name, &dyad_crash_times); \
    } while (0)
void util_crash_point(const char *name, unsigned *times);
#else
#define DYAD_CRASH_POINT(name) ((void)0)
#endif

#endif
