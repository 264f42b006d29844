/*
 * boot/launcher.h - programs that start the ranks of a launch
 *
 * A launcher must not be a rank: the ranks of its own launch would wait for it, and it
 * has nothing to share. So it does not become the member of a solo launch
 * (boot/identity.h), even if it was started with the library. Known by the program names
 * of Open MPI, PRRTE, Slurm and Flux. Links libc only; no allocation.
 */
#ifndef DYAD_BOOT_LAUNCHER_H
#define DYAD_BOOT_LAUNCHER_H

enum boot_launcher {
    BOOT_LAUNCHER_NONE,
    BOOT_LAUNCHER_ASKS,   /* others start the processes: what it starts itself is its own */
    BOOT_LAUNCHER_STARTS, /* it also starts daemons and remote shells, which are no ranks,
                           * and all its ranks have PMIx's variables */
};

/* The kind of a program, by the last component of its path. */
enum boot_launcher boot_launcher_named(const char *path);
/* The kind of this process, by its executable. Signal-safe; keeps errno. */
enum boot_launcher boot_launcher_self(void);

#endif
