/*
 * pieces_send.c - the sender's end: one chunk at a time
 *
 *   state     until                              then
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
 */
#include "engine/publish/pieces_send.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

#include "engine/core/module.h"
#include "engine/membership/exit_barrier.h"
#include "engine/publish/peer_clock.h"
#include "engine/publish/pieces.h"
#include "engine/publish/produce_impl.h"
#include "store/extents.h"
#include "store/extents_cover.h"
#include "store/fetch.h"
#include "util/clock.h"
#include "util/crash.h"
#include "util/fd_close.h"
#include "util/log.h"
#include "util/read_at.h"

#define CHUNK          (1u << 20)
#define UNENDED_PAUSE  100000 /* ns */
#define UNENDED_PAUSES 10000  /* of them: a second */

struct sending {
    struct engine_io io;
    struct sending *prev, *next; /* utlist */
    struct member *member;
    struct pieces_out out;
    struct dyad_entry entry;
    char *upath;
    uint64_t id;
    int fd;                /* of the file; -1: not opened yet */
    struct dyad_base base; /* the version that they are changes of; size 0: an empty file */
    struct store_extent_list list;
    struct store_extent_list others; /* what others had written here before it was read */
    size_t at;                       /* in the list, writes and cuts */
    uint64_t done;                   /* bytes of that one */
    char *data;                      /* the chunk */
    size_t len;
    uint64_t before; /* bytes of the chunks before */
    bool last;
    int error; /* of the pool's job */
    bool reading, in_worker, answered;
    int status; /* the answer */
    struct store_extent met;
    /* The taker's file was never `base`, and has said which version it was; none: it was empty. */
    bool rebased;
    bool clock_asked;        /* CLOCK */
    bool closer;             /* ... for the second time: once more would not help */
    struct peer_clock clock; /* the taker's */
};

struct pieces_sent {
    struct sending *sendings;
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

/* --- on a pool thread --- */

/* All that is recorded; where that is too much, what was since the version. */
static int list_of(const struct sending *s, uint64_t writer, uint64_t but,
                   struct store_extent_list *list)
{
    struct store_extents *extents = s->out.dmd->extents;
    const struct store_identity *id = &s->out.identity;
    int rc = store_extents_list(extents, id->ino, id->btime, NULL, writer, but, list);

    return rc < 0 && errno == ENODATA && s->base.time
               ? store_extents_list(extents, id->ino, id->btime, &s->base, writer, but,
                                    list)
               : rc;
}

/* What a reader is to see: all whose writes have ended. A range that is being added to may have
 * been in part for long: for the end of that it is waited, of which no event tells, unless its
 * writer was killed, or its disk is slow. */
static int list_to_show(const struct sending *s, struct store_extent_list *list)
{
    const struct timespec pause = {.tv_nsec = UNENDED_PAUSE};
    const struct store_identity *id = &s->out.identity;
    bool unended = true;

    for (int i = 0; unended; i++) {
        store_extent_list_free(list);
        if (store_extents_list_newer(s->out.dmd->extents, id->ino, id->btime,
                                     s->base.time ? &s->base : NULL, s->out.but,
                                     s->out.newer, list, &unended) < 0)
            return -1;
        /* What another node has given may be on its way into the file. */
        unended |= store_extents_held(s->out.dmd->extents, id->ino, id->btime);
        if (i == UNENDED_PAUSES)
            break;
        if (unended)
            nanosleep(&pause, NULL);
    }
    return 0;
}

static int open_file(struct sending *s)
{
    const struct store_identity *id = &s->out.identity;
    struct store_extents *extents = s->out.dmd->extents;
    const struct dyad_base *since = NULL;

    s->fd = store_fetch_open_named(s->out.dmd->dir, s->upath, O_RDONLY);
    if (s->fd < 0)
        return -1;
    if (!store_identity_is(s->fd, id)) {
        errno = ESTALE;
        return -1;
    }
    s->base = (struct dyad_base){.kind = DYAD_BASE_FROM};
    if (s->out.history || (s->out.base.kind == DYAD_BASE_FROM && s->out.base.time &&
                           store_extents_was(extents, id->ino, id->btime, &s->out.base)))
        s->base = s->out.base;
    else if (store_extents_version(extents, id->ino, id->btime, &s->base) &&
             s->out.base.kind == DYAD_BASE_FROM && !s->out.base.time &&
             store_extents_cover(extents, id->ino, id->btime, NULL, s->fd))
        s->base = s->out.base; /* all of it is on record, from its making */
    if (s->base.size || s->base.time)
        since = &s->base;
    if (!store_extents_cover(extents, id->ino, id->btime, since, s->fd)) {
        errno = ENODATA;
        return -1;
    }
    store_extent_list_free(&s->others);
    store_extent_list_free(&s->list);
    if (s->out.history)
        return store_extents_list_until(extents, id->ino, id->btime, since, &s->out.until,
                                        &s->list);
    if (!s->out.mark)
        return list_to_show(s, &s->list);
    if (list_of(s, 0, s->out.mark, &s->others) < 0 ||
        list_of(s, s->out.mark, 0, &s->list) < 0)
        return -1;
    /* What was cut off is no piece: other bytes, or zeros, are in its place. */
    store_extent_list_cut_off(&s->list, &s->others);
    store_extent_list_cut_off(&s->list, &s->list);
    return 0;
}

/* True for a cut that counts: a later one may have made the file shorter, or it has failed. */
static bool is_cut(const struct sending *s, const struct store_extent *extent)
{
    struct stat st;

    return extent->length == 0 && fstat(s->fd, &st) == 0 &&
           extent->offset <= (uint64_t)st.st_size;
}

/* A write that has not ended may be planned to go far beyond it. */
static uint64_t end_in_file(const struct sending *s, const struct store_extent *extent)
{
    uint64_t end = extent->offset + extent->length;
    struct stat st;

    if (fstat(s->fd, &st) < 0 || (uint64_t)st.st_size <= extent->offset)
        return extent->offset;
    return end < (uint64_t)st.st_size ? end : (uint64_t)st.st_size;
}

/* The next piece, or the next part of it, into the chunk. 1: it is full; 0; -1. */
static int read_piece(struct sending *s)
{
    const struct store_extent *extent = &s->list.extent[s->at];
    struct store_extent piece = *extent;
    uint64_t offset = extent->offset + s->done, left = extent->length - s->done;
    size_t room = CHUNK - s->len, got;
    ssize_t n;

    if (room <= PIECE_HEAD)
        return 1;
    room -= PIECE_HEAD;
    if (s->out.history) {
        piece.length = end_in_file(s, extent) - extent->offset;
        if (piece.length || is_cut(s, extent)) {
            piece_put(s->data + s->len, &piece);
            s->len += PIECE_HEAD;
        }
        s->at++;
        return 0;
    }
    if (left > room)
        left = room;
    /* Less: the write has failed that was to come here, or it was cut off. */
    if ((n = util_read_at(s->fd, s->data + s->len + PIECE_HEAD, left, offset)) < 0)
        return -1;
    got = (size_t)n;
    if (got > 0 || is_cut(s, extent)) {
        piece.offset = offset;
        piece.length = got;
        piece_put(s->data + s->len, &piece);
        s->len += PIECE_HEAD + got;
    }
    s->done += got;
    if (s->done >= extent->length || got < left) {
        s->at++;
        s->done = 0;
    }
    return 0;
}

/* True if others of this node may have written to our pieces since they were read. */
static bool is_stale(const struct sending *s)
{
    struct store_extent_list now;
    bool is;

    if (list_of(s, 0, s->out.mark, &now) < 0)
        return true;
    is = store_extent_list_changed(&s->others, &now, &s->list, false, NULL);
    store_extent_list_free(&now);
    return is;
}

/* What of this node is sent by another close may overtake what is sent here: so the newest
 * bytes are to be sent last. */
static void check_again(void *arg)
{
    struct sending *s = arg;

    s->error = 0;
    if (is_stale(s))
        s->last = false;
}

static void read_chunk(void *arg)
{
    struct sending *s = arg;
    size_t n;
    int rc = 0;

    s->error = 0;
    s->len = 0;
    if ((s->fd < 0 && open_file(s) < 0) || (!s->data && !(s->data = malloc(CHUNK)))) {
        s->error = errno;
        return;
    }
    n = s->list.n + s->list.ncuts;
    while (rc == 0 && s->at < n)
        rc = read_piece(s);
    s->last = s->at == n;
    if (rc < 0)
        s->error = errno;
}

/* --- on the loop --- */

static void sending_free(struct sending *s)
{
    DL_DELETE(OWN(s->member, pieces_sent)->sendings, s);
    util_fd_close(s->fd);
    store_extent_list_free(&s->list);
    store_extent_list_free(&s->others);
    free(s->data);
    free(s->upath);
    free(s);
}

static void sending_end(struct sending *s)
{
    struct pieces_out out = s->out;
    struct store_extent met = s->met;
    struct member *member = s->member;
    int status = s->status;

    sending_free(s);
    exit_barrier_activity(member);
    out.fn(out.arg, status, met.offset, met.length);
}

static void chunk_read(void *arg);

static void read_next(struct sending *s)
{
    s->answered = false;
    s->reading = true;
    engine_io_submit(s->member->io, &s->io, read_chunk, chunk_read, s);
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
        engine_io_submit(s->member->io, &s->io, check_again, checked_again, s);
    } else {
        s->before += s->len;
        read_next(s);
    }
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
    DL_APPEND(OWN(member, pieces_sent)->sendings, s);
    begin(s);
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
            if (s->clock_asked)
                peer_clock_told(&s->clock, (int64_t)msg->after);
            answer(s, msg->status);
            break;
        }
    }
    return true;
}

static void taker_gone(struct member *member, uint32_t rank)
{
    struct sending *s, *tmp;

    peer_clock_forget(&OWN(member, pieces_sent)->clocks, rank);
    DL_FOREACH_SAFE(OWN(member, pieces_sent)->sendings, s, tmp)
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
    return OWN(member, pieces_sent)->sendings != NULL;
}

/* After the worker and the pool's threads are gone; the produces have ended. */
static void sending_destroy(struct member *member)
{
    struct sending *s, *tmp;

    DL_FOREACH_SAFE(OWN(member, pieces_sent)->sendings, s, tmp)
    {
        sending_free(s);
    }
    while (OWN(member, pieces_sent)->clocks)
        peer_clock_forget(&OWN(member, pieces_sent)->clocks,
                          OWN(member, pieces_sent)->clocks->rank);
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
