/*
 * run_library.c - opens libdyad.so.1
 *
 * It is opened, not linked: dyad-run finds it as it finds the wrapper, and an installed
 * tree can be moved.
 */
#include "run_library.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libdyad.so.1"

static int open_library(struct run_library *api, const char *wrapper)
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
    *(void **)&api->init = dlsym(handle, "dyad_init");
    *(void **)&api->finalize = dlsym(handle, "dyad_finalize");
    *(void **)&api->produce = dlsym(handle, "dyad_produce");
    *(void **)&api->consume = dlsym(handle, "dyad_consume");
    *(void **)&api->strerror = dlsym(handle, "dyad_strerror");
    if (!api->init || !api->finalize || !api->produce || !api->consume || !api->strerror) {
        fprintf(stderr, "dyad-run: %s is not of this version\n", path);
        return -1;
    }
    return 0;
}

int run_library_join(struct run_library *api, const char *wrapper)
{
    dyad_rc_t rc;

    if (open_library(api, wrapper) < 0)
        return -1;
    if ((rc = api->init()) != DYAD_OK) {
        fprintf(stderr, "dyad-run: %s\n", api->strerror(rc));
        return -1;
    }
    return 0;
}
