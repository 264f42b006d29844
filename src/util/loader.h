/*
 * util/loader.h - the dynamic loader's locks, for which it has no interface
 *
 * A thread that runs a library's constructor or destructor holds one. If it waits for
 * another thread of the process, and that one loads a library, both wait for ever.
 */
#ifndef DYAD_UTIL_LOADER_H
#define DYAD_UTIL_LOADER_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/* True if the calling thread holds a lock of the loader. Some microseconds. False also if
 * that cannot be found out. From anywhere, also a signal handler; keeps errno. */
bool util_loader_held(void);

/* True if a thread of this process waits for a lock of the loader which the calling
 * thread holds. Looks at each thread below /proc, with one descriptor more for the time
 * of the call. False also if that cannot be found out. From anywhere; keeps errno. */
bool util_loader_awaited(void);

/* For dl_iterate_phdr(): true if the address belongs to this object. */
static inline bool util_loader_has(const struct dl_phdr_info *info, const void *address)
{
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && (uintptr_t)address >= start &&
            (uintptr_t)address < start + segment->p_memsz)
            return true;
    }
    return false;
}

#endif
