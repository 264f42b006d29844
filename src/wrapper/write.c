/*
 * write.c - what is written to a file that other nodes may write too is recorded
 *
 * A descriptor that is not in the table costs a load, one that is not recorded a look at its
 * mark, since another node may have joined. Else the range is recorded before the real call,
 * so that the record never has too little, and cut to what was written after it. What cannot
 * be recorded so ends the record of the description, and its file is not put together with
 * other nodes' any more: calls that name no range (sendfile, splice), shared maps, a file
 * offset that another thread moves in the midst.
 *
 * Where a write appends, the range is from the end of the file to where that is afterwards, which may
 * have what others of this node have appended meanwhile. If other nodes write the file, too, one process
 * of all appends at a time, when it has what the others have written.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "wrapper/call.h"
#include "wrapper/caller.h"
#include "wrapper/core.h"
#include "wrapper/fd.h"
#include "wrapper/pointer.h"
#include "wrapper/real.h"
#include "wrapper/stream.h"

/* Of what is appended, before that is written: more than any write has, and can be joined. */
#define APPENDS_LENGTH ((uint64_t)1 << 39)

#define RWF_NOAPPEND_FLAG 0x20 /* RWF_NOAPPEND: Linux 6.9 */

struct recording {
    int fd;
    uint64_t offset, length, number;
    bool moves;   /* at the file offset, which moves */
    bool appends; /* at the end */
    bool alone;   /* until `call` is ended */
    struct wrapper_call call;
};

static void alone_end(struct recording *r)
{
    if (r->alone)
        wrapper_fd_append_end(r->fd, &r->call);
    r->alone = false;
}

/* Who makes the file one that other nodes write, too, has that noted first, and then waits for what is
 * recorded here, and has not ended: so after that one of the two sees the other. As begin(). */
static int begin_append(struct recording *r)
{
    struct stat st;

    for (;;) {
        bool joint = wrapper_fd_joint(r->fd);
        if (joint && wrapper_fd_append_begin(r->fd, &r->call) < 0)
            return -1;
        r->alone = joint;
        r->number = 0;
        if (REAL(fstat)(r->fd, &st) == 0) {
            r->offset = (uint64_t)st.st_size;
            r->length = APPENDS_LENGTH;
            r->number = wrapper_fd_record(r->fd, r->offset, r->length);
        }
        if (!r->number)
            alone_end(r);
        if (!r->number || joint || !wrapper_fd_joint(r->fd))
            return r->number != 0;
        wrapper_fd_record_end(r->fd, r->number, r->offset + r->length, r->offset);
    }
}

/* 1; 0: nothing is to be recorded, or can be; -1 with errno: the call fails. */
static int begin(struct recording *r, int fd, off64_t offset, uint64_t length, bool moves,
                 bool appends)
{
    int saved = errno;

    if (!length)
        return 0;
    r->fd = fd;
    r->moves = moves;
    r->appends = appends;
    r->alone = false;
    if (appends) {
        int rc = begin_append(r);
        if (rc >= 0)
            errno = saved;
        return rc;
    }
    if (moves)
        offset = lseek64(fd, 0, SEEK_CUR);
    errno = saved;
    if (offset < 0)
        return 0; /* the real call fails */
    r->offset = (uint64_t)offset;
    r->length = length;
    r->number = wrapper_fd_record(fd, r->offset, length);
    return r->number != 0;
}

/* Where the range ends of what was appended. A file that was cut in the midst has it elsewhere. */
static uint64_t appended_end(const struct recording *r, uint64_t written)
{
    uint64_t least = r->offset + written;
    struct stat st;

    if (!written)
        return r->offset;
    if (REAL(fstat)(r->fd, &st) == 0 && (uint64_t)st.st_size >= least &&
        (!r->moves || lseek64(r->fd, 0, SEEK_CUR) >= (off64_t)least))
        return (uint64_t)st.st_size;
    wrapper_fd_unrecord(r->fd);
    return least;
}

static ssize_t end(struct recording *r, ssize_t written)
{
    uint64_t planned = r->offset + r->length, at = r->offset;
    int saved = errno;

    if (r->appends)
        at = appended_end(r, written > 0 ? (uint64_t)written : 0);
    else if (written > 0)
        at += (uint64_t)written;
    wrapper_fd_record_end(r->fd, r->number, planned, at);
    if (!r->appends && r->moves && written > 0 &&
        lseek64(r->fd, 0, SEEK_CUR) != (off64_t)at)
        wrapper_fd_unrecord(r->fd);
    alone_end(r);
    errno = saved;
    return written;
}

#define RECORDED_AS(fd, offset, length, moves, appends, call)                           \
    do {                                                                                \
        struct recording r_;                                                            \
        int begun_;                                                                     \
        if (__builtin_expect(!wrapper_is_recorded(fd), 1))                              \
            return (call);                                                              \
        begun_ = begin(&r_, fd, (off64_t)(offset), (uint64_t)(length), moves, appends); \
        return begun_ > 0 ? end(&r_, (call)) : begun_ < 0 ? -1 : (call);                \
    } while (0)

#define RECORDED(fd, offset, length, moves, call) \
    RECORDED_AS(fd, offset, length, moves, wrapper_fd_appends(fd), call)

/* 0: the real call fails. */
static uint64_t total(const struct iovec *iov, int n)
{
    uint64_t len = 0;

    for (int i = 0; i < n && !wrapper_bad_pointer(iov); i++)
        len += iov[i].iov_len;
    return len;
}

ssize_t wrapped_write(int fd, const void *data, size_t len)
{
    RECORDED(fd, 0, len, true, REAL(write)(fd, data, len));
}

ssize_t wrapped___write(int fd, const void *data, size_t len)
{
    RECORDED(fd, 0, len, true, REAL(__write)(fd, data, len));
}

ssize_t wrapped_pwrite(int fd, const void *data, size_t len, off_t offset)
{
    RECORDED(fd, offset, len, false, REAL(pwrite)(fd, data, len, offset));
}

ssize_t wrapped_pwrite64(int fd, const void *data, size_t len, off64_t offset)
{
    RECORDED(fd, offset, len, false, REAL(pwrite64)(fd, data, len, offset));
}

ssize_t wrapped___pwrite64(int fd, const void *data, size_t len, off64_t offset)
{
    RECORDED(fd, offset, len, false, REAL(__pwrite64)(fd, data, len, offset));
}

ssize_t wrapped_writev(int fd, const struct iovec *iov, int n)
{
    RECORDED(fd, 0, total(iov, n), true, REAL(writev)(fd, iov, n));
}

ssize_t wrapped_pwritev(int fd, const struct iovec *iov, int n, off_t offset)
{
    RECORDED(fd, offset, total(iov, n), false, REAL(pwritev)(fd, iov, n, offset));
}

ssize_t wrapped_pwritev64(int fd, const struct iovec *iov, int n, off64_t offset)
{
    RECORDED(fd, offset, total(iov, n), false, REAL(pwritev64)(fd, iov, n, offset));
}

static bool appends(int fd, int flags)
{
    return (flags & RWF_APPEND) || (!(flags & RWF_NOAPPEND_FLAG) && wrapper_fd_appends(fd));
}

/* Of these two an offset of -1 is the file's, and a flag may make it the end of the file. */
ssize_t wrapped_pwritev2(int fd, const struct iovec *iov, int n, off_t offset, int flags)
{
    RECORDED_AS(fd, offset, total(iov, n), offset == -1, appends(fd, flags),
                REAL(pwritev2)(fd, iov, n, offset, flags));
}

ssize_t wrapped_pwritev64v2(int fd, const struct iovec *iov, int n, off64_t offset,
                            int flags)
{
    RECORDED_AS(fd, offset, total(iov, n), offset == -1, appends(fd, flags),
                REAL(pwritev64v2)(fd, iov, n, offset, flags));
}

/* write, writev or what fills the buffer of a stream. */
ssize_t wrapper_stream_write(FILE *stream, const void *data, ssize_t len)
{
    RECORDED(stream->_fileno, 0, len, true, wrapper_stream_real_write(stream, data, len));
}

/* --- cuts --- */

/* MPI-IO has each rank empty the file that it opens, before any of them writes. */
static bool is_opening(int fd, off64_t len)
{
    struct stat st;

    return len == 0 && REAL(fstat)(fd, &st) == 0 && st.st_size == 0 &&
           wrapper_caller_knows() == WRAPPER_CALLER_JOINS;
}

static uint64_t begin_cut(int fd, off64_t len)
{
    int saved = errno;
    uint64_t number = 0;

    if (wrapper_is_recorded(fd) && len >= 0 && !is_opening(fd, len))
        number = wrapper_fd_record(fd, (uint64_t)len, 0);
    errno = saved;
    return number;
}

static int end_cut(int fd, uint64_t number, off64_t len, int rc)
{
    const uint64_t at = (uint64_t)len;
    int saved = errno;

    if (number)
        wrapper_fd_record_end(fd, number, at, rc == 0 ? at : ~at);
    errno = saved;
    return rc;
}

int wrapped_ftruncate(int fd, off_t len)
{
    uint64_t number = begin_cut(fd, len);

    return end_cut(fd, number, len, REAL(ftruncate)(fd, len));
}

int wrapped_ftruncate64(int fd, off64_t len)
{
    uint64_t number = begin_cut(fd, len);

    return end_cut(fd, number, len, REAL(ftruncate64)(fd, len));
}

/* --- what ends the record --- */

static void unrecord(int fd)
{
    if (__builtin_expect(wrapper_fd_marked(fd), 0) && wrapper_tracks(fd))
        wrapper_fd_unrecord(fd);
}

#define UNRECORDED(fd, call) \
    do {                     \
        unrecord(fd);        \
        return (call);       \
    } while (0)

int wrapped_fallocate(int fd, int mode, off_t offset, off_t len)
{
    UNRECORDED(fd, REAL(fallocate)(fd, mode, offset, len));
}

int wrapped_fallocate64(int fd, int mode, off64_t offset, off64_t len)
{
    UNRECORDED(fd, REAL(fallocate64)(fd, mode, offset, len));
}

int wrapped_posix_fallocate(int fd, off_t offset, off_t len)
{
    UNRECORDED(fd, REAL(posix_fallocate)(fd, offset, len));
}

int wrapped_posix_fallocate64(int fd, off64_t offset, off64_t len)
{
    UNRECORDED(fd, REAL(posix_fallocate64)(fd, offset, len));
}

/* The same; and what is read is shown first (read.c). */
#define MOVED(from, to, call)                                                       \
    do {                                                                            \
        if (__builtin_expect(wrapper_fd_marked(from), 0) && wrapper_show(from) < 0) \
            return -1;                                                              \
        UNRECORDED(to, call);                                                       \
    } while (0)

ssize_t wrapped_copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at,
                                size_t len, unsigned flags)
{
    MOVED(from, to, REAL(copy_file_range)(from, from_at, to, to_at, len, flags));
}

ssize_t wrapped_sendfile(int to, int from, off_t *at, size_t len)
{
    MOVED(from, to, REAL(sendfile)(to, from, at, len));
}

ssize_t wrapped_sendfile64(int to, int from, off64_t *at, size_t len)
{
    MOVED(from, to, REAL(sendfile64)(to, from, at, len));
}

ssize_t wrapped_splice(int from, off64_t *from_at, int to, off64_t *to_at, size_t len,
                       unsigned flags)
{
    MOVED(from, to, REAL(splice)(from, from_at, to, to_at, len, flags));
}
