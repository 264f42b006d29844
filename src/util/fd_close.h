/*
 * util/fd_close.h - close on a way out that has its errno already
 *
 * Both keep errno, and take a negative number for nothing to close.
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

/* Past whatever stands in libc's place: the wrapper, a library of the program's. */
static inline void util_fd_close_raw(int fd)
{
    int saved = errno;

    if (fd >= 0)
        syscall(SYS_close, fd);
    errno = saved;
}

#endif
