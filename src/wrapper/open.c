/*
 * open.c - open, openat, creat in all their forms
 *
 * Reading: the real open first, since most files are here. Then the engine says whether the
 * file is complete; if not, or if it is not here, it makes it so, waiting, and we open
 * again. It answers in bounded time or with an error, so the loop ends; a file that
 * vanishes again at once (ENOENT after consume said that it is here) is asked for at most
 * VANISHED times.
 *
 * Writing: the mark comes before the real open, so that nobody on this node can see the
 * file unmarked.
 */
#include "wrapper/open.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wrapper/core.h"
#include "wrapper/fd.h"
#include "wrapper/gate.h"
#include "wrapper/real.h"

#define VANISHED              4
#define IS_MODE_NEEDED(flags) (((flags)&O_CREAT) != 0 || ((flags)&O_TMPFILE) == O_TMPFILE)

bool wrapper_open_concerns(int flags)
{
    if (flags &
        (O_PATH | O_DIRECTORY)) /* O_TMPFILE contains O_DIRECTORY: no name, no file yet */
        return false;
    return (flags & O_ACCMODE) != O_ACCMODE; /* 3: for ioctl only */
}

bool wrapper_open_writes(int flags)
{
    return (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC));
}

static bool is_regular(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

/* Is the file, which the real open did not find, to be waited for? */
static const char *awaited(const struct wrapper_path *where)
{
    return where->upath[ENGINE_CONSUMER];
}

static int consume(const struct engine_ops *ops, const char *upath)
{
    return ENGINE_CALL(ops->consume(ENGINE_CONSUMER, upath, true));
}

static int open_read(const struct engine_ops *ops, const struct wrapper_opener *opener)
{
    const char *upath = awaited(opener->where);
    int vanished = 0, saved = errno;

    for (;;) {
        int fd = opener->open(opener->arg);
        if (fd >= 0) {
            if (!upath || !is_regular(fd) ||
                ENGINE_CALL(ops->read_check(ENGINE_CONSUMER, upath, fd)) != 1) {
                errno = saved;
                return fd;
            }
            opener->undo(opener->arg, fd);
        } else if (errno != ENOENT || !upath || ++vanished > VANISHED) {
            return -1;
        }
        if (consume(ops, upath) < 0)
            return -1;
    }
}

/* fd, marked by token, could not be entered in the table, and is closed or stays unknown:
 * the file is not published. */
static void untracked(const struct engine_ops *ops, engine_token token)
{
    struct engine_closing closing;

    ENGINE_CALL_VOID(ops->write_closing(token, -1, &closing));
    ENGINE_CALL(ops->write_closed(&closing, EMFILE, false));
}

/* From the real open until the descriptor is known. */
static int open_marked(const struct engine_ops *ops, const struct wrapper_opener *opener,
                       engine_token token)
{
    const struct wrapper_path *where = opener->where;
    enum engine_side side = wrapper_path_side(where);
    int fd, error;

    fd = opener->open(opener->arg);
    error = errno;
    if (fd < 0 || !is_regular(fd)) {
        ENGINE_CALL_VOID(ops->write_opened(token, -1, opener->flags));
        errno = error;
        return fd;
    }
    ENGINE_CALL_VOID(ops->write_opened(token, fd, opener->flags));
    if (token && wrapper_fd_add(fd, token, side) < 0) {
        opener->undo(opener->arg, fd);
        untracked(ops, token);
        errno = EMFILE;
        return -1;
    }
    return fd;
}

/* Never waits, not even without O_CREAT: HDF5 and others probe so for a file that they are
 * about to make. What is published was fetched by write_begin. */
static int open_write(const struct engine_ops *ops, const struct wrapper_opener *opener)
{
    enum engine_side side = wrapper_path_side(opener->where);
    engine_token token = 0;
    int saved = errno, fd;

    if (ENGINE_CALL(
            ops->write_begin(side, opener->where->upath[side], opener->flags, &token)) < 0)
        return -1;
    wrapper_gate_enter();
    pthread_cleanup_push(wrapper_gate_leave_cleanup, NULL);
    fd = open_marked(ops, opener, token);
    pthread_cleanup_pop(1);
    if (fd >= 0)
        errno = saved;
    return fd;
}

int wrapper_open(const struct wrapper_opener *opener)
{
    const struct engine_ops *ops = wrapper_engine();

    if (!ops)
        return opener->open(opener->arg);
    return wrapper_open_writes(opener->flags) ? open_write(ops, opener)
                                              : open_read(ops, opener);
}

void wrapper_open_created(int fd, const struct wrapper_path *where, int flags)
{
    const struct engine_ops *ops = wrapper_engine();
    enum engine_side side = wrapper_path_side(where);
    engine_token token = 0;
    int saved = errno;

    if (ops &&
        ENGINE_CALL(ops->write_begin(side, where->upath[side], flags, &token)) == 0) {
        wrapper_gate_enter();
        ENGINE_CALL_VOID(ops->write_opened(token, fd, flags));
        if (token && wrapper_fd_add(fd, token, side) < 0)
            untracked(ops, token);
        wrapper_gate_leave();
    }
    errno = saved;
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

int wrapper_open_prepare(const struct wrapper_path *where, int flags)
{
    struct real_open o = {.openat = REAL(openat64), .path = where->text, .dirfd = AT_FDCWD};
    struct wrapper_opener opener = {
        .open = call_openat, .undo = undo_openat, .arg = &o, .where = where};
    const struct engine_ops *ops = wrapper_engine();
    int fd;

    /* O_NONBLOCK: to look at a FIFO must not wait for its writer. */
    o.flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    if (!ops || (flags & (O_CREAT | O_TRUNC)))
        return 0;
    fd = open_read(ops, &opener);
    if (fd < 0)
        return errno == EACCES ? 0 : -1; /* write-only file: the real call knows better */
    REAL(close)(fd);
    return 0;
}

/* True if the open is ours; then its result is *fd. */
static bool managed_open(int dirfd, const char *path, int flags, mode_t mode,
                         wrapper_fn_openat *real_openat, int *fd)
{
    struct wrapper_path where;
    struct real_open o = {
        .openat = real_openat, .path = path, .dirfd = dirfd, .flags = flags, .mode = mode};
    struct wrapper_opener opener = {.open = call_openat,
                                    .undo = undo_openat,
                                    .arg = &o,
                                    .where = &where,
                                    .flags = flags};

    if (!wrapper_active() || !wrapper_path_find(dirfd, path, &where))
        return false;
    if (where.moved)
        o.path = where.text;
    if (!wrapper_open_concerns(flags) || !wrapper_mine()) {
        *fd = call_openat(&o);
        return true;
    }
    *fd = wrapper_open(&opener);
    return true;
}

/* glibc reads the variable argument under this very condition. */
#define GET_MODE(mode, flags)                 \
    mode_t mode = 0;                          \
    if (IS_MODE_NEEDED(flags)) {              \
        va_list ap_;                          \
        va_start(ap_, flags);                 \
        mode = (mode_t)va_arg(ap_, unsigned); \
        va_end(ap_);                          \
    }

#define DEFINE_OPEN(name, openat_name)                                         \
    int wrapped_##name(const char *path, int flags, ...)                       \
    {                                                                          \
        int fd;                                                                \
        GET_MODE(mode, flags)                                                  \
        if (managed_open(AT_FDCWD, path, flags, mode, REAL(openat_name), &fd)) \
            return fd;                                                         \
        return REAL(name)(path, flags, mode);                                  \
    }
DEFINE_OPEN(open, openat)
DEFINE_OPEN(open64, openat64)
DEFINE_OPEN(__open, openat)
DEFINE_OPEN(__open64, openat64)

#define DEFINE_OPENAT(name)                                          \
    int wrapped_##name(int dirfd, const char *path, int flags, ...)  \
    {                                                                \
        int fd;                                                      \
        GET_MODE(mode, flags)                                        \
        if (managed_open(dirfd, path, flags, mode, REAL(name), &fd)) \
            return fd;                                               \
        return REAL(name)(dirfd, path, flags, mode);                 \
    }
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)

/* The forms that FORTIFY makes of calls without a mode: with flags that need one the real
 * call aborts. */
#define DEFINE_OPEN_2(name, openat_name)                                    \
    int wrapped_##name(const char *path, int flags)                         \
    {                                                                       \
        int fd;                                                             \
        if (!IS_MODE_NEEDED(flags) &&                                       \
            managed_open(AT_FDCWD, path, flags, 0, REAL(openat_name), &fd)) \
            return fd;                                                      \
        return REAL(name)(path, flags);                                     \
    }
DEFINE_OPEN_2(__open_2, openat)
DEFINE_OPEN_2(__open64_2, openat64)

#define DEFINE_OPENAT_2(name, openat_name)                               \
    int wrapped_##name(int dirfd, const char *path, int flags)           \
    {                                                                    \
        int fd;                                                          \
        if (!IS_MODE_NEEDED(flags) &&                                    \
            managed_open(dirfd, path, flags, 0, REAL(openat_name), &fd)) \
            return fd;                                                   \
        return REAL(name)(dirfd, path, flags);                           \
    }
DEFINE_OPENAT_2(__openat_2, openat)
DEFINE_OPENAT_2(__openat64_2, openat64)

#define DEFINE_CREAT(name, openat_name)                                      \
    int wrapped_##name(const char *path, mode_t mode)                        \
    {                                                                        \
        int fd;                                                              \
        if (managed_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode, \
                         REAL(openat_name), &fd))                            \
            return fd;                                                       \
        return REAL(name)(path, mode);                                       \
    }
DEFINE_CREAT(creat, openat)
DEFINE_CREAT(creat64, openat64)
