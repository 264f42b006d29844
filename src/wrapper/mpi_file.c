/*
 * mpi_file.c - files that MPI_File_open makes
 *
 * In ROMIO one process makes the file, closes it, and then all open it, that process as well. The
 * close would publish an empty file, and readers would take it for the whole one. So what a
 * thread closes while it is in MPI_File_open stays open, by a duplicate, until that has returned:
 * the file has a writer at every moment until MPI_File_close.
 *
 * Otherwise the functions forward their arguments, of which each is a word: MPI's handles are
 * pointers in one library and integers in another. Fortran's call these. The state is the
 * thread's own.
 */
#include "wrapper/mpi_file.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "util/log.h"
#include "wrapper/core.h"
#include "wrapper/fd.h"
#include "wrapper/foreign.h"
#include "wrapper/real.h"

#define KEPT_MAX        8 /* one file, and what a library tries out beside it */
#define OTHER_MPI_ERROR 16

typedef int open_fn(uintptr_t comm, const char *name, uintptr_t mode, uintptr_t info,
                    void *file);

static __thread struct {
    unsigned depth;
    unsigned n;
    int kept[KEPT_MAX];
} opens __attribute__((tls_model("initial-exec")));

bool wrapper_mpi_file_keep(int fd)
{
    int aside, saved = errno;

    if (opens.depth == 0 || opens.n == KEPT_MAX || (aside = wrapper_fd_move_aside(fd)) < 0)
        return false;
    opens.kept[opens.n++] = aside;
    REAL(close)(fd);
    errno = saved;
    return true;
}

bool wrapper_mpi_file_opens(void)
{
    return opens.depth > 0;
}

static int call(open_fn *real, const char *symbol, uintptr_t comm, const char *name,
                uintptr_t mode, uintptr_t info, void *file)
{
    int rc;

    if (!real) {
        log_error("%s cannot be found: the library of MPI that it is of is not linked",
                  symbol);
        return OTHER_MPI_ERROR;
    }
    opens.depth++;
    rc = real(comm, name, mode, info, file);
    if (--opens.depth > 0)
        return rc;
    while (opens.n > 0)
        wrapper_fd_close_real(opens.kept[--opens.n]);
    return rc;
}

#define FORWARD(symbol)                                                               \
    int symbol(uintptr_t comm, const char *name, uintptr_t mode, uintptr_t info,      \
               void *file)                                                            \
    {                                                                                 \
        static _Atomic(void *) cache;                                                 \
        open_fn *real =                                                               \
            (open_fn *)wrapper_foreign(&cache, #symbol, __builtin_return_address(0)); \
        return call(real, #symbol, comm, name, mode, info, file);                     \
    }

int MPI_File_open(uintptr_t comm, const char *name, uintptr_t mode, uintptr_t info,
                  void *file) __attribute__((visibility("default")));
int PMPI_File_open(uintptr_t comm, const char *name, uintptr_t mode, uintptr_t info,
                   void *file) __attribute__((visibility("default")));

FORWARD(MPI_File_open)
FORWARD(PMPI_File_open)
