/*
 * attr.c - modes, owners, times, extended attributes
 *
 * The real call first. What it does not find and is published is brought here, without
 * waiting, and it is made again. A change of a file that nobody has open for writing is
 * then published; if it is open, or the call was given a descriptor that is in our table,
 * its close sees the changed ctime.
 *
 * To watch what is published brings it here; what is told of its file system is that of the
 * managed directory.
 *
 * Extended attributes stay on the node where they are set. To ask for them brings nothing
 * here: what is published has none.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "wrapper/core.h"
#include "wrapper/fd.h"
#include "wrapper/path_find.h"
#include "wrapper/pointer.h"
#include "wrapper/real.h"
#include "wrapper/resolve.h"

/* Tell the others that *where was changed. If that fails the caller gets the error. */
static int tell(const struct wrapper_path *where)
{
    enum engine_role role = wrapper_path_role(where);
    const struct engine_ops *ops;
    int saved = errno, rc;

    if (!*where->upath[role] || !wrapper_mine() || !(ops = wrapper_engine()))
        return 0;
    rc = ENGINE_CALL(ops->changed(role, where->upath[role]));
    if (rc == 0)
        errno = saved;
    return rc;
}

/* `path` is what `call` uses. */
#define CHANGE(dirfd, path, follow, call)                                                  \
    do {                                                                                   \
        struct wrapper_path where;                                                         \
        const char *given = path;                                                          \
        int saved = errno, rc;                                                             \
        if (!wrapper_active() ||                                                           \
            !wrapper_path_find_as(                                                         \
                dirfd, given, WRAPPER_PATH_DIR | ((follow) ? WRAPPER_PATH_FOLLOW_ALL : 0), \
                &where))                                                                   \
            return (call);                                                                 \
        if (where.moved)                                                                   \
            path = where.text;                                                             \
        if (wrapper_bring_newest(dirfd, path, follow) < 0)                                 \
            return -1;                                                                     \
        rc = (call);                                                                       \
        if (rc < 0 && errno == ENOENT && wrapper_bring(dirfd, given, follow, &where)) {    \
            rc = (call);                                                                   \
            errno = rc < 0 ? errno : saved;                                                \
        }                                                                                  \
        return rc < 0 ? rc : tell(&where);                                                 \
    } while (0)

/* The same by descriptor. */
#define CHANGE_FD(fd, call)                                         \
    do {                                                            \
        struct wrapper_path where;                                  \
        int rc = (call);                                            \
        if (rc < 0 || wrapper_fd_marked(fd) || !wrapper_active() || \
            !wrapper_path_find_fd_as(fd, WRAPPER_PATH_DIR, &where)) \
            return rc;                                              \
        return tell(&where);                                        \
    } while (0)

#define FOLLOWS(flags)     (((flags)&AT_SYMLINK_NOFOLLOW) == 0)
#define IS_FD(path, flags) ((flags)&AT_EMPTY_PATH && !wrapper_bad_pointer(path) && !*(path))

/* --- mode, owner ---------------------------------------------------------------------- */

int wrapped_chmod(const char *path, mode_t mode)
{
    CHANGE(AT_FDCWD, path, true, REAL(chmod)(path, mode));
}

int wrapped_lchmod(const char *path, mode_t mode)
{
    CHANGE(AT_FDCWD, path, false, REAL(lchmod)(path, mode));
}

int wrapped_fchmod(int fd, mode_t mode)
{
    CHANGE_FD(fd, REAL(fchmod)(fd, mode));
}

int wrapped_fchmodat(int dirfd, const char *path, mode_t mode, int flags)
{
    if (IS_FD(path, flags))
        CHANGE_FD(dirfd, REAL(fchmodat)(dirfd, path, mode, flags));
    CHANGE(dirfd, path, FOLLOWS(flags), REAL(fchmodat)(dirfd, path, mode, flags));
}

int wrapped_chown(const char *path, uid_t uid, gid_t gid)
{
    CHANGE(AT_FDCWD, path, true, REAL(chown)(path, uid, gid));
}

int wrapped_lchown(const char *path, uid_t uid, gid_t gid)
{
    CHANGE(AT_FDCWD, path, false, REAL(lchown)(path, uid, gid));
}

int wrapped_fchown(int fd, uid_t uid, gid_t gid)
{
    CHANGE_FD(fd, REAL(fchown)(fd, uid, gid));
}

int wrapped_fchownat(int dirfd, const char *path, uid_t uid, gid_t gid, int flags)
{
    if (IS_FD(path, flags))
        CHANGE_FD(dirfd, REAL(fchownat)(dirfd, path, uid, gid, flags));
    CHANGE(dirfd, path, FOLLOWS(flags), REAL(fchownat)(dirfd, path, uid, gid, flags));
}

/* --- times ---------------------------------------------------------------------------- */

int wrapped_utime(const char *path, const struct utimbuf *times)
{
    CHANGE(AT_FDCWD, path, true, REAL(utime)(path, times));
}

int wrapped_utimes(const char *path, const struct timeval times[2])
{
    CHANGE(AT_FDCWD, path, true, REAL(utimes)(path, times));
}

int wrapped_lutimes(const char *path, const struct timeval times[2])
{
    CHANGE(AT_FDCWD, path, false, REAL(lutimes)(path, times));
}

int wrapped_futimes(int fd, const struct timeval times[2])
{
    CHANGE_FD(fd, REAL(futimes)(fd, times));
}

int wrapped_futimens(int fd, const struct timespec times[2])
{
    CHANGE_FD(fd, REAL(futimens)(fd, times));
}

int wrapped_utimensat(int dirfd, const char *path, const struct timespec times[2],
                      int flags)
{
    if (IS_FD(path, flags))
        CHANGE_FD(dirfd, REAL(utimensat)(dirfd, path, times, flags));
    CHANGE(dirfd, path, FOLLOWS(flags), REAL(utimensat)(dirfd, path, times, flags));
}

int wrapped_futimesat(int dirfd, const char *path, const struct timeval times[2])
{
    if (!path)
        CHANGE_FD(dirfd, REAL(futimesat)(dirfd, path, times));
    CHANGE(dirfd, path, true, REAL(futimesat)(dirfd, path, times));
}

/* --- extended attributes -------------------------------------------------------------- */

/* rc of a call that asks, answered with ENOENT; `none` if the name is only published. */
#define ASK(path, follow, call, none_rc, none_errno)                              \
    do {                                                                          \
        struct wrapper_path where;                                                \
        enum wrapper_resolved what;                                               \
        int saved = errno;                                                        \
        ssize_t rc = (call);                                                      \
        if (__builtin_expect(rc >= 0, 1) || errno != ENOENT || !wrapper_active()) \
            return rc;                                                            \
        /* lstat, after which it is asked most often, has not followed. */        \
        what = wrapper_resolved_before(AT_FDCWD, path, false)                     \
                   ? WRAPPER_ELSEWHERE                                            \
                   : wrapper_resolve(AT_FDCWD, path, follow, &where, NULL);       \
        if (what == WRAPPER_ELSEWHERE) {                                          \
            rc = none_rc;                                                         \
            errno = none_errno ? none_errno : saved;                              \
        } else if (what == WRAPPER_HERE) {                                        \
            path = where.moved ? where.text : path;                               \
            rc = (call);                                                          \
            errno = rc < 0 ? errno : saved;                                       \
        }                                                                         \
        return rc;                                                                \
    } while (0)

/* A call that sets: on the copy here, and there it stays. */
#define SET(path, follow, call)                                                   \
    do {                                                                          \
        struct wrapper_path where;                                                \
        int saved = errno, rc = (call);                                           \
        if (__builtin_expect(rc < 0, 0) && errno == ENOENT && wrapper_active() && \
            wrapper_bring(AT_FDCWD, path, follow, &where)) {                      \
            path = where.moved ? where.text : path;                               \
            rc = (call);                                                          \
            errno = rc < 0 ? errno : saved;                                       \
        }                                                                         \
        return rc;                                                                \
    } while (0)

#define DEFINE_XATTR(prefix, follow)                                                      \
    ssize_t wrapped_##prefix##getxattr(const char *path, const char *name, void *value,   \
                                       size_t size)                                       \
    {                                                                                     \
        ASK(path, follow, REAL(prefix##getxattr)(path, name, value, size), -1, ENODATA);  \
    }                                                                                     \
    ssize_t wrapped_##prefix##listxattr(const char *path, char *names, size_t size)       \
    {                                                                                     \
        ASK(path, follow, REAL(prefix##listxattr)(path, names, size), 0, 0);              \
    }                                                                                     \
    int wrapped_##prefix##setxattr(const char *path, const char *name, const void *value, \
                                   size_t size, int flags)                                \
    {                                                                                     \
        SET(path, follow, REAL(prefix##setxattr)(path, name, value, size, flags));        \
    }                                                                                     \
    int wrapped_##prefix##removexattr(const char *path, const char *name)                 \
    {                                                                                     \
        SET(path, follow, REAL(prefix##removexattr)(path, name));                         \
    }

DEFINE_XATTR(, true)
DEFINE_XATTR(l, false)

/* --- the file system ------------------------------------------------------------------ */

/* For a file that is published and not here: as for the managed directory. */
#define ASK_FILE_SYSTEM(path, call)                                                       \
    do {                                                                                  \
        struct wrapper_path where;                                                        \
        enum wrapper_resolved what;                                                       \
        int saved = errno;                                                                \
        long rc = (call);                                                                 \
        if (__builtin_expect(rc >= 0, 1) || errno != ENOENT || !wrapper_active())         \
            return (typeof(call))rc;                                                      \
        what = wrapper_resolve(AT_FDCWD, path, true, &where, NULL);                       \
        if (what == WRAPPER_NOWHERE || (what == WRAPPER_HERE && !where.moved))            \
            return (typeof(call))rc;                                                      \
        if (what == WRAPPER_ELSEWHERE)                                                    \
            where.text[strlen(where.text) - strlen(where.upath[ENGINE_CONSUMER])] = '\0'; \
        path = where.text;                                                                \
        rc = (call);                                                                      \
        errno = rc < 0 ? errno : saved;                                                   \
        return (typeof(call))rc;                                                          \
    } while (0)

#define DEFINE_STATFS(name)                                \
    int wrapped_##name(const char *path, struct name *buf) \
    {                                                      \
        ASK_FILE_SYSTEM(path, REAL(name)(path, buf));      \
    }

DEFINE_STATFS(statfs)
DEFINE_STATFS(statfs64)
DEFINE_STATFS(statvfs)
DEFINE_STATFS(statvfs64)

/* -1 with errno unchanged: no limit. */
long wrapped_pathconf(const char *path, int name)
{
    ASK_FILE_SYSTEM(path, REAL(pathconf)(path, name));
}

/* Of this node's copy. */
int wrapped_inotify_add_watch(int fd, const char *path, uint32_t mask)
{
    SET(path, (mask & IN_DONT_FOLLOW) == 0, REAL(inotify_add_watch)(fd, path, mask));
}
