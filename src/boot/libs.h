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

/* What was loaded before the shared object that holds this function: by the program, not by
 * us. */
unsigned boot_libs_before_us(void);
/* What the process has loaded by now, by whomever. */
unsigned boot_libs_loaded(void);
/* Does the program use UCX or MPI itself, or may it load them later (Python: mpi4py)? What
 * the engine needs of them must then be apart (engine/front_library.c). */
bool boot_libs_may_share(void);

#endif
