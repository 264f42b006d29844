/*
 * modules_plugin.c - an object that has modules.c in it, and one that it opens
 *
 * Both tell of their destructor through a pipe; one that is SLOW only if it was not
 * constructed, and one that is SLOW_END of its end, too.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "boot/modules.h"

#define DYAD_VISIBLE __attribute__((visibility("default")))

DYAD_VISIBLE void plugin_tell(int fd);
DYAD_VISIBLE void plugin_visit(const struct boot_loading *loading);
DYAD_VISIBLE void *plugin_open(const char *path, int fd);
DYAD_VISIBLE void plugin_close(void *handle);

static int tell = -1;

#ifdef SLOW
/* Its constructor says so, and takes its time. */
static volatile bool constructed;

__attribute__((constructor)) static void construct(void)
{
    tell = atoi(getenv("DYAD_TEST_TELL"));
    (void)!write(tell, "c", 1);
    usleep(200 * 1000);
    constructed = true;
}
#else
static const bool constructed;
#endif

__attribute__((destructor)) static void destructed(void)
{
    if (tell >= 0 && !constructed)
        (void)!write(tell, "x", 1);
#ifdef SLOW_END
    usleep(200 * 1000);
    (void)!write(tell, "y", 1);
#endif
}

void plugin_tell(int fd)
{
    tell = fd;
}

#ifndef OPENED
/* Not as the last thing, which the compiler makes a jump: the loader takes the name space
 * of whoever is returned to. */
void plugin_visit(const struct boot_loading *loading)
{
    boot_modules_visit(loading);
    __asm__ volatile("" ::: "memory");
}

/* As PMIx opens its components. */
void *plugin_open(const char *path, int fd)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    void (*set)(int fd) = NULL;

    if (handle)
        *(void **)&set = dlsym(handle, "plugin_tell");
    if (!set)
        return NULL;
    set(fd);
    return handle;
}

void plugin_close(void *handle)
{
    dlclose(handle);
}
#endif
