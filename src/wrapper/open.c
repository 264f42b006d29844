/*
 * open.c - open, openat, creat in all their forms
 *
 * Reading: the real open first, since most files are here. Then the engine says whether the
 * file is complete; if not, or if it is not here, it makes it so, waiting, and we open
 * again. What it makes may be a symbolic link, or stand behind one that came with the
 * directories: so the path is resolved again each time, and what it then means is awaited
 * in its turn, unless it leads elsewhere. The engine answers in bounded time or with an
 * error, so the loop ends; a file that vanishes again at once (ENOENT after consume said
 * that it is here) is asked for at most VANISHED times, and links are followed as often as
 * the kernel does.
 *
 * Writing: the mark comes before the real open, so that nobody on this node can see the
 * file unmarked. The parent directory may have been made on another node: it is brought
 * here when the real open does not find it.
 *
 * A file without a name (O_TMPFILE) is not tracked: it is published when linkat gives it
 * one.
 */
#include "wrapper/open.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wrapper/core.h"
#include "wrapper/fd.h"
#include "wrapper/gate.h"
#include "wrapper/real.h"
#include "wrapper/resolve.h"

#define VANISHED              4
#define LINKS_MAX             40
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

/* What has a ".." behind it may have come while the open waited. */
static int real_open(const struct wrapper_opener *opener)
{
    wrapper_bring_before_dots(opener->dirfd, opener->path);
    return opener->open(opener->arg);
}

static bool is_regular(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

/* What may have to be waited for, or NULL: it is the real open's affair. */
static const char *awaited(const struct wrapper_path *where)
{
    const char *upath = where->upath[ENGINE_CONSUMER];

    return upath && upath[0] ? upath : NULL;
}

/* Make the directories and links above *where that are published only; then it may mean
 * another file, or none of ours. 0, or why one could not be made here, if it may be
 * published: then "no such directory" is not known to be true. */
static int bring_parents(const struct engine_ops *ops, struct wrapper_path *where)
{
    const char *upath;

    for (unsigned links = 0; links < LINKS_MAX && (upath = awaited(where)); links++) {
        if (!strchr(upath, '/'))
            break;
        if (ENGINE_CALL(ops->bring_parents(ENGINE_CONSUMER, upath)) < 0 && errno != ESTALE)
            return errno == ENOENT ? 0 : errno;
        if (wrapper_path_again(where) != WRAPPER_PATH_OTHER)
            break;
    }
    return 0;
}

/* Make the file that *where means present and complete. 0: it was, or *where means another
 * file by now; the real open may be tried again. */
static int consume(const struct engine_ops *ops, struct wrapper_path *where, bool wait)
{
    const char *upath = awaited(where);

    if (!upath)
        return 0;
    if (ENGINE_CALL(ops->consume(ENGINE_CONSUMER, upath, wait)) < 0 && errno != ESTALE)
        return -1;
    return wrapper_path_again(where) == WRAPPER_PATH_OTHER;
}

static bool is_incomplete(const struct engine_ops *ops, const char *upath, int fd)
{
    return upath && is_regular(fd) &&
           ENGINE_CALL(ops->read_check(ENGINE_CONSUMER, upath, fd)) == 1;
}

static int open_read(const struct engine_ops *ops, const struct wrapper_opener *opener)
{
    struct wrapper_path *where = opener->where;
    int vanished = 0, links = 0, unknown = 0, saved = errno;
    bool begun = false;

    for (;;) {
        const char *upath = awaited(where);
        int fd, moved;

        if (!begun && upath && ops->shares(ENGINE_CONSUMER) &&
            ENGINE_CALL(ops->read_begin(ENGINE_CONSUMER, upath)) < 0)
            return -1;
        begun = true;
        fd = real_open(opener);

        if (fd >= 0 && !is_incomplete(ops, upath, fd)) {
            errno = saved;
            return fd;
        }
        if (fd >= 0) {
            opener->undo(opener->arg, fd);
        } else {
            if (errno != ENOENT || !upath || ++vanished > VANISHED)
                return -1;
            if ((opener->flags & O_CREAT) && vanished > 1) {
                errno = unknown ? unknown : ENOENT; /* its directory is nowhere */
                return -1;
            }
            unknown = bring_parents(ops, where);
            if (opener->flags & O_CREAT)
                continue;
        }
        moved = consume(ops, where, true);
        if (moved < 0)
            return -1;
        if (moved && ++links > LINKS_MAX) {
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

    if (awaited(opener->where) && !(opener->flags & (O_EXCL | O_TRUNC)) &&
        REAL(lstat)(opener->where->text, &st) < 0 && errno == ENOENT) {
        bring_parents(ops, opener->where);
        if (consume(ops, opener->where, false) < 0 && errno != ENOENT)
            return -1;
    }
    made = (opener->flags & (O_EXCL | O_TRUNC)) ||
           (REAL(lstat)(opener->where->text, &st) < 0 && errno == ENOENT);
    errno = saved;
    fd = open_read(ops, opener);
    if (fd >= 0 && made && is_regular(fd) && tell_made(ops, opener->where) < 0) {
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
    if (fd >= 0 || errno != ENOENT || !awaited(opener->where) || !(ops = wrapper_engine()))
        return fd;
    for (int links = 0, moved = 1; moved > 0 && links < LINKS_MAX; links++) {
        bring_parents(ops, opener->where);
        moved = consume(ops, opener->where, false);
        if (moved < 0)
            return -1;
    }
    fd = real_open(opener);
    if (fd >= 0)
        errno = saved;
    return fd;
}

/* fd, marked by token, could not be entered in the table, and is closed or stays unknown:
 * the file is not published. */
static void untracked(const struct engine_ops *ops, engine_token token)
{
    struct engine_closing closing;

    ENGINE_CALL_VOID(ops->write_closing(token, -1, &closing));
    ENGINE_CALL(ops->write_closed(&closing, EMFILE, false));
}

/* The thread was cancelled in the real open. */
static void open_cancelled(void *token)
{
    ENGINE_CALL_VOID(
        wrapper_engine_loaded()->write_opened(*(const engine_token *)token, -1, 0));
}

/* From the real open until the descriptor is known. */
static int open_tracked(const struct engine_ops *ops, const struct wrapper_opener *opener,
                        engine_token token)
{
    const struct wrapper_path *where = opener->where;
    enum engine_side side = wrapper_path_side(where);
    int fd, error;

    pthread_cleanup_push(open_cancelled, &token);
    fd = opener->open(opener->arg);
    pthread_cleanup_pop(0);
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
static int open_marked(const struct engine_ops *ops, const struct wrapper_opener *opener)
{
    enum engine_side side = wrapper_path_side(opener->where);
    engine_token token = 0;
    int saved = errno, fd;

    if (ENGINE_CALL(
            ops->write_begin(side, opener->where->upath[side], opener->flags, &token)) < 0)
        return -1;
    wrapper_gate_enter();
    pthread_cleanup_push(wrapper_gate_leave_cleanup, NULL);
    fd = open_tracked(ops, opener, token);
    pthread_cleanup_pop(1);
    if (fd >= 0)
        errno = saved;
    return fd;
}

static int open_write(const struct engine_ops *ops, const struct wrapper_opener *opener)
{
    struct wrapper_path *where = opener->where;
    int fd = open_marked(ops, opener), unknown;

    /* The second time the directories are here. A link among them may have led elsewhere.
     */
    if (fd >= 0 || errno != ENOENT || !(opener->flags & O_CREAT) || !awaited(where))
        return fd;
    unknown = bring_parents(ops, where);
    if (!where->upath[ENGINE_CONSUMER] && !where->upath[ENGINE_PRODUCER])
        return opener->open(opener->arg);
    fd = open_marked(ops, opener);
    if (fd < 0 && errno == ENOENT && unknown)
        errno = unknown;
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
    return open_write(ops, opener);
}

int wrapper_open_parents(struct wrapper_path *where)
{
    const struct engine_ops *ops = wrapper_engine();

    return ops && awaited(where) ? bring_parents(ops, where) : ENOENT;
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

/* O_NONBLOCK: to look at a FIFO must not wait for its writer. */
#define LOOK (O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)

/* A descriptor of the complete file; -1: the real call knows better; -2: with errno, it
 * will not come. */
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
                   errno == EIO || errno == ENOSPC))
        return -2;
    return fd;
}

int wrapper_open_prepare(struct wrapper_path *where, int flags)
{
    const struct engine_ops *ops = wrapper_engine();
    int fd;

    if (!ops || (flags & (O_CREAT | O_TRUNC)))
        return 0;
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

/* The program, and the interpreters below a managed directory that it needs. 0 or -1.
 * *where moves on to them, unless the caller is to take the program's path from it. */
static int prepare(const struct engine_ops *ops, struct wrapper_path *where, int flags)
{
    char line[LINE_SIZE];

    for (int depth = 0; depth < INTERPRETERS_MAX; depth++) {
        const char *next;
        int fd = look(ops, where, flags);

        if (fd < 0)
            return fd == -2 ? -1 : 0;
        next = interpreter(fd, line);
        REAL(close)(fd);
        if (!next || where->moved ||
            !wrapper_path_find_as(AT_FDCWD, next, WRAPPER_PATH_FOLLOW_ALL, where))
            break;
    }
    return 0;
}

/* The child of vfork must not load the engine into its parent: a child of its own does. */
static int prepare_in_child(struct wrapper_path *where, int flags)
{
    pid_t pid = REAL(fork)();
    int status;

    if (pid == 0) {
        const struct engine_ops *ops = wrapper_mine() ? wrapper_engine() : NULL;
        int error = ops && prepare(ops, where, flags) < 0 ? errno : 0;
        syscall(SYS_exit_group, error); /* nothing of the program's end is this process's */
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (pid < 0 || !WIFEXITED(status) || WEXITSTATUS(status) == 0)
        return 0;
    errno = WEXITSTATUS(status);
    return -1;
}

int wrapper_open_for_exec(int dirfd, const char **path, bool follow,
                          struct wrapper_path *where)
{
    const struct engine_ops *ops;
    int saved = errno, rc, flags = LOOK | (follow ? 0 : O_NOFOLLOW);

    if (!wrapper_active() ||
        !wrapper_path_find_as(dirfd, *path, follow ? WRAPPER_PATH_FOLLOW_ALL : 0, where))
        return 0;
    if (where->moved)
        *path = where->text;
    if (wrapper_mine()) {
        ops = wrapper_engine();
        rc = ops ? prepare(ops, where, flags) : 0;
    } else {
        ops = wrapper_engine_loaded();
        rc = ops ? prepare(ops, where, flags) : prepare_in_child(where, flags);
    }
    if (rc == 0)
        errno = saved;
    return rc;
}

int wrapper_open_search(const char *program)
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
        if (REAL(access)(where.text, F_OK) < 0) {
            bring_parents(ops, &where);
            if (consume(ops, &where, false) < 0)
                continue;
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
