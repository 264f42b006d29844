/*
 * gather.c - ask all ranks, some at a time, page by page
 *
 * A failed send may report a dead rank, and so call gather_peer_down(), from inside; and
 * an operation of the asker may send. So ranks are asked, and the end is found, in one
 * place, gather_go_on(), which is not entered twice (`busy`); calls that come meanwhile
 * only set flags. gather_go_on() frees the gather as its last step.
 */
#include "engine/core/gather.h"

#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "engine/core/member.h"
#include "engine/core/module.h"
#include "util/clock.h"
#include "util/log.h"

struct asking {
    struct asking *prev, *next; /* utlist */
    struct gather *gather;
    struct gather_at at;
    uint64_t id;
    unsigned pages; /* that have come */
    int error;      /* it has failed: gather_go_on() calls failed() */
    bool unsent;    /* the next page is to be asked for */
    struct net_timer *deadline;
};

struct gather {
    struct gather *prev, *next; /* utlist */
    struct member *member;
    const struct gather_ops *ops;
    void *arg;
    uint32_t first, next_rank, end;
    unsigned at_once, nasking;
    struct asking *asking;
    bool busy, stopped;
    struct net_post post;
    bool posted, cancelled;
};

struct gathers {
    struct gather *all; /* utlist */
};

static void gather_go_on(struct gather *gather);

static void asking_free(struct asking *a)
{
    DL_DELETE(a->gather->asking, a);
    a->gather->nasking--;
    net_timer_destroy(a->deadline);
    free(a);
}

static void gather_free(struct gather *gather)
{
    struct asking *a, *tmp;

    DL_DELETE(OWN(gather->member, gathers)->all, gather);
    DL_FOREACH_SAFE(gather->asking, a, tmp)
    {
        asking_free(a);
    }
    free(gather);
}

static void asking_deadline(void *arg)
{
    struct asking *a = arg;

    a->error = ETIMEDOUT;
    gather_go_on(a->gather);
}

static void asking_send(struct asking *a)
{
    struct member *member = a->gather->member;
    struct net_msg msg = {0};

    a->unsent = false;
    a->gather->ops->ask(a->gather->arg, &a->at, &msg);
    a->id = msg.id = member->next_id;
    member->next_id += 2;
    if (member_send(member, a->at.rank, &msg) < 0) {
        if (!a->error)
            a->error = errno == ENOMEM ? ENOMEM : EHOSTUNREACH;
        return;
    }
    net_timer_start(a->deadline,
                    util_clock_now() + (uint64_t)(member->config->peer_timeout *
                                                  (double)UTIL_NSEC_PER_SEC));
}

static void asking_start(struct gather *gather, uint32_t rank)
{
    struct asking *a = calloc(1, sizeof(*a));

    if (!a || !(a->deadline = net_timer_create(gather->member->loop, asking_deadline, a))) {
        free(a);
        gather->ops->failed(gather->arg, rank, ENOMEM);
        return;
    }
    a->gather = gather;
    a->at.rank = rank;
    a->unsent = true;
    DL_APPEND(gather->asking, a);
    gather->nasking++;
}

/* Tell what has failed, and send what is to be sent. False: nothing of either. */
static bool gather_step(struct gather *gather)
{
    struct asking *a, *tmp;

    DL_FOREACH_SAFE(gather->asking, a, tmp)
    {
        if (a->error) {
            uint32_t rank = a->at.rank;
            int error = a->error;
            asking_free(a);
            gather->ops->failed(gather->arg, rank, error);
            return true;
        }
        if (a->unsent) {
            asking_send(a);
            return true;
        }
    }
    return false;
}

static void gather_go_on(struct gather *gather)
{
    if (gather->posted || gather->busy)
        return;
    gather->busy = true;
    for (;;) {
        if (gather->cancelled) { /* from inside of what was called below */
            gather_free(gather);
            return;
        }
        if (gather->stopped)
            break;
        if (gather_step(gather))
            continue;
        if (gather->next_rank < gather->end && gather->nasking < gather->at_once) {
            uint32_t rank = gather->next_rank++;
            if (!gather->ops->wanted || gather->ops->wanted(gather->arg, rank))
                asking_start(gather, rank);
            continue;
        }
        if (gather->nasking > 0) {
            gather->busy = false;
            return;
        }
        if (!gather->ops->done(gather->arg)) {
            gather_free(gather);
            return;
        }
        gather->next_rank = gather->first;
    }
    gather->ops->done(gather->arg);
    gather_free(gather);
}

static void gather_posted(void *arg)
{
    struct gather *gather = arg;

    gather->posted = false;
    if (gather->cancelled)
        gather_free(gather);
    else
        gather_go_on(gather);
}

struct gather *gather_start(struct member *member, uint32_t first, uint32_t end,
                            unsigned at_once, const struct gather_ops *ops, void *arg)
{
    struct gather *gather = calloc(1, sizeof(*gather));

    if (!gather)
        return NULL;
    gather->member = member;
    gather->ops = ops;
    gather->arg = arg;
    gather->first = gather->next_rank = first;
    gather->end = end;
    gather->at_once = at_once;
    DL_APPEND(OWN(member, gathers)->all, gather);
    gather->posted = true;
    net_loop_post(member->loop, &gather->post, gather_posted, gather);
    return gather;
}

void gather_cancel(struct gather *gather)
{
    if (gather->posted || gather->busy)
        gather->cancelled = true;
    else
        gather_free(gather);
}

static struct asking *asking_find(struct member *member, const struct net_msg *msg)
{
    struct gather *gather;
    struct asking *a;

    DL_FOREACH(OWN(member, gathers)->all, gather)
    {
        DL_FOREACH(gather->asking, a)
        {
            if (a->id == msg->id && a->at.rank == msg->source && !a->unsent && !a->error)
                return a;
        }
    }
    return NULL;
}

static bool received(struct member *member, const struct net_msg *msg, void **payload,
                     size_t len)
{
    struct asking *a = asking_find(member, msg);
    struct gather *gather;
    bool was_busy;

    (void)payload;
    (void)len;
    if (!a)
        return false;
    gather = a->gather;
    was_busy = gather->busy;
    gather->busy = true; /* page() may send, and so bring news of the dead */
    switch (gather->ops->page(gather->arg, &a->at, msg)) {
    case GATHER_LAST:
        asking_free(a);
        break;
    case GATHER_MORE:
        a->unsent = true;
        if (++a->pages == GATHER_PAGES_MAX) {
            log_warn(
                "%s has sent %u pages of an answer, and more are to come: they are "
                "not asked for",
                member_describe(member, a->at.rank), a->pages);
            a->error = EPROTO;
        }
        break;
    case GATHER_STOP:
        gather->stopped = true;
        break;
    }
    gather->busy = was_busy;
    gather_go_on(gather);
    return true;
}

static void peer_down(struct member *member, uint32_t rank)
{
    struct gather *gather, *tmp;
    struct asking *a;

    DL_FOREACH_SAFE(OWN(member, gathers)->all, gather, tmp)
    {
        DL_FOREACH(gather->asking, a)
        {
            if (a->at.rank == rank && !a->error)
                a->error = EHOSTUNREACH;
        }
        gather_go_on(gather); /* may free it */
    }
}

const struct member_module gathers_module = {
    .own = MODULE_OWN(gathers),
    .messages =
        (const struct member_message[]){
            {NET_MSG_DUMP_REPLY, received},
            {NET_MSG_LIST_REPLY, received},
            {NET_MSG_ERROR, received},
            {0},
        },
    .peer_down = peer_down,
};
