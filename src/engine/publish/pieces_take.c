/*
 * pieces_take.c - the taker's end: all of another node's pieces, or none
 *
 *   state       until                                     then
 *   READING     a chunk is in the temporary file          it is answered, and the next comes;
 *                                                         the last: HELD
 *   HELD        no publish of the name is under way here, APPLYING
 *               and no other pieces are being applied
 *   APPLYING    they are in the file                      PUBLISHING
 *   PUBLISHING  the homes have acknowledged               answered
 *   GONE        the homes know that the file, which was   answered: ENOENT
 *               removed here, is there no more
 *
 * Of two nodes that each have been refused for the other's version one has to publish:
 * is_first(). Pieces that are for a read here are answered when they are in the file
 * (pieces_show.c): it is open, and published at its close.
 */
#include "engine/publish/pieces_take.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "engine/core/local_file.h"
#include "engine/core/module.h"
#include "engine/membership/exit_barrier.h"
#include "engine/publish/pieces_apply.h"
#include "engine/publish/produce.h"
#include "engine/publish/produce_impl.h"
#include "engine/publish/withdraw.h"
#include "store/control.h"
#include "store/fetch.h"
#include "util/clock.h"
#include "util/crash.h"
#include "util/fd_close.h"
#include "util/log.h"
#include "util/quota.h"

#define TAKINGS_MAX 4096u /* of one rank: files of which it gives its part at a time */

enum state { READING, IDLE, HELD, APPLYING, PUBLISHING, GONE };

struct taking {
    struct engine_io io;
    struct taking *prev, *next; /* utlist, in the order of their begin */
    struct member *member;
    enum state state;
    uint32_t rank; /* of the sender */
    uint64_t id;
    struct dyad_version version; /* in which the sender would have published it */
    char *upath;
    enum engine_role role;
    struct member_dmd *dmd;
    struct pieces_apply apply; /* its `fd`: a temporary file, without a name */
    void *data;
    size_t len;
    bool last, gone; /* the last chunk has come; the sender is gone */
    int error;       /* of the pool's job */
};

struct pieces_taken {
    struct taking *takings;
    struct util_quota quota;
};

static void taking_free(struct taking *t)
{
    DL_DELETE(OWN(t->member, pieces_taken)->takings, t);
    util_quota_return(&OWN(t->member, pieces_taken)->quota, t->rank);
    util_fd_close(t->apply.fd);
    free(t->data);
    free(t->upath);
    free(t);
}

static void reply(struct member *member, uint32_t rank, uint64_t id, int status,
                  const struct store_extent *met)
{
    struct net_msg msg = {.type = NET_MSG_PIECES_REPLY,
                          .id = id,
                          .status = status,
                          .after = util_clock_wall_ns()};

    if (met) {
        msg.offset = met->offset;
        msg.length = met->length;
    }
    member_send(member, rank, &msg);
}

/* --- on a pool thread --- */

static int temporary(const struct store_dir *dir)
{
    int tmp = store_control_subdir(dir, "tmp"), fd;

    if (tmp < 0)
        return -1;
    fd = openat(tmp, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    util_fd_close(tmp);
    return fd;
}

static void keep_chunk(void *arg)
{
    struct taking *t = arg;

    t->error = 0;
    if ((t->apply.fd < 0 && (t->apply.fd = temporary(t->dmd->dir)) < 0) ||
        (t->len && store_control_write(t->apply.fd, t->apply.size, t->data, t->len) < 0))
        t->error = errno;
}

/* The news of a newer version finds a file that is not the one of our record, and lets it be: so who reads it
 * asks the homes, until the publish has ended. (Who has it open and reads what others have shown publishes at its
 * close.) */
static void apply_work(void *arg)
{
    struct taking *t = arg;
    struct stat st;

    t->apply.ahead = store_dir_stat(t->dmd->dir, t->apply.upath, &st) == 0 &&
                     local_file_is_superseded(t->dmd, t->apply.upath, &st);
    if (!t->apply.shown)
        local_file_set_pending(t->dmd, t->apply.upath, &t->apply.identity);
    t->error = pieces_apply(&t->apply);
}

/* --- on the loop --- */

static void try_held(struct member *member);

static void taking_end(struct taking *t, int status)
{
    struct member *member = t->member;
    char *upath;

    if (status == EAGAIN || status == ENOENT || status == ESTALE)
        log_debug("rank %u is to go on with \"%s\": %s", t->rank, t->upath,
                  strerror(status));
    else if (status)
        log_warn("what %s has written of \"%s\" is not put into the file of this node: %s",
                 member_describe(member, t->rank), t->upath,
                 status == EEXIST || status == ENOTUNIQ
                     ? "this node has written there at the same time"
                     : strerror(status));
    reply(member, t->rank, t->id, status, &t->apply.met);
    upath = t->upath;
    t->upath = NULL;
    taking_free(t);
    exit_barrier_activity(member);
    modules_published(member, upath); /* which waits for this, too */
    free(upath);
}

static void published(void *arg, int status)
{
    struct taking *t = arg;

    if (status == 0)
        log_debug("what rank %u has written of \"%s\" is in the file of this node", t->rank,
                  t->upath);
    taking_end(t, status);
}

static void withdrawn(void *arg, int status)
{
    (void)status;
    taking_end(arg, ENOENT);
}

/* They are not taken. A file that was removed here a moment ago is still there as far as the sender is told,
 * which is to hear of the removal before it asks the homes; or is to publish, where that would have to wait for
 * what is published here, which may wait for the sender. */
static void refuse(struct taking *t, int status)
{
    struct produce *ours = t->apply.kept ? produce_bringing(t->member, t->upath) : NULL;

    if (ours && (status == EEXIST || status == ENOTUNIQ)) {
        ours->met = t->apply.met.offset;
        ours->met_length = t->apply.met.length;
    }
    if (status == ENOENT && !t->apply.shown) {
        t->state = GONE;
        if (produce_pending(t->member, t->upath))
            status = EAGAIN;
        else if (produce_withdraw_left(t->member, t->upath, withdrawn, t) == 0)
            return;
    }
    taking_end(t, status);
}

static void applied(void *arg)
{
    struct taking *t = arg;
    int fd, rc;

    if (t->error) {
        refuse(t, t->error);
        return;
    }
    fd = store_fetch_open_named(t->dmd->dir, t->upath, O_PATH | O_NOFOLLOW);
    rc = fd < 0 ? ENOENT : store_identity_is(fd, &t->apply.identity) ? 0 : ESTALE;
    util_fd_close(fd);
    if (rc) { /* renamed, removed or replaced in the midst */
        refuse(t, rc);
        return;
    }
    if (t->apply.shown) {
        taking_end(t, 0);
        return;
    }
    t->state = PUBLISHING;
    DYAD_CRASH_POINT("pieces-applied");
    if (produce_merged(t->member, t->role, t->upath, &t->version, published, t) < 0)
        taking_end(t, errno);
}

/* Our own publish of the name was refused, and has given its pieces away: one of the two nodes
 * has to publish. The one with the lower storage id is first, so of all nodes at least one is. */
static bool is_first(const struct taking *t, const struct produce *ours)
{
    return memcmp(t->apply.storage, ours->record.entry.storage, sizeof(t->apply.storage)) <
           0;
}

/* Our file in that directory. 0; ENOENT; ESTALE: another version is to come in its place, which
 * who has it open and reads does not see; or EBUSY: there is no record of what was written to it. */
static int find_in(struct taking *t, struct member_dmd *dmd)
{
    struct stat st;
    int rc = 0, fd;

    if (!dmd->dir ||
        (fd = store_fetch_open_named(dmd->dir, t->upath, O_PATH | O_NOFOLLOW)) < 0)
        return ENOENT;
    if (fstat(fd, &st) < 0 || store_identity_read(fd, &t->apply.identity) < 0 ||
        !S_ISREG(st.st_mode))
        rc = ENOENT;
    else if (!t->apply.shown && local_file_is_superseded(dmd, t->upath, &st))
        rc = ESTALE;
    else if (!dmd->extents || !store_marks_recorded(dmd->marks, 0, t->apply.identity.ino,
                                                    t->apply.identity.btime))
        rc = EBUSY;
    close(fd);
    return rc;
}

/* Whichever rank of the node has published it. 0; or EINPROGRESS; or EAGAIN: the sender is to
 * publish; or an error. */
static int find(struct taking *t)
{
    struct member *member = t->member;
    const struct produce *ours = produce_merging(member, t->upath);
    int rc = ENOENT;

    if (!t->apply.shown && ours && is_first(t, ours))
        return EAGAIN;
    t->apply.kept = t->apply.shown && produce_bringing(member, t->upath);
    if (produce_pending(member, t->upath) && !t->apply.kept)
        return EINPROGRESS;
    for (int role = 1; role >= 0 && rc == ENOENT; role--) {
        t->role = (enum engine_role)role;
        t->dmd = &member->dmd[role];
        rc = find_in(t, t->dmd);
    }
    return rc;
}

static void try_held(struct member *member)
{
    struct taking *t, *tmp;

    DL_FOREACH(OWN(member, pieces_taken)->takings, t)
    {
        if (t->state == APPLYING) /* one after the other: they look at the record, too */
            return;
    }
    DL_FOREACH_SAFE(OWN(member, pieces_taken)->takings, t, tmp)
    {
        int status;
        if (t->state != HELD)
            continue;
        if (t->gone) {
            taking_free(t);
            exit_barrier_activity(member);
            continue;
        }
        status = find(t);
        if (status == EINPROGRESS)
            continue;
        if (status) {
            refuse(t, status); /* calls this */
            return;
        }
        t->state = APPLYING;
        t->apply.dmd = t->dmd;
        t->apply.upath = t->upath;
        engine_io_submit(member->io, &t->io, apply_work, applied, t);
        return;
    }
}

static void chunk_kept(void *arg)
{
    struct taking *t = arg;
    struct member *member = t->member;

    free(t->data);
    t->data = NULL;
    t->apply.size += t->len;
    if (t->gone) {
        taking_free(t);
        exit_barrier_activity(member);
    } else if (t->error) {
        taking_end(t, t->error);
    } else if (t->last) {
        t->state = HELD;
        try_held(member);
    } else {
        t->state = IDLE;
        reply(member, t->rank, t->id, 0, NULL);
    }
}

static struct taking *taking_create(struct member *member, const struct net_msg *msg)
{
    struct util_quota *quota = &OWN(member, pieces_taken)->quota;
    struct taking *t;

    if (!util_quota_take(quota, msg->source, TAKINGS_MAX,
                         "files whose parts are being taken"))
        return NULL;
    if (!(t = calloc(1, sizeof(*t))) || !(t->upath = strdup(msg->entry.upath))) {
        util_quota_return(quota, msg->source);
        free(t);
        return NULL;
    }
    t->member = member;
    t->rank = msg->source;
    t->id = msg->id;
    t->version = msg->entry.version;
    t->apply.base = msg->base;
    t->apply.shown = msg->flags & NET_PIECES_SHOWN;
    t->apply.history = msg->flags & NET_PIECES_HISTORY;
    memcpy(t->apply.storage, msg->entry.storage, sizeof(t->apply.storage));
    t->apply.fd = -1;
    t->state = IDLE;
    t->dmd =
        &member->dmd[member->dmd[ENGINE_PRODUCER].dir ? ENGINE_PRODUCER : ENGINE_CONSUMER];
    DL_APPEND(OWN(member, pieces_taken)->takings, t);
    return t;
}

static struct taking *taking_find(struct member *member, uint32_t rank, uint64_t id)
{
    struct taking *t;

    DL_FOREACH(OWN(member, pieces_taken)->takings, t)
    {
        if (t->rank == rank && t->id == id && !t->gone)
            break;
    }
    return t;
}

static bool pieces_received(struct member *member, const struct net_msg *msg,
                            void **payload, size_t len)
{
    struct taking *t = taking_find(member, msg->source, msg->id);
    int status = 0;

    if (msg->flags & NET_PIECES_CLOCK) {
        reply(member, msg->source, msg->id, 0, NULL);
        return true;
    }
    if (msg->flags & NET_PIECES_GIVEN_UP) { /* it cannot read the rest */
        if (t && t->state == IDLE) {
            taking_free(t);
            exit_barrier_activity(member);
        }
        return true;
    }
    if (!t && msg->offset == 0)
        t = taking_create(member, msg);
    if (!t || t->state != IDLE || msg->offset != t->apply.size) {
        reply(member, msg->source, msg->id, t ? EPROTO : ENOMEM, NULL);
        return true;
    }
    t->apply.ahead_min = (int64_t)msg->after;
    t->apply.ahead_max = (int64_t)msg->end;
    /* Before bytes are kept that are of no use. */
    status = find(t);
    if (status && status != EINPROGRESS) {
        refuse(t, status);
        return true;
    }
    t->state = READING;
    t->last = msg->flags & NET_PIECES_LAST;
    t->data = *payload;
    *payload = NULL;
    t->len = len;
    engine_io_submit(member->io, &t->io, keep_chunk, chunk_kept, t);
    return true;
}

bool pieces_are_taken(struct member *member, const char *upath)
{
    const struct taking *t;

    DL_FOREACH(OWN(member, pieces_taken)->takings, t)
    {
        if ((t->state == APPLYING || t->state == PUBLISHING) &&
            strcmp(t->upath, upath) == 0)
            return true;
    }
    return false;
}

void pieces_retry(struct member *member)
{
    try_held(member);
}

static void some_published(struct member *member, const char *upath)
{
    (void)upath;
    try_held(member);
}

static void sender_gone(struct member *member, uint32_t rank)
{
    struct taking *t, *tmp;

    DL_FOREACH_SAFE(OWN(member, pieces_taken)->takings, t, tmp)
    {
        if (t->rank != rank)
            continue;
        t->gone = true;
        if (t->state == IDLE)
            taking_free(t);
    }
    try_held(member);
}

static void sender_changed(struct member *member, uint32_t rank,
                           enum member_rank_change change)
{
    if (change != MEMBER_RANK_BACK)
        sender_gone(member, rank);
}

static bool taking_pending(struct member *member)
{
    return OWN(member, pieces_taken)->takings != NULL;
}

static void taking_destroy(struct member *member)
{
    struct taking *t, *tmp;

    DL_FOREACH_SAFE(OWN(member, pieces_taken)->takings, t, tmp)
    {
        taking_free(t);
    }
    util_quota_clear(&OWN(member, pieces_taken)->quota);
}

const struct member_module pieces_taken_module = {
    .own = MODULE_OWN(pieces_taken),
    .messages = (const struct member_message[]){{NET_MSG_PIECES, pieces_received}, {0}},
    .published = some_published,
    .peer_down = sender_gone,
    .rank_changed = sender_changed,
    .pending = taking_pending,
    .destroy = taking_destroy,
};
