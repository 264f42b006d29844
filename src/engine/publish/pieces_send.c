/*
 * pieces_send.c - the sender's end: one chunk at a time
 *
 *   state     until                              then
 *   in line   fewer than AT_ONCE are on their    CLOCK
 *             way to that rank
 *   CLOCK     the taker has said often enough    READING
 *             what time it is; left out if
 *             it has done so not long ago
 *   READING   the pool has read the next chunk   SENDING
 *   SENDING   it is sent and answered            READING; the last: CHECKING; CLOCK, once, if
 *                                                the order of two writes is not known
 *   CHECKING  the record is looked at again      the answer is p's; or READING, from the start
 *
 * Who is to take them may die, or be cut off, in the midst: then the answer is EHOSTUNREACH,
 * and the caller sends them to another rank of that node; if there is none it says that the two
 * files are in conflict, whether they were taken or not. What is for a reader (no mark) is not
 * looked at again: it comes once more with the next read.
 *
 * The taker keeps a file and a descriptor for each that is on its way, and refuses one too many (pieces_take.c). So
 * those of closes stand in line, and what their taker lets wait for its own publish only holds up others for that
 * taker: waits still go from higher to lower nodes only (docs/engine.md, "Pieces"). Those of reads are no more than
 * threads that read, and such a publish may wait for them.
 */
#include "engine/publish/pieces_send.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "engine/core/module.h"
#include "engine/membership/exit_barrier.h"
#include "engine/publish/pieces_send_impl.h"
#include "engine/publish/produce_impl.h"
#include "util/crash.h"
#include "util/fd_close.h"
#include "util/log.h"

#define AT_ONCE 32 /* to one rank */

struct pieces_sent {
    struct sending *sendings, *line; /* in the order of their begin */
    struct peer_clock *clocks;
};

bool pieces_may_send(const struct produce *p, const struct dyad_entry *there)
{
    struct member *member = p->member;
    const struct member_dmd *dmd = &member->dmd[p->role];

    return p->mark && !p->unmerged && dmd->extents && there->recorded && !there->conflict &&
           there->state == DYAD_ENTRY_PUBLISHED && there->owner != DYAD_RANK_NONE &&
           !dyad_storage_equal(there->storage, p->record.entry.storage) &&
           S_ISREG(p->record.entry.mode) &&
           dyad_version_cmp(&there->version, &p->absent) != 0 &&
           store_marks_recorded(dmd->marks, p->mark, 0, 0);
}

static void sending_free(struct sending *s)
{
    struct pieces_sent *sent = OWN(s->member, pieces_sent);

    if (s->waits)
        DL_DELETE(sent->line, s);
    else
        DL_DELETE(sent->sendings, s);
    util_fd_close(s->fd);
    store_extent_list_free(&s->list);
    store_extent_list_free(&s->others);
    free(s->data);
    free(s->upath);
    free(s);
}

static void begin_posted(void *arg);

/* One of a close has ended. */
static void begin_next(struct member *member, uint32_t rank)
{
    struct pieces_sent *sent = OWN(member, pieces_sent);
    struct sending *s;

    DL_FOREACH(sent->line, s)
    {
        if (s->out.rank != rank)
            continue;
        DL_DELETE(sent->line, s);
        DL_APPEND(sent->sendings, s);
        s->waits = false;
        s->reading = true; /* not from inside the end of another, which this may be, too */
        net_loop_post(member->loop, &s->post, begin_posted, s);
        return;
    }
}

/* Without a word the taker would wait for the rest until one of the two leaves, and does not leave before. */
static void sending_end(struct sending *s)
{
    struct net_msg given_up = {.type = NET_MSG_PIECES,
                               .flags = NET_PIECES_GIVEN_UP,
                               .id = s->id,
                               .entry = s->entry,
                               .base = s->base};
    struct pieces_out out = s->out;
    struct store_extent met = s->met;
    struct member *member = s->member;
    int status = s->status;
    bool next = out.mark && !s->waits;

    if (s->begun)
        member_send(member, out.rank, &given_up);
    sending_free(s);
    if (next)
        begin_next(member, out.rank);
    exit_barrier_activity(member);
    out.fn(out.arg, status, met.offset, met.length);
}

static void chunk_read(void *arg);

static void read_next(struct sending *s)
{
    s->answered = false;
    s->reading = true;
    engine_io_submit(s->member->io, &s->io, pieces_read_chunk, chunk_read, s);
}

static void begin_anew(struct sending *s)
{
    util_fd_close(s->fd);
    s->fd = -1;
    s->at = 0;
    s->done = s->before = 0;
    s->id = s->member->next_id += 2;
    read_next(s);
}

static void checked_again(void *arg)
{
    struct sending *s = arg;

    s->reading = false;
    if (s->member->state == MEMBER_LEAVING)
        return;
    if (s->last)
        sending_end(s);
    else
        begin_anew(s);
}

static void send_message(struct sending *s, struct net_msg *msg, const void *data);

static void ask_clock(struct sending *s)
{
    struct net_msg msg = {.flags = NET_PIECES_CLOCK};

    s->answered = false;
    peer_clock_ask(&s->clock);
    send_message(s, &msg, NULL);
}

static void begin(struct sending *s)
{
    if (peer_clock_get(OWN(s->member, pieces_sent)->clocks, s->out.rank, &s->clock)) {
        read_next(s);
        return;
    }
    s->clock_asked = true;
    ask_clock(s);
}

/* The chunk is sent, and answered. */
static void go_on(struct sending *s)
{
    /* A member that leaves ends what waits for it, and has no table any more. */
    if (s->reading || s->in_worker || !s->answered || s->member->state == MEMBER_LEAVING)
        return;
    if (s->status == EBUSY && !s->rebased && (s->met.length || s->base.time)) {
        s->rebased = true;
        s->out.base = (struct dyad_base){
            .kind = DYAD_BASE_FROM, .size = s->met.offset, .time = s->met.length};
        s->status = 0;
        begin_anew(s);
    } else if (s->status == EEXIST && !s->closer && peer_clock_closer(&s->clock)) {
        s->closer = true; /* nothing of it is in the taker's file (ENOTUNIQ: it may be) */
        s->status = 0;
        s->clock_asked = true;
        ask_clock(s);
    } else if (s->status) {
        sending_end(s);
    } else if (s->clock_asked) {
        if (!peer_clock_is_measured(&s->clock)) {
            ask_clock(s);
            return;
        }
        log_debug("the clock of rank %u is ahead of ours by %lld to %lld ns", s->out.rank,
                  (long long)s->clock.min, (long long)s->clock.max);
        s->clock_asked = false;
        peer_clock_keep(&OWN(s->member, pieces_sent)->clocks, &s->clock);
        begin_anew(s);
    } else if (s->last && !s->out.mark) {
        sending_end(s);
    } else if (s->last) {
        s->reading = true;
        engine_io_submit(s->member->io, &s->io, pieces_check_again, checked_again, s);
    } else {
        s->before += s->len;
        read_next(s);
    }
}

static void begin_posted(void *arg)
{
    struct sending *s = arg;

    s->reading = false;
    if (s->answered)
        go_on(s);
    else if (s->member->state != MEMBER_LEAVING)
        begin(s);
}

static void answer(struct sending *s, int status)
{
    s->answered = true;
    s->status = status;
    go_on(s);
}

static void chunk_sent(void *arg, int status)
{
    struct sending *s = arg;

    s->in_worker = false;
    if (status)
        answer(s, EHOSTUNREACH);
    else
        go_on(s);
}

static void send_message(struct sending *s, struct net_msg *msg, const void *data)
{
    msg->type = NET_MSG_PIECES;
    msg->id = s->id;
    msg->entry = s->entry;
    msg->base = s->base;
    s->in_worker = true;
    if (net_worker_send(s->member->worker, s->out.rank, msg, data, (size_t)msg->length,
                        chunk_sent, s) < 0) {
        s->in_worker = false;
        answer(s, EHOSTUNREACH);
    }
}

static void chunk_read(void *arg)
{
    struct sending *s = arg;
    struct net_msg msg = {.flags = (uint8_t)((s->last ? NET_PIECES_LAST : 0) |
                                             (s->out.mark ? 0 : NET_PIECES_SHOWN) |
                                             (s->out.history ? NET_PIECES_HISTORY : 0)),
                          .offset = s->before,
                          .length = s->len,
                          .after = (uint64_t)s->clock.min,
                          .end = (uint64_t)s->clock.max};

    s->reading = false;
    if (s->answered || s->error) { /* its taker is gone; or EIO: no answer of a taker */
        bool again = s->error == ESTALE && !s->out.mark; /* another file has the name now */
        if (s->error && s->error != ENOENT && !again)    /* that: it was removed */
            log_warn("\"%s\" cannot be given to %s: %s", s->upath,
                     member_describe(s->member, s->out.rank), strerror(s->error));
        answer(s, s->answered          ? s->status
                  : s->error == ENOENT ? ENOENT
                  : again              ? EAGAIN
                                       : EIO);
        return;
    }
    if (!s->out.mark && !s->out.history && s->last && !s->before &&
        !s->len) { /* nothing is new */
        answer(s, 0);
        return;
    }
    DYAD_CRASH_POINT("pieces-send");
    send_message(s, &msg, s->len ? s->data : NULL);
}

static bool is_full(const struct member *member, uint32_t rank)
{
    const struct sending *s;
    unsigned n = 0;

    DL_FOREACH(OWN(member, pieces_sent)->sendings, s)
    {
        n += s->out.mark && s->out.rank == rank;
    }
    return n >= AT_ONCE;
}

int pieces_send(struct member *member, const struct pieces_out *out)
{
    struct sending *s = calloc(1, sizeof(*s));

    if (!s || !(s->upath = strdup(out->upath))) {
        free(s);
        errno = ENOMEM;
        return -1;
    }
    s->member = member;
    s->out = *out;
    s->entry = *out->entry;
    s->entry.upath = s->upath;
    s->id = member->next_id += 2;
    s->fd = -1;
    s->waits = s->out.mark && is_full(member, s->out.rank);
    if (s->waits) {
        DL_APPEND(OWN(member, pieces_sent)->line, s);
    } else {
        DL_APPEND(OWN(member, pieces_sent)->sendings, s);
        begin(s);
    }
    return 0;
}

static bool reply_received(struct member *member, const struct net_msg *msg, void **payload,
                           size_t len)
{
    struct sending *s;

    (void)payload;
    (void)len;
    DL_FOREACH(OWN(member, pieces_sent)->sendings, s)
    {
        if (s->id == msg->id && s->out.rank == msg->source && !s->reading && !s->answered) {
            s->met = (struct store_extent){.offset = msg->offset, .length = msg->length};
            s->begun = !msg->status && !s->clock_asked && !s->last;
            if (s->clock_asked)
                peer_clock_told(&s->clock, (int64_t)msg->after);
            answer(s, msg->status);
            break;
        }
    }
    return true;
}

/* Who has sent them may send them to another rank now. */
static void taker_gone(struct member *member, uint32_t rank)
{
    struct pieces_sent *sent = OWN(member, pieces_sent);
    struct sending *s, *tmp;

    peer_clock_forget(&sent->clocks, rank);
    DL_FOREACH_SAFE(sent->line, s, tmp)
    {
        if (s->out.rank == rank)
            answer(s, EHOSTUNREACH);
    }
    DL_FOREACH_SAFE(sent->sendings, s, tmp)
    {
        if (s->out.rank == rank && !s->answered)
            answer(s, EHOSTUNREACH);
    }
}

static void taker_changed(struct member *member, uint32_t rank,
                          enum member_rank_change change)
{
    if (change != MEMBER_RANK_BACK)
        taker_gone(member, rank);
}

static bool sending_pending(struct member *member)
{
    return OWN(member, pieces_sent)->sendings || OWN(member, pieces_sent)->line;
}

/* After the worker and the pool's threads are gone; the produces have ended. */
static void sending_destroy(struct member *member)
{
    struct pieces_sent *sent = OWN(member, pieces_sent);

    while (sent->line)
        sending_free(sent->line);
    while (sent->sendings)
        sending_free(sent->sendings);
    while (sent->clocks)
        peer_clock_forget(&sent->clocks, sent->clocks->rank);
}

const struct member_module pieces_sent_module = {
    .own = MODULE_OWN(pieces_sent),
    .messages =
        (const struct member_message[]){{NET_MSG_PIECES_REPLY, reply_received}, {0}},
    .peer_down = taker_gone,
    .rank_changed = taker_changed,
    .pending = sending_pending,
    .destroy = sending_destroy,
};
