/*
 * locks_held.c - locks that this node's file has for processes of any node
 *
 * A lock of a file that several nodes write is one of the file of each of them, which the kernel keeps:
 * an open file description of ours for each process that holds any. So it excludes what
 * processes of this node have locked before they knew of other nodes, and what other
 * members of the node hold.
 *
 * Who waits is tried again when a lock that we hold here is given up. Of those of other members of the
 * node, and of processes, no event tells: they are looked for all AGAIN.
 */
#include "engine/publish/locks_held.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "engine/core/joined_writers.h"
#include "engine/core/module.h"
#include "store/fetch.h"
#include "util/clock.h"
#include "util/fd_close.h"
#include "util/log.h"

#define AGAIN (2 * UTIL_NSEC_PER_MSEC)

/* A process that holds locks of a file. */
struct holder {
    struct holder *prev, *next; /* utlist */
    uint32_t rank;
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
    struct net_timer *timer; /* of AGAIN; NULL: nobody has waited yet */
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
    struct holder *holder =
        fd < 0 ? NULL : calloc(1, sizeof(*holder) + strlen(request->upath) + 1);

    if (!holder) {
        util_fd_close(fd);
        return NULL;
    }
    holder->rank = request->rank;
    holder->owner = request->owner;
    holder->fd = fd;
    strcpy(holder->upath, request->upath);
    DL_APPEND(OWN(member, locks_held)->holders, holder);
    return holder;
}

static void waiting_free(struct member *member, struct waiting *waiting)
{
    DL_DELETE(OWN(member, locks_held)->waitings, waiting);
    free(waiting);
}

/* With all that it holds. */
static void holder_free(struct member *member, struct holder *holder)
{
    struct waiting *waiting, *tmp;

    DL_FOREACH_SAFE(OWN(member, locks_held)->waitings, waiting, tmp)
    {
        if (waiting->holder == holder)
            waiting_free(member, waiting);
    }
    DL_DELETE(OWN(member, locks_held)->holders, holder);
    util_fd_close(holder->fd);
    free(holder);
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

static int test(const struct holder *holder, struct flock lock)
{
    if (fcntl(holder->fd, F_OFD_GETLK, &lock) < 0)
        return ENOLCK;
    return lock.l_type == F_UNLCK ? 0 : EAGAIN;
}

/* All that wait, until one has got what it waits for: its answer may change the rest. */
static void retry(struct member *member)
{
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

static void retry_later(void *arg)
{
    retry(arg);
}

/* False: no memory. */
static bool wait_for(struct member *member, struct holder *holder, uint64_t id,
                     struct flock lock, locks_fn fn)
{
    struct locks_held *held = OWN(member, locks_held);
    struct waiting *waiting;

    if ((!held->timer &&
         !(held->timer = net_timer_create(member->loop, retry_later, member))) ||
        !(waiting = calloc(1, sizeof(*waiting))))
        return false;
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
    int status = 0;

    if (request->flags & NET_LOCK_FORGET)
        forget(member, request->rank, request->id);
    if (type == NET_LOCK_NONE && holder && request->length >= (uint64_t)STORE_LOCKS_END)
        holder_free(member, holder);
    else if (type == NET_LOCK_NONE && holder)
        fcntl(holder->fd, F_OFD_SETLK, &lock);
    else if (type != NET_LOCK_NONE && !holder && !(holder = make(member, request)))
        status = errno == ENOENT ? 0 : ENOLCK;
    else if (request->flags & NET_LOCK_TEST)
        status = test(holder, lock);
    else if (type != NET_LOCK_NONE)
        status = try(member, holder, lock);
    if (status == EAGAIN && (request->flags & NET_LOCK_WAIT)) {
        if (wait_for(member, holder, request->id, lock, fn))
            return;
        status = ENOLCK;
    }
    if (!(request->flags & NET_LOCK_FORGET))
        fn(member, request->rank, request->id, status);
    if (type == NET_LOCK_NONE)
        retry(member);
}

static void reply(struct member *member, uint32_t rank, uint64_t id, int status)
{
    struct net_msg msg = {.type = NET_MSG_LOCKED, .id = id, .status = status};

    member_send(member, rank, &msg); /* if it fails the rank is lost */
}

static bool lock_received(struct member *member, const struct net_msg *msg, void **payload,
                          size_t len)
{
    const struct locks_request request = {.rank = msg->source,
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

static void rank_gone(struct member *member, uint32_t rank)
{
    struct holder *holder, *tmp;

    DL_FOREACH_SAFE(OWN(member, locks_held)->holders, holder, tmp)
    {
        if (holder->rank == rank)
            holder_free(member, holder);
    }
    retry(member);
}

static void rank_changed(struct member *member, uint32_t rank,
                         enum member_rank_change change)
{
    if (change != MEMBER_RANK_BACK)
        rank_gone(member, rank);
}

static void stop(struct member *member)
{
    struct locks_held *held = OWN(member, locks_held);

    while (held->holders)
        holder_free(member, held->holders);
    if (held->timer)
        net_timer_destroy(held->timer);
    held->timer = NULL;
}

const struct member_module locks_held_module = {
    .own = MODULE_OWN(locks_held),
    .messages = (const struct member_message[]){{NET_MSG_LOCK, lock_received}, {0}},
    .peer_down = rank_gone,
    .rank_changed = rank_changed,
    .stop = stop,
};
