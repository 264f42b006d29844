/*
 * run_files.c - the C API from the command line
 *
 * The library is opened, not linked: dyad-run finds it as it finds the wrapper, and an
 * installed tree can be moved. A path is given to it with the links of its directory
 * resolved, since it takes a path as text.
 */
#include "run_files.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "dyad/dyad.h"
#include "run_check.h"

#define LIBRARY "libdyad.so.1"

static struct {
    dyad_rc_t (*init)(void);
    dyad_rc_t (*finalize)(void);
    dyad_rc_t (*produce)(const char *path);
    dyad_rc_t (*consume)(const char *path);
    const char *(*strerror)(dyad_rc_t rc);
} api;

static int open_library(const char *wrapper)
{
    char path[PATH_MAX + sizeof(LIBRARY)];
    const char *slash = strrchr(wrapper, '/');
    void *handle;

    snprintf(path, sizeof(path), "%.*s/%s", (int)(slash - wrapper), wrapper, LIBRARY);
    if (!(handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)))
        handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        fprintf(stderr, "dyad-run: %s\n", dlerror());
        return -1;
    }
    *(void **)&api.init = dlsym(handle, "dyad_init");
    *(void **)&api.finalize = dlsym(handle, "dyad_finalize");
    *(void **)&api.produce = dlsym(handle, "dyad_produce");
    *(void **)&api.consume = dlsym(handle, "dyad_consume");
    *(void **)&api.strerror = dlsym(handle, "dyad_strerror");
    if (!api.init || !api.finalize || !api.produce || !api.consume || !api.strerror) {
        fprintf(stderr, "dyad-run: %s is not of this version\n", path);
        return -1;
    }
    return 0;
}

/* The path with the links of its directories resolved as far as they are there. */
static const char *resolve(const char *file, char *out, size_t size)
{
    char dir[PATH_MAX], real[PATH_MAX];
    size_t len = strlen(file);
    const char *rest = strrchr(file, '/');

    if (!rest || len >= sizeof(dir))
        return file;
    memcpy(dir, file, len + 1);
    while (rest > file) {
        dir[rest - file] = '\0';
        if (realpath(dir, real))
            return snprintf(out, size, "%s%s", real, rest) < (int)size ? out : file;
        rest = memrchr(file, '/', (size_t)(rest - file));
        if (!rest)
            break;
    }
    return file;
}

static void complain(const char *file, const char *why)
{
    fprintf(stderr, "dyad-run: %s: %s\n", file, why);
}

int run_files(const char *wrapper, bool publish, char *const files[])
{
    char path[PATH_MAX];
    int status = 0;
    dyad_rc_t rc;

    if (open_library(wrapper) < 0)
        return RUN_EXIT_FAILURE;
    rc = api.init();
    if (rc != DYAD_OK) {
        fprintf(stderr, "dyad-run: %s\n", api.strerror(rc));
        return RUN_EXIT_FAILURE;
    }
    for (; *files; files++) {
        const char *file = resolve(*files, path, sizeof(path));
        struct stat st;
        if (publish && stat(file, &st) < 0) {
            complain(*files, strerror(errno));
            status = 1;
            continue;
        }
        rc = publish ? api.produce(file) : api.consume(file);
        if (rc != DYAD_OK) {
            complain(*files, api.strerror(rc));
            status = 1;
        }
    }
    api.finalize();
    return status;
}
