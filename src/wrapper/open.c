/*
 * open.c - open, openat, creat in all their forms; opens for writing: open_write.c
 *
 * Reading: the real open first, since most files are here. Then the engine says whether the
 * file is complete; if not, or if it is not here, it makes it so, waiting, and we open
 * again. What it makes may be a symbolic link, or stand behind one that came with the
 * directories: so the path is resolved again each time, and what it then means is awaited
 * in its turn, unless it leads elsewhere. The engine answers in bounded time or with an
 * error, so the loop ends; a file that vanishes again at once (ENOENT after consume said
 * that it is here) is asked for at most WRAPPER_OPEN_VANISHED times, and links are followed
 * as often as the kernel does.
 *
 * A file without a name (O_TMPFILE) is not tracked: it is published when linkat gives it
 * one.
 */
#include "wrapper/open.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/env.h"
#include "wrapper/core.h"
#include "wrapper/library.h"
#include "wrapper/open_impl.h"
#include "wrapper/pointer.h"
#include "wrapper/real.h"
#include "wrapper/resolve.h"

#define LINE_SIZE             256 /* of a script, that the kernel looks at */
#define INTERPRETERS_MAX      5   /* scripts that interpret scripts: as the kernel */
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

int wrapper_open_real(const struct wrapper_opener *opener)
{
    wrapper_bring_before_dots(opener->dirfd, opener->path);
    return opener->open(opener->arg);
}

bool wrapper_open_is_regular(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

const char *wrapper_open_awaited(const struct wrapper_path *where)
{
    const char *upath = where->upath[ENGINE_CONSUMER];

    return upath && upath[0] ? upath : NULL;
}

int wrapper_open_bring_parents(const struct engine_ops *ops, struct wrapper_path *where)
{
    const char *upath;

    for (unsigned links = 0;
         links < WRAPPER_OPEN_LINKS_MAX && (upath = wrapper_open_awaited(where)); links++) {
        if (!strchr(upath, '/'))
            break;
        if (ENGINE_CALL(ops->bring_parents(ENGINE_CONSUMER, upath)) < 0 && errno != ESTALE)
            return errno == ENOENT ? 0 : errno;
        if (wrapper_path_again(where) != WRAPPER_PATH_OTHER)
            break;
    }
    return 0;
}

int wrapper_open_consume(const struct engine_ops *ops, struct wrapper_path *where,
                         enum engine_consume how)
{
    const char *upath = wrapper_open_awaited(where);

    if (!upath)
        return 0;
    if (ENGINE_CALL(ops->consume(ENGINE_CONSUMER, upath, how)) < 0 && errno != ESTALE)
        return -1;
    return wrapper_path_again(where) == WRAPPER_PATH_OTHER;
}

static bool is_incomplete(const struct engine_ops *ops, const char *upath, int fd)
{
    return upath && wrapper_open_is_regular(fd) &&
           ENGINE_CALL(ops->read_check(ENGINE_CONSUMER, upath, fd)) == 1;
}

static int open_read(const struct engine_ops *ops, const struct wrapper_opener *opener)
{
    struct wrapper_path *where = opener->where;
    int vanished = 0, links = 0, unknown = 0, saved = errno;
    bool begun = false;

    for (;;) {
        const char *upath = wrapper_open_awaited(where);
        int fd, moved;

        if (!begun && upath && ops->shares(ENGINE_CONSUMER) &&
            ENGINE_CALL(ops->read_begin(ENGINE_CONSUMER, upath)) < 0)
            return -1;
        begun = true;
        fd = wrapper_open_real(opener);

        if (fd >= 0 && !is_incomplete(ops, upath, fd)) {
            errno = saved;
            return fd;
        }
        if (fd >= 0) {
            opener->undo(opener->arg, fd);
        } else {
            if (errno != ENOENT || !upath || ++vanished > WRAPPER_OPEN_VANISHED)
                return -1;
            if ((opener->flags & O_CREAT) && vanished > 1) {
                errno = unknown ? unknown : ENOENT; /* its directory is nowhere */
                return -1;
            }
            unknown = wrapper_open_bring_parents(ops, where);
            if (opener->flags & O_CREAT)
                continue;
        }
        moved = wrapper_open_consume(ops, where, ENGINE_CONSUME_WAIT);
        if (moved < 0)
            return -1;
        if (moved && ++links > WRAPPER_OPEN_LINKS_MAX) {
            errno = ELOOP;
            return -1;
        }
        if (moved) {
            vanished = 0;
            begun = false;
        }
    }
}

/* The empty file that an open for reading made: no close of a writer will publish it. */
static int tell_made(const struct engine_ops *ops, const struct wrapper_path *where)
{
    enum engine_side side = wrapper_path_side(where);
    int saved = errno, rc;

    if (!where->upath[side]) /* a link led out of the managed directory */
        return 0;
    rc = ENGINE_CALL(ops->renamed(side, NULL, where->upath[side], NULL));
    if (rc == 0)
        errno = saved;
    return rc;
}

/* O_RDONLY with O_CREAT, as lock files are opened: what is published is fetched, and
 * nothing is waited for that is not there. With O_TRUNC: what is there is another file
 * afterwards. */
static int open_read_or_make(const struct engine_ops *ops,
                             const struct wrapper_opener *opener)
{
    struct stat st;
    int saved = errno, fd;
    bool made;

    if (wrapper_open_awaited(opener->where) && !(opener->flags & (O_EXCL | O_TRUNC)) &&
        REAL(lstat)(opener->where->text, &st) < 0 && errno == ENOENT) {
        wrapper_open_bring_parents(ops, opener->where);
        if (wrapper_open_consume(ops, opener->where, ENGINE_CONSUME_NOW) < 0 &&
            errno != ENOENT)
            return -1;
    }
    made = (opener->flags & (O_EXCL | O_TRUNC)) ||
           (REAL(lstat)(opener->where->text, &st) < 0 && errno == ENOENT);
    errno = saved;
    fd = open_read(ops, opener);
    if (fd >= 0 && made && wrapper_open_is_regular(fd) &&
        tell_made(ops, opener->where) < 0) {
        opener->undo(opener->arg, fd);
        return -1;
    }
    return fd;
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
        return open_read(ops, opener);
    if ((opener->flags & O_ACCMODE) == O_RDONLY)
        return open_read_or_make(ops, opener);
    if (opener->once || (opener->flags & O_CREAT))
        return wrapper_open_write(ops, opener);
    return wrapper_open_there(ops, opener);
}

int wrapper_open_parents(struct wrapper_path *where)
{
    const struct engine_ops *ops = wrapper_engine();

    return ops && wrapper_open_awaited(where) ? wrapper_open_bring_parents(ops, where)
                                              : ENOENT;
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

/* O_NONBLOCK: to look at a FIFO must not wait for its writer. */
#define LOOK (O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)

/* A descriptor of the complete file; -1: the real call knows better; -2: with errno, it
 * will not come, or the wait for it was interrupted. */
static int look(const struct engine_ops *ops, struct wrapper_path *where, int flags)
{
    struct real_open o = {
        .openat = REAL(openat64), .path = where->text, .dirfd = AT_FDCWD, .flags = flags};
    struct wrapper_opener opener = {.open = call_openat,
                                    .undo = undo_openat,
                                    .arg = &o,
                                    .where = where,
                                    .flags = flags};
    int fd = open_read(ops, &opener);

    if (fd < 0 && (errno == ENOENT || errno == ETIMEDOUT || errno == EHOSTUNREACH ||
                   errno == EIO || errno == ENOSPC || errno == EINTR))
        return -2;
    return fd;
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
    if ((fd = look(ops, where, LOOK)) >= 0)
        REAL(close)(fd);
    return fd == -2 ? -1 : 0;
}

/* The interpreter that the first line of a script names, in line[LINE_SIZE]; NULL:
 * none. */
static const char *interpreter(int fd, char *line)
{
    ssize_t n = pread(fd, line, LINE_SIZE - 1, 0);
    char *start;

    if (n < 3 || line[0] != '#' || line[1] != '!')
        return NULL;
    line[n] = '\0';
    start = line + 2 + strspn(line + 2, " \t");
    start[strcspn(start, " \t\n")] = '\0';
    return start[0] == '/' ? start : NULL;
}

/* The program, and the interpreters and libraries below a managed directory that it needs.
 * `path` is how it was named, `libraries` the LD_LIBRARY_PATH that it will have. 0 or -1.
 * *where moves on to them, unless the caller is to take the program's path from it. */
static int prepare(const struct engine_ops *ops, struct wrapper_path *where, int flags,
                   const char *path, const char *libraries)
{
    char line[LINE_SIZE];

    for (int depth = 0; depth < INTERPRETERS_MAX; depth++) {
        const char *next;
        int fd;

        do /* nobody expects EINTR of exec */
            fd = look(ops, where, flags);
        while (fd < 0 && errno == EINTR);
        if (fd < 0)
            return fd == -2 ? -1 : 0;
        next = interpreter(fd, line);
        if (!next)
            wrapper_library_needed(ops, fd, depth == 0 ? path : where->text, libraries);
        REAL(close)(fd);
        if (!next || where->moved ||
            !wrapper_path_find_as(AT_FDCWD, next, WRAPPER_PATH_FOLLOW_ALL, where))
            break;
    }
    return 0;
}

/* The child of vfork must not load the engine into its parent: a child of its own does. */
static int prepare_in_child(struct wrapper_path *where, int flags, const char *path,
                            const char *libraries)
{
    pid_t pid = REAL(fork)();
    int status;

    if (pid == 0) {
        const struct engine_ops *ops = wrapper_mine() ? wrapper_engine() : NULL;
        int error = ops && prepare(ops, where, flags, path, libraries) < 0 ? errno : 0;
        syscall(SYS_exit_group, error); /* nothing of the program's end is this process's */
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (pid < 0 || !WIFEXITED(status) || WEXITSTATUS(status) == 0)
        return 0;
    errno = WEXITSTATUS(status);
    return -1;
}

static const char *library_path(char *const env[])
{
    return wrapper_bad_pointer(env) ? NULL : util_env_get(env, "LD_LIBRARY_PATH");
}

bool wrapper_open_bring(const struct engine_ops *ops, struct wrapper_path *where)
{
    if (REAL(access)(where->text, F_OK) == 0)
        return true;
    wrapper_open_bring_parents(ops, where);
    return wrapper_open_consume(ops, where, ENGINE_CONSUME_NOW) >= 0;
}

int wrapper_open_for_exec(int dirfd, const char **path, bool follow, char *const env[],
                          struct wrapper_path *where)
{
    const char *libraries = library_path(env);
    const struct engine_ops *ops;
    const char *named;
    int saved = errno, rc, flags = LOOK | (follow ? 0 : O_NOFOLLOW);

    if (!wrapper_active() ||
        !wrapper_path_find_as(dirfd, *path, follow ? WRAPPER_PATH_FOLLOW_ALL : 0, where))
        return 0;
    if (where->moved)
        *path = where->text;
    named = dirfd == AT_FDCWD || **path == '/' ? *path : where->text;
    if (wrapper_mine()) {
        ops = wrapper_engine();
        rc = ops ? prepare(ops, where, flags, named, libraries) : 0;
    } else {
        ops = wrapper_engine_loaded();
        rc = ops ? prepare(ops, where, flags, named, libraries)
                 : prepare_in_child(where, flags, named, libraries);
    }
    if (rc == 0)
        errno = saved;
    return rc;
}

int wrapper_open_search(const char *program, char *const env[])
{
    const char *path = getenv("PATH"), *end;
    const struct engine_ops *ops;
    struct wrapper_path where;
    size_t len = strlen(program);
    char full[PATH_MAX];
    int saved = errno;

    for (; wrapper_active() && path; path = *end ? end + 1 : NULL) {
        size_t n = (size_t)((end = strchrnul(path, ':')) - path);
        if (n == 0 || n + 1 + len >= sizeof(full))
            continue;
        memcpy(full, path, n);
        full[n] = '/';
        memcpy(full + n + 1, program, len + 1);
        if (!wrapper_path_find_as(AT_FDCWD, full, WRAPPER_PATH_FOLLOW, &where)) {
            if (REAL(access)(full, X_OK) == 0)
                break;
            continue;
        }
        ops = wrapper_mine() ? wrapper_engine() : wrapper_engine_loaded();
        if (!ops)
            break;
        if (!wrapper_open_bring(ops, &where))
            continue;
        int fd = REAL(openat64)(AT_FDCWD, where.text, LOOK);
        if (fd >= 0) {
            wrapper_library_needed(ops, fd, full, library_path(env));
            REAL(close)(fd);
        }
        break;
    }
    errno = saved;
    return 0;
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
