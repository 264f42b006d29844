/*
 * read_at.c - as many bytes of a file as there are
 */
#include "util/read_at.h"

#include <errno.h>
#include <unistd.h>

ssize_t util_read_at(int fd, void *to, size_t len, uint64_t offset)
{
    size_t got = 0;

    while (got < len) {
        ssize_t n = pread(fd, (char *)to + got, len - got, (off_t)(offset + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        got += (size_t)n;
    }
    return (ssize_t)got;
}
