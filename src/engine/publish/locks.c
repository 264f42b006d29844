/*
 * locks.c - locks of processes of this rank on files that several nodes write
 *
 * A lock is one on the file of each node that writes it (locks_held.c), its own too, taken in one
 * order, so that of two that want the same bytes one has them at all nodes.
 *
 *   state    until                                    then
 *   WHO      the homes have said who writes the file  ASKED the first; one of them is not
 *                                                     known yet: MEETS
 *   MEETS    that one has answered for the first time WHO
 *   ASKED    a node has locked its file               the next; the last: over
 *
 * Of two processes the one whose open was the later one knows the other's node, asks that, too, and
 * finds there what the other one has locked there, alone or not. So no state is needed but the
 * kernel's, and a node that dies takes no lock with it but its own.
 *
 * A new lock does not meet one that its process has, so what could not be had everywhere is
 * given up with nothing lost. Locks end with their process (a pidfd tells), or with its last close
 * of a description of the file (the wrapper tells).
 */
#include "engine/publish/locks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "engine/core/module.h"
#include "engine/publish/lock_nodes.h"
#include "engine/publish/lock_ranges.h"
#include "engine/publish/locked.h"
#include "engine/publish/locks_held.h"
#include "util/clock.h"
#include "util/log.h"

#define SAY_AFTER (10 * UTIL_NSEC_PER_SEC)

struct locks_op {
    struct locks_op *prev, *next; /* utlist */
    struct member *member;
    uint64_t owner, since; /* util_clock_now() */
    struct lock_range range;
    uint8_t flags;
    uint64_t id;
    struct lock_nodes nodes;
    unsigned at;    /* which of them is asked */
    uint32_t meets; /* MEETS: that rank; else DYAD_RANK_NONE */
    bool again; /* it could not be asked, and the homes say once more who writes the file */
    bool looking; /* WHO, MEETS, or it is queued or posted: called with it later */
    bool queued;  /* another thread of the process asks for some of these bytes */
    bool posted;  /* begin_queued() */
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

static struct locked *find(struct member *member, const char *upath, uint64_t owner)
{
    return locked_find(OWN(member, locks)->locked, upath, owner);
}

/* --- what is asked of one node --- */

static void answered(struct member *member, uint32_t rank, uint64_t id, int status);

/* 0 or -1. With NET_LOCK_FORGET there is no answer. */
static int ask(struct member *member, uint32_t rank, uint64_t id, const char *upath,
               uint64_t owner, const struct lock_range *range, uint8_t flags)
{
    struct net_msg msg = {.type = NET_MSG_LOCK,
                          .flags = flags,
                          .id = id,
                          .entry.upath = upath,
                          .offset = range->begin,
                          .length = range->end - range->begin,
                          .mark = owner};
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

static const struct lock_range all = {.end = STORE_LOCK_APPEND + 1};

/* Its process has ended. */
static void give_up(struct locked *locked)
{
    for (unsigned i = 0; i < locked->asked.n; i++)
        ask(locked->member, locked->asked.rank[i], 0, locked->upath, locked->owner, &all,
            NET_LOCK_FORGET);
    locked_free(&OWN(locked->member, locks)->locked, locked);
}

/* --- a request --- */

static void op_free(struct locks_op *op)
{
    DL_DELETE(OWN(op->member, locks)->ops, op);
    if (op->say)
        net_timer_destroy(op->say);
    lock_nodes_free(&op->nodes);
    free(op);
}

static void begin_queued(void *arg);

static bool is_beside(const struct locks_op *a, const struct locks_op *b)
{
    return a != b && a->owner == b->owner && strcmp(a->upath, b->upath) == 0;
}

/* It is over: one of its process that has waited for that may begin. */
static void op_over(struct locks_op *op)
{
    struct locks_op *other;

    DL_FOREACH(OWN(op->member, locks)->ops, other)
    {
        if (other->queued && !other->posted && is_beside(op, other)) {
            other->posted = true;
            net_loop_post(op->member->loop, &other->post, begin_queued, other);
        }
    }
    op_free(op);
}

static void end(struct locks_op *op, int status)
{
    void (*fn)(void *, int) = op->fn;
    void *arg = op->arg;

    op_over(op);
    if (fn)
        fn(arg, status);
}

/* What it has got of the lock. */
static void undo(struct locks_op *op, unsigned n)
{
    if (op->range.type == NET_LOCK_NONE || (op->flags & NET_LOCK_TEST))
        return;
    for (unsigned i = 0; i < n && i < op->nodes.n; i++)
        ask(op->member, op->nodes.rank[i], op->id, op->upath, op->owner, &op->range,
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
        if (is_beside(other, op))
            return false;
    }
    return true;
}

/* Another thread of the process is about to lock some of these bytes. */
static bool asks_beside(const struct locks_op *op)
{
    const struct locks_op *other;

    DL_FOREACH(OWN(op->member, locks)->ops, other)
    {
        if (is_beside(other, op) && other->fn && !other->queued &&
            other->range.type != NET_LOCK_NONE && !(other->flags & NET_LOCK_TEST) &&
            lock_range_meets(&other->range, &op->range))
            return true;
    }
    return false;
}

#define NOT_HELD (-1)

/* 0: its process has that lock; ENOLCK, logged: another one of some of these bytes; or NOT_HELD. */
static int held_already(const struct locks_op *op)
{
    const struct locked *locked = find(op->member, op->upath, op->owner);
    bool same;

    if (!locked || !lock_ranges_meet(&locked->ranges, &op->range, &same))
        return NOT_HELD;
    if (!same)
        log_error(
            "\"%s\" cannot be locked, which other nodes write, too: the process holds "
            "another lock of some of these bytes",
            op->upath);
    return same ? 0 : ENOLCK;
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
        if (op->range.begin == all.begin && op->range.end == all.end && is_alone(op) &&
            (locked = find(member, op->upath, op->owner)) && !locked->ranges.n)
            locked_free(&OWN(member, locks)->locked, locked);
        end(op, 0);
        return;
    }
    locked = find(member, op->upath, op->owner);
    if (!locked || lock_ranges_add(&locked->ranges, &op->range) < 0)
        refuse(op, "no memory, or its process has ended");
    else
        end(op, 0);
}

static int who(struct locks_op *op);

/* It may have left in order since. */
static void ask_anew(struct locks_op *op)
{
    if (op->again) {
        refuse(op, "a rank that writes it cannot be reached");
        return;
    }
    op->again = true;
    undo(op, op->at);
    if (who(op) < 0)
        end(op, ENOLCK);
}

static void ask_next(struct locks_op *op)
{
    struct locked *locked = find(op->member, op->upath, op->owner);

    for (; op->at < op->nodes.n; op->at++) {
        if (!locked || lock_nodes_add(&locked->asked, op->nodes.rank[op->at]) < 0) {
            refuse(op, "no memory, or its process has ended");
            return;
        }
        if (ask(op->member, op->nodes.rank[op->at], op->id, op->upath, op->owner,
                &op->range, op->flags) == 0)
            return;
        if (op->range.type != NET_LOCK_NONE) {
            ask_anew(op);
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

    if (!op || op->looking || op->at >= op->nodes.n || op->nodes.rank[op->at] != rank)
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
        op->again = false;
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

/* False: all are known. On which node it is, and with what storage, a rank tells when it is spoken to. */
static bool is_to_meet(struct locks_op *op, const uint32_t *ranks, unsigned n)
{
    struct member *member = op->member;

    for (unsigned i = 0; i < n; i++) {
        if (ranks[i] == member->self.rank || net_worker_peer(member->worker, ranks[i]))
            continue;
        op->meets = ranks[i];
        op->looking = true;
        return ask(member, ranks[i], op->id, op->upath, op->owner, &op->range,
                   NET_LOCK_FORGET) == 0;
    }
    return false;
}

static void who_answered(void *arg, int status, uint32_t owner, const uint32_t *ranks,
                         unsigned n, const struct dyad_base *root)
{
    struct locks_op *op = arg;

    (void)owner;
    (void)root;
    op->looking = false;
    if (!op->fn)
        op_over(op);
    else if (status)
        refuse(op, status == EOWNERDEAD ? "a rank that has written it is dead"
                                        : strerror(status));
    else if (is_to_meet(op, ranks, n))
        return;
    else if (lock_nodes_choose(&op->nodes, op->member, ranks, n) < 0)
        refuse(op, "a rank that writes it cannot be reached");
    else
        ask_next(op);
}

static int who(struct locks_op *op)
{
    op->at = 0;
    op->nodes.n = 0;
    op->meets = DYAD_RANK_NONE;
    op->id = op->member->next_id += 2;
    op->looking = true;
    return dht_node_who_writes(op->member->dht, op->upath, who_answered, op);
}

static void say(void *arg)
{
    const struct locks_op *op = arg;

    log_warn(
        "process %d waits for a lock of \"%s\" that another process has%s%s",
        (int)(pid_t)op->owner, op->upath, op->at < op->nodes.n ? ", by way of " : "",
        op->at < op->nodes.n ? member_describe(op->member, op->nodes.rank[op->at]) : "");
}

static void begin_queued(void *arg)
{
    struct locks_op *op = arg;
    int status;

    op->posted = false;
    if (!op->fn)
        op_over(op);
    else if (asks_beside(op))
        return;
    else if ((status = held_already(op)) != NOT_HELD)
        end(op, status);
    else {
        op->queued = false;
        if (who(op) < 0)
            end(op, ENOLCK);
    }
}

static void unlock(void *arg)
{
    struct locks_op *op = arg;

    op->looking = false;
    if (op->fn)
        ask_next(op);
    else
        op_over(op);
}

/* Another thread gives up bytes of which this one has got some: it begins anew, behind that. */
static void begin_anew_beside(const struct locks_op *op)
{
    struct locks_op *other, *tmp;

    DL_FOREACH_SAFE(OWN(op->member, locks)->ops, other, tmp)
    {
        if (!is_beside(other, op) || other->looking || other->range.type == NET_LOCK_NONE ||
            (other->flags & NET_LOCK_TEST) || !lock_range_meets(&other->range, &op->range))
            continue;
        undo(other, other->at + 1);
        if (who(other) < 0)
            end(other, ENOLCK);
    }
}

struct locks_op *locks_start(struct member *member, const struct net_msg *asked,
                             uint64_t owner, void (*fn)(void *arg, int status), void *arg)
{
    const char *upath = asked->entry.upath;
    uint8_t flags = asked->flags;
    struct locked *locked = find(member, upath, owner);
    struct locks_op *op = calloc(1, sizeof(*op) + strlen(upath) + 1);

    if (!op)
        return NULL;
    op->member = member;
    op->owner = owner;
    op->since = util_clock_now();
    op->meets = DYAD_RANK_NONE;
    op->range = (struct lock_range){asked->offset, asked->offset + asked->length,
                                    flags & NET_LOCK_TYPE};
    op->flags = flags;
    op->fn = fn;
    op->arg = arg;
    strcpy(op->upath, upath);
    DL_APPEND(OWN(member, locks)->ops, op);
    errno = 0;
    if (op->range.type == NET_LOCK_NONE) {
        if (!locked || lock_ranges_remove(&locked->ranges, &op->range) < 0)
            goto end;
        if (!locked->ranges.n && is_alone(op))
            op->range = all;
        for (unsigned i = 0; i < locked->asked.n; i++)
            if (lock_nodes_add(&op->nodes, locked->asked.rank[i]) < 0)
                goto end;
        op->id = member->next_id += 2;
        op->looking = true;
        begin_anew_beside(op);
        net_loop_post(member->loop, &op->post, unlock, op);
        return op;
    }
    if (!locked &&
        !locked_get(&OWN(member, locks)->locked, member, upath, owner, give_up)) {
        log_error("\"%s\" cannot be locked for process %d: %m", upath, (int)(pid_t)owner);
        errno = ENOLCK;
        goto end;
    }
    if (!(flags & NET_LOCK_TEST) && asks_beside(op)) { /* that one comes first */
        op->queued = op->looking = flags & NET_LOCK_WAIT;
        errno = EAGAIN;
        if (op->queued)
            return op;
        goto end;
    }
    if (!(flags & NET_LOCK_TEST) && (errno = held_already(op)) != NOT_HELD)
        goto end;
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
    if (op->looking && (!op->queued || op->posted)) /* called with it yet */
        return;
    if (!op->looking)
        undo(op, op->at + 1);
    op_over(op);
}

void locks_foreach(struct member *member, const char *upath, locks_info_fn fn, void *arg)
{
    const struct locks_op *op;

    locked_foreach(OWN(member, locks)->locked, upath, fn, arg);
    DL_FOREACH(OWN(member, locks)->ops, op)
    {
        const bool asks = op->at < op->nodes.n;
        if (strcmp(op->upath, upath) == 0 && op->fn && op->range.type != NET_LOCK_NONE)
            fn(arg, (pid_t)op->owner, &op->range, op->since,
               asks ? op->nodes.rank[op->at] : DYAD_RANK_NONE);
    }
}

static struct locks_op *op_at(struct member *member, uint32_t rank)
{
    struct locks_op *op;

    DL_FOREACH(OWN(member, locks)->ops, op)
    {
        if (!op->looking && op->at < op->nodes.n && op->nodes.rank[op->at] == rank)
            break;
    }
    return op;
}

/* The rank that was to be met has answered, or cannot. */
static void meet(struct member *member, uint32_t rank, bool there)
{
    struct locks_op *op, *tmp;

    DL_FOREACH_SAFE(OWN(member, locks)->ops, op, tmp)
    {
        if (op->meets != rank)
            continue;
        op->meets = DYAD_RANK_NONE;
        op->looking = false;
        if (!op->fn)
            op_over(op);
        else if (!there)
            refuse(op, "a rank that writes it cannot be reached");
        else if (who(op) < 0)
            end(op, ENOLCK);
    }
}

static void peer_up(struct member *member, const struct net_peer *peer)
{
    meet(member, peer->rank, true);
}

/* A request or its answer may be lost. What is locked is asked for anew, of those who write it then:
 * who has ended in order does no more, who died has not ended it. What is given up by one that lives
 * is given up once more. */
static void peer_down(struct member *member, uint32_t rank)
{
    struct locks_op *op;

    meet(member, rank, false);
    while ((op = op_at(member, rank))) {
        if (op->range.type == NET_LOCK_NONE) {
            op->looking = true;
            net_loop_post(member->loop, &op->post, unlock, op);
            continue;
        }
        undo(op, op->at);
        if (who(op) < 0)
            end(op, ENOLCK);
    }
}

static void rank_changed(struct member *member, uint32_t rank,
                         enum member_rank_change change)
{
    struct locks_op *op;

    if (change == MEMBER_RANK_BACK)
        return;
    while ((op = op_at(member, rank)) && op->range.type == NET_LOCK_NONE) {
        op->at++;
        ask_next(op);
    }
    peer_down(member, rank);
}

/* The guests are gone, and the table and its answers end with these. */
static void stop(struct member *member)
{
    struct locks *locks = OWN(member, locks);

    while (locks->ops)
        op_free(locks->ops);
    while (locks->locked)
        locked_free(&locks->locked, locks->locked);
}

const struct member_module locks_module = {
    .own = MODULE_OWN(locks),
    .messages = (const struct member_message[]){{NET_MSG_LOCKED, locked_received}, {0}},
    .peer_up = peer_up,
    .peer_down = peer_down,
    .rank_changed = rank_changed,
    .stop = stop,
};
