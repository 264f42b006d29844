/*
 * wrapper/real.h - the interposed symbols and the definitions that they hide
 *
 * symbols.def lists them. For each this declares the function that the wrapper exports
 * under the symbol's name, as wrapped_<name>: another C name, so that no libc header's
 * attributes (nonnull, noreturn, macros) apply to our definition, which must take NULL as
 * the real one does.
 */
#ifndef DYAD_WRAPPER_REAL_H
#define DYAD_WRAPPER_REAL_H

#include <aio.h>
#include <dirent.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <utime.h>

enum wrapper_symbol {
#define WRAPPER_SYMBOL(ret, name, params)            WRAPPER_SYM_##name,
#define WRAPPER_SYMBOL_V(ret, name, params, version) WRAPPER_SYM_##name,
#define WRAPPER_COVERED(name)
#include "wrapper/symbols.def"
#undef WRAPPER_SYMBOL
#undef WRAPPER_SYMBOL_V
#undef WRAPPER_COVERED
    WRAPPER_NSYMBOLS
};

/* A program that tests the wrapper from the inside gives our symbols other names. */
#ifndef WRAPPER_PREFIX
#define WRAPPER_PREFIX ""
#endif
#define WRAPPER_SYMBOL(ret, name, params)                   \
    typedef ret wrapper_fn_##name params;                   \
    ret wrapped_##name params __asm__(WRAPPER_PREFIX #name) \
        __attribute__((visibility("default")));
#define WRAPPER_SYMBOL_V(ret, name, params, version) WRAPPER_SYMBOL(ret, name, params)
#define WRAPPER_COVERED(name)
#include "wrapper/symbols.def"
#undef WRAPPER_SYMBOL
#undef WRAPPER_SYMBOL_V
#undef WRAPPER_COVERED

extern _Atomic(void *) wrapper_real_table[WRAPPER_NSYMBOLS];

/* Look the symbol up in the libraries after ours. Never NULL: for a symbol that this libc
 * lacks, a function that fails with ENOSYS. No malloc, stdio or locale; keeps errno. */
void *wrapper_real_resolve(enum wrapper_symbol symbol);
/* Resolve all. Before threads of ours exist: a child forked while one holds the loader's
 * lock can then do without the loader. */
void wrapper_real_resolve_all(void);

static inline void *wrapper_real_get(enum wrapper_symbol symbol)
{
    /* Relaxed suffices: the value is a function's address, which all threads agree on. */
    void *fn = atomic_load_explicit(&wrapper_real_table[symbol], memory_order_relaxed);
    return __builtin_expect(fn != NULL, 1) ? fn : wrapper_real_resolve(symbol);
}

/* The real function: REAL(close)(fd). */
#define REAL(name) ((wrapper_fn_##name *)wrapper_real_get(WRAPPER_SYM_##name))

#endif
