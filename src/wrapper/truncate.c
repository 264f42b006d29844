/*
 * truncate.c - truncate as an open, an ftruncate and a close
 *
 * So that what it changes is marked and published like any other write. As a look-up by
 * name it waits for nothing. O_NONBLOCK: a FIFO
 * must not wait for its reader. What cannot be opened, or is no regular file, gets the real
 * call, whose error is the right one; but for a lack of descriptors, which the real call
 * would not suffer, and which is reported, since its change would reach nobody.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wrapper/core.h"
#include "wrapper/fd.h"
#include "wrapper/open.h"
#include "wrapper/path_find.h"
#include "wrapper/real.h"

static int call_open(void *arg)
{
    return REAL(openat64)(AT_FDCWD, arg, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
}

static void undo_open(void *arg, int fd)
{
    (void)arg;
    REAL(close)(fd);
}

static int do_truncate(const char *path, off64_t len, wrapper_fn_truncate64 *real)
{
    struct wrapper_path where;
    struct wrapper_opener opener = {.open = call_open,
                                    .undo = undo_open,
                                    .where = &where,
                                    .flags = O_WRONLY,
                                    .once = true};
    int saved = errno, fd, rc, error;

    if (!wrapper_active() || !wrapper_path_find(AT_FDCWD, path, &where))
        return real(path, len);
    if (where.moved)
        path = where.text;
    if (len < 0 || !wrapper_mine())
        return real(path, len);
    opener.arg = (void *)(uintptr_t)path;
    fd = wrapper_open(&opener);
    if (fd < 0)
        return errno == EISDIR || errno == ENXIO ? real(path, len) : -1;
    if (!wrapper_tracks(fd)) { /* a device, or the engine declined */
        REAL(close)(fd);
        errno = saved;
        return real(path, len);
    }
    rc = ftruncate64(fd, len);
    error = errno;
    if (wrapper_fd_close_real(fd) < 0 && rc == 0)
        return -1;
    errno = rc < 0 ? error : saved;
    return rc;
}

int wrapped_truncate(const char *path, off_t len)
{
    return do_truncate(path, len, REAL(truncate));
}

int wrapped_truncate64(const char *path, off64_t len)
{
    return do_truncate(path, len, REAL(truncate64));
}
