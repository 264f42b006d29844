/*
 * fd_table.c - the arrays of fd.c and fd_record.c
 *
 * Both are in .bss: untouched pages cost nothing.
 */
#include "wrapper/fd_impl.h"

_Atomic uint32_t wrapper_fd_table[WRAPPER_FD_MAX];

struct wrapper_desc wrapper_fd_descs[WRAPPER_FD_DESCS];
