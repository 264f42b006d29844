/*
 * open_write.c - opens for writing
 *
 * The mark comes before the real open, so that nobody on this node can see the file
 * unmarked.
 *
 * With O_CREAT: never waits. The parent directory may have been made on another node: it is
 * brought here when the real open does not find it.
 *
 * Without O_CREAT the open can only have what is there, so it waits as one for reading
 * does: for what is not here, and for what another process is making (write_begin() says of
 * whom; write_opened() asks again, of the file that was opened). But not where it is a
 * library's look whether the file exists, before it makes it (caller.c). If the same program
 * is writing the file on another node the open joins it: it makes the file here.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include "wrapper/caller.h"
#include "wrapper/core.h"
#include "wrapper/fd.h"
#include "wrapper/gate.h"
#include "wrapper/mpi_file.h"
#include "wrapper/open_impl.h"
#include "wrapper/real.h"

#define BROUGHT_MAX 16

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

/* The file is on another node. Its mark is there: nobody here takes it for a whole one. */
static int make_and_open(const struct wrapper_opener *opener)
{
    int fd = REAL(openat64)(AT_FDCWD, opener->where->text,
                            O_CREAT | O_WRONLY | O_CLOEXEC | O_NOCTTY, (mode_t)0666);

    if (fd < 0)
        return -1;
    REAL(close)(fd);
    return opener->open(opener->arg);
}

/* From the real open until the descriptor is known. */
static int open_tracked(const struct engine_ops *ops, const struct wrapper_opener *opener,
                        enum engine_write how, engine_token token)
{
    const struct wrapper_path *where = opener->where;
    enum engine_role role = wrapper_path_role(where);
    int fd, error;

    pthread_cleanup_push(open_cancelled, &token);
    fd = opener->open(opener->arg);
    if (fd < 0 && errno == ENOENT && how == ENGINE_WRITE_JOINS)
        fd = make_and_open(opener);
    pthread_cleanup_pop(0);
    error = errno;
    if (fd < 0 || !wrapper_open_is_regular(fd)) {
        ENGINE_CALL_VOID(ops->write_opened(token, -1, opener->flags));
        errno = error;
        return fd;
    }
    if (ENGINE_CALL(ops->write_opened(token, fd, opener->flags)) < 0) {
        error = errno;
        opener->undo(opener->arg, fd);
        errno = error;
        return -1;
    }
    if (token && wrapper_fd_add(fd, token, role) < 0) {
        opener->undo(opener->arg, fd);
        untracked(ops, token);
        errno = EMFILE;
        return -1;
    }
    return fd;
}

/* The same inside of the gate. */
static int open_gated(const struct engine_ops *ops, const struct wrapper_opener *opener,
                      enum engine_write how, engine_token token)
{
    int fd;

    wrapper_gate_enter();
    pthread_cleanup_push(wrapper_gate_leave_cleanup, NULL);
    fd = open_tracked(ops, opener, how, token);
    pthread_cleanup_pop(1);
    return fd;
}

/* The open of a FIFO or a device may block until another process acts, which the program
 * may be about to fork. Its descriptor is not tracked. What becomes one between this look
 * and the open delays a fork by the gate's bound, and no more. */
static bool may_block(const struct wrapper_opener *opener)
{
    struct stat st;

    return !(opener->flags & O_EXCL) && REAL(stat)(opener->where->text, &st) == 0 &&
           (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode));
}

/* ESTALE: another process of the node has brought the file in the midst. */
static int open_once(const struct engine_ops *ops, const struct wrapper_opener *opener,
                     enum engine_write how)
{
    enum engine_role role = wrapper_path_role(opener->where);
    engine_token token = 0;
    int saved = errno, fd;

    if (ENGINE_CALL(ops->write_begin(
            role, opener->where->upath[role], opener->flags,
            how | (wrapper_mpi_file_opens() ? ENGINE_WRITE_SHARED : 0), &token)) < 0)
        return -1;
    fd = may_block(opener) ? open_tracked(ops, opener, how, token)
                           : open_gated(ops, opener, how, token);
    if (fd >= 0)
        errno = saved;
    return fd;
}

/* Does not wait. What is published was fetched by write_begin. EINPROGRESS: only with
 * WAITS, and as write_begin and write_opened say. */
static int open_marked(const struct engine_ops *ops, const struct wrapper_opener *opener,
                       enum engine_write how)
{
    int saved = errno, fd;

    for (int tries = 0; !opener->once && tries < BROUGHT_MAX; tries++) {
        if ((fd = open_once(ops, opener, how)) >= 0 || errno != ESTALE)
            return fd;
        errno = saved;
    }
    return open_once(ops, opener, how | ENGINE_WRITE_ONCE);
}

int wrapper_open_write(const struct engine_ops *ops, const struct wrapper_opener *opener)
{
    struct wrapper_path *where = opener->where;
    int fd = open_marked(ops, opener, ENGINE_WRITE_NOW), unknown;

    /* The second time the directories are here. A link among them may have led elsewhere.
     */
    if (fd >= 0 || errno != ENOENT || opener->once || !wrapper_open_awaited(where))
        return fd;
    unknown = wrapper_open_bring_parents(ops, where);
    if (!where->upath[ENGINE_CONSUMER] && !where->upath[ENGINE_PRODUCER])
        return opener->open(opener->arg);
    fd = open_marked(ops, opener, ENGINE_WRITE_NOW);
    if (fd < 0 && errno == ENOENT && unknown)
        errno = unknown;
    return fd;
}

int wrapper_open_there(const struct engine_ops *ops, const struct wrapper_opener *opener)
{
    struct wrapper_path *where = opener->where;
    int vanished = 0, links = 0, saved = errno;
    enum wrapper_caller caller;

    for (;;) {
        int fd, error, moved;

        if (!where->upath[ENGINE_CONSUMER] && !where->upath[ENGINE_PRODUCER])
            return wrapper_open_real(opener); /* a link has led elsewhere */
        fd = open_marked(ops, opener, ENGINE_WRITE_WAITS);
        error = errno;
        if (fd >= 0)
            errno = saved;
        if (fd >= 0 || (error != ENOENT && error != EINPROGRESS))
            return fd;
        caller =
            wrapper_open_awaited(where) ? wrapper_caller_knows() : WRAPPER_CALLER_MAKES;
        if (caller == WRAPPER_CALLER_MAKES ||
            (caller == WRAPPER_CALLER_JOINS && error == EINPROGRESS)) {
            errno = error;
            return error == EINPROGRESS ? open_marked(ops, opener, ENGINE_WRITE_NOW) : -1;
        }
        if (error == ENOENT && ++vanished > WRAPPER_OPEN_VANISHED) {
            errno = ENOENT;
            return -1;
        }
        wrapper_open_bring_parents(ops, where);
        moved = wrapper_open_consume(
            ops, where,
            caller == WRAPPER_CALLER_JOINS ? ENGINE_CONSUME_JOIN : ENGINE_CONSUME_UPDATE);
        if (moved < 0 && errno == EINPROGRESS) {
            errno = saved;
            return open_marked(ops, opener, ENGINE_WRITE_JOINS);
        }
        if (moved < 0)
            return -1;
        if (moved && ++links > WRAPPER_OPEN_LINKS_MAX) {
            errno = ELOOP;
            return -1;
        }
        if (moved)
            vanished = 0;
    }
}

void wrapper_open_created(int fd, const struct wrapper_path *where, int flags)
{
    const struct engine_ops *ops = wrapper_engine();
    enum engine_role role = wrapper_path_role(where);
    engine_token token = 0;
    int saved = errno;

    if (ops && ENGINE_CALL(ops->write_begin(role, where->upath[role], flags,
                                            ENGINE_WRITE_NOW, &token)) == 0) {
        wrapper_gate_enter();
        ENGINE_CALL_VOID(ops->write_opened(token, fd, flags));
        if (token && wrapper_fd_add(fd, token, role) < 0)
            untracked(ops, token);
        wrapper_gate_leave();
    }
    errno = saved;
}
