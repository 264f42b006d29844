/*
 * stat.c - stat, statx and access of files that are published but not here
 *
 * The real call answers for what is here, at no cost; the engine is asked only after
 * ENOENT.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "wrapper/core.h"
#include "wrapper/path.h"
#include "wrapper/real.h"

/* After a real call that returned rc: 1, and *st is filled: the file is published. Else the
 * call's result stands, with its errno. */
static bool is_elsewhere(int rc, int dirfd, const char *path, struct stat *st)
{
    const struct engine_ops *ops;
    struct wrapper_path where;
    int error = errno;

    if (rc == 0 || error != ENOENT || !wrapper_active() ||
        !wrapper_path_find(dirfd, path, &where) || !where.upath[ENGINE_CONSUMER] ||
        !wrapper_mine() || !(ops = wrapper_engine())) {
        return false;
    }
    /* With DYAD_PATH_RELATIVE the real call looked in another place. */
    if (where.moved && REAL(lstat)(where.text, st) == 0)
        return true;
    memset(st, 0, sizeof(*st));
    if (ENGINE_CALL(ops->lookup(ENGINE_CONSUMER, where.upath[ENGINE_CONSUMER], st)) == 0)
        return true;
    errno = error;
    return false;
}

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

#define ANSWER(call, dirfd, path, st)                                               \
    do {                                                                            \
        struct stat found;                                                          \
        int saved = errno, rc = (call);                                             \
        if (__builtin_expect(rc < 0, 0) && is_elsewhere(rc, dirfd, path, &found)) { \
            COPY_STAT(st, &found);                                                  \
            errno = saved;                                                          \
            rc = 0;                                                                 \
        }                                                                           \
        return rc;                                                                  \
    } while (0)

int wrapped_stat(const char *path, struct stat *st)
{
    ANSWER(REAL(stat)(path, st), AT_FDCWD, path, st);
}

int wrapped_stat64(const char *path, struct stat64 *st)
{
    ANSWER(REAL(stat64)(path, st), AT_FDCWD, path, st);
}

int wrapped_lstat(const char *path, struct stat *st)
{
    ANSWER(REAL(lstat)(path, st), AT_FDCWD, path, st);
}

int wrapped_lstat64(const char *path, struct stat64 *st)
{
    ANSWER(REAL(lstat64)(path, st), AT_FDCWD, path, st);
}

int wrapped_fstatat(int dirfd, const char *path, struct stat *st, int flags)
{
    ANSWER(REAL(fstatat)(dirfd, path, st, flags), dirfd, path, st);
}

int wrapped_fstatat64(int dirfd, const char *path, struct stat64 *st, int flags)
{
    ANSWER(REAL(fstatat64)(dirfd, path, st, flags), dirfd, path, st);
}

int wrapped___xstat(int ver, const char *path, struct stat *st)
{
    ANSWER(REAL(__xstat)(ver, path, st), AT_FDCWD, path, st);
}

int wrapped___xstat64(int ver, const char *path, struct stat64 *st)
{
    ANSWER(REAL(__xstat64)(ver, path, st), AT_FDCWD, path, st);
}

int wrapped___lxstat(int ver, const char *path, struct stat *st)
{
    ANSWER(REAL(__lxstat)(ver, path, st), AT_FDCWD, path, st);
}

int wrapped___lxstat64(int ver, const char *path, struct stat64 *st)
{
    ANSWER(REAL(__lxstat64)(ver, path, st), AT_FDCWD, path, st);
}

int wrapped___fxstatat(int ver, int dirfd, const char *path, struct stat *st, int flags)
{
    ANSWER(REAL(__fxstatat)(ver, dirfd, path, st, flags), dirfd, path, st);
}

int wrapped___fxstatat64(int ver, int dirfd, const char *path, struct stat64 *st, int flags)
{
    ANSWER(REAL(__fxstatat64)(ver, dirfd, path, st, flags), dirfd, path, st);
}

static struct statx_timestamp stamp(struct timespec ts)
{
    return (struct statx_timestamp){.tv_sec = ts.tv_sec, .tv_nsec = (uint32_t)ts.tv_nsec};
}

int wrapped_statx(int dirfd, const char *path, int flags, unsigned mask, struct statx *stx)
{
    struct stat st;
    int saved = errno, rc = REAL(statx)(dirfd, path, flags, mask, stx);

    if (rc == 0 || !is_elsewhere(rc, dirfd, path, &st))
        return rc;
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
static int check_access(int rc, int dirfd, const char *path, int mode)
{
    int saved = errno;
    unsigned allowed;
    struct stat st;

    if (rc == 0 || !is_elsewhere(rc, dirfd, path, &st))
        return rc;
    allowed = (st.st_mode >> 6) & 7;
    if (geteuid() == 0)
        allowed = R_OK | W_OK | ((st.st_mode & 0111) ? X_OK : 0);
    errno = saved;
    if (((unsigned)mode & ~allowed & 7) == 0)
        return 0;
    errno = EACCES;
    return -1;
}

#define CHECKED(call, dirfd, path, mode)          \
    do {                                          \
        int before = errno, rc = (call);          \
        if (__builtin_expect(rc == 0, 1))         \
            return 0;                             \
        rc = check_access(rc, dirfd, path, mode); \
        if (rc == 0)                              \
            errno = before;                       \
        return rc;                                \
    } while (0)

int wrapped_access(const char *path, int mode)
{
    CHECKED(REAL(access)(path, mode), AT_FDCWD, path, mode);
}

int wrapped_faccessat(int dirfd, const char *path, int mode, int flags)
{
    CHECKED(REAL(faccessat)(dirfd, path, mode, flags), dirfd, path, mode);
}

int wrapped_euidaccess(const char *path, int mode)
{
    CHECKED(REAL(euidaccess)(path, mode), AT_FDCWD, path, mode);
}

int wrapped_eaccess(const char *path, int mode)
{
    CHECKED(REAL(eaccess)(path, mode), AT_FDCWD, path, mode);
}
