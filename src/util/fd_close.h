/*
 * util/fd_close.h - close() on error paths
 *
 * Both keep errno, and do nothing for a negative number.
 */
#ifndef DYAD_UTIL_FD_CLOSE_H
#define DYAD_UTIL_FD_CLOSE_H

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline void util_fd_close(int fd)
{
    int saved = errno;

    if (fd >= 0)
        close(fd);
    errno = saved;
}

/* By syscall(), not by functions that are interposed by the wrapper or the program. */
static inline void util_fd_close_raw(int fd)
{
    int saved = errno;

    if (fd >= 0)
        syscall(SYS_close, fd);
    errno = saved;
}

#endif
