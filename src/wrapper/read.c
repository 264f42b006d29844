/*
 * read.c - who reads a file that he has open for writing sees what other nodes have written to it
 *
 * A descriptor that is not in the table costs a load, one that is a look at its mark, which says
 * whether another node writes the file, too. Then the engine is asked before the real call. So it
 * is for the length of the file, and before it is mapped; what is read by way of a map later is what
 * this node has by then.
 */
#include <errno.h>
#include <stdint.h>
#include <sys/uio.h>
#include <unistd.h>

#include "wrapper/core.h"
#include "wrapper/fd.h"
#include "wrapper/real.h"
#include "wrapper/stream.h"

#define SHOWN(fd, call)                                                         \
    do {                                                                        \
        if (__builtin_expect(wrapper_fd_marked(fd), 0) && wrapper_show(fd) < 0) \
            return -1;                                                          \
        return (call);                                                          \
    } while (0)

ssize_t wrapped_read(int fd, void *data, size_t len)
{
    SHOWN(fd, REAL(read)(fd, data, len));
}

ssize_t wrapped___read(int fd, void *data, size_t len)
{
    SHOWN(fd, REAL(__read)(fd, data, len));
}

ssize_t wrapped___read_chk(int fd, void *data, size_t len, size_t size)
{
    SHOWN(fd, REAL(__read_chk)(fd, data, len, size));
}

ssize_t wrapped_pread(int fd, void *data, size_t len, off_t offset)
{
    SHOWN(fd, REAL(pread)(fd, data, len, offset));
}

ssize_t wrapped_pread64(int fd, void *data, size_t len, off64_t offset)
{
    SHOWN(fd, REAL(pread64)(fd, data, len, offset));
}

ssize_t wrapped___pread64(int fd, void *data, size_t len, off64_t offset)
{
    SHOWN(fd, REAL(__pread64)(fd, data, len, offset));
}

ssize_t wrapped___pread_chk(int fd, void *data, size_t len, off_t offset, size_t size)
{
    SHOWN(fd, REAL(__pread_chk)(fd, data, len, offset, size));
}

ssize_t wrapped___pread64_chk(int fd, void *data, size_t len, off64_t offset, size_t size)
{
    SHOWN(fd, REAL(__pread64_chk)(fd, data, len, offset, size));
}

ssize_t wrapped_readv(int fd, const struct iovec *iov, int n)
{
    SHOWN(fd, REAL(readv)(fd, iov, n));
}

ssize_t wrapped_preadv(int fd, const struct iovec *iov, int n, off_t offset)
{
    SHOWN(fd, REAL(preadv)(fd, iov, n, offset));
}

ssize_t wrapped_preadv64(int fd, const struct iovec *iov, int n, off64_t offset)
{
    SHOWN(fd, REAL(preadv64)(fd, iov, n, offset));
}

ssize_t wrapped_preadv2(int fd, const struct iovec *iov, int n, off_t offset, int flags)
{
    SHOWN(fd, REAL(preadv2)(fd, iov, n, offset, flags));
}

ssize_t wrapped_preadv64v2(int fd, const struct iovec *iov, int n, off64_t offset,
                           int flags)
{
    SHOWN(fd, REAL(preadv64v2)(fd, iov, n, offset, flags));
}

/* The end, data and holes are those of the file that all write. */
static bool asks_for_length(int whence)
{
    return whence != SEEK_SET && whence != SEEK_CUR;
}

#define SOUGHT(fd, whence, call)     \
    do {                             \
        if (asks_for_length(whence)) \
            SHOWN(fd, call);         \
        return (call);               \
    } while (0)

off_t wrapped_lseek(int fd, off_t offset, int whence)
{
    SOUGHT(fd, whence, REAL(lseek)(fd, offset, whence));
}

off64_t wrapped_lseek64(int fd, off64_t offset, int whence)
{
    SOUGHT(fd, whence, REAL(lseek64)(fd, offset, whence));
}

off_t wrapped___lseek(int fd, off_t offset, int whence)
{
    SOUGHT(fd, whence, REAL(__lseek)(fd, offset, whence));
}

/* --- of streams --- */

ssize_t wrapper_stream_read(FILE *stream, void *data, ssize_t len)
{
    SHOWN(stream->_fileno, wrapper_stream_real_read(stream, data, len));
}

off64_t wrapper_stream_seek(FILE *stream, off64_t offset, int whence)
{
    SOUGHT(stream->_fileno, whence, wrapper_stream_real_seek(stream, offset, whence));
}

int wrapper_stream_stat(FILE *stream, void *st)
{
    SHOWN(stream->_fileno, wrapper_stream_real_stat(stream, st));
}
