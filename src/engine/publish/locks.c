/*
 * locks.c - locks of processes of this rank on files that several nodes write
 *
 * A lock is one on the file of each node that writes it (locks_held.c), its own too, taken in one
 * order, so that of two that want the same bytes one has them at all nodes.
 *
 *   state    until                                    then
 *   WHO      the homes have said who writes the file  ASKED the first
 *   ASKED    a node has locked its file               the next; the last: over
 *
 * Of two processes the one whose open was the later one knows the other's node, asks that, too, and
 * finds there what the other one has locked there, alone or not. So no state is needed but the
 * kernel's, and a node that dies takes no lock with it but its own.
 *
 * A new lock does not meet one that its process has, so what could not be had everywhere is
 * given up with nothing lost. Locks end with their process (a pidfd tells), or with its close
 * of any descriptor of the file (the wrapper tells).
 */
#include "engine/publish/locks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utlist.h>

#include "engine/core/joined_writers.h"
#include "engine/core/module.h"
#include "engine/publish/locks_held.h"
#include "util/clock.h"
#include "util/fd_close.h"
#include "util/log.h"

#define SAY_AFTER (10 * UTIL_NSEC_PER_SEC)

struct range {
    uint64_t begin, end;
    uint8_t type; /* NET_LOCK_READ, _WRITE */
};

/* Who is asked, in the order of nodes. */
struct ranks {
    uint32_t *rank;
    unsigned n;
};

/* What a process of this rank has locked. */
struct locked {
    struct locked *prev, *next; /* utlist */
    struct member *member;
    pid_t pid;
    int pidfd;
    struct net_watch *watch; /* NULL: of this process */
    struct range *range;     /* that do not meet */
    size_t nranges;
    struct ranks asked; /* for any of them */
    char upath[];
};

struct locks_op {
    struct locks_op *prev, *next; /* utlist */
    struct member *member;
    pid_t pid;
    struct range range;
    uint8_t flags;
    uint64_t id;
    struct ranks ranks;
    unsigned at;  /* which of them is asked */
    bool looking; /* WHO, or it was posted: called with it later */
    struct net_post post;
    struct net_timer *say;
    void (*fn)(void *arg, int status); /* NULL: it was cancelled */
    void *arg;
    char upath[];
};

struct locks {
    struct locked *locked;
    struct locks_op *ops;
};

static struct locked *find(struct member *member, const char *upath, pid_t pid)
{
    struct locked *locked;

    DL_FOREACH(OWN(member, locks)->locked, locked)
    {
        if (locked->pid == pid && strcmp(locked->upath, upath) == 0)
            break;
    }
    return locked;
}

static void locked_free(struct locked *locked)
{
    DL_DELETE(OWN(locked->member, locks)->locked, locked);
    if (locked->watch)
        net_watch_destroy(locked->watch);
    util_fd_close(locked->pidfd);
    free(locked->range);
    free(locked->asked.rank);
    free(locked);
}

/* --- what is asked of one node --- */

static void answered(struct member *member, uint32_t rank, uint64_t id, int status);

/* 0 or -1. With NET_LOCK_FORGET there is no answer. */
static int ask(struct member *member, uint32_t rank, uint64_t id, const char *upath,
               pid_t pid, const struct range *range, uint8_t flags)
{
    struct net_msg msg = {.type = NET_MSG_LOCK,
                          .flags = flags,
                          .id = id,
                          .entry.upath = upath,
                          .offset = range->begin,
                          .length = range->end - range->begin,
                          .mark = (uint64_t)pid};
    struct locks_request request = {.rank = rank,
                                    .id = id,
                                    .owner = msg.mark,
                                    .upath = upath,
                                    .offset = msg.offset,
                                    .length = msg.length,
                                    .flags = flags};

    if (rank != member->self.rank)
        return member_send(member, rank, &msg);
    locks_hold(member, &request, answered);
    return 0;
}

static const struct range all = {.end = STORE_LOCKS_END};

/* Its process has ended. */
static void give_up(struct locked *locked)
{
    for (unsigned i = 0; i < locked->asked.n; i++)
        ask(locked->member, locked->asked.rank[i], 0, locked->upath, locked->pid, &all,
            NET_LOCK_FORGET);
    locked_free(locked);
}

static void process_ended(void *arg, int fd, uint32_t events)
{
    (void)fd;
    (void)events;
    give_up(arg);
}

/* --- what a process holds --- */

static struct locked *locked_get(struct member *member, const char *upath, pid_t pid)
{
    struct locked *locked = find(member, upath, pid);

    if (locked || !(locked = calloc(1, sizeof(*locked) + strlen(upath) + 1)))
        return locked;
    locked->member = member;
    locked->pid = pid;
    locked->pidfd = -1;
    strcpy(locked->upath, upath);
    DL_APPEND(OWN(member, locks)->locked, locked);
    if (pid != getpid()) {
        locked->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
        locked->watch = locked->pidfd < 0 ? NULL
                                          : net_loop_watch(member->loop, locked->pidfd,
                                                           EPOLLIN, process_ended, locked);
        if (!locked->watch) { /* it has ended */
            locked_free(locked);
            return NULL;
        }
    }
    return locked;
}

/* 0 or -1. */
static int ranks_add(struct ranks *ranks, uint32_t rank)
{
    uint32_t *grown;

    for (unsigned i = 0; i < ranks->n; i++)
        if (ranks->rank[i] == rank)
            return 0;
    if (!(grown = realloc(ranks->rank, (ranks->n + 1) * sizeof(*grown))))
        return -1;
    ranks->rank = grown;
    ranks->rank[ranks->n++] = rank;
    return 0;
}

/* 0 or -1. */
static int range_add(struct locked *locked, struct range range)
{
    struct range *grown =
        realloc(locked->range, (locked->nranges + 1) * sizeof(*locked->range));

    if (!grown)
        return -1;
    locked->range = grown;
    locked->range[locked->nranges++] = range;
    return 0;
}

/* Cut it out of what is held. 0 or -1: no memory for the second part of one. */
static int range_remove(struct locked *locked, const struct range *gone)
{
    for (size_t i = 0; i < locked->nranges;) {
        struct range *held = &locked->range[i], behind = *held;
        if (held->end <= gone->begin || held->begin >= gone->end) {
            i++;
            continue;
        }
        behind.begin = gone->end;
        if (held->begin < gone->begin)
            held->end = gone->begin;
        else
            *held = locked->range[--locked->nranges]; /* is looked at next */
        if (behind.begin < behind.end && range_add(locked, behind) < 0)
            return -1;
    }
    return 0;
}

/* Whether the process holds bytes of it. *same: all of it, by one lock of that type. */
static bool meets(const struct locked *locked, const struct range *range, bool *same)
{
    bool any = false;

    *same = false;
    for (size_t i = 0; locked && i < locked->nranges; i++) {
        const struct range *held = &locked->range[i];
        if (held->end <= range->begin || held->begin >= range->end)
            continue;
        any = true;
        *same |= held->type == range->type && held->begin <= range->begin &&
                 held->end >= range->end;
    }
    return any;
}

/* --- a request --- */

static void op_free(struct locks_op *op)
{
    DL_DELETE(OWN(op->member, locks)->ops, op);
    if (op->say)
        net_timer_destroy(op->say);
    free(op->ranks.rank);
    free(op);
}

static void end(struct locks_op *op, int status)
{
    void (*fn)(void *, int) = op->fn;
    void *arg = op->arg;

    op_free(op);
    if (fn)
        fn(arg, status);
}

/* What it has got of the lock. */
static void undo(struct locks_op *op, unsigned n)
{
    if (op->range.type == NET_LOCK_NONE || (op->flags & NET_LOCK_TEST))
        return;
    for (unsigned i = 0; i < n && i < op->ranks.n; i++)
        ask(op->member, op->ranks.rank[i], op->id, op->upath, op->pid, &op->range,
            NET_LOCK_FORGET);
}

static void refuse(struct locks_op *op, const char *why)
{
    log_error("\"%s\" cannot be locked, which other nodes write, too: %s", op->upath, why);
    undo(op, op->at);
    end(op, ENOLCK);
}

/* No other thread of its process asks. */
static bool is_alone(const struct locks_op *op)
{
    const struct locks_op *other;

    DL_FOREACH(OWN(op->member, locks)->ops, other)
    {
        if (other != op && other->pid == op->pid && strcmp(other->upath, op->upath) == 0)
            return false;
    }
    return true;
}

/* All nodes have it. */
static void succeed(struct locks_op *op)
{
    struct member *member = op->member;
    struct locked *locked;

    if (op->flags & NET_LOCK_TEST) {
        end(op, 0);
        return;
    }
    if (op->range.type == NET_LOCK_NONE) {
        if ((locked = find(member, op->upath, op->pid)) && !locked->nranges && is_alone(op))
            locked_free(locked);
        end(op, 0);
        return;
    }
    locked = find(member, op->upath, op->pid);
    if (!locked || range_add(locked, op->range) < 0)
        refuse(op, "no memory, or its process has ended");
    else
        end(op, 0);
}

static void ask_next(struct locks_op *op)
{
    struct locked *locked = find(op->member, op->upath, op->pid);

    for (; op->at < op->ranks.n; op->at++) {
        if (!locked || ranks_add(&locked->asked, op->ranks.rank[op->at]) < 0) {
            refuse(op, "no memory, or its process has ended");
            return;
        }
        if (ask(op->member, op->ranks.rank[op->at], op->id, op->upath, op->pid, &op->range,
                op->flags) == 0)
            return;
        if (op->range.type != NET_LOCK_NONE) {
            refuse(op, "a rank that writes it cannot be reached");
            return;
        }
    }
    succeed(op);
}

static struct locks_op *op_find(struct member *member, uint64_t id)
{
    struct locks_op *op;

    DL_FOREACH(OWN(member, locks)->ops, op)
    {
        if (op->id == id)
            break;
    }
    return op;
}

static void answered(struct member *member, uint32_t rank, uint64_t id, int status)
{
    struct locks_op *op = op_find(member, id);

    if (!op || op->looking || op->at >= op->ranks.n || op->ranks.rank[op->at] != rank)
        return;
    if (status == EAGAIN) {
        undo(op, op->at);
        end(op, EAGAIN);
    } else if (status && op->range.type != NET_LOCK_NONE) {
        refuse(op,
               "a node cannot lock its file, or the process holds a lock that it took "
               "before other nodes came");
    } else {
        op->at++;
        ask_next(op);
    }
}

static bool locked_received(struct member *member, const struct net_msg *msg,
                            void **payload, size_t len)
{
    (void)payload;
    (void)len;
    answered(member, msg->source, msg->id, msg->status);
    return true;
}

static const struct net_peer *peer_of(struct member *member, uint32_t rank)
{
    return rank == member->self.rank ? &member->self
                                     : net_worker_peer(member->worker, rank);
}

/* The order of nodes, which all agree on. */
static int order(const struct net_peer *a, const struct net_peer *b)
{
    int node = strcmp(a->node, b->node);

    return node ? node
                : memcmp(a->storage_producer, b->storage_producer, DYAD_STORAGE_ID_LEN);
}

/* One of each node, in their order. 0 or -1: one is not known, or no memory. */
static int ranks_choose(struct locks_op *op, const uint32_t *ranks, unsigned n)
{
    struct member *member = op->member;

    if (ranks_add(&op->ranks, member->self.rank) < 0)
        return -1;
    for (unsigned i = 0; i < n; i++) {
        const struct net_peer *peer = peer_of(member, ranks[i]);
        bool beside = false;
        unsigned at = 0;
        if (!peer)
            return -1;
        for (unsigned k = 0; k < op->ranks.n; k++) {
            const struct net_peer *other = peer_of(member, op->ranks.rank[k]);
            beside |= joined_writers_are_beside(peer, other);
            at += order(other, peer) < 0;
        }
        if (beside)
            continue;
        if (ranks_add(&op->ranks, ranks[i]) < 0)
            return -1;
        memmove(&op->ranks.rank[at + 1], &op->ranks.rank[at],
                (op->ranks.n - 1 - at) * sizeof(*op->ranks.rank));
        op->ranks.rank[at] = ranks[i];
    }
    return 0;
}

static void who_answered(void *arg, int status, uint32_t owner, const uint32_t *ranks,
                         unsigned n)
{
    struct locks_op *op = arg;

    (void)owner;
    op->looking = false;
    if (!op->fn)
        op_free(op);
    else if (status)
        refuse(op, status == EOWNERDEAD ? "a rank that has written it is dead"
                                        : strerror(status));
    else if (ranks_choose(op, ranks, n) < 0)
        refuse(op, "a rank that writes it cannot be reached");
    else
        ask_next(op);
}

static int who(struct locks_op *op)
{
    op->at = 0;
    op->ranks.n = 0;
    op->id = op->member->next_id += 2;
    op->looking = true;
    return dht_node_who_writes(op->member->dht, op->upath, who_answered, op);
}

static void say(void *arg)
{
    const struct locks_op *op = arg;

    log_warn(
        "process %d waits for a lock of \"%s\" that another process has%s%s", (int)op->pid,
        op->upath, op->at < op->ranks.n ? ", by way of " : "",
        op->at < op->ranks.n ? member_describe(op->member, op->ranks.rank[op->at]) : "");
}

static void unlock(void *arg)
{
    struct locks_op *op = arg;

    op->looking = false;
    if (op->fn)
        ask_next(op);
    else
        op_free(op);
}

struct locks_op *locks_start(struct member *member, const struct net_msg *asked, pid_t pid,
                             void (*fn)(void *arg, int status), void *arg)
{
    const char *upath = asked->entry.upath;
    uint8_t flags = asked->flags;
    struct locked *locked = find(member, upath, pid);
    struct locks_op *op = calloc(1, sizeof(*op) + strlen(upath) + 1);
    bool same;

    if (!op)
        return NULL;
    op->member = member;
    op->pid = pid;
    op->range =
        (struct range){asked->offset, asked->offset + asked->length, flags & NET_LOCK_TYPE};
    op->flags = flags;
    op->fn = fn;
    op->arg = arg;
    strcpy(op->upath, upath);
    DL_APPEND(OWN(member, locks)->ops, op);
    errno = 0;
    if (op->range.type == NET_LOCK_NONE) {
        if (!locked || range_remove(locked, &op->range) < 0)
            goto end;
        if (!locked->nranges && is_alone(op))
            op->range = all;
        for (unsigned i = 0; i < locked->asked.n; i++)
            if (ranks_add(&op->ranks, locked->asked.rank[i]) < 0)
                goto end;
        op->id = member->next_id += 2;
        op->looking = true;
        net_loop_post(member->loop, &op->post, unlock, op);
        return op;
    }
    if (!locked && !locked_get(member, upath, pid)) {
        errno = ENOLCK;
        goto end;
    }
    if (!(flags & NET_LOCK_TEST) && meets(locked, &op->range, &same)) {
        errno = same ? 0 : ENOLCK;
        if (!same)
            log_error(
                "\"%s\" cannot be locked, which other nodes write, too: the process "
                "holds another lock of some of these bytes",
                upath);
        goto end;
    }
    if ((flags & NET_LOCK_WAIT) && (op->say = net_timer_create(member->loop, say, op)))
        net_timer_start(op->say, util_clock_now() + SAY_AFTER);
    if (who(op) == 0)
        return op;
    errno = ENOMEM;
end:
    op_free(op);
    return NULL;
}

void locks_cancel(struct locks_op *op)
{
    op->fn = NULL;
    if (op->looking) /* the answer comes yet */
        return;
    undo(op, op->at + 1);
    op_free(op);
}

/* Who has ended in order writes it no more; who died has not. */
static void rank_gone(struct member *member, uint32_t rank)
{
    struct locks_op *op, *tmp;

    DL_FOREACH_SAFE(OWN(member, locks)->ops, op, tmp)
    {
        if (op->looking || op->at >= op->ranks.n || op->ranks.rank[op->at] != rank)
            continue;
        if (op->range.type == NET_LOCK_NONE) {
            op->at++;
            ask_next(op);
        } else {
            undo(op, op->at);
            if (who(op) < 0)
                end(op, ENOLCK);
        }
    }
}

static void rank_changed(struct member *member, uint32_t rank,
                         enum member_rank_change change)
{
    if (change != MEMBER_RANK_BACK)
        rank_gone(member, rank);
}

/* The guests are gone, and the table and its answers end with these. */
static void stop(struct member *member)
{
    struct locks *locks = OWN(member, locks);

    while (locks->ops)
        op_free(locks->ops);
    while (locks->locked)
        locked_free(locks->locked);
}

const struct member_module locks_module = {
    .own = MODULE_OWN(locks),
    .messages = (const struct member_message[]){{NET_MSG_LOCKED, locked_received}, {0}},
    .peer_down = rank_gone,
    .rank_changed = rank_changed,
    .stop = stop,
};
