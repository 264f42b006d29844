/*
 * open_read_wait.c - opens for reading
 *
 * The real open first, since most files are here. Then the engine says whether the
 * file is complete; if not, or if it is not here, it makes it so, waiting, and we open
 * again. What it makes may be a symbolic link, or stand behind one that came with the
 * directories: so the path is resolved again each time, and what it then means is awaited
 * in its turn, unless it leads elsewhere. The engine answers in bounded time or with an
 * error, so the loop ends; a file that vanishes again at once (ENOENT after consume said
 * that it is here) is asked for at most WRAPPER_OPEN_VANISHED times, and links are followed
 * as often as the kernel does.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>

#include "wrapper/core.h"
#include "wrapper/open_impl.h"
#include "wrapper/real.h"

#define RECENT \
    1 /* s; an open takes much less from its system call to the look at the file */

/* True if the file has lost its name to another after we opened it: it is out of date,
 * perhaps, and no link says so any more. That changes its ctime. */
static bool is_replaced(const struct wrapper_path *where, const struct stat *st)
{
    struct stat there;

    return REAL(stat)(where->text, &there) == 0 && there.st_dev == st->st_dev &&
           there.st_ino != st->st_ino;
}

/* `asked`: the file of the last consume(), which ended well. If others of this node have to wait for
 * it still, this process has not. */
static bool is_incomplete(const struct engine_ops *ops, const struct wrapper_path *where,
                          const char *upath, int fd, struct stat *asked)
{
    struct timespec now;
    struct stat st;
    uint32_t ended;
    int check;

    if (!upath)
        return false;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    ended = ops->writes_ended(ENGINE_CONSUMER);
    if (REAL(fstat)(fd, &st) == 0 && ops->read_is_plain(ENGINE_CONSUMER, upath, &st) &&
        ops->writes_ended(ENGINE_CONSUMER) == ended)
        return now.tv_sec - st.st_ctim.tv_sec <= RECENT && is_replaced(where, &st);
    check = ENGINE_CALL(ops->read_check(ENGINE_CONSUMER, upath, fd));
    if (check == 1)
        return true;
    if (REAL(fstat)(fd, &st) < 0)
        return check != 0;
    if (check == 2 && (asked->st_ino != st.st_ino || asked->st_size != st.st_size ||
                       asked->st_mtim.tv_sec != st.st_mtim.tv_sec ||
                       asked->st_mtim.tv_nsec != st.st_mtim.tv_nsec)) {
        *asked = st;
        return true;
    }
    return is_replaced(where, &st);
}

int wrapper_open_read(const struct engine_ops *ops, const struct wrapper_opener *opener)
{
    struct wrapper_path *where = opener->where;
    int vanished = 0, links = 0, unknown = 0, saved = errno;
    struct stat asked = {0};
    bool begun = false;

    for (;;) {
        const char *upath = wrapper_open_awaited(where);
        int fd, moved;

        if (!begun && upath && ops->shares(ENGINE_CONSUMER) &&
            ENGINE_CALL(ops->read_begin(ENGINE_CONSUMER, upath)) < 0)
            return -1;
        begun = true;
        fd = wrapper_open_real(opener);

        if (fd >= 0 && !is_incomplete(ops, where, upath, fd, &asked)) {
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
            asked.st_ino = 0;
        }
    }
}

/* The empty file that an open for reading made: no close of a writer will publish it. */
static int tell_made(const struct engine_ops *ops, const struct wrapper_path *where)
{
    enum engine_role role = wrapper_path_role(where);
    int saved = errno, rc;

    if (!where->upath[role]) /* a link led out of the managed directory */
        return 0;
    rc = ENGINE_CALL(ops->renamed(role, NULL, where->upath[role], NULL));
    if (rc == 0)
        errno = saved;
    return rc;
}

int wrapper_open_read_or_make(const struct engine_ops *ops,
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
    fd = wrapper_open_read(ops, opener);
    if (fd >= 0 && made && wrapper_open_is_regular(fd) &&
        tell_made(ops, opener->where) < 0) {
        opener->undo(opener->arg, fd);
        return -1;
    }
    return fd;
}

/* A look's own open. */
struct look {
    const struct wrapper_path *where;
    int flags;
};

static int call_real(void *arg)
{
    const struct look *look = arg;

    return REAL(openat64)(AT_FDCWD, look->where->text, look->flags);
}

static void undo_real(void *arg, int fd)
{
    (void)arg;
    REAL(close)(fd);
}

int wrapper_open_look(const struct engine_ops *ops, struct wrapper_path *where, int flags)
{
    struct look look = {.where = where, .flags = flags};
    struct wrapper_opener opener = {
        .open = call_real, .undo = undo_real, .arg = &look, .where = where, .flags = flags};
    int fd = wrapper_open_read(ops, &opener);

    if (fd < 0 && (errno == ENOENT || errno == ETIMEDOUT || errno == EHOSTUNREACH ||
                   errno == EIO || errno == ENOSPC || errno == EINTR))
        return -2;
    return fd;
}
