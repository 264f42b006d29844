/*
 * wrapper/fd_impl.h - the descriptions of fd.c, for the modules of this room that ask the engine about one
 */
#ifndef DYAD_WRAPPER_FD_IMPL_H
#define DYAD_WRAPPER_FD_IMPL_H

#include <stddef.h>
#include <sys/types.h>

#include "wrapper/fd.h"

#define WRAPPER_FD_DESCS   65536 /* as many as the marks of a node */
#define WRAPPER_FD_UNKNOWN (-1)

struct wrapper_desc {
    _Atomic int refs;
    _Atomic bool mapped;               /* by this process, in a way that is not followed */
    _Atomic bool shared;               /* a fork may have given it to another process */
    _Atomic bool kept;                 /* scratch of exec_begin */
    _Atomic bool recorded, unrecorded; /* unrecorded: for good */
    _Atomic uint64_t range;            /* the number of the last that was recorded ... */
    _Atomic uint32_t epoch;            /* ... after so many locks */
    _Atomic int appends;               /* O_APPEND: 1 or 0; or WRAPPER_FD_UNKNOWN */
    enum engine_role role;
    _Atomic engine_token token; /* 0: settled already, by exec_begin */
    dev_t dev;
    ino_t ino;
};

extern struct wrapper_desc wrapper_fd_descs[WRAPPER_FD_DESCS];

static inline struct wrapper_desc *wrapper_fd_desc_of(uint32_t entry)
{
    return entry ? &wrapper_fd_descs[entry - 1] : NULL;
}

/* Of the table's entry of fd. */
static inline struct wrapper_desc *wrapper_fd_desc(int fd)
{
    return wrapper_fd_desc_of(atomic_load(&wrapper_fd_table[fd]));
}

#endif
