/*
 * boot/libs.h - does the program itself use MPI, UCX or PMIx?
 *
 * Their configuration is then the program's, and a PMIx library that two sides use must be
 * used from one descriptor table (boot/pmix.c says why). Thread-safe.
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
/* Does the program use UCX or MPI itself, or may it load them later (Python: mpi4py), or is
 * its malloc its own? What the engine needs of libraries must then be apart
 * (client/client_library.c). */
bool boot_libs_may_share(void);
/* Is the program's malloc another than libc's: jemalloc, tcmalloc, a sanitizer's runtime?
 * What libc allocates (strdup, realpath) then comes from there, also for an object that was
 * opened with RTLD_DEEPBIND, whose free() would be libc's: so nothing is opened so then.
 * False in such an object. */
bool boot_libs_own_malloc(void);
/* Has the program initialised MPI and not finalised it? Whatever MPI it is, also one that
 * was opened with RTLD_LOCAL (mpi4py, ctypes); not one that is linked statically and
 * exports no symbols. Takes the dynamic loader's lock: not for signal handlers. */
bool boot_libs_in_mpi(void);

#endif
