/*
 * stat.c - stat, statx, access and readlink of what is published but not here
 *
 * The real call answers for what is here, at no cost; the engine is asked only after
 * ENOENT. Nothing is fetched; a symbolic link that is to be followed is made here.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "wrapper/core.h"
#include "wrapper/fd.h"
#include "wrapper/path_find.h"
#include "wrapper/pointer.h"
#include "wrapper/real.h"
#include "wrapper/resolve.h"

/* After a real call that failed: what (dirfd, path) is. HERE: make the call again.
 * ELSEWHERE: *st is the answer. Else the call's result stands, with its errno. */
static enum wrapper_resolved look(int dirfd, const char *path, bool follow, struct stat *st)
{
    enum wrapper_resolved what;
    struct wrapper_path where;

    if (errno != ENOENT)
        return WRAPPER_NOWHERE;
    what = wrapper_resolve(dirfd, path, follow, &where, st);
    /* With DYAD_PATH_RELATIVE the real call looked in another place. */
    if (what == WRAPPER_HERE && where.moved)
        what =
            REAL(fstatat)(AT_FDCWD, where.text, st, follow ? 0 : AT_SYMLINK_NOFOLLOW) == 0
                ? WRAPPER_ELSEWHERE
                : WRAPPER_NOWHERE;
    return what;
}

/* A directory below a managed one, "": the one that is open. When something that is
 * published is brought into it, which the engine does without moving its mtime, it must not
 * look changed: tar complains of one whose ctime or size moves while it is read. So the
 * ctime of all of them is told as the mtime, and the size as that of one that is not here.
 */
static bool is_below(int dirfd, const char *path)
{
    struct wrapper_path where;

    if (!wrapper_active())
        return false;
    if (wrapper_bad_pointer(path) || !*path)
        return wrapper_path_find_fd_as(dirfd, WRAPPER_PATH_DIR, &where);
    return wrapper_path_find_as(dirfd, path, WRAPPER_PATH_DIR | WRAPPER_PATH_FOLLOW,
                                &where);
}

/* After a real call that has found a file with several links: is that out of date?
 * ELSEWHERE, or NOWHERE: it is not, or (*rc -1 and errno EIO) nobody can say what is
 * published. */
static enum wrapper_resolved look_newer(int dirfd, const char *path, bool follow,
                                        dev_t device, struct stat *st, int *rc)
{
    enum wrapper_resolved what;
    struct wrapper_path where;
    int saved = errno;

    if (!wrapper_active() || !wrapper_path_on_device(device))
        return WRAPPER_NOWHERE;
    what = wrapper_resolve(dirfd, path, follow, &where, st);
    if (what == WRAPPER_NOWHERE && errno == EIO)
        *rc = -1;
    else
        errno = saved;
    return what == WRAPPER_ELSEWHERE ? what : WRAPPER_NOWHERE;
}

#define MAY_BE_OLD(mode, nlink) __builtin_expect(S_ISREG(mode) && (nlink) > 1, 0)

#define DIRECTORY_SIZE 4096
#define STEADY(st)                      \
    do {                                \
        (st)->st_ctim = (st)->st_mtim;  \
        (st)->st_size = DIRECTORY_SIZE; \
    } while (0)

/* stat and stat64 are one type where off_t has 64 bits. */
#define COPY_STAT(to, from)                    \
    do {                                       \
        memset(to, 0, sizeof(*(to)));          \
        (to)->st_dev = (from)->st_dev;         \
        (to)->st_ino = (from)->st_ino;         \
        (to)->st_mode = (from)->st_mode;       \
        (to)->st_nlink = (from)->st_nlink;     \
        (to)->st_uid = (from)->st_uid;         \
        (to)->st_gid = (from)->st_gid;         \
        (to)->st_size = (from)->st_size;       \
        (to)->st_blksize = (from)->st_blksize; \
        (to)->st_blocks = (from)->st_blocks;   \
        (to)->st_atim = (from)->st_atim;       \
        (to)->st_mtim = (from)->st_mtim;       \
        (to)->st_ctim = (from)->st_ctim;       \
    } while (0)

#define ANSWER(call, dirfd, path, follow, st)                                  \
    do {                                                                       \
        enum wrapper_resolved what = WRAPPER_NOWHERE;                          \
        struct stat found;                                                     \
        int saved = errno, rc = (call);                                        \
        if (__builtin_expect(rc < 0, 0))                                       \
            what = look(dirfd, path, follow, &found);                          \
        else if (MAY_BE_OLD((st)->st_mode, (st)->st_nlink))                    \
            what = look_newer(dirfd, path, follow, (st)->st_dev, &found, &rc); \
        if (what == WRAPPER_HERE)                                              \
            rc = (call);                                                       \
        if (what == WRAPPER_ELSEWHERE && wrapper_bad_pointer(st)) {            \
            errno = EFAULT;                                                    \
        } else if (what == WRAPPER_ELSEWHERE) {                                \
            COPY_STAT(st, &found);                                             \
            rc = 0;                                                            \
        } else if (rc == 0 && S_ISDIR((st)->st_mode) && is_below(dirfd, path)) \
            STEADY(st);                                                        \
        if (what != WRAPPER_NOWHERE && rc == 0)                                \
            errno = saved;                                                     \
        return rc;                                                             \
    } while (0)

#define DEFINE_FSTAT(name, params, fd, ...)                                     \
    int wrapped_##name params                                                   \
    {                                                                           \
        if (__builtin_expect(wrapper_fd_marked(fd), 0) && wrapper_show(fd) < 0) \
            return -1;                                                          \
        int rc = REAL(name)(__VA_ARGS__);                                       \
        if (__builtin_expect(rc == 0 && S_ISDIR(st->st_mode), 0) &&             \
            wrapper_path_on_device(st->st_dev) && is_below(fd, ""))             \
            STEADY(st);                                                         \
        return rc;                                                              \
    }
DEFINE_FSTAT(fstat, (int fd, struct stat *st), fd, fd, st)
DEFINE_FSTAT(fstat64, (int fd, struct stat64 *st), fd, fd, st)
DEFINE_FSTAT(__fxstat, (int ver, int fd, struct stat *st), fd, ver, fd, st)
DEFINE_FSTAT(__fxstat64, (int ver, int fd, struct stat64 *st), fd, ver, fd, st)

#define DEFINE_STAT(name, stat_type, follow)                      \
    int wrapped_##name(const char *path, stat_type *st)           \
    {                                                             \
        ANSWER(REAL(name)(path, st), AT_FDCWD, path, follow, st); \
    }
DEFINE_STAT(stat, struct stat, true)
DEFINE_STAT(stat64, struct stat64, true)
DEFINE_STAT(lstat, struct stat, false)
DEFINE_STAT(lstat64, struct stat64, false)

#define DEFINE_XSTAT(name, stat_type, follow)                          \
    int wrapped_##name(int ver, const char *path, stat_type *st)       \
    {                                                                  \
        ANSWER(REAL(name)(ver, path, st), AT_FDCWD, path, follow, st); \
    }
DEFINE_XSTAT(__xstat, struct stat, true)
DEFINE_XSTAT(__xstat64, struct stat64, true)
DEFINE_XSTAT(__lxstat, struct stat, false)
DEFINE_XSTAT(__lxstat64, struct stat64, false)

#define FOLLOWS(flags) (((flags)&AT_SYMLINK_NOFOLLOW) == 0)

int wrapped_fstatat(int dirfd, const char *path, struct stat *st, int flags)
{
    ANSWER(REAL(fstatat)(dirfd, path, st, flags), dirfd, path, FOLLOWS(flags), st);
}

int wrapped_fstatat64(int dirfd, const char *path, struct stat64 *st, int flags)
{
    ANSWER(REAL(fstatat64)(dirfd, path, st, flags), dirfd, path, FOLLOWS(flags), st);
}

int wrapped___fxstatat(int ver, int dirfd, const char *path, struct stat *st, int flags)
{
    ANSWER(REAL(__fxstatat)(ver, dirfd, path, st, flags), dirfd, path, FOLLOWS(flags), st);
}

int wrapped___fxstatat64(int ver, int dirfd, const char *path, struct stat64 *st, int flags)
{
    ANSWER(REAL(__fxstatat64)(ver, dirfd, path, st, flags), dirfd, path, FOLLOWS(flags),
           st);
}

static struct statx_timestamp stamp(struct timespec ts)
{
    return (struct statx_timestamp){.tv_sec = ts.tv_sec, .tv_nsec = (uint32_t)ts.tv_nsec};
}

int wrapped_statx(int dirfd, const char *path, int flags, unsigned mask, struct statx *stx)
{
    enum wrapper_resolved what = WRAPPER_NOWHERE;
    struct stat st;
    int saved = errno, rc = REAL(statx)(dirfd, path, flags, mask, stx);

    if (rc == 0 && MAY_BE_OLD(stx->stx_mode, stx->stx_nlink))
        what = look_newer(dirfd, path, FOLLOWS(flags),
                          makedev(stx->stx_dev_major, stx->stx_dev_minor), &st, &rc);
    else if (rc < 0)
        what = look(dirfd, path, FOLLOWS(flags), &st);
    if (rc == 0 && what == WRAPPER_NOWHERE) {
        if (S_ISDIR(stx->stx_mode) && is_below(dirfd, path)) {
            stx->stx_ctime = stx->stx_mtime;
            stx->stx_size = DIRECTORY_SIZE;
        }
        return rc;
    }
    switch (what) {
    case WRAPPER_NOWHERE:
        return rc;
    case WRAPPER_HERE:
        rc = REAL(statx)(dirfd, path, flags, mask, stx);
        errno = rc < 0 ? errno : saved;
        return rc;
    case WRAPPER_ELSEWHERE:
        break;
    }
    if (wrapper_bad_pointer(stx)) {
        errno = EFAULT;
        return -1;
    }
    memset(stx, 0, sizeof(*stx));
    stx->stx_mask = STATX_BASIC_STATS;
    stx->stx_blksize = (uint32_t)st.st_blksize;
    stx->stx_nlink = (uint32_t)st.st_nlink;
    stx->stx_uid = st.st_uid;
    stx->stx_gid = st.st_gid;
    stx->stx_mode = (uint16_t)st.st_mode;
    stx->stx_ino = st.st_ino;
    stx->stx_size = (uint64_t)st.st_size;
    stx->stx_blocks = (uint64_t)st.st_blocks;
    stx->stx_dev_major = major(st.st_dev);
    stx->stx_dev_minor = minor(st.st_dev);
    stx->stx_atime = stamp(st.st_atim);
    stx->stx_mtime = stamp(st.st_mtim);
    stx->stx_ctime = stamp(st.st_ctim);
    errno = saved;
    return 0;
}

/* The copy that open would make belongs to this process's user: the owner's bits decide. */
static int check_mode(const struct stat *st, int mode)
{
    unsigned allowed = (st->st_mode >> 6) & 7;

    if (geteuid() == 0)
        allowed = R_OK | W_OK | (S_ISDIR(st->st_mode) || (st->st_mode & 0111) ? X_OK : 0);
    if (((unsigned)mode & ~allowed & 7) == 0)
        return 0;
    errno = EACCES;
    return -1;
}

#define CHECKED(call, dirfd, path, mode, follow)  \
    do {                                          \
        enum wrapper_resolved what;               \
        struct stat found;                        \
        int before = errno, rc = (call);          \
        if (__builtin_expect(rc == 0, 1))         \
            return 0;                             \
        what = look(dirfd, path, follow, &found); \
        if (what == WRAPPER_NOWHERE)              \
            return rc;                            \
        errno = before;                           \
        if (what == WRAPPER_HERE)                 \
            return (call);                        \
        return check_mode(&found, mode);          \
    } while (0)

int wrapped_access(const char *path, int mode)
{
    CHECKED(REAL(access)(path, mode), AT_FDCWD, path, mode, true);
}

int wrapped_faccessat(int dirfd, const char *path, int mode, int flags)
{
    CHECKED(REAL(faccessat)(dirfd, path, mode, flags), dirfd, path, mode, FOLLOWS(flags));
}

int wrapped_euidaccess(const char *path, int mode)
{
    CHECKED(REAL(euidaccess)(path, mode), AT_FDCWD, path, mode, true);
}

int wrapped_eaccess(const char *path, int mode)
{
    CHECKED(REAL(eaccess)(path, mode), AT_FDCWD, path, mode, true);
}

/* --- readlink ------------------------------------------------------------------------- */

/* After a real readlink that did not find it. True: again, with where's path if `moved`. */
static bool bring_link(int dirfd, const char *path, struct wrapper_path *where)
{
    const struct engine_ops *ops;
    struct stat st;

    switch (wrapper_resolve(dirfd, path, false, where, &st)) {
    case WRAPPER_NOWHERE:
        return false;
    case WRAPPER_HERE:
        return true;
    case WRAPPER_ELSEWHERE:
        break;
    }
    if (!S_ISLNK(st.st_mode)) {
        errno = EINVAL;
        return false;
    }
    ops = wrapper_engine();
    return ENGINE_CALL(ops->consume(ENGINE_CONSUMER, where->upath[ENGINE_CONSUMER],
                                    ENGINE_CONSUME_NOW)) == 0;
}

#define READLINK(dirfd, path, call)                                           \
    do {                                                                      \
        struct wrapper_path where;                                            \
        int saved = errno;                                                    \
        ssize_t n = (call);                                                   \
        if (__builtin_expect(n < 0, 0) && errno == ENOENT && path && *path && \
            wrapper_active() && bring_link(dirfd, path, &where)) {            \
            path = where.moved ? where.text : path;                           \
            n = (call);                                                       \
            errno = n < 0 ? errno : saved;                                    \
        }                                                                     \
        return n;                                                             \
    } while (0)

ssize_t wrapped_readlink(const char *path, char *buf, size_t size)
{
    READLINK(AT_FDCWD, path, REAL(readlink)(path, buf, size));
}

ssize_t wrapped_readlinkat(int dirfd, const char *path, char *buf, size_t size)
{
    READLINK(dirfd, path, REAL(readlinkat)(dirfd, path, buf, size));
}

ssize_t wrapped___readlink_chk(const char *path, char *buf, size_t size, size_t room)
{
    READLINK(AT_FDCWD, path, REAL(__readlink_chk)(path, buf, size, room));
}

ssize_t wrapped___readlinkat_chk(int dirfd, const char *path, char *buf, size_t size,
                                 size_t room)
{
    READLINK(dirfd, path, REAL(__readlinkat_chk)(dirfd, path, buf, size, room));
}
