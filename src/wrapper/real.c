/*
 * real.c - finds the definitions that ours hide
 *
 * Each symbol by itself, at its first call, since wrappers run before our constructor and
 * most programs use few of them. dlsym() allocates only to report a failure, so what an old
 * libc may lack is not asked for twice. A lookup that runs twice, in two threads or in a
 * signal handler, stores the same address twice.
 */
#include "wrapper/real.h"

#include <dlfcn.h>
#include <errno.h>

_Atomic(void *) wrapper_real_table[WRAPPER_NSYMBOLS];

static const struct {
    const char *name, *version;
} symbols[WRAPPER_NSYMBOLS] = {
#define WRAPPER_SYMBOL(ret, name, params)            {#name, NULL},
#define WRAPPER_SYMBOL_V(ret, name, params, version) {#name, version},
#define WRAPPER_COVERED(name)
#include "wrapper/symbols.def"
#undef WRAPPER_SYMBOL
#undef WRAPPER_SYMBOL_V
#undef WRAPPER_COVERED
};

/* Called with the arguments of any of them; all but void ones report failure as -1 but
 * those that return a pointer, which every libc has. */
static long missing(void)
{
    errno = ENOSYS;
    return -1;
}

void *wrapper_real_resolve(enum wrapper_symbol symbol)
{
    int saved = errno;
    void *fn = NULL;

    if (symbols[symbol].version)
        fn = dlvsym(RTLD_NEXT, symbols[symbol].name, symbols[symbol].version);
    if (!fn)
        fn = dlsym(RTLD_NEXT, symbols[symbol].name);
    if (!fn)
        fn = (void *)missing;
    atomic_store_explicit(&wrapper_real_table[symbol], fn, memory_order_relaxed);
    errno = saved;
    return fn;
}

void wrapper_real_resolve_all(void)
{
    for (int i = 0; i < WRAPPER_NSYMBOLS; i++)
        wrapper_real_get((enum wrapper_symbol)i);
}
