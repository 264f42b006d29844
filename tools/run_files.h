/*
 * run_files.h - publish files, or wait for them, on behalf of a program that cannot be
 * preloaded
 */
#ifndef DYAD_TOOLS_RUN_FILES_H
#define DYAD_TOOLS_RUN_FILES_H

#include <stdbool.h>

/* Through the C API (dyad.h) of the library that lies beside `wrapper`, as a process of
 * this rank: publish, or wait for and fetch, each of files (NULL ends them). One line on
 * stderr for each that fails. Returns an exit status: 0, 1 if one failed, RUN_EXIT_FAILURE
 * if the session cannot be joined. Not for multi-threaded use. */
int run_files(const char *wrapper, bool publish, char *const files[]);

#endif
