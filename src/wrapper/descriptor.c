/*
 * descriptor.c - close, dup, fcntl and their kin
 *
 * A descriptor that is not tracked costs two loads. Descriptors that these calls close
 * implicitly (the target of dup2, a range) are settled like closed ones.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/single_threaded.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wrapper/core.h"
#include "wrapper/fd.h"
#include "wrapper/gate.h"
#include "wrapper/file_lock.h"
#include "wrapper/member_thread.h"
#include "wrapper/mpi_file.h"
#include "wrapper/path_find.h"
#include "wrapper/real.h"

/* The claim of this process, not that of the parent of a fork that nobody saw. */
static bool is_claim(int fd)
{
    return wrapper_member_is_claim(fd) && wrapper_mine();
}

static int call_close(int fd, void *arg)
{
    return ((wrapper_fn_close *)arg)(fd);
}

static int do_close(int fd, wrapper_fn_close *real_close)
{
    wrapper_path_fd_changed(fd);
    if (__builtin_expect(wrapper_fd_marked(fd), 0) && wrapper_tracks(fd))
        return wrapper_mpi_file_keep(fd)
                   ? 0
                   : wrapper_fd_close(fd, call_close, (void *)real_close);
    if (__builtin_expect(is_claim(fd), 0)) {
        errno = EBADF; /* the program never opened it */
        return -1;
    }
    return real_close(fd);
}

int wrapped_close(int fd)
{
    return do_close(fd, REAL(close));
}

int wrapped___close(int fd)
{
    return do_close(fd, REAL(__close));
}

static int real_range(unsigned first, unsigned last, int flags)
{
    int rc;

    if (first > last)
        return 0;
    rc = REAL(close_range)(first, last, flags);
    if (rc < 0 && errno == ENOSYS)
        rc = (int)syscall(SYS_close_range, first, last, flags);
    return rc;
}

/* Around the claim, if it is in the range. */
static int range_but_lock(unsigned first, unsigned last, int flags)
{
    int claim = wrapper_member_claim();

    if (claim < 0 || (unsigned)claim < first || (unsigned)claim > last || !is_claim(claim))
        return real_range(first, last, flags);
    if (claim > 0 && real_range(first, (unsigned)claim - 1, flags) < 0)
        return -1;
    return real_range((unsigned)claim + 1, last, flags);
}

int wrapped_close_range(unsigned first, unsigned last, int flags)
{
    if (!(flags & CLOSE_RANGE_CLOEXEC))
        wrapper_path_fds_changed();
    /* With one thread the table is nobody else's. */
    if (flags == CLOSE_RANGE_UNSHARE && __libc_single_threaded)
        flags = 0;
    /* Other flags do not close, or only in a table that this thread alone will have. */
    if (flags != 0 || first > last || !wrapper_active() || !wrapper_mine())
        return REAL(close_range)(first, last, flags);
    wrapper_fd_close_all(first, last);
    return range_but_lock(first, last, 0);
}

void wrapped_closefrom(int first)
{
    int saved = errno;

    wrapper_path_fds_changed();
    if (!wrapper_active() || !wrapper_mine()) {
        REAL(closefrom)(first);
        return;
    }
    if (first < 0)
        first = 0;
    wrapper_fd_close_all((unsigned)first, UINT32_MAX);
    if (range_but_lock((unsigned)first, UINT32_MAX, 0) < 0) {
        int claim = wrapper_member_claim();
        if (claim >= first)
            wrapper_member_claim_yield(
                -1); /* no close_range here: the claim is lost with the rest */
        REAL(closefrom)(first);
    }
    errno = saved;
}

int wrapped_dup(int fd)
{
    struct wrapper_desc *desc = wrapper_tracks(fd) ? wrapper_fd_hold(fd) : NULL;
    int rc;

    if (!desc) {
        rc = REAL(dup)(fd);
    } else {
        wrapper_gate_enter();
        rc = wrapper_fd_give(desc, REAL(dup)(fd));
        wrapper_gate_leave();
    }
    wrapper_path_fd_changed(rc);
    return rc;
}

static int call_dup2(int from, int to, int flags, wrapper_fn_dup2 *real_dup2)
{
    int rc = real_dup2 ? real_dup2(from, to) : REAL(dup3)(from, to, flags);

    if (from != to)
        wrapper_path_fd_changed(rc);
    return rc;
}

struct dup_over {
    int from, flags;
    wrapper_fn_dup2 *real_dup2;
};

static int dup_over(int to, void *arg)
{
    const struct dup_over *d = arg;

    return call_dup2(d->from, to, d->flags, d->real_dup2);
}

static int do_dup(int from, int to, int flags, wrapper_fn_dup2 *real_dup2)
{
    struct dup_over over = {.from = from, .flags = flags, .real_dup2 = real_dup2};
    struct wrapper_desc *desc;
    int aside, rc, saved;

    if (__builtin_expect(is_claim(to), 0) && from != to)
        wrapper_member_claim_yield(to);
    if (from == to || (!wrapper_fd_marked(from) && !wrapper_fd_marked(to)) ||
        !wrapper_active() || !wrapper_mine())
        return call_dup2(from, to, flags, real_dup2);
    wrapper_gate_enter();
    desc = wrapper_fd_marked(from) ? wrapper_fd_hold(from) : NULL;
    aside = wrapper_fd_marked(to) ? wrapper_fd_move_aside(to) : -1;
    /* No number is free to put `to` aside: dup2 itself is then the close of it. It closes
     * whatever it gets, unless `from` is not open. */
    if (aside < 0 && wrapper_fd_marked(to) && REAL(fcntl)(from, F_GETFD) >= 0)
        rc = wrapper_fd_close(to, dup_over, &over);
    else
        rc = call_dup2(from, to, flags, real_dup2);
    saved = errno;
    wrapper_fd_give(desc, rc);
    if (aside >= 0 && rc < 0)
        wrapper_fd_move_back(aside, to);
    wrapper_gate_leave();
    if (aside >= 0 && rc >= 0)
        wrapper_fd_close_real(aside);
    errno = saved;
    return rc;
}

int wrapped_dup2(int from, int to)
{
    return do_dup(from, to, 0, REAL(dup2));
}

int wrapped___dup2(int from, int to)
{
    return do_dup(from, to, 0, REAL(__dup2));
}

int wrapped_dup3(int from, int to, int flags)
{
    return do_dup(from, to, flags, NULL);
}

static int do_fcntl(int fd, int cmd, void *arg, wrapper_fn_fcntl *real)
{
    struct wrapper_desc *desc;
    int rc;

    switch (cmd) {
    case F_DUPFD:
    case F_DUPFD_CLOEXEC:
        desc = wrapper_tracks(fd) ? wrapper_fd_hold(fd) : NULL;
        if (!desc) {
            rc = real(fd, cmd, arg);
        } else {
            wrapper_gate_enter();
            rc = wrapper_fd_give(desc, real(fd, cmd, arg));
            wrapper_gate_leave();
        }
        wrapper_path_fd_changed(rc);
        return rc;
    case F_GETLK:
    case F_SETLK:
    case F_SETLKW:
    case F_OFD_GETLK:
    case F_OFD_SETLK:
    case F_OFD_SETLKW:
        return wrapper_lock(fd, cmd, arg, real);
    case F_SETFL:
        rc = real(fd, cmd, arg);
        wrapper_fd_flags_changed(fd);
        return rc;
    default:
        return real(fd, cmd, arg);
    }
}

/* As glibc: the argument is read as a pointer, whatever the command takes. */
#define DEFINE_FCNTL(name)                         \
    int wrapped_##name(int fd, int cmd, ...)       \
    {                                              \
        va_list ap;                                \
        void *arg;                                 \
        va_start(ap, cmd);                         \
        arg = va_arg(ap, void *);                  \
        va_end(ap);                                \
        return do_fcntl(fd, cmd, arg, REAL(name)); \
    }
DEFINE_FCNTL(fcntl)
DEFINE_FCNTL(fcntl64)
DEFINE_FCNTL(__fcntl)
