/*
 * launcher.c - names of launchers
 *
 * The executable's own name counts, behind links: that of Open MPI's mpirun is orterun, and
 * another MPI's mpiexec, whose ranks may lack PMIx's variables, is called mpiexec.hydra.
 */
#include "boot/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum boot_launcher boot_launcher_named(const char *path)
{
    static const struct {
        const char *name;
        enum boot_launcher kind;
    } launchers[] = {
        {"mpirun", BOOT_LAUNCHER_STARTS},  {"mpiexec", BOOT_LAUNCHER_STARTS},
        {"orterun", BOOT_LAUNCHER_STARTS}, {"prterun", BOOT_LAUNCHER_STARTS},
        {"prun", BOOT_LAUNCHER_STARTS},    {"prte", BOOT_LAUNCHER_STARTS},
        {"srun", BOOT_LAUNCHER_ASKS},      {"flux", BOOT_LAUNCHER_ASKS},
    };
    const char *slash = strrchr(path, '/');

    path = slash ? slash + 1 : path;
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++)
        if (strcmp(path, launchers[i].name) == 0)
            return launchers[i].kind;
    return BOOT_LAUNCHER_NONE;
}

enum boot_launcher boot_launcher_self(void)
{
    char path[PATH_MAX];
    int saved = errno;
    long n = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", path, sizeof(path) - 1);

    errno = saved;
    if (n <= 0)
        return BOOT_LAUNCHER_NONE;
    path[n] = '\0';
    return boot_launcher_named(path);
}
