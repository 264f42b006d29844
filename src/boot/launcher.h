/*
 * boot/launcher.h - programs that start the ranks of a launch
 *
 * A launcher is no rank: it would be waited for by the ranks of its own launch, and has
 * nothing to share. So it does not become the member of a launch without a launcher
 * (boot/identity.h), also if it was started with the library. Known by the names of Open
 * MPI's, PRRTE's and Slurm's, and Flux's. Links libc only; no allocation.
 */
#ifndef DYAD_BOOT_LAUNCHER_H
#define DYAD_BOOT_LAUNCHER_H

enum boot_launcher {
    BOOT_LAUNCHER_NONE,
    BOOT_LAUNCHER_ASKS,   /* others start the processes: what it starts itself is its own */
    BOOT_LAUNCHER_STARTS, /* it also starts daemons and remote shells, which are no ranks,
                           * and all its ranks have PMIx's variables */
};

/* By the last component of a path. */
enum boot_launcher boot_launcher_named(const char *path);
/* This process, by its executable. Signal-safe; keeps errno. */
enum boot_launcher boot_launcher_self(void);

#endif
