/*
 * held_open.c - files that their writer has closed, and that others still hold
 *
 * The last close of a description publishes. Whether a close is the last tells the
 * description's lock, and that counts every holder: also a child between its birth and
 * its exec, and a program without the wrapper, which close without a word. So a process
 * that closes, and finds that another holds the file, tells us; we look who that is
 * (look_work()), sleep in a thread until the lock is free, and settle the mark if nobody
 * else does (wait_work()). docs/engine.md, "Files that others still hold".
 *
 * What could go wrong: a holder was killed (judge()); a child is stopped while the closer
 * waits (answer()); a holder lives for ever (held_open_pending()). How a foreign program
 * ended cannot be seen; its file is published as it is.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "engine/core/member.h"
#include "engine/core/module.h"
#include "engine/membership/exit_barrier.h"
#include "engine/publish/fd_holders.h"
#include "engine/publish/held_open.h"
#include "engine/publish/late_names.h"
#include "engine/publish/produce.h"
#include "engine/publish/shared_storage.h"
#include "util/clock.h"
#include "util/log.h"

#define SETTLE_MSEC     200
#define ANSWER_NS       (2 * UTIL_NSEC_PER_SEC)
#define LOOKS           20
#define LOOK_AGAIN_MSEC 1
#define HOLDERS_MAX     64
#define DELETED_MARK    " (deleted)"

/* The data of the thread; the pool frees it if the member is gone first. */
struct held_io {
    struct held_io *prev, *next; /* of `orphans` */
    struct member *member;       /* loop only */
    struct engine_io io;
    struct store_marks *marks; /* a mapping of its own: the thread may outlive the member */
    store_mark_t mark;
    char below[PATH_MAX], upath[DYAD_UPATH_MAX + 1];
    int fd;
    bool left;              /* second step: the lock is free, nobody settles it: take it */
    bool waited;            /* the lock was waited for */
    struct held_open *held; /* loop only; NULL: the watch has ended */
    struct holder holders[HOLDERS_MAX];
    size_t nholders;
    bool hidden; /* there is a holder that we may not see: another user's */
};

struct held_wait {
    struct held_wait *next;
    produce_fn fn;
    void *arg;
};

struct held_open {
    struct held_open *prev, *next; /* utlist */
    struct member *member;
    enum engine_role role;
    store_mark_t mark;
    struct held_io *io;
    struct held_io
        *again;     /* a further look for who has closed since; NULL: none is under way */
    bool once_more; /* and one has closed since that began */
    bool spawned; /* io is with a thread of its own, which frees it if the member is gone */
    struct held_wait *waits;
    struct net_timer *answer;
    pid_t holder; /* for the warning */
    char *upath;
};

struct held_opens {
    struct held_open *all;   /* utlist */
    struct held_io *orphans; /* utlist: further looks whose watch has ended */
};

static void io_close(struct held_io *io)
{
    holders_close(io->holders, io->nholders);
    store_marks_destroy(io->marks);
    close(io->fd);
}

/* The closer waits for our answer if nobody but children before their exec hold the file:
 * it was its own close that ended the writing. Else it is answered when that is known
 * (look_done()). The wait is bounded by ANSWER_NS, should such a child be stopped. */
static void answer(struct held_open *o)
{
    struct held_wait *wait = o->waits, *next;

    o->waits = NULL;
    for (; wait; wait = next) {
        next = wait->next;
        wait->fn(wait->arg, 0);
        free(wait);
    }
}

static void held_open_free(struct held_open *o)
{
    struct member *member = o->member;

    DL_DELETE(OWN(member, held_opens)->all, o);
    answer(o);
    if (o->answer)
        net_timer_destroy(o->answer);
    if (o->io)
        o->io->held = NULL;
    if (o->again) {
        o->again->held = NULL;
        DL_APPEND(OWN(member, held_opens)->orphans, o->again);
    }
    free(o->upath);
    free(o);
    exit_barrier_activity(member);
}

/* --- in the thread --- */

/* First step: find the processes that hold it. */
static void look_work(void *arg)
{
    struct held_io *io = arg;
    struct stat st;

    /* A process in its exec cannot be looked at, and says nothing when it is through. */
    for (int i = 0; i < LOOKS && io->nholders == 0 && fstat(io->fd, &st) == 0 &&
                    store_marks_held(io->mark, io->fd);
         i++) {
        if (i > 0)
            poll(NULL, 0, LOOK_AGAIN_MSEC);
        io->nholders = holders_find(&st, io->below, io->holders, HOLDERS_MAX);
    }
    io->hidden = io->nholders == 0 && store_marks_held(io->mark, io->fd);
}

/* 1: its holder was killed, 0: a process with the wrapper may settle it, -1: none would.
 */
static int judge(const struct held_io *io)
{
    bool any = false, living = false;

    for (size_t i = 0; i < io->nholders; i++) {
        if (io->holders[i].kind != HOLDER_OURS)
            continue;
        any = true;
        living |= !holder_is_dead(&io->holders[i]);
    }
    return !any ? -1 : living ? 0 : 1;
}

/* Second step: wait until the lock is free, and see:
 * - the mark is not DIRTY any more: the other has settled it, as a process of ours does;
 * - one that was to settle it is dead, and so are all like it: killed. ABANDONED, with a
 *   message: what is in the file may be half of it;
 * - else the holders let go without a word, and the file is complete (`left`): we take
 *   the mark over, as any closer would (one wins: take_over()), and publish.
 *
 * A holder of ours that lives gets SETTLE_MSEC to settle by itself first: its close
 * returns when the publish has been acknowledged, and ours would not make it wait. */
static void wait_work(void *arg)
{
    struct held_io *io = arg;
    int verdict;

    while (store_marks_await_release(io->mark, io->fd) < 0)
        if (errno != EINTR)
            goto out;
    /* Our holder's death and the release of its lock are one event to us only in this
     * order: the lock goes while it dies, the pidfd tells afterwards. */
    verdict = judge(io);
    if (verdict == 0 && !store_marks_stays_dirty(io->marks, io->mark, SETTLE_MSEC))
        goto out;
    verdict = judge(io);
    if (verdict > 0) {
        if (store_marks_rule(io->marks, io->mark, io->fd))
            log_warn(
                "\"%s\" is not published: process %d had it open for writing and ended "
                "without closing it (killed?): it may be incomplete",
                io->upath, (int)io->holders[0].pid);
    } else {
        io->left = store_marks_stays_dirty(io->marks, io->mark, 0);
    }
out:
    if (!io->left)
        io_close(io);
}

/* --- in the loop --- */

/* The name that the file has now, below its DMD. */
static const char *present_upath(const struct held_io *io, char *path, size_t size)
{
    size_t len = strlen(io->below), suffix = strlen(DELETED_MARK);
    char link[32];
    struct stat st;

    snprintf(link, sizeof(link), "/proc/self/task/%d/fd/%d", (int)gettid(), io->fd);
    ssize_t n = readlink(link, path, size - 1);
    if (n <= (ssize_t)len)
        return NULL;
    path[n] = '\0';
    if ((size_t)n > suffix && strcmp(path + n - suffix, DELETED_MARK) == 0 &&
        (fstat(io->fd, &st) < 0 || st.st_nlink == 0))
        return NULL;
    if (strncmp(path, io->below, len) != 0 || path[len] != '/')
        return NULL;
    return path + len + 1;
}

static void taken_published(void *arg, int status)
{
    struct held_io *io = arg;

    if (status && status != ENOENT) /* it was removed */
        log_error("\"%s\" is complete on this node but not published: %s", io->upath,
                  strerror(status));
    if (status)
        store_marks_settle(io->marks, io->mark, status);
    if (io->held) {
        shared_end(io->held->member, io->held->role, NULL, io->mark, false, NULL, NULL);
        held_open_free(io->held);
    }
    io_close(io);
    free(io);
}

static void take_over(struct held_io *io)
{
    struct held_open *o = io->held;
    char path[PATH_MAX];
    const char *upath;

    if (!store_marks_closed(io->marks, io->mark, io->fd, false)) {
        /* A closer was quicker, or there is a holder more; that one's close tells us. */
        held_open_free(o);
        io_close(io);
        free(io);
        return;
    }
    upath = present_upath(io, path, sizeof(path));
    if (!upath)
        taken_published(io, ENOENT);
    else if (produce_closed(o->member, o->role, upath, io->mark, taken_published, io) < 0)
        taken_published(io, errno);
}

static void wait_done(void *arg)
{
    struct held_io *io = arg;

    if (io->held)
        io->held->spawned = false;
    if (io->left && io->held) {
        take_over(io);
        return;
    }
    if (io->left)
        io_close(io);
    if (io->held)
        held_open_free(io->held);
    free(io);
}

/* True if others hold it than children before their exec. */
static bool is_held(const struct held_io *io)
{
    bool is = io->hidden;

    for (size_t i = 0; i < io->nholders; i++)
        is |= io->holders[i].kind != HOLDER_TRANSIENT;
    return is;
}

static void look_done(void *arg)
{
    struct held_io *io = arg;
    struct held_open *o = io->held;

    if (o) {
        o->holder = io->nholders > 0 ? io->holders[0].pid : 0;
        if (is_held(io))
            answer(o);
        o->spawned = engine_io_spawn(o->member->io, &io->io, wait_work, wait_done, io) == 0;
        if (o->spawned)
            return;
        log_error("nobody waits for the end of \"%s\", which process %d has open: %m",
                  io->upath, (int)o->holder);
        held_open_free(o);
    }
    io_close(io);
    free(io);
}

static void answer_late(void *arg)
{
    answer(arg);
}

static int add_wait(struct held_open *o, produce_fn fn, void *arg)
{
    struct held_wait *wait = calloc(1, sizeof(*wait));

    if (!wait)
        return -1;
    *wait = (struct held_wait){.next = o->waits, .fn = fn, .arg = arg};
    o->waits = wait;
    return 0;
}

/* A description of our own of what the closer has open under that number, which it keeps
 * until it is answered; else (it cannot be looked at) what has that name. */
static int open_file(struct member_dmd *dmd, const char *upath, pid_t pid, int number)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, number);
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        fd = store_dir_open(dmd->dir, upath, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    return fd;
}

/* NULL with errno. */
static struct held_io *io_create(struct held_open *o, struct member_dmd *s,
                                 const char *upath, pid_t pid, int number)
{
    struct held_io *io = calloc(1, sizeof(*io));

    if (!io || !(io->marks = store_marks_create(s->dir)))
        goto error;
    if ((io->fd = open_file(s, upath, pid, number)) < 0)
        goto error_marks;
    snprintf(io->below, sizeof(io->below), "%s", store_dir_real_path(s->dir));
    snprintf(io->upath, sizeof(io->upath), "%s", upath);
    io->mark = o->mark;
    io->held = o;
    io->member = o->member;
    return io;

error_marks:
    store_marks_destroy(io->marks);
error:
    free(io);
    return NULL;
}

static void again_done(void *arg)
{
    struct held_io *io = arg;
    struct held_open *o = io->held;

    if (o && o->once_more) {
        o->once_more = false;
        holders_close(io->holders, io->nholders);
        io->nholders = 0;
        engine_io_submit(o->member->io, &io->io, look_work, again_done, io);
        return;
    }
    if (o)
        o->again = NULL;
    else
        DL_DELETE(OWN(io->member, held_opens)->orphans, io);
    if (o && is_held(io))
        answer(o);
    io_close(io);
    free(io);
}

/* Somebody waits who has closed after the first look: a holder may wait for just that one's end (a child of it that
 * has inherited the descriptor). */
static void look_again(struct held_open *o, const char *upath, pid_t pid, int number)
{
    if (!o->spawned) /* the first look is under way, and answers it */
        return;
    net_timer_start(o->answer, util_clock_now() + ANSWER_NS);
    o->once_more = o->again != NULL;
    if (o->again ||
        !(o->again = io_create(o, &o->member->dmd[o->role], upath, pid, number)))
        return;
    engine_io_submit(o->member->io, &o->again->io, look_work, again_done, o->again);
}

int held_open_watch(struct member *member, enum engine_role role, const char *upath,
                    store_mark_t mark, pid_t pid, int number, produce_fn fn, void *arg)
{
    struct member_dmd *s = &member->dmd[role];
    struct held_io *io = NULL;
    struct held_open *o;

    DL_FOREACH(OWN(member, held_opens)->all, o)
    {
        /* Watched already: the holders then were there before this closer's close. */
        if (o->mark != mark || o->role != role)
            continue;
        if (add_wait(o, fn, arg) < 0)
            return -1;
        look_again(o, upath, pid, number);
        return 0;
    }
    if (!s->dir) {
        errno = EINVAL;
        return -1;
    }
    if (!(o = calloc(1, sizeof(*o))) || !(o->upath = strdup(upath)))
        goto error;
    o->mark = mark;
    o->role = role;
    o->member = member;
    if (!(o->io = io = io_create(o, s, upath, pid, number)))
        goto error;
    if (add_wait(o, fn, arg) < 0 ||
        !(o->answer = net_timer_create(member->loop, answer_late, o)))
        goto error;
    net_timer_start(o->answer, util_clock_now() + ANSWER_NS);
    DL_APPEND(OWN(member, held_opens)->all, o);
    exit_barrier_activity(member);
    engine_io_submit(member->io, &io->io, look_work, look_done, io);
    return 0;
error:
    if (io)
        io_close(io);
    free(io);
    if (o) {
        free(o->waits);
        free(o->upath);
    }
    free(o);
    return -1;
}

/* A watch does not count as work for the exit barrier, but for the milliseconds in which
 * a closer waits, and those from the end of the last holder to the publish. The rank's
 * own descendants are waited for there anyway; a holder that has left the rank's tree (a
 * daemon that inherited the descriptor) may live for ever, and what it still has open
 * when the job ends is not published, as a warning says then (held_open_destroy()). */
static bool held_open_pending(struct member *member)
{
    const struct held_open *o;

    DL_FOREACH(OWN(member, held_opens)->all, o)
    {
        /* The lock goes before its holder's death is seen. If it is free the thread is on
         * its way back, to publish perhaps; it may have closed its descriptor by now, which
         * then tells the same. */
        if (o->waits || (o->spawned && !store_marks_held(o->mark, o->io->fd)))
            return true;
    }
    return false;
}

static void held_open_destroy(struct member *member)
{
    struct held_open *o, *tmp;

    DL_FOREACH_SAFE(OWN(member, held_opens)->all, o, tmp)
    {
        struct held_io *io = o->io;
        bool spawned = o->spawned;
        if (o->holder > 0 && spawned)
            log_warn("\"%s\" is not published: process %d still has it open for writing",
                     o->upath, (int)o->holder);
        for (struct held_wait *wait = o->waits, *next; wait; wait = next) {
            next = wait->next;
            free(wait); /* its guest is gone */
        }
        o->waits = NULL;
        held_open_free(o);
        if (!spawned) {
            io_close(io);
            free(io);
        }
    }
    for (struct held_io *io = OWN(member, held_opens)->orphans, *next; io; io = next) {
        next = io->next;
        io_close(io);
        free(io);
    }
}

const struct member_module held_opens_module = {
    .own = MODULE_OWN(held_opens),
    .pending = held_open_pending,
    .destroy = held_open_destroy,
};
