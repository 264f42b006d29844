/*
 * pieces_answer.c - what this node has written of a file, for another one that reads it (pieces_show.c)
 *
 * A SHOW is answered with PIECES of all that was written here since the last one, or shown to this node
 * by a close, and then SHOWN. One that comes while a process opens the file is answered when it is open.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "dht/base.h"
#include "engine/core/joined_writers.h"
#include "engine/core/module.h"
#include "engine/publish/pieces_send.h"
#include "engine/publish/pieces_show.h"
#include "store/extents.h"
#include "store/fetch.h"
#include "util/clock.h"
#include "util/fd_close.h"

#define TRIES 16 /* to send a file while others take its place */

/* A SHOW that is not answered yet. */
struct answering {
    struct answering *prev, *next; /* utlist */
    struct member *member;
    uint32_t rank;
    uint64_t id, after, but, now;
    bool owner, sends; /* NET_SHOW_OWNER; its pieces are being sent */
    bool history;      /* NET_SHOW_HISTORY, ... */
    unsigned tries;
    struct dyad_base base,
        until; /* ... from that version to that; else since `base`, if it is known */
    char upath[];
};

struct pieces_answered {
    struct answering *answerings;
};

static void answering_free(struct answering *a)
{
    DL_DELETE(OWN(a->member, pieces_answered)->answerings, a);
    free(a);
}

static void answer(struct answering *a, int status)
{
    struct net_msg msg = {
        .type = NET_MSG_SHOWN, .id = a->id, .status = status, .after = a->now};

    member_send(a->member, a->rank,
                &msg); /* if it fails the rank is lost, as the reader sees */
    answering_free(a);
}

static void answer_now(struct answering *a);

static void sent(void *arg, int status, uint64_t met, uint64_t met_length)
{
    struct answering *a = arg;

    (void)met;
    (void)met_length;
    if (status == EAGAIN && a->tries++ < TRIES) {
        a->sends = false;
        answer_now(a);
    } else {
        answer(a, status == EAGAIN ? EIO : status);
    }
}

/* What is here of it, if it is recorded. 0: it is being sent, or was answered; or an errno value. */
static int send_from(struct answering *a, struct member_dmd *dmd)
{
    struct member *member = a->member;
    struct dyad_entry entry = {.state = DYAD_ENTRY_NONE, .owner = member->self.rank};
    struct pieces_out out = {.dmd = dmd,
                             .upath = a->upath,
                             .entry = &entry,
                             .rank = a->rank,
                             .but = a->but,
                             .newer = a->after,
                             .history = a->history,
                             .base = a->base,
                             .until = a->until,
                             .fn = sent,
                             .arg = a};
    int fd = store_fetch_open_named(dmd->dir, a->upath, O_PATH | O_NOFOLLOW), rc;
    struct store_mark_info info;
    bool written;

    rc = fd < 0 ? -1 : store_identity_read(fd, &out.identity);
    util_fd_close(fd);
    if (rc < 0)
        return ENOENT;
    written = a->history || store_marks_dirty(dmd->marks, NULL, out.identity.ino, 0, &info);
    if (!dmd->extents ||
        !store_marks_recorded(dmd->marks, 0, out.identity.ino, out.identity.btime))
        return written || a->owner ? EBUSY : ENOENT;
    if (!a->owner && (!written || store_marks_all_begin(dmd->marks, out.identity.ino,
                                                        out.identity.btime)))
        return ENOENT; /* or nothing yet */
    memcpy(entry.storage, store_dir_id(dmd->dir), sizeof(entry.storage));
    if (pieces_send(member, &out) < 0)
        return errno;
    a->sends = true;
    return 0;
}

static void answer_later(void *arg, const char *upath);

static void answer_now(struct answering *a)
{
    struct member *member = a->member;
    bool later = joined_writers_is_noted(member, a->upath);
    int rc = ENOENT;

    a->now = util_clock_wall_ns();
    for (int s = 1; s >= 0; s--) {
        struct member_dmd *dmd = &member->dmd[s];
        struct store_mark_info info;
        bool written;
        if (!dmd->dir)
            continue;
        written = joined_writers_find(dmd, a->upath, &info);
        later &= !written;
        store_marks_set_joint(dmd->marks, a->upath, written ? info.ino : 0,
                              written ? info.btime : 0);
        if (rc == ENOENT && a->after != PIECES_NOTHING)
            rc = send_from(a, dmd);
    }
    if (rc == 0)
        return;
    if (later) { /* its process has no mark yet */
        joined_writers_later(member, a->upath, answer_later);
        return;
    }
    /* What was written here was not looked at: as the owner this node is asked once more. */
    a->now = a->after;
    answer(a, rc == ENOENT && !a->history ? 0 : rc);
}

static void answer_later(void *arg, const char *upath)
{
    struct member *member = arg;
    struct answering *a, *tmp;

    DL_FOREACH_SAFE(OWN(member, pieces_answered)->answerings, a, tmp)
    {
        if (!a->sends && strcmp(a->upath, upath) == 0)
            answer_now(a);
    }
}

static bool show_received(struct member *member, const struct net_msg *msg, void **payload,
                          size_t len)
{
    struct answering *a = calloc(1, sizeof(*a) + strlen(msg->entry.upath) + 1);

    (void)payload;
    (void)len;
    if (!a) {
        struct net_msg reply = {.type = NET_MSG_SHOWN, .id = msg->id, .status = ENOMEM};
        member_send(member, msg->source, &reply);
        return true;
    }
    a->member = member;
    a->rank = msg->source;
    a->id = msg->id;
    a->after = msg->after;
    a->but = msg->mark;
    a->owner = msg->flags & NET_SHOW_OWNER;
    a->history = msg->flags & NET_SHOW_HISTORY;
    a->base = msg->base;
    a->until = (struct dyad_base){DYAD_BASE_FROM, .size = msg->offset, .time = msg->length};
    strcpy(a->upath, msg->entry.upath);
    DL_APPEND(OWN(member, pieces_answered)->answerings, a);
    answer_now(a);
    return true;
}

/* After the sendings (pieces_send.c). */
static void destroy(struct member *member)
{
    struct pieces_answered *shown = OWN(member, pieces_answered);

    while (shown->answerings)
        answering_free(shown->answerings);
}

const struct member_module pieces_answered_module = {
    .own = MODULE_OWN(pieces_answered),
    .messages = (const struct member_message[]){{NET_MSG_SHOW, show_received}, {0}},
    .destroy = destroy,
};
