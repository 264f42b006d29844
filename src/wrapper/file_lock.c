/*
 * file_lock.c - locks
 *
 * The engine's mark of an open description is an OFD lock on one byte beyond the end of any
 * file, and other locks of its own are below that. A lock of the program "to the end of the file"
 * would reach them, so it is cut off below: for the program's own purposes that is the same.
 *
 * A lock of a file that other nodes write, too, is asked of the member, which has it taken on all of
 * them (engine/publish/locks.c); the kernel has none of this process then. So it is for the locks of
 * processes (fcntl, lockf); others (OFD, flock) fail with ENOLCK there.
 */
#include "wrapper/file_lock.h"

#include <errno.h>
#include <stdint.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wrapper/core.h"
#include "wrapper/fd.h"
#include "wrapper/path_find.h"
#include "wrapper/pointer.h"
#include "wrapper/real.h"

#define LOCK_BYTE (((int64_t)1 << 62) - 2) /* the first of the engine's: STORE_LOCKS_END */

/* If a lock from `start` for `len` (0: to the end) reaches our bytes: its length without
 * them; else 0. */
static int64_t clip(int64_t start, int64_t len)
{
    if (start < 0 || start >= LOCK_BYTE || len < 0 || (len > 0 && len <= LOCK_BYTE - start))
        return 0;
    return LOCK_BYTE - start;
}

static bool is_below(int fd)
{
    struct wrapper_path where;

    return wrapper_active() && (wrapper_fd_marked(fd) || wrapper_path_find_fd(fd, &where));
}

static int64_t lock_start(int fd, const struct flock *lock)
{
    struct stat st;
    int64_t base = 0;
    int saved = errno;

    if (lock->l_whence == SEEK_CUR)
        base = lseek(fd, 0, SEEK_CUR);
    else if (lock->l_whence == SEEK_END)
        base = fstat(fd, &st) == 0 ? st.st_size : -1;
    errno = saved;
    return base < 0 ? -1 : base + lock->l_start;
}

/* --- of files that other nodes write, too --- */

/* True for a lock that processes of other nodes are to respect. */
static bool is_shared(int fd)
{
    return wrapper_fd_marked(fd) && wrapper_tracks(fd) && wrapper_fd_shared(fd);
}

/* The bytes of it. 0, or -1 with EINVAL. */
static int range_of(int fd, const struct flock *lock, uint64_t *offset, uint64_t *length)
{
    bool whence = lock->l_whence == SEEK_SET || lock->l_whence == SEEK_CUR ||
                  lock->l_whence == SEEK_END;
    int64_t start = -1, len = lock->l_len;

    if (whence && lock->l_start > -LOCK_BYTE && lock->l_start < LOCK_BYTE &&
        len > -LOCK_BYTE)
        start = lock_start(fd, lock);
    if (len < 0) {
        start += len;
        len = -len;
    }
    if (start < 0 || start >= LOCK_BYTE) {
        errno = EINVAL;
        return -1;
    }
    *offset = (uint64_t)start;
    *length = (uint64_t)(len == 0 || len > LOCK_BYTE - start ? LOCK_BYTE - start : len);
    return 0;
}

/* As the kernel asks for it. */
static bool may(int fd, short type)
{
    int flags = REAL(fcntl)(fd, F_GETFL) & O_ACCMODE;

    return type == F_UNLCK || flags == O_RDWR ||
           flags == (type == F_WRLCK ? O_WRONLY : O_RDONLY);
}

/* What a lock of the process on the node's own file would have been is one for all nodes. */
static int lock_shared(int fd, int cmd, struct flock *lock, wrapper_fn_fcntl *real)
{
    enum engine_lock type = lock->l_type == F_WRLCK   ? ENGINE_LOCK_WRITE
                            : lock->l_type == F_RDLCK ? ENGINE_LOCK_READ
                                                      : ENGINE_LOCK_NONE;
    uint64_t offset, length;
    struct flock here;
    int rc;

    if (cmd == F_OFD_GETLK || cmd == F_OFD_SETLK || cmd == F_OFD_SETLKW) {
        if (cmd != F_OFD_GETLK && lock->l_type == F_UNLCK)
            return real(fd, cmd, lock);
        errno = ENOLCK;
        return -1;
    }
    if ((type == ENGINE_LOCK_NONE && lock->l_type != F_UNLCK) ||
        (cmd == F_GETLK && type == ENGINE_LOCK_NONE)) {
        errno = EINVAL;
        return -1;
    }
    if (range_of(fd, lock, &offset, &length) < 0)
        return -1;
    if (cmd != F_GETLK && !may(fd, lock->l_type)) {
        errno = EBADF;
        return -1;
    }
    if (cmd == F_GETLK) {
        rc = wrapper_fd_lock(fd, offset, length, type, ENGINE_LOCK_TEST);
        if (rc < 0 && errno == ENOENT)
            return real(fd, cmd, lock);
        if (rc == 0) {
            lock->l_type = F_UNLCK;
        } else if (errno == EAGAIN) {
            *lock = (struct flock){.l_type = F_WRLCK,
                                   .l_whence = SEEK_SET,
                                   .l_start = (off_t)offset,
                                   .l_len = (off_t)length,
                                   .l_pid = -1};
            rc = 0;
        }
        return rc;
    }
    if (type == ENGINE_LOCK_NONE) { /* also what it has locked before other nodes came */
        here = *lock;
        here.l_whence = SEEK_SET;
        here.l_start = (off_t)offset;
        here.l_len = (off_t)length;
        if (real(fd, F_SETLK, &here) < 0)
            return -1;
    }
    rc = wrapper_fd_lock(fd, offset, length, type, cmd == F_SETLKW ? ENGINE_LOCK_WAIT : 0);
    return rc < 0 && errno == ENOENT ? real(fd, cmd, lock) : rc;
}

int wrapper_lock(int fd, int cmd, struct flock *lock, wrapper_fn_fcntl *real)
{
    struct flock clipped;
    int64_t start, len;
    int rc;

    if (!wrapper_bad_pointer(lock) && is_shared(fd))
        return lock_shared(fd, cmd, lock, real);
    if (wrapper_bad_pointer(lock) || (lock->l_len != 0 && lock->l_len <= LOCK_BYTE / 2) ||
        !is_below(fd))
        return real(fd, cmd, lock);
    start = lock_start(fd, lock);
    len = clip(start, lock->l_len);
    if (!len)
        return real(fd, cmd, lock);
    clipped = *lock;
    clipped.l_len = len;
    rc = real(fd, cmd, &clipped);
    if (rc == 0 && (cmd == F_GETLK || cmd == F_OFD_GETLK)) {
        if (clipped.l_type == F_UNLCK) {
            lock->l_type = F_UNLCK;
        } else {
            /* Another process's lock, cut off as ours would be. */
            if (clipped.l_start + clipped.l_len == LOCK_BYTE)
                clipped.l_len = 0;
            *lock = clipped;
        }
    }
    return rc;
}

static int64_t lockf_len(int fd, int64_t len)
{
    int64_t pos, clipped;
    int saved = errno;

    if ((len != 0 && len <= LOCK_BYTE / 2) || !is_below(fd))
        return len;
    pos = lseek(fd, 0, SEEK_CUR);
    errno = saved;
    clipped = clip(pos, len);
    return clipped ? clipped : len;
}

static int lockf_shared(int fd, int cmd, int64_t len)
{
    struct flock lock = {.l_type = cmd == F_ULOCK ? F_UNLCK : F_WRLCK,
                         .l_whence = SEEK_CUR,
                         .l_len = (off_t)len};
    int rc = lock_shared(fd,
                         cmd == F_LOCK   ? F_SETLKW
                         : cmd == F_TEST ? F_GETLK
                                         : F_SETLK,
                         &lock, REAL(fcntl));

    if (rc == 0 && cmd == F_TEST && lock.l_type != F_UNLCK) {
        errno = EACCES;
        return -1;
    }
    return rc;
}

static bool is_lockf(int cmd)
{
    return cmd == F_LOCK || cmd == F_TLOCK || cmd == F_ULOCK || cmd == F_TEST;
}

int wrapped_lockf(int fd, int cmd, off_t len)
{
    if (is_lockf(cmd) && is_shared(fd))
        return lockf_shared(fd, cmd, len);
    return REAL(lockf)(fd, cmd, (off_t)lockf_len(fd, len));
}

int wrapped_lockf64(int fd, int cmd, off64_t len)
{
    if (is_lockf(cmd) && is_shared(fd))
        return lockf_shared(fd, cmd, len);
    return REAL(lockf64)(fd, cmd, lockf_len(fd, len));
}

/* There is no such lock for all nodes. */
int wrapped_flock(int fd, int operation)
{
    if (!(operation & LOCK_UN) && is_shared(fd)) {
        errno = ENOLCK;
        return -1;
    }
    return REAL(flock)(fd, operation);
}
