/*
 * client_library.c - libdyad_member.so, in the process's name space or in one of its own
 *
 * The library is opened by dlopen(), or, where the program uses UCX or MPI itself or may
 * do so, by the loader's dlmopen(): then the engine has copies of its own of UCX, PMIx
 * and libevent, libc included. The two sides share no memory but what is passed by
 * pointer and not freed by the other. What glibc does not do for a second name space is
 * in boot/modules.c.
 *
 * What could go wrong: both sides share one copy of the libraries, which the engine
 * cannot (client_library_may_be_apart()). A Python program may load MPI at any time
 * (mpi4py), when it would be too late: it counts as such a program. So does one with a
 * malloc of its own (jemalloc, a sanitizer's runtime): boot/libs.h says why.
 */
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <libgen.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "boot/libs.h"
#include "client/client.h"
#include "client/client_impl.h"
#include "client/client_loading.h"
#include "engine/core/member_ops.h"
#include "util/log.h"

/* UCX and PMIx must see the private getenv of libdyad_member.so first, where that is
 * possible. */
static int flags_here(void)
{
    return RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE |
           (boot_libs_own_malloc() ? 0 : RTLD_DEEPBIND);
}

/* ThreadSanitizer must have seen each thread that allocates be made. Those of another name
 * space's libc it does not see, and the loader allocates for them with the program's
 * malloc; UCX in the program's own is more than it bears. */
bool client_library_may_be_here(void)
{
#ifdef DYAD_SANITIZED
    return true;
#endif
    return dlsym(RTLD_DEFAULT, "__tsan_init") == NULL;
}

/* UCX, PMIx and libevent have state that belongs to the process: an async thread, memory
 * hooks, a wake-up by descriptor number. A program that uses UCX or MPI itself shares
 * that state with whoever else uses the same copy of the libraries, and the engine
 * cannot: its descriptors are in another table (boot/fdtable.h), so UCX's async thread,
 * which is one for all, finds in its table half of the descriptors that it is given; and
 * libucm, loaded with the program's settings, writes over the code of mmap and brk while
 * the program runs. The engine can be apart with glibc 2.34 or later: then threads work
 * in the second libc. */
bool client_library_may_be_apart(void)
{
    unsigned major = 0, minor = 0;

#ifdef DYAD_SANITIZED
    return false; /* the runtime that our own objects need is there once */
#endif
    return client_library_may_be_here() &&
           sscanf(gnu_get_libc_version(), "%u.%u", &major, &minor) == 2 &&
           (major > 2 || minor >= 34);
}

const struct member_ops *client_member_library(bool apart)
{
    char here[PATH_MAX], path[PATH_MAX + 64];
    member_ops_get_fn get;
    const struct member_ops *found;
    Dl_info info;
    void *handle;

    if (!dladdr((void *)(uintptr_t)&client_member_run, &info) || !info.dli_fname ||
        !realpath(info.dli_fname, here)) {
        log_error("cannot tell where libdyad.so.1 was loaded from; use its absolute path");
        return NULL;
    }
    snprintf(path, sizeof(path), "%s/dyad/" MEMBER_LIBRARY, dirname(here));
    handle = apart ? dlmopen(LM_ID_NEWLM, path, RTLD_NOW | RTLD_LOCAL)
                   : dlopen(path, flags_here());
    if (!handle && apart) {
        log_info("cannot load %s beside the program's libraries: %s", path, dlerror());
        return NULL;
    }
    if (!handle) {
        log_error("cannot load %s: %s; is the installation complete?", path, dlerror());
        return NULL;
    }
    get = (member_ops_get_fn)(uintptr_t)dlsym(handle, MEMBER_OPS_SYMBOL);
    found = get ? get(MEMBER_ABI, &client_loading) : NULL;
    if (!found)
        log_error("%s is of another version than libdyad.so.1: install both anew", path);
    return found;
}
