/*
 * libs.c - walks the list of loaded objects
 *
 * dl_iterate_phdr lists them in the order of loading, so those before our own object were
 * there without us, and those behind it came with us (our dependencies) or later.
 *
 * MPI is asked by its PMPI names: behind the others there may be a profiler, which has
 * ended by the time of exit. A library that was opened with RTLD_LOCAL has to be opened to
 * find a name in it; not while the list is walked, for the loader's locks have an order.
 */
#include "boot/libs.h"
#include "util/loader.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char anchor; /* an address inside our own object */

struct walk {
    bool stop_at_us;
    unsigned found;
};

static const struct {
    const char *prefix;
    unsigned bit;
} known[] = {
    {"libmpi", BOOT_LIBS_MPI},      {"liboshmem", BOOT_LIBS_MPI},
    {"libopen-rte", BOOT_LIBS_MPI}, {"libopen-pal", BOOT_LIBS_MPI},
    {"libpmix", BOOT_LIBS_PMIX},    {"libucp.", BOOT_LIBS_UCX},
    {"libucs.", BOOT_LIBS_UCX},     {"libuct.", BOOT_LIBS_UCX},
    {"libucm.", BOOT_LIBS_UCX},     {"libpython", BOOT_LIBS_PYTHON},
};

static int visit(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct walk *walk = arg;
    const char *name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;

    (void)size;
    if (walk->stop_at_us && util_loader_has(info, &anchor))
        return 1;
    name = name ? name + 1 : info->dlpi_name ? info->dlpi_name : "";
    for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strncmp(name, known[i].prefix, strlen(known[i].prefix)) == 0)
            walk->found |= known[i].bit;
    return 0;
}

unsigned boot_libs_before_us(void)
{
    struct walk walk = {.stop_at_us = true};
    dl_iterate_phdr(visit, &walk);
    return walk.found;
}

unsigned boot_libs_loaded(void)
{
    struct walk walk = {.stop_at_us = false};
    dl_iterate_phdr(visit, &walk);
    return walk.found;
}

/* By its file: what a program is called it may change (setproctitle). */
static bool is_python(void)
{
    char path[PATH_MAX];
    int saved = errno;
    long n = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", path, sizeof(path) - 1);
    const char *slash;

    errno = saved;
    path[n > 0 ? n : 0] = '\0';
    slash = strrchr(path, '/');
    return slash && strncmp(slash + 1, "python", 6) == 0;
}

bool boot_libs_own_malloc(void)
{
    void *program = dlsym(RTLD_DEFAULT, "malloc");
    Dl_info its, libc;

    return program && dladdr(program, &its) &&
           dladdr((void *)(uintptr_t)&gnu_get_libc_version, &libc) &&
           its.dli_fbase != libc.dli_fbase;
}

bool boot_libs_may_share(void)
{
    return (boot_libs_loaded() & (BOOT_LIBS_MPI | BOOT_LIBS_UCX | BOOT_LIBS_PYTHON)) ||
           is_python() || boot_libs_own_malloc();
}

static int visit_mpi(struct dl_phdr_info *info, size_t size, void *path)
{
    const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;

    (void)size;
    if (!slash || strncmp(slash + 1, "libmpi", 6) != 0 ||
        strlen(info->dlpi_name) >= PATH_MAX)
        return 0;
    strcpy(path, info->dlpi_name);
    return 1;
}

typedef int (*mpi_flag_fn)(int *flag);

static mpi_flag_fn find_mpi(void *handle, const char *name)
{
    mpi_flag_fn fn = (mpi_flag_fn)(uintptr_t)dlsym(handle, name);

    /* Serial stand-ins for MPI have no PMPI. */
    return fn ? fn : (mpi_flag_fn)(uintptr_t)dlsym(handle, name + 1);
}

bool boot_libs_in_mpi(void)
{
    char path[PATH_MAX];
    void *handle = NULL;
    mpi_flag_fn initialized = find_mpi(RTLD_DEFAULT, "PMPI_Initialized"), finalized;
    int began = 0, ended = 0;

    /* Of several the first will do: they are parts of one MPI, and depend on the rest. */
    if (!initialized && dl_iterate_phdr(visit_mpi, path) == 1 &&
        (handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD)))
        initialized = find_mpi(handle, "PMPI_Initialized");
    finalized = find_mpi(handle ? handle : RTLD_DEFAULT, "PMPI_Finalized");
    if (initialized && finalized) {
        initialized(&began);
        finalized(&ended);
    }
    if (handle)
        dlclose(handle);
    return began && !ended;
}
