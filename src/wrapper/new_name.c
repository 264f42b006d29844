/*
 * new_name.c - link, mkdir, symlink, mkfifo, mknod: new names
 *
 * As name.c: the real call first, then the engine hears of it. A name that is published
 * elsewhere is taken; a directory above it that is only published is made here.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/crash.h"
#include "wrapper/core.h"
#include "wrapper/fd.h"
#include "wrapper/name.h"
#include "wrapper/open.h"
#include "wrapper/pointer.h"
#include "wrapper/real.h"
#include "wrapper/resolve.h"

/* --- link ----------------------------------------------------------------------------- */

/* The descriptor by which linkat names a file, as for O_TMPFILE: "" with AT_EMPTY_PATH, or
 * /proc/self/fd/N. -1: none. */
static int source_fd(int fromfd, const char *from, int flags)
{
    static const char proc[] = "/proc/self/fd/";
    char *end;
    long fd;

    if (wrapper_bad_pointer(from))
        return -1;
    if ((flags & AT_EMPTY_PATH) && !*from)
        return fromfd;
    if (!(flags & AT_SYMLINK_FOLLOW) || strncmp(from, proc, sizeof(proc) - 1) != 0)
        return -1;
    fd = strtol(from + sizeof(proc) - 1, &end, 10);
    return end != from + sizeof(proc) - 1 && !*end && fd >= 0 && fd <= INT_MAX ? (int)fd
                                                                               : -1;
}

/* The file got its first name while fd is open for writing: it is complete when that is
 * closed. */
static bool track_first_name(int fd, const struct wrapper_name *to)
{
    int saved = errno, flags = REAL(fcntl)(fd, F_GETFL);
    struct stat st;
    bool tracked = false;

    if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && !(flags & O_PATH) &&
        REAL(fstatat)(fd, "", &st, AT_EMPTY_PATH) == 0 && S_ISREG(st.st_mode) &&
        st.st_nlink == 1) {
        if (!wrapper_fd_marked(fd))
            wrapper_open_created(fd, &to->where,
                                 (flags & O_ACCMODE) | O_CREAT | O_EXCL | O_TRUNC);
        tracked = wrapper_fd_marked(fd);
    }
    errno = saved;
    return tracked;
}

/* From now on the file may be written by its other name, and the homes must not give the
 * bytes of this one. */
static int tell_linked(const struct engine_ops *ops, const struct wrapper_name *from)
{
    enum engine_role role = wrapper_path_role(&from->where);
    const char *upath = from->where.upath[role];
    int saved = errno, rc = 0;

    if (from->managed && upath && *upath)
        rc = ENGINE_CALL(ops->changed(role, upath));
    if (rc == 0)
        errno = saved;
    return rc;
}

static int after_link(int rc, const struct wrapper_name *from,
                      const struct wrapper_name *to, int fd,
                      struct engine_renaming *renaming)
{
    const struct engine_ops *ops;

    if (rc == 0)
        DYAD_CRASH_POINT("link-made");
    if (rc < 0 || !(ops = wrapper_name_engine()))
        return rc;
    if (to->managed && !(fd >= 0 && track_first_name(fd, to)) &&
        wrapper_name_tell(ops, NULL, to, renaming) < 0)
        return -1;
    return tell_linked(ops, from);
}

int wrapped_link(const char *from_path, const char *to_path)
{
    struct engine_renaming renaming = ENGINE_RENAMING_NONE;
    struct wrapper_name from, to;
    int rc;

    if (!CONCERNS(&from, AT_FDCWD, from_path, &to, AT_FDCWD, to_path))
        return REAL(link)(from_path, to_path);
    if (wrapper_name_check_free(&to) < 0 ||
        (from.managed && wrapper_bring_newest(from.dirfd, from.path, false) < 0))
        return -1;
    rc = WITH_BOTH(&from, &to, false,
                   (wrapper_name_intend(&renaming, NULL, &to, &from, false),
                    REAL(link)(from.path, to.path)));
    return wrapper_name_over(&renaming, after_link(rc, &from, &to, -1, &renaming));
}

/* A file that is named by its descriptor may be one that is being written and has no name
 * yet: its close publishes it, and if this process is killed it is no complete file. */
static void intend_link(struct engine_renaming *renaming, const struct wrapper_name *from,
                        const struct wrapper_name *to, int fd, int flags)
{
    if (fd < 0)
        wrapper_name_intend(renaming, NULL, to, from, flags & AT_SYMLINK_FOLLOW);
}

int wrapped_linkat(int fromfd, const char *from_path, int tofd, const char *to_path,
                   int flags)
{
    struct engine_renaming renaming = ENGINE_RENAMING_NONE;
    int fd = source_fd(fromfd, from_path, flags), rc;
    struct wrapper_name from, to;

    if (!CONCERNS(&from, fromfd, from_path, &to, tofd, to_path))
        return REAL(linkat)(fromfd, from_path, tofd, to_path, flags);
    if (fd >= 0)
        from.managed = false; /* it is here, whatever it is called */
    if (wrapper_name_check_free(&to) < 0 ||
        (from.managed &&
         wrapper_bring_newest(from.dirfd, from.path, flags & AT_SYMLINK_FOLLOW) < 0))
        return -1;
    rc = WITH_BOTH(&from, &to, flags & AT_SYMLINK_FOLLOW,
                   (intend_link(&renaming, &from, &to, fd, flags),
                    REAL(linkat)(fromfd, from.path, tofd, to.path, flags)));
    return wrapper_name_over(&renaming, after_link(rc, &from, &to, fd, &renaming));
}

/* --- the others ----------------------------------------------------------------------- */

enum made { MADE_PUBLIC, MADE_FILE, MADE_LOCAL };

static int after_make(int rc, const struct wrapper_name *name, enum made made)
{
    const struct engine_ops *ops;
    int saved = errno;

    if (rc < 0 || made == MADE_LOCAL || !(ops = wrapper_name_engine()))
        return rc;
    if (made == MADE_FILE)
        return wrapper_name_tell(ops, NULL, name, NULL);
    rc = ENGINE_CALL(
        ops->changed(wrapper_path_role(&name->where), wrapper_path_upath(&name->where)));
    if (rc == 0)
        errno = saved;
    return rc;
}

/* `path` is what `call` uses. */
#define MAKE(dirfd, path, made, call)                                                 \
    do {                                                                              \
        struct wrapper_name name;                                                     \
        if (!wrapper_active() || !wrapper_name_find(&name, dirfd, path))              \
            return (call);                                                            \
        if (wrapper_name_check_free(&name) < 0)                                       \
            return -1;                                                                \
        path = name.path;                                                             \
        return after_make(WITH_BOTH((struct wrapper_name *)NULL, &name, false, call), \
                          &name, made);                                               \
    } while (0)

int wrapped_mkdir(const char *path, mode_t mode)
{
    MAKE(AT_FDCWD, path, MADE_PUBLIC, REAL(mkdir)(path, mode));
}

int wrapped_mkdirat(int dirfd, const char *path, mode_t mode)
{
    MAKE(dirfd, path, MADE_PUBLIC, REAL(mkdirat)(dirfd, path, mode));
}

int wrapped_symlink(const char *target, const char *path)
{
    MAKE(AT_FDCWD, path, MADE_PUBLIC, wrapper_name_moved(REAL(symlink)(target, path)));
}

int wrapped_symlinkat(const char *target, int dirfd, const char *path)
{
    MAKE(dirfd, path, MADE_PUBLIC,
         wrapper_name_moved(REAL(symlinkat)(target, dirfd, path)));
}

/* FIFOs, sockets and devices are the node's. */
int wrapped_mkfifo(const char *path, mode_t mode)
{
    MAKE(AT_FDCWD, path, MADE_LOCAL, REAL(mkfifo)(path, mode));
}

int wrapped_mkfifoat(int dirfd, const char *path, mode_t mode)
{
    MAKE(dirfd, path, MADE_LOCAL, REAL(mkfifoat)(dirfd, path, mode));
}

#define MADE_BY_MKNOD(mode) (((mode)&S_IFMT) == 0 || S_ISREG(mode) ? MADE_FILE : MADE_LOCAL)

int wrapped_mknod(const char *path, mode_t mode, dev_t dev)
{
    MAKE(AT_FDCWD, path, MADE_BY_MKNOD(mode), REAL(mknod)(path, mode, dev));
}

int wrapped_mknodat(int dirfd, const char *path, mode_t mode, dev_t dev)
{
    MAKE(dirfd, path, MADE_BY_MKNOD(mode), REAL(mknodat)(dirfd, path, mode, dev));
}

int wrapped___xmknod(int ver, const char *path, mode_t mode, dev_t *dev)
{
    MAKE(AT_FDCWD, path, MADE_BY_MKNOD(mode), REAL(__xmknod)(ver, path, mode, dev));
}

int wrapped___xmknodat(int ver, int dirfd, const char *path, mode_t mode, dev_t *dev)
{
    MAKE(dirfd, path, MADE_BY_MKNOD(mode), REAL(__xmknodat)(ver, dirfd, path, mode, dev));
}
