/*
 * boot/libs.h - whether the program itself uses MPI, UCX or PMIx
 *
 * If so their configuration is the program's, and a PMIx library that both sides use must
 * be used from one descriptor table (boot/pmix.c says why). Thread-safe.
 */
#ifndef DYAD_BOOT_LIBS_H
#define DYAD_BOOT_LIBS_H

#include <stdbool.h>

enum boot_libs {
    BOOT_LIBS_UCX = 1 << 0,
    BOOT_LIBS_PMIX = 1 << 1,
    BOOT_LIBS_MPI = 1 << 2,
    BOOT_LIBS_PYTHON = 1 << 3,
};

/* The libraries that were loaded before the shared object with this function: by the
 * program, not by us. */
unsigned boot_libs_before_us(void);
/* The libraries that the process has by now. */
unsigned boot_libs_loaded(void);
/* True if the program uses UCX or MPI itself, or may load them later (Python: mpi4py), or
 * has a malloc of its own. The engine's libraries must then be in a name space of their
 * own (client/client_library.c). */
bool boot_libs_may_share(void);
/* True if the program's malloc is not libc's (jemalloc, tcmalloc, a sanitizer's runtime).
 * Memory that libc allocates (strdup, realpath) then comes from that malloc, also for an
 * object opened with RTLD_DEEPBIND, whose free() would be libc's: so that flag must not
 * be used then. False in such an object. */
bool boot_libs_own_malloc(void);
/* True if the program has initialised MPI and not finalised it: any MPI, also one that
 * was opened with RTLD_LOCAL (mpi4py, ctypes); not one that is linked statically and
 * exports no symbols. Takes the dynamic loader's lock: not for signal handlers. */
bool boot_libs_in_mpi(void);

#endif
