/*
 * locks_held.c - locks that this node's file has for processes of any node
 *
 * A lock of a file that several nodes write is one of the file of each of them, which the kernel keeps:
 * an open file description of ours for each process that holds any. So it excludes what
 * processes of this node have locked before they knew of other nodes, and what other
 * members of the node hold.
 *
 * Who waits is tried again when a lock that we hold here is given up, but not by the caller of that, who
 * may be in the midst of things. Of locks of other members of the node, and of processes, no event
 * tells: all are tried AGAIN.
 */
#include "engine/publish/locks_held.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "engine/core/joined_writers.h"
#include "engine/core/module.h"
#include "store/fetch.h"
#include "util/clock.h"
#include "util/fd_close.h"
#include "util/log.h"
#include "util/quota.h"

#define AGAIN     (2 * UTIL_NSEC_PER_MSEC)
#define WAITS_MAX 16384u /* of one rank: each is a thread of it that waits */
#define FDS_FREE  64     /* descriptors that are left for others (requests/guest.c) */

/* A process that holds locks of a file. */
struct holder {
    struct holder *prev, *next; /* utlist */
    uint32_t rank, incarnation;
    uint64_t owner;
    int fd;
    char upath[];
};

/* One that waits, in the order of their coming. */
struct waiting {
    struct waiting *prev, *next; /* utlist */
    struct holder *holder;
    uint64_t id;
    struct flock lock;
    locks_fn fn;
};

struct locks_held {
    struct holder *holders;
    struct waiting *waitings;
    struct util_quota quota; /* of these */
    struct net_timer *timer;
};

static struct holder *find(struct member *member, const struct locks_request *request)
{
    struct holder *holder;

    DL_FOREACH(OWN(member, locks_held)->holders, holder)
    {
        if (holder->rank == request->rank && holder->owner == request->owner &&
            strcmp(holder->upath, request->upath) == 0)
            break;
    }
    return holder;
}

/* The file of this node, if one of its processes writes it. -1: ENOENT: none does. */
static int open_file(struct member *member, const char *upath)
{
    struct store_mark_info info;

    for (int role = 1; role >= 0; role--) {
        struct member_dmd *dmd = &member->dmd[role];
        if (dmd->dir && joined_writers_find(dmd, upath, &info))
            return store_fetch_open_named(dmd->dir, upath, O_RDWR | O_NOFOLLOW);
    }
    errno = ENOENT;
    return -1;
}

static struct holder *make(struct member *member, const struct locks_request *request)
{
    int fd = open_file(member, request->upath);
    struct holder *holder = NULL;
    struct rlimit limit;

    if (fd >= 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < INT_MAX &&
        fd + FDS_FREE > (int)limit.rlim_cur) {
        log_error(
            "\"%s\" cannot be locked for one more process: descriptors run out; raise "
            "their limit (ulimit -n)",
            request->upath);
        errno = EMFILE;
    } else if (fd >= 0) {
        holder = calloc(1, sizeof(*holder) + strlen(request->upath) + 1);
    }
    if (!holder) {
        int saved = errno;
        util_fd_close(fd);
        errno = saved;
        return NULL;
    }
    holder->rank = request->rank;
    holder->incarnation = request->incarnation;
    holder->owner = request->owner;
    holder->fd = fd;
    strcpy(holder->upath, request->upath);
    DL_APPEND(OWN(member, locks_held)->holders, holder);
    return holder;
}

static void waiting_free(struct member *member, struct waiting *waiting)
{
    DL_DELETE(OWN(member, locks_held)->waitings, waiting);
    util_quota_return(&OWN(member, locks_held)->quota, waiting->holder->rank);
    free(waiting);
}

/* With all that it holds. */
static void holder_free(struct member *member, struct holder *holder)
{
    struct flock none = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    struct waiting *waiting, *tmp;

    DL_FOREACH_SAFE(OWN(member, locks_held)->waitings, waiting, tmp)
    {
        if (waiting->holder == holder)
            waiting_free(member, waiting);
    }
    DL_DELETE(OWN(member, locks_held)->holders, holder);
    /* A child that was forked meanwhile has the description, too. */
    fcntl(holder->fd, F_OFD_SETLK, &none);
    util_fd_close(holder->fd);
    free(holder);
}

static bool has_waiting(const struct member *member, const struct holder *holder)
{
    const struct waiting *waiting;

    DL_FOREACH(OWN(member, locks_held)->waitings, waiting)
    {
        if (waiting->holder == holder)
            return true;
    }
    return false;
}

/* 0, EAGAIN or ENOLCK. Its own process may hold what it has taken before the file was joint: that
 * would be waited for for ever. */
static int try(const struct member *member, const struct holder *holder, struct flock lock)
{
    struct flock other = lock;

    if (fcntl(holder->fd, F_OFD_SETLK, &lock) == 0)
        return 0;
    if (errno != EAGAIN && errno != EACCES)
        return ENOLCK;
    if (holder->rank == member->self.rank && fcntl(holder->fd, F_OFD_GETLK, &other) == 0 &&
        other.l_type != F_UNLCK && other.l_pid == (pid_t)holder->owner)
        return ENOLCK;
    return EAGAIN;
}

static int test(const struct member *member, const struct holder *holder, struct flock lock)
{
    if (fcntl(holder->fd, F_OFD_GETLK, &lock) < 0)
        return ENOLCK;
    return lock.l_type == F_UNLCK ||
                   (holder->rank == member->self.rank && lock.l_pid == (pid_t)holder->owner)
               ? 0
               : EAGAIN;
}

/* All that wait, again from the first when one has got what it waits for: its answer may change the
 * rest. */
static void retry(void *arg)
{
    struct member *member = arg;
    struct locks_held *held = OWN(member, locks_held);
    struct waiting *waiting, copy;
    int status = EAGAIN;

    do {
        DL_FOREACH(held->waitings, waiting)
        {
            if ((status = try(member, waiting->holder, waiting->lock)) != EAGAIN)
                break;
        }
        if (!waiting)
            break;
        copy = *waiting;
        waiting_free(member, waiting);
        copy.fn(member, copy.holder->rank, copy.id, status);
    } while (true);
    if (held->waitings)
        net_timer_start(held->timer, util_clock_now() + AGAIN);
}

static void retry_soon(struct member *member)
{
    struct locks_held *held = OWN(member, locks_held);

    if (held->waitings)
        net_timer_start(held->timer, util_clock_now());
}

/* False: no memory, or too many. */
static bool wait_for(struct member *member, struct holder *holder, uint64_t id,
                     struct flock lock, locks_fn fn)
{
    struct locks_held *held = OWN(member, locks_held);
    struct waiting *waiting;

    if (!util_quota_take(&held->quota, holder->rank, WAITS_MAX,
                         "locks that are waited for"))
        return false;
    if (!(waiting = calloc(1, sizeof(*waiting)))) {
        util_quota_return(&held->quota, holder->rank);
        return false;
    }
    waiting->holder = holder;
    waiting->id = id;
    waiting->lock = lock;
    waiting->fn = fn;
    if (!held->waitings)
        net_timer_start(held->timer, util_clock_now() + AGAIN);
    DL_APPEND(held->waitings, waiting);
    return true;
}

static void forget(struct member *member, uint32_t rank, uint64_t id)
{
    struct waiting *waiting;

    DL_FOREACH(OWN(member, locks_held)->waitings, waiting)
    {
        if (waiting->holder->rank == rank && waiting->id == id) {
            waiting_free(member, waiting);
            break;
        }
    }
}

/* Its file was removed: what is locked in that is no business of who has the name now. */
static bool is_stale(const struct member *member, const struct holder *holder)
{
    struct stat st;

    return fstat(holder->fd, &st) == 0 && st.st_nlink == 0 && !has_waiting(member, holder);
}

/* FORGET without an id: the process has ended. */
static void give_up(struct member *member, struct holder *holder, struct flock *lock,
                    const struct locks_request *request)
{
    bool ended = (request->flags & NET_LOCK_FORGET) && !request->id;

    if (ended ||
        (request->length >= (uint64_t)STORE_LOCKS_END && !has_waiting(member, holder)))
        holder_free(member, holder);
    else
        fcntl(holder->fd, F_OFD_SETLK, lock);
}

void locks_hold(struct member *member, const struct locks_request *request, locks_fn fn)
{
    struct holder *holder = find(member, request);
    uint8_t type = request->flags & NET_LOCK_TYPE;
    struct flock lock = {.l_type = type == NET_LOCK_WRITE  ? F_WRLCK
                                   : type == NET_LOCK_READ ? F_RDLCK
                                                           : F_UNLCK,
                         .l_whence = SEEK_SET,
                         .l_start = (off_t)request->offset,
                         .l_len = (off_t)request->length};
    bool made = false;
    int status = 0;

    if (request->flags & NET_LOCK_FORGET)
        forget(member, request->rank, request->id);
    if (type != NET_LOCK_NONE && holder && is_stale(member, holder)) {
        holder_free(member, holder);
        holder = NULL;
    }
    if (type != NET_LOCK_NONE && !holder)
        made = (holder = make(member, request)) != NULL;
    if (type == NET_LOCK_NONE && holder)
        give_up(member, holder, &lock, request);
    else if (type != NET_LOCK_NONE && !holder)
        status = errno == ENOENT && request->rank != member->self.rank ? 0 : ENOLCK;
    else if (request->flags & NET_LOCK_TEST)
        status = test(member, holder, lock);
    else if (type != NET_LOCK_NONE)
        status = try(member, holder, lock);
    if (status == EAGAIN && (request->flags & NET_LOCK_WAIT)) {
        if (wait_for(member, holder, request->id, lock, fn))
            return;
        status = ENOLCK;
    }
    if (made && (status || (request->flags & NET_LOCK_TEST)))
        holder_free(member, holder);
    if (type == NET_LOCK_NONE)
        retry_soon(member);
    if (!(request->flags & NET_LOCK_FORGET))
        fn(member, request->rank, request->id, status);
}

static void reply(struct member *member, uint32_t rank, uint64_t id, int status)
{
    struct net_msg msg = {.type = NET_MSG_LOCKED, .id = id, .status = status};

    member_send(member, rank, &msg); /* if it fails the other one asks again */
}

static bool lock_received(struct member *member, const struct net_msg *msg, void **payload,
                          size_t len)
{
    const struct locks_request request = {.rank = msg->source,
                                          .incarnation = msg->source_incarnation,
                                          .id = msg->id,
                                          .owner = msg->mark,
                                          .upath = msg->entry.upath,
                                          .offset = msg->offset,
                                          .length = msg->length,
                                          .flags = msg->flags};

    (void)payload;
    (void)len;
    locks_hold(member, &request, reply);
    return true;
}

/* Of its members before `incarnation`. */
static void drop(struct member *member, uint32_t rank, uint32_t incarnation)
{
    struct holder *holder, *tmp;

    DL_FOREACH_SAFE(OWN(member, locks_held)->holders, holder, tmp)
    {
        if (holder->rank == rank && holder->incarnation < incarnation)
            holder_free(member, holder);
    }
    retry_soon(member);
}

static void peer_up(struct member *member, const struct net_peer *peer)
{
    drop(member, peer->rank, peer->incarnation);
}

static void peer_left(struct member *member, const struct net_peer *peer)
{
    drop(member, peer->rank, UINT32_MAX);
}

/* One that cannot be reached may live, and rely on what it holds. */
static void rank_changed(struct member *member, uint32_t rank,
                         enum member_rank_change change)
{
    if (change == MEMBER_RANK_GONE)
        drop(member, rank, UINT32_MAX);
}

static int start(struct member *member)
{
    OWN(member, locks_held)->timer = net_timer_create(member->loop, retry, member);
    return OWN(member, locks_held)->timer ? 0 : -1;
}

static void stop(struct member *member)
{
    struct locks_held *held = OWN(member, locks_held);

    while (held->holders)
        holder_free(member, held->holders);
    if (held->timer)
        net_timer_destroy(held->timer);
    held->timer = NULL;
    util_quota_clear(&held->quota);
}

const struct member_module locks_held_module = {
    .own = MODULE_OWN(locks_held),
    .messages = (const struct member_message[]){{NET_MSG_LOCK, lock_received}, {0}},
    .start = start,
    .peer_up = peer_up,
    .peer_left = peer_left,
    .rank_changed = rank_changed,
    .stop = stop,
};
