/*
 * open.c - open, openat, creat in all their forms
 *
 * For reading: open_read_wait.c, for writing: open_write.c. Here is which of them it is.
 *
 * A file without a name (O_TMPFILE) is not tracked: it is published when linkat gives it
 * one.
 */
#include "wrapper/open.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wrapper/core.h"
#include "wrapper/open_impl.h"
#include "wrapper/real.h"
#include "wrapper/resolve.h"

#define IS_MODE_NEEDED(flags) (((flags)&O_CREAT) != 0 || ((flags)&O_TMPFILE) == O_TMPFILE)

unsigned wrapper_open_how(int flags)
{
    unsigned how = flags & (O_DIRECTORY | O_PATH) ? WRAPPER_PATH_DIR : 0;

    if ((flags & O_NOFOLLOW) || (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
        return how;
    if (!how && wrapper_open_writes(flags)) /* who writes through a link has to be seen */
        return WRAPPER_PATH_FOLLOW_ALL;
    return how | WRAPPER_PATH_FOLLOW;
}

bool wrapper_open_writes(int flags)
{
    return (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC));
}

bool wrapper_open_find(int dirfd, const char *path, unsigned how,
                       struct wrapper_path *where)
{
    if (!wrapper_path_find_as(dirfd, path, how, where))
        return false;
    if (__builtin_expect(!path || !strstr(path, "/.."), 1) || !wrapper_mine())
        return true;
    wrapper_bring_before_dots(dirfd, path);
    return wrapper_path_find_as(dirfd, path, how, where);
}

/* O_PATH, O_DIRECTORY, O_TMPFILE: nothing of a file's bytes. What is published is made
 * here, without waiting. */
static int open_name(const struct wrapper_opener *opener)
{
    int saved = errno, fd = opener->open(opener->arg);
    const struct engine_ops *ops;

    /* The engine itself opens directories, through the C API, before it is set up. */
    if (fd >= 0 || errno != ENOENT || !wrapper_open_awaited(opener->where) ||
        !(ops = wrapper_engine()))
        return fd;
    for (int links = 0, moved = 1; moved > 0 && links < WRAPPER_OPEN_LINKS_MAX; links++) {
        wrapper_open_bring_parents(ops, opener->where);
        moved = wrapper_open_consume(ops, opener->where, ENGINE_CONSUME_NOW);
        if (moved < 0)
            return -1;
    }
    fd = wrapper_open_real(opener);
    if (fd >= 0)
        errno = saved;
    return fd;
}

int wrapper_open(const struct wrapper_opener *opener)
{
    const struct engine_ops *ops;

    if (opener->flags & (O_PATH | O_DIRECTORY)) /* O_TMPFILE has O_DIRECTORY in it */
        return open_name(opener);
    if (!(ops = wrapper_engine()))
        return opener->open(opener->arg);
    if ((opener->flags & O_ACCMODE) == O_ACCMODE) /* 3: for ioctl only */
        return opener->open(opener->arg);
    if (!wrapper_open_writes(opener->flags))
        return wrapper_open_read(ops, opener);
    if ((opener->flags & O_ACCMODE) == O_RDONLY)
        return wrapper_open_read_or_make(ops, opener);
    if (opener->once || (opener->flags & O_CREAT))
        return wrapper_open_write(ops, opener);
    return wrapper_open_there(ops, opener);
}

struct real_open {
    wrapper_fn_openat *openat;
    const char *path;
    int dirfd, flags;
    mode_t mode;
};

static int call_openat(void *arg)
{
    const struct real_open *o = arg;

    return o->openat(o->dirfd, o->path, o->flags, o->mode);
}

static void undo_openat(void *arg, int fd)
{
    (void)arg;
    REAL(close)(fd);
}

static int call_lstat(void *arg)
{
    struct stat st;

    if (REAL(lstat)(((const struct wrapper_path *)arg)->text, &st) == 0)
        errno = EEXIST;
    return -1;
}

/* Before one for writing. */
static int prepare_write(const struct engine_ops *ops, struct wrapper_path *where,
                         int flags)
{
    struct wrapper_opener opener = {.open = call_lstat,
                                    .arg = where,
                                    .where = where,
                                    .flags = flags,
                                    .dirfd = AT_FDCWD};

    if (!(flags & O_CREAT))
        return wrapper_open_there(ops, &opener) < 0 && errno != EEXIST ? -1 : 0;
    call_lstat(where);
    if (errno == ENOENT && wrapper_open_awaited(where))
        wrapper_open_bring_parents(ops, where);
    return 0;
}

int wrapper_open_prepare(struct wrapper_path *where, int flags)
{
    const struct engine_ops *ops = wrapper_engine();
    int fd;

    if (!ops)
        return 0;
    if (wrapper_open_writes(flags))
        return prepare_write(ops, where, flags);
    if ((fd = wrapper_open_look(ops, where, WRAPPER_OPEN_LOOK)) >= 0)
        REAL(close)(fd);
    return fd == -2 ? -1 : 0;
}

/* True if the open is ours; then its result is *fd. */
static bool __attribute__((noinline))
managed_open(int dirfd, const char *path, int flags, mode_t mode, unsigned how,
             wrapper_fn_openat *real_openat, int *fd)
{
    struct wrapper_path where;
    struct real_open o = {
        .openat = real_openat, .path = path, .dirfd = dirfd, .flags = flags, .mode = mode};
    struct wrapper_opener opener = {.open = call_openat,
                                    .undo = undo_openat,
                                    .arg = &o,
                                    .where = &where,
                                    .flags = flags,
                                    .path = path,
                                    .dirfd = dirfd};

    if (!wrapper_open_find(dirfd, path, how, &where))
        return false;
    if (where.moved)
        o.path = where.text;
    *fd = wrapper_mine() ? wrapper_open(&opener) : call_openat(&o);
    wrapper_path_fd_changed(*fd);
    return true;
}

bool wrapper_open_dangling(int dirfd, const char *path, int flags)
{
    char target;

    if (errno != ENOENT || wrapper_open_how(flags) != WRAPPER_PATH_FOLLOW || !path)
        return false;
    if (syscall(SYS_readlinkat, dirfd, path, &target, 1) >= 0)
        return true;
    errno = ENOENT;
    return false;
}

/* `call` is the real function that the program called. */
#define OPEN(dirfd, path, flags, mode, openat_fn, call)                                 \
    do {                                                                                \
        int fd_;                                                                        \
        unsigned how_;                                                                  \
        if (!wrapper_active())                                                          \
            return call;                                                                \
        how_ = wrapper_open_how(flags);                                                 \
        if (!wrapper_path_elsewhere(dirfd, path, how_) &&                               \
            managed_open(dirfd, path, flags, mode, how_, openat_fn, &fd_))              \
            return fd_;                                                                 \
        fd_ = call;                                                                     \
        wrapper_path_fd_changed(fd_);                                                   \
        if (fd_ < 0 && wrapper_open_dangling(dirfd, path, flags) &&                     \
            !managed_open(dirfd, path, flags, mode, WRAPPER_PATH_FOLLOW_ALL, openat_fn, \
                          &fd_))                                                        \
            errno = ENOENT;                                                             \
        return fd_;                                                                     \
    } while (0)

/* glibc reads the variable argument under this very condition. */
#define GET_MODE(mode, flags)                 \
    mode_t mode = 0;                          \
    if (IS_MODE_NEEDED(flags)) {              \
        va_list ap_;                          \
        va_start(ap_, flags);                 \
        mode = (mode_t)va_arg(ap_, unsigned); \
        va_end(ap_);                          \
    }

#define DEFINE_OPEN(name, openat_name)                       \
    int wrapped_##name(const char *path, int flags, ...)     \
    {                                                        \
        GET_MODE(mode, flags)                                \
        OPEN(AT_FDCWD, path, flags, mode, REAL(openat_name), \
             REAL(name)(path, flags, mode));                 \
    }
DEFINE_OPEN(open, openat)
DEFINE_OPEN(open64, openat64)
DEFINE_OPEN(__open, openat)
DEFINE_OPEN(__open64, openat64)

#define DEFINE_OPENAT(name)                                                               \
    int wrapped_##name(int dirfd, const char *path, int flags, ...)                       \
    {                                                                                     \
        GET_MODE(mode, flags)                                                             \
        OPEN(dirfd, path, flags, mode, REAL(name), REAL(name)(dirfd, path, flags, mode)); \
    }
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)

/* The forms that FORTIFY makes of calls without a mode: with flags that need one the real
 * call aborts. */
#define DEFINE_OPEN_2(name, openat_name)                                            \
    int wrapped_##name(const char *path, int flags)                                 \
    {                                                                               \
        if (IS_MODE_NEEDED(flags))                                                  \
            return REAL(name)(path, flags);                                         \
        OPEN(AT_FDCWD, path, flags, 0, REAL(openat_name), REAL(name)(path, flags)); \
    }
DEFINE_OPEN_2(__open_2, openat)
DEFINE_OPEN_2(__open64_2, openat64)

#define DEFINE_OPENAT_2(name, openat_name)                                              \
    int wrapped_##name(int dirfd, const char *path, int flags)                          \
    {                                                                                   \
        if (IS_MODE_NEEDED(flags))                                                      \
            return REAL(name)(dirfd, path, flags);                                      \
        OPEN(dirfd, path, flags, 0, REAL(openat_name), REAL(name)(dirfd, path, flags)); \
    }
DEFINE_OPENAT_2(__openat_2, openat)
DEFINE_OPENAT_2(__openat64_2, openat64)

#define DEFINE_CREAT(name, openat_name)                                             \
    int wrapped_##name(const char *path, mode_t mode)                               \
    {                                                                               \
        OPEN(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode, REAL(openat_name), \
             REAL(name)(path, mode));                                               \
    }
DEFINE_CREAT(creat, openat)
DEFINE_CREAT(creat64, openat64)
