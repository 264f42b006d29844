/*
 * run_thread.h - does a program have ThreadSanitizer?
 *
 * Such a program cannot be the first process of its rank, which the library's threads run
 * in: dyad-run starts it from a shell. Not for multi-threaded use.
 */
#ifndef DYAD_TOOLS_RUN_THREAD_H
#define DYAD_TOOLS_RUN_THREAD_H

#include <stdbool.h>

/* True if the executable at `path` was linked with it, by its dynamic symbols. False if
 * that is no ELF file of this machine's kind, or cannot be read. */
bool run_thread_sanitized(const char *path);

#endif
