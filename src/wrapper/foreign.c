/*
 * foreign.c - the real definition of a function that the wrapper exports, and that is not libc's
 *
 * Its library may be in nobody's scope but its caller's (Open MPI's plugins, and extensions of
 * Python, are opened RTLD_LOCAL), so the definition is looked for where the caller would have
 * found it.
 */
#include "wrapper/foreign.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stddef.h>

static void *find_in(const char *object, const char *name)
{
    void *handle = dlopen(object, RTLD_LAZY | RTLD_NOLOAD), *fn;

    if (!handle)
        return NULL;
    fn = dlsym(handle, name);
    dlclose(handle);
    return fn;
}

/* Of a tail call the address is the caller's caller's: any definition but ours. */
static void *find_anywhere(const char *name)
{
    void *program = dlopen(NULL, RTLD_LAZY | RTLD_NOLOAD), *fn = NULL, *own = NULL;
    struct link_map *map = NULL;

    if (!program)
        return NULL;
    own = dlsym(RTLD_DEFAULT, name);
    if (dlinfo(program, RTLD_DI_LINKMAP, &map) == 0)
        for (; map && (!fn || fn == own); map = map->l_next)
            fn = *map->l_name ? find_in(map->l_name, name) : NULL;
    dlclose(program);
    return fn == own ? NULL : fn;
}

void *wrapper_foreign(_Atomic(void *) *cache, const char *name, const void *caller)
{
    void *fn = atomic_load_explicit(cache, memory_order_relaxed);
    struct link_map *map = NULL;
    int saved = errno;
    Dl_info info;

    if (fn)
        return fn;
    fn = dlsym(RTLD_NEXT, name);
    if (!fn && dladdr1(caller, &info, (void **)&map, RTLD_DL_LINKMAP) && map &&
        *map->l_name)
        fn = find_in(map->l_name, name);
    if (!fn)
        fn = find_anywhere(name);
    atomic_store_explicit(cache, fn, memory_order_relaxed);
    errno = saved;
    return fn;
}
