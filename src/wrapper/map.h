/*
 * wrapper/map.h - shared mappings through which a file below a managed directory can be
 * written after its last close
 *
 * Such a mapping holds its description as a descriptor does: the file is settled when the
 * last page of it is unmapped, or at exec or exit. mmap, mmap64, munmap and mremap are
 * defined here; a program without such a mapping pays one load in each munmap.
 */
#ifndef DYAD_WRAPPER_MAP_H
#define DYAD_WRAPPER_MAP_H

#include <stddef.h>
#include <sys/types.h>

/* mmap and munmap by syscall(), not through libc's functions: a library that watches
 * memory may have interposed these, and have called us. */
void *wrapper_map_raw_mmap(void *addr, size_t len, int prot, int flags, int fd,
                           off64_t offset);
int wrapper_map_raw_munmap(void *addr, size_t len);

#endif
