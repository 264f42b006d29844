/*
 * run_thread.h - does a program have ThreadSanitizer?
 *
 * Such a program cannot be the first process of its rank, which the library's threads run
 * in: dyad-run starts it from a shell. Not for multi-threaded use.
 */
#ifndef DYAD_TOOLS_RUN_THREAD_H
#define DYAD_TOOLS_RUN_THREAD_H

#include <stdbool.h>

/* Was the executable at `path` linked with it, as far as its dynamic symbols say? False of
 * what is no ELF file of this machine's kind, or cannot be read. */
bool run_thread_sanitized(const char *path);

#endif
