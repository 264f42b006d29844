/*
 * run_unsafe.h - what of this host lets other users or hosts at the files and processes of a session
 *
 * Not for multi-threaded use.
 */
#ifndef DYAD_TOOLS_RUN_UNSAFE_H
#define DYAD_TOOLS_RUN_UNSAFE_H

#include <stdio.h>

#include "config/config.h"

#define RUN_UNSAFE_FOUND 1 /* exit status of --check */
#define RUN_UNSAFE_USAGE 2 /* the same: called wrongly, or a variable has a bad value */

/* Look at what config names, and at the network; starts and makes nothing. A line to `out` for each thing, which says "ok: ", or
 * "unsafe on HOST: " and what to do. Returns how many are unsafe. */
unsigned run_unsafe(const struct engine_config *config, FILE *out);

#endif
