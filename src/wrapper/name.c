/*
 * name.c - rename, link, unlink, remove; chdir
 *
 * The real call first; then the engine hears what happened. If it cannot tell the others
 * the caller gets its error, as for close: the local part has been done.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wrapper/core.h"
#include "wrapper/path.h"
#include "wrapper/real.h"

#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE (1 << 1)
#endif

struct name {
    struct wrapper_path where;
    bool managed;
    int dirfd; /* what to give the real call */
    const char *path;
};

/* False: the whole call is none of ours. */
static bool find(struct name *name, int dirfd, const char *path)
{
    name->managed = wrapper_path_find(dirfd, path, &name->where);
    name->dirfd = dirfd;
    name->path = name->managed && name->where.moved ? name->where.text : path;
    return name->managed;
}

/* One side at a time: with two directories a name may move from one to the other. */
static int tell_renamed(const struct engine_ops *ops, const struct name *from,
                        const struct name *to)
{
    const char *from_upath =
        from && from->managed ? wrapper_path_upath(&from->where) : NULL;
    const char *to_upath = to->managed ? wrapper_path_upath(&to->where) : NULL;
    enum engine_side from_side =
        from_upath ? wrapper_path_side(&from->where) : ENGINE_PRODUCER;
    enum engine_side to_side = to_upath ? wrapper_path_side(&to->where) : ENGINE_PRODUCER;
    int saved = errno, rc = 0;

    if (from_upath && to_upath && from_side == to_side) {
        rc = ENGINE_CALL(ops->renamed(from_side, from_upath, to_upath));
    } else {
        if (to_upath)
            rc = ENGINE_CALL(ops->renamed(to_side, NULL, to_upath));
        if (from_upath && ENGINE_CALL(ops->renamed(from_side, from_upath, NULL)) < 0)
            rc = -1;
    }
    if (rc == 0)
        errno = saved;
    return rc;
}

/* Two names of one file: rename leaves both. */
static bool both_left(const struct name *from, const struct name *to)
{
    int saved = errno;
    struct stat a, b;
    bool both = REAL(fstatat)(from->dirfd, from->path, &a, AT_SYMLINK_NOFOLLOW) == 0 &&
                REAL(fstatat)(to->dirfd, to->path, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
                a.st_ino == b.st_ino && a.st_dev == b.st_dev;

    errno = saved;
    return both;
}

static int after_rename(int rc, const struct name *from, const struct name *to,
                        unsigned flags)
{
    const struct engine_ops *ops;

    if (rc < 0 || !wrapper_mine() || !(ops = wrapper_engine()))
        return rc;
    if (flags & RENAME_EXCHANGE) { /* both names are other files than before */
        if (to->managed)
            rc = tell_renamed(ops, NULL, to);
        if (from->managed && tell_renamed(ops, NULL, from) < 0)
            rc = -1;
        return rc;
    }
    if (both_left(from, to))
        return rc;
    return tell_renamed(ops, from, to);
}

/* The real call says that the source is not there. It may be published: bring it here,
 * without waiting for one that is not. True: the call is worth another try. */
static bool bring(const struct name *from)
{
    const struct engine_ops *ops;
    const char *upath = from->managed ? from->where.upath[ENGINE_CONSUMER] : NULL;

    if (!upath || !wrapper_mine() || !(ops = wrapper_engine()))
        return false;
    if (ENGINE_CALL(ops->consume(ENGINE_CONSUMER, upath, false)) == 0)
        return true;
    return false;
}

#define WITH_SOURCE(from, call)                        \
    ({                                                 \
        int rc_ = (call);                              \
        if (rc_ < 0 && errno == ENOENT && bring(from)) \
            rc_ = (call);                              \
        rc_;                                           \
    })

/* | and not ||: both are to be looked at. */
#define CONCERNS(from, fromfd, frompath, to, tofd, topath) \
    (wrapper_active() && (find(from, fromfd, frompath) | find(to, tofd, topath)))

int wrapped_rename(const char *from_path, const char *to_path)
{
    struct name from, to;

    if (!CONCERNS(&from, AT_FDCWD, from_path, &to, AT_FDCWD, to_path))
        return REAL(rename)(from_path, to_path);
    return after_rename(WITH_SOURCE(&from, REAL(rename)(from.path, to.path)), &from, &to,
                        0);
}

int wrapped_renameat(int fromfd, const char *from_path, int tofd, const char *to_path)
{
    struct name from, to;

    if (!CONCERNS(&from, fromfd, from_path, &to, tofd, to_path))
        return REAL(renameat)(fromfd, from_path, tofd, to_path);
    return after_rename(
        WITH_SOURCE(&from, REAL(renameat)(fromfd, from.path, tofd, to.path)), &from, &to,
        0);
}

int wrapped_renameat2(int fromfd, const char *from_path, int tofd, const char *to_path,
                      unsigned flags)
{
    struct name from, to;

    if (!CONCERNS(&from, fromfd, from_path, &to, tofd, to_path))
        return REAL(renameat2)(fromfd, from_path, tofd, to_path, flags);
    return after_rename(
        WITH_SOURCE(&from, REAL(renameat2)(fromfd, from.path, tofd, to.path, flags)), &from,
        &to, flags);
}

static int after_link(int rc, const struct name *to)
{
    const struct engine_ops *ops;

    if (rc < 0 || !to->managed || !wrapper_mine() || !(ops = wrapper_engine()))
        return rc;
    return tell_renamed(ops, NULL, to);
}

int wrapped_link(const char *from_path, const char *to_path)
{
    struct name from, to;

    if (!CONCERNS(&from, AT_FDCWD, from_path, &to, AT_FDCWD, to_path))
        return REAL(link)(from_path, to_path);
    return after_link(WITH_SOURCE(&from, REAL(link)(from.path, to.path)), &to);
}

int wrapped_linkat(int fromfd, const char *from_path, int tofd, const char *to_path,
                   int flags)
{
    struct name from, to;

    if (!CONCERNS(&from, fromfd, from_path, &to, tofd, to_path))
        return REAL(linkat)(fromfd, from_path, tofd, to_path, flags);
    return after_link(
        WITH_SOURCE(&from, REAL(linkat)(fromfd, from.path, tofd, to.path, flags)), &to);
}

/* A file that is only published can be removed too. */
static int after_unlink(int rc, const struct name *name)
{
    const struct engine_ops *ops;
    int saved = errno, told;

    if ((rc < 0 && errno != ENOENT) || !wrapper_mine() || !(ops = wrapper_engine()))
        return rc;
    told = ENGINE_CALL(ops->unlinked(wrapper_path_side(&name->where),
                                     wrapper_path_upath(&name->where), rc == 0));
    if (rc == 0 && told < 0 && errno == ENOENT)
        told = 0; /* it was here only */
    if (told == 0 && rc == 0)
        errno = saved;
    return told;
}

int wrapped_unlink(const char *path)
{
    struct name name;

    if (!wrapper_active() || !find(&name, AT_FDCWD, path))
        return REAL(unlink)(path);
    return after_unlink(REAL(unlink)(name.path), &name);
}

int wrapped_unlinkat(int dirfd, const char *path, int flags)
{
    struct name name;

    if ((flags & AT_REMOVEDIR) || !wrapper_active() || !find(&name, dirfd, path))
        return REAL(unlinkat)(dirfd, path, flags);
    return after_unlink(REAL(unlinkat)(dirfd, name.path, flags), &name);
}

int wrapped_remove(const char *path)
{
    struct name name;
    struct stat st;
    int saved = errno;

    if (!wrapper_active() || !find(&name, AT_FDCWD, path))
        return REAL(remove)(path);
    if (REAL(lstat)(name.path, &st) == 0 && S_ISDIR(st.st_mode)) {
        errno = saved;
        return REAL(remove)(name.path);
    }
    errno = saved;
    return after_unlink(REAL(remove)(name.path), &name);
}

int wrapped_chdir(const char *path)
{
    int rc = REAL(chdir)(path);

    if (rc == 0)
        wrapper_path_cwd_changed();
    return rc;
}

int wrapped_fchdir(int fd)
{
    int rc = REAL(fchdir)(fd);

    if (rc == 0)
        wrapper_path_cwd_changed();
    return rc;
}
