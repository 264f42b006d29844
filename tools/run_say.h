/*
 * run_say.h - messages of dyad-run on standard error, and exits with a message
 *
 * Formats as of printf(3), without a newline; messages of up to 4 KiB. Not for
 * multi-threaded use.
 */
#ifndef DYAD_TOOLS_RUN_SAY_H
#define DYAD_TOOLS_RUN_SAY_H

#include <stdbool.h>

void run_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Say what is wrong, and exit with `status` (RUN_EXIT_*). */
void run_die(int status, const char *fmt, ...)
    __attribute__((format(printf, 2, 3), noreturn));
/* The status that stands for RUN_EXIT_FAILURE from now on. */
void run_fail_with(int status);
/* No warnings from now on, or again (DYAD_LOG=error). */
void run_be_quiet(bool quiet);

#endif
