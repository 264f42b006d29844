/*
 * run_library.h - the C API, for a dyad-run that runs no program
 */
#ifndef DYAD_TOOLS_RUN_LIBRARY_H
#define DYAD_TOOLS_RUN_LIBRARY_H

#include "dyad/dyad.h"

struct run_library { /* functions of dyad.h */
    dyad_rc_t (*init)(void);
    dyad_rc_t (*finalize)(void);
    dyad_rc_t (*produce)(const char *path);
    dyad_rc_t (*consume)(const char *path);
    const char *(*strerror)(dyad_rc_t rc);
};

/* Open the library that lies beside `wrapper`, and join as a process of this rank
 * (dyad_init()). 0, or -1 with a line on stderr. */
int run_library_join(struct run_library *api, const char *wrapper);

#endif
