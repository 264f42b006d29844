/*
 * util/read_at.h - as many bytes of a file as there are
 */
#ifndef DYAD_UTIL_READ_AT_H
#define DYAD_UTIL_READ_AT_H

#include <stdint.h>
#include <sys/types.h>

/* pread() until `len` bytes are here, or the file ends: how many are, or -1 with errno. Thread-safe. */
ssize_t util_read_at(int fd, void *to, size_t len, uint64_t offset);

#endif
