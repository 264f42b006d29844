/*
 * retry_queue.c - see retry_queue.h
 *
 * A retry is in the list of its state, but for the time in which its `answered` runs:
 * then it is in none, and nothing that this calls finds it.
 *
 * Each retry has its own pauses. There is one timer, set to the first that is due.
 * When it expires all retries that are put off are looked at, so they become due at
 * ticks.
 *
 * A look-up that fails for want of memory counts as an answer of homes that cannot be
 * reached: the user has the retry asked again later.
 */
#include "engine/core/retry_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "engine/core/member.h"
#include "net/loop.h"
#include "util/clock.h"

struct retry_queue {
    struct member *member;
    const struct retry_queue_ops *ops;
    void *arg;
    struct retry *list[RETRY_LATER + 1];
    unsigned nasked;
    struct net_timer *timer;
    uint64_t timer_at; /* UINT64_MAX: it is not set */
};

static void move(struct retry *q, int state)
{
    struct retry_queue *qs = q->of;

    if (q->state != RETRY_NONE)
        DL_DELETE(qs->list[q->state], q);
    qs->nasked -= q->state == RETRY_ASKED;
    qs->nasked += state == RETRY_ASKED;
    q->state = state;
    if (state != RETRY_NONE)
        DL_APPEND(qs->list[state], q);
}

static void end(struct retry *q)
{
    move(q, RETRY_NONE);
    if (q->lookup)
        dht_node_cancel(q->of->member->dht, q->lookup);
    if (q->of->ops->freed)
        q->of->ops->freed(q);
    free(q);
}

static void set_timer(struct retry_queue *qs, uint64_t due)
{
    if (due >= qs->timer_at)
        return;
    qs->timer_at = due;
    net_timer_start(qs->timer, due);
}

static void put_off(struct retry *q, const struct retry_pause *pause)
{
    uint64_t tick = q->of->ops->tick;

    if (q->pause < pause->first)
        q->pause = pause->first;
    else
        q->pause = 2 * q->pause < pause->most ? 2 * q->pause : pause->most;
    q->due = util_clock_now() + q->pause;
    if (pause->by && q->due > pause->by)
        q->due = pause->by;
    q->due += tick - 1;
    q->due -= q->due % tick;
    move(q, RETRY_LATER);
    set_timer(q->of, q->due);
}

static void answer(struct retry *q, int status, const struct dyad_entry *entry)
{
    struct retry_pause pause = q->of->ops->pause;
    enum retry_next next;

    move(q, RETRY_NONE);
    next = q->of->ops->answered(q, status, entry, &pause);
    if (next == QUESTION_KEPT)
        return;
    if (q->again)
        move(q, RETRY_TODO);
    else if (next == QUESTION_PUT_OFF)
        put_off(q, &pause);
    else
        end(q);
}

static void looked_up(void *arg, int status, const struct dyad_entry *entry)
{
    struct retry *q = arg;
    struct retry_queue *qs = q->of;

    q->lookup = NULL;
    answer(q, status, entry);
    retry_queue_go_on(qs);
    qs->ops->stepped(qs->arg);
}

void retry_queue_go_on(struct retry_queue *qs)
{
    struct retry *q;

    while (qs && qs->nasked < qs->ops->window && (q = qs->list[RETRY_TODO])) {
        q->again = false;
        if (qs->ops->is_wanted && !qs->ops->is_wanted(q)) {
            end(q);
            continue;
        }
        q->lookup =
            dht_node_lookup(qs->member->dht, q->upath, qs->ops->flags, NULL, looked_up, q);
        if (q->lookup)
            move(q, RETRY_ASKED);
        else
            answer(q, ENOMEM, NULL);
    }
}

static void later(void *arg)
{
    struct retry_queue *qs = arg;
    uint64_t now = util_clock_now();
    struct retry *q, *tmp;

    qs->timer_at = UINT64_MAX;
    DL_FOREACH_SAFE(qs->list[RETRY_LATER], q, tmp)
    {
        if (q->due <= now)
            move(q, RETRY_TODO);
        else
            set_timer(qs, q->due);
    }
    retry_queue_go_on(qs);
    qs->ops->stepped(qs->arg);
}

struct retry_queue *retry_queue_create(struct member *member,
                                       const struct retry_queue_ops *ops, void *arg)
{
    struct retry_queue *qs = calloc(1, sizeof(*qs));

    if (!qs || !(qs->timer = net_timer_create(member->loop, later, qs))) {
        free(qs);
        return NULL;
    }
    qs->member = member;
    qs->ops = ops;
    qs->arg = arg;
    qs->timer_at = UINT64_MAX;
    return qs;
}

void retry_queue_destroy(struct retry_queue *qs)
{
    if (!qs)
        return;
    for (int i = 0; i <= RETRY_LATER; i++)
        while (qs->list[i])
            end(qs->list[i]);
    net_timer_destroy(qs->timer);
    free(qs);
}

void *retry_queue_arg(const struct retry *q)
{
    return q->of->arg;
}

void *retry_queue_add(struct retry_queue *qs, const char *upath)
{
    size_t len = strlen(upath);
    struct retry *q = qs ? calloc(1, qs->ops->size + len + 1) : NULL;

    if (!q)
        return NULL;
    q->of = qs;
    q->state = RETRY_NONE;
    q->upath = memcpy((char *)q + qs->ops->size, upath, len + 1);
    move(q, RETRY_TODO);
    return q;
}

void retry_again(struct retry *q)
{
    q->pause = 0;
    if (q->state == RETRY_LATER)
        move(q, RETRY_TODO);
    q->again = true; /* until it is asked; no effect unless it is under way */
}

void retry_queue_again(struct retry_queue *qs)
{
    struct retry *q, *tmp;

    if (!qs)
        return;
    for (int i = 0; i <= RETRY_LATER; i++) {
        DL_FOREACH_SAFE(qs->list[i], q, tmp)
        {
            q->pause = 0;
            if (i == RETRY_LATER)
                move(q, RETRY_TODO);
        }
    }
    retry_queue_go_on(qs);
}

void retry_hurry(struct retry *q)
{
    struct retry_queue *qs = q->of;

    if (q->state == RETRY_TODO) {
        DL_DELETE(qs->list[RETRY_TODO], q);
        DL_PREPEND(qs->list[RETRY_TODO], q);
    } else if (q->state == RETRY_LATER) {
        q->due = util_clock_now(); /* not asked here: a caller may be walking the lists */
        set_timer(qs, q->due);
    }
}

void retry_drop(struct retry *q)
{
    struct retry_queue *qs = q->of;
    bool was_asked = q->state == RETRY_ASKED;

    end(q);
    if (was_asked)
        retry_queue_go_on(qs);
}

struct retry *retry_queue_find(const struct retry_queue *qs, const char *upath)
{
    static const int order[] = {RETRY_TODO, RETRY_LATER, RETRY_ASKED};
    struct retry *q;

    for (size_t i = 0; qs && i < sizeof(order) / sizeof(order[0]); i++) {
        DL_FOREACH(qs->list[order[i]], q)
        {
            if (strcmp(q->upath, upath) == 0)
                return q;
        }
    }
    return NULL;
}

bool retry_queue_asking(const struct retry_queue *qs)
{
    return qs && (qs->list[RETRY_TODO] || qs->list[RETRY_ASKED]);
}

bool retry_queue_any(const struct retry_queue *qs)
{
    return retry_queue_asking(qs) || (qs && qs->list[RETRY_LATER]);
}
