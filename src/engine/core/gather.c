/*
 * gather.c - ask all ranks, some at a time, page by page
 *
 * What could go wrong: a failed send brings the news of a dead rank, and with it
 * gather_peer_down(), from inside; and an operation of the asker may send. So there is one
 * place where ranks are asked and the end is found, gather_go_on(), which is not entered
 * twice (`busy`), and what happens meanwhile only marks. It frees the gather itself, as its
 * last act.
 */
#include "engine/core/gather.h"

#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "engine/core/member.h"
#include "engine/core/module.h"
#include "util/clock.h"

struct question {
    struct question *prev, *next; /* utlist */
    struct gather *gather;
    struct gather_at at;
    uint64_t id;
    int error;   /* it has failed: gather_go_on() tells */
    bool unsent; /* the next page is to be asked for */
    struct net_timer *deadline;
};

struct gather {
    struct gather *prev, *next; /* member->gathers */
    struct member *member;
    const struct gather_ops *ops;
    void *arg;
    uint32_t first, next_rank, end;
    unsigned at_once, nquestions;
    struct question *questions;
    bool busy, stopped;
    struct net_post post;
    bool posted, cancelled;
};

static void gather_go_on(struct gather *gather);

static void question_free(struct question *q)
{
    DL_DELETE(q->gather->questions, q);
    q->gather->nquestions--;
    net_timer_destroy(q->deadline);
    free(q);
}

static void gather_free(struct gather *gather)
{
    struct question *q, *tmp;

    DL_DELETE(gather->member->gathers, gather);
    DL_FOREACH_SAFE(gather->questions, q, tmp)
    {
        question_free(q);
    }
    free(gather);
}

static void question_deadline(void *arg)
{
    struct question *q = arg;

    q->error = ETIMEDOUT;
    gather_go_on(q->gather);
}

static void question_send(struct question *q)
{
    struct member *member = q->gather->member;
    struct net_msg msg = {0};

    q->unsent = false;
    q->gather->ops->ask(q->gather->arg, &q->at, &msg);
    q->id = msg.id = member->next_id;
    member->next_id += 2;
    if (member_send(member, q->at.rank, &msg) < 0) {
        if (!q->error)
            q->error = errno == ENOMEM ? ENOMEM : EHOSTUNREACH;
        return;
    }
    net_timer_start(q->deadline,
                    util_clock_now() + (uint64_t)(member->config->peer_timeout *
                                                  (double)UTIL_NSEC_PER_SEC));
}

static void question_start(struct gather *gather, uint32_t rank)
{
    struct question *q = calloc(1, sizeof(*q));

    if (!q ||
        !(q->deadline = net_timer_create(gather->member->loop, question_deadline, q))) {
        free(q);
        gather->ops->failed(gather->arg, rank, ENOMEM);
        return;
    }
    q->gather = gather;
    q->at.rank = rank;
    q->unsent = true;
    DL_APPEND(gather->questions, q);
    gather->nquestions++;
}

/* Tell what has failed, and send what is to be sent. False: nothing of either. */
static bool gather_step(struct gather *gather)
{
    struct question *q, *tmp;

    DL_FOREACH_SAFE(gather->questions, q, tmp)
    {
        if (q->error) {
            uint32_t rank = q->at.rank;
            int error = q->error;
            question_free(q);
            gather->ops->failed(gather->arg, rank, error);
            return true;
        }
        if (q->unsent) {
            question_send(q);
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
        if (gather->next_rank < gather->end && gather->nquestions < gather->at_once) {
            uint32_t rank = gather->next_rank++;
            if (!gather->ops->wanted || gather->ops->wanted(gather->arg, rank))
                question_start(gather, rank);
            continue;
        }
        if (gather->nquestions > 0) {
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
    DL_APPEND(member->gathers, gather);
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

static struct question *question_find(struct member *member, const struct net_msg *msg)
{
    struct gather *gather;
    struct question *q;

    DL_FOREACH(member->gathers, gather)
    {
        DL_FOREACH(gather->questions, q)
        {
            if (q->id == msg->id && q->at.rank == msg->source && !q->unsent && !q->error)
                return q;
        }
    }
    return NULL;
}

static bool received(struct member *member, const struct net_msg *msg, void **payload,
                     size_t len)
{
    struct question *q = question_find(member, msg);
    struct gather *gather;
    bool was_busy;

    (void)payload;
    (void)len;
    if (!q)
        return false;
    gather = q->gather;
    was_busy = gather->busy;
    gather->busy = true; /* page() may send, and so bring news of the dead */
    switch (gather->ops->page(gather->arg, &q->at, msg)) {
    case GATHER_LAST:
        question_free(q);
        break;
    case GATHER_MORE:
        q->unsent = true;
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
    struct question *q;

    DL_FOREACH_SAFE(member->gathers, gather, tmp)
    {
        DL_FOREACH(gather->questions, q)
        {
            if (q->at.rank == rank && !q->error)
                q->error = EHOSTUNREACH;
        }
        gather_go_on(gather); /* may free it */
    }
}

const struct member_module gather_module = {
    .name = "gather",
    .messages =
        (const struct member_message[]){
            {NET_MSG_DUMP_REPLY, received},
            {NET_MSG_LIST_REPLY, received},
            {NET_MSG_ERROR, received},
            {0},
        },
    .peer_down = peer_down,
};
