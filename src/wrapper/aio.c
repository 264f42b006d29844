/*
 * aio.c - requests that libc's threads carry out: aio_read(), aio_write(), lio_listio()
 *
 * What is written is recorded (write.c) as of the time between the request and the first aio_return() or aio_error()
 * that says that it has ended; what is read is shown (read.c) before the request. MPI's writes and reads that do not
 * wait are such requests.
 */
#include <aio.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "wrapper/core.h"
#include "wrapper/fd.h"
#include "wrapper/real.h"

#define NOT_RECORDED 0
#define ENDED        UINT64_MAX

/* The record's number is kept in the program's own request, in what libc leaves alone of it, until it has ended. */
static void keep_number(struct aiocb *cb, uint64_t number)
{
    memcpy(cb->__glibc_reserved, &number, sizeof(number));
}

static uint64_t take_number(struct aiocb *cb)
{
    uint64_t number;

    memcpy(&number, cb->__glibc_reserved, sizeof(number));
    keep_number(cb, ENDED);
    return number;
}

/* Where it appends, that is known of the whole of them only. */
static void write_begin(struct aiocb *cb)
{
    int fd = cb->aio_fildes, saved = errno;

    cb->aio_lio_opcode = LIO_WRITE; /* as libc does, unless it fails */
    keep_number(cb, NOT_RECORDED);
    if (wrapper_is_recorded(fd)) {
        if (wrapper_fd_appends(fd))
            wrapper_fd_unrecord(fd);
        else if (cb->aio_offset >= 0 && cb->aio_nbytes)
            keep_number(cb,
                        wrapper_fd_record(fd, (uint64_t)cb->aio_offset, cb->aio_nbytes));
    }
    errno = saved;
}

/* So much was written. If the file is recorded since a moment after the request, it is not known what of it
 * came before that. */
static void write_end(struct aiocb *cb, ssize_t written)
{
    uint64_t at = (uint64_t)cb->aio_offset, number;
    int fd = cb->aio_fildes, saved = errno;

    if (cb->aio_lio_opcode != LIO_WRITE || !wrapper_fd_marked(fd) ||
        (number = take_number(cb)) == ENDED)
        return;
    if (number != NOT_RECORDED)
        wrapper_fd_record_end(fd, number, at + cb->aio_nbytes,
                              at + (written > 0 ? (uint64_t)written : 0));
    else if (written > 0 && wrapper_is_recorded(fd))
        wrapper_fd_unrecord(fd);
    errno = saved;
}

static int read_begin(const struct aiocb *cb)
{
    return __builtin_expect(wrapper_fd_marked(cb->aio_fildes), 0)
               ? wrapper_show(cb->aio_fildes)
               : 0;
}

static int each_begin(struct aiocb *const list[], int n)
{
    for (int i = 0; i < n; i++) {
        if (list[i] && list[i]->aio_lio_opcode == LIO_READ && read_begin(list[i]) < 0)
            return -1;
    }
    for (int i = 0; i < n; i++) {
        if (list[i] && list[i]->aio_lio_opcode == LIO_WRITE)
            write_begin(list[i]);
    }
    return 0;
}

int wrapped_aio_read(struct aiocb *cb)
{
    return read_begin(cb) < 0 ? -1 : REAL(aio_read)(cb);
}

int wrapped_aio_write(struct aiocb *cb)
{
    int rc;

    write_begin(cb);
    if ((rc = REAL(aio_write)(cb)) < 0)
        write_end(cb, -1);
    return rc;
}

ssize_t wrapped_aio_return(struct aiocb *cb)
{
    ssize_t done = REAL(aio_return)(cb);

    write_end(cb, done);
    return done;
}

/* Who only asks until it has ended does not take what it returns, perhaps. */
int wrapped_aio_error(const struct aiocb *cb)
{
    int status = REAL(aio_error)(cb);

    if (status != EINPROGRESS)
        write_end((struct aiocb *)cb,
                  status == 0 ? REAL(aio_return)((struct aiocb *)cb) : -1);
    return status;
}

int wrapped_lio_listio(int mode, struct aiocb *const list[], int n, struct sigevent *event)
{
    return each_begin(list, n) < 0 ? -1 : REAL(lio_listio)(mode, list, n, event);
}

/* With 64-bit offsets, which all of this library has, the two kinds of request are one. */
_Static_assert(sizeof(struct aiocb) == sizeof(struct aiocb64) &&
                   offsetof(struct aiocb, aio_offset) ==
                       offsetof(struct aiocb64, aio_offset),
               "aiocb64 is another structure");

int wrapped_aio_read64(struct aiocb64 *cb)
{
    return wrapped_aio_read((struct aiocb *)cb);
}

int wrapped_aio_write64(struct aiocb64 *cb)
{
    return wrapped_aio_write((struct aiocb *)cb);
}

int wrapped_aio_error64(const struct aiocb64 *cb)
{
    return wrapped_aio_error((const struct aiocb *)cb);
}

ssize_t wrapped_aio_return64(struct aiocb64 *cb)
{
    return wrapped_aio_return((struct aiocb *)cb);
}

int wrapped_lio_listio64(int mode, struct aiocb64 *const list[], int n,
                         struct sigevent *event)
{
    return wrapped_lio_listio(mode, (struct aiocb *const *)list, n, event);
}
