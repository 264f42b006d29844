/*
 * sanitizer.c - programs that were built with a sanitizer
 *
 * AddressSanitizer's runtime, where it is a shared library, ends the program unless it
 * comes before all others, but for an option: the order does not matter here, since each of
 * its functions and of ours calls the next one of that name.
 *
 * ThreadSanitizer's does not see the atomic operations of what was not built with it, and
 * takes for a race what they order. So it is told not to look while a thread is in the
 * engine. (The engine's own threads are no business of its: no process with that runtime
 * has any, client/client_library.c.)
 */
#include "wrapper/sanitizer.h"

#ifndef DYAD_SANITIZED /* else tests set it, and the runtime is to look */

__attribute__((visibility("default"))) const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "verify_asan_link_order=0";
}

/* The runtime's, in the program or beside it; NULL: there is none. */
void AnnotateIgnoreReadsBegin(const char *file, int line) __attribute__((weak));
void AnnotateIgnoreReadsEnd(const char *file, int line) __attribute__((weak));
void AnnotateIgnoreWritesBegin(const char *file, int line) __attribute__((weak));
void AnnotateIgnoreWritesEnd(const char *file, int line) __attribute__((weak));

void wrapper_sanitizer_leave_alone(bool begins)
{
    if (!AnnotateIgnoreReadsBegin || !AnnotateIgnoreReadsEnd ||
        !AnnotateIgnoreWritesBegin || !AnnotateIgnoreWritesEnd)
        return;
    (begins ? AnnotateIgnoreReadsBegin : AnnotateIgnoreReadsEnd)(__FILE__, __LINE__);
    (begins ? AnnotateIgnoreWritesBegin : AnnotateIgnoreWritesEnd)(__FILE__, __LINE__);
}

#else

void wrapper_sanitizer_leave_alone(bool begins)
{
    (void)begins;
}

#endif
