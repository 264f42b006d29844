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
 *
 * Whose bytes came first is known only if the nodes have not written the same ones: so
 * pieces that meet what was written here are refused, and nothing is changed (apply()).
 * Programs of this node may write to the file meanwhile, since each range is recorded
 * before it is written: the record is looked at again afterwards, all of it, since an early
 * range may have been lengthened. If it meets the pieces, either may have won, and they are refused, too: the
 * sender then publishes a conflict. What is written here later than that came later.
 *
 * Of two nodes that each have been refused for the other's version one has to publish:
 * is_first().
 */
#include "engine/publish/pieces_take.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "engine/core/local_file.h"
#include "engine/core/module.h"
#include "engine/membership/exit_barrier.h"
#include "engine/publish/pieces.h"
#include "engine/publish/produce.h"
#include "engine/publish/produce_impl.h"
#include "store/control.h"
#include "store/extents.h"
#include "util/crash.h"
#include "util/fd_close.h"
#include "util/log.h"

enum state { READING, IDLE, HELD, APPLYING, PUBLISHING };

struct taking {
    struct engine_io io;
    struct taking *prev, *next; /* utlist, in the order of their begin */
    struct member *member;
    enum state state;
    uint32_t rank;                        /* of the sender, */
    uint8_t storage[DYAD_STORAGE_ID_LEN]; /* where its file lies */
    uint64_t id;
    struct dyad_version version; /* in which the sender would have published it */
    char *upath;
    enum engine_role role;
    struct member_dmd *dmd;
    struct store_identity identity; /* of our file */
    int fd;                         /* the temporary file, without a name */
    uint64_t size;                  /* of that */
    void *data;
    size_t len;
    bool last, gone; /* the last chunk has come; the sender is gone */
    int error;       /* of the pool's job */
    struct store_extent met;
};

struct pieces_taken {
    struct taking *takings;
};

/* Of the ranges in our record that another node has written: no mark has bit 63. What a node
 * has written and sent it may write again. */
static uint64_t writer_of(const struct taking *t)
{
    uint64_t random;

    memcpy(&random, t->storage, sizeof(random));
    return 1ull << 63 | random;
}

static void taking_free(struct taking *t)
{
    DL_DELETE(OWN(t->member, pieces_taken)->takings, t);
    util_fd_close(t->fd);
    free(t->data);
    free(t->upath);
    free(t);
}

static void reply(struct member *member, uint32_t rank, uint64_t id, int status,
                  const struct store_extent *met)
{
    struct net_msg msg = {.type = NET_MSG_PIECES_REPLY, .id = id, .status = status};

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
    if ((t->fd < 0 && (t->fd = temporary(t->dmd->dir)) < 0) ||
        (t->len && store_control_write(t->fd, t->size, t->data, t->len) < 0))
        t->error = errno;
}

/* The pieces: bytes in memory, and which of the file. */
struct pieces {
    const char *data;
    size_t size;
    struct store_extent_list list;
};

/* The heads, in the order of the sender's record: writes ascending, then cuts. 0, or -1:
 * EPROTO: they are not so. */
static int parse(struct pieces *pieces)
{
    struct store_extent_list *list = &pieces->list;
    uint64_t end = 0;
    size_t n = 0;

    for (size_t at = 0; at < pieces->size; n++) {
        uint64_t offset, length;
        if (pieces->size - at < PIECE_HEAD)
            goto bad;
        piece_get(pieces->data + at, &offset, &length);
        at += PIECE_HEAD;
        if (length > pieces->size - at || offset > INT64_MAX - length ||
            (length && (offset < end || list->ncuts)))
            goto bad;
        if (n % 1024 == 0) {
            void *more = realloc(list->extent, (n + 1024) * sizeof(*list->extent));
            if (!more)
                return -1;
            list->extent = more;
        }
        list->extent[n] = (struct store_extent){offset, length};
        *(length ? &list->n : &list->ncuts) += 1;
        if (length)
            end = offset + length;
        at += (size_t)length;
    }
    return 0;
bad:
    errno = EPROTO;
    return -1;
}

/* EEXIST: what was written here meets them. EBUSY: there is no record of what was. */
static int check(struct taking *t, int fd, const struct pieces *pieces, bool again)
{
    const struct store_identity *id = &t->identity;
    struct store_extent_list ours;
    int error = 0;

    if (!store_marks_recorded(t->dmd->marks, 0, id->ino, id->btime) ||
        store_extents_list(t->dmd->extents, id->ino, id->btime, 0, writer_of(t), &ours) <
            0) {
        errno = EBUSY;
        return -1;
    }
    if (!again && !store_extents_cover(t->dmd->extents, id->ino, id->btime, fd))
        error = EBUSY;
    else if (store_extents_meet(&ours, &pieces->list, &t->met))
        error = EEXIST;
    store_extents_free(&ours);
    errno = error;
    return error ? -1 : 0;
}

/* A cut to more than the file has makes it longer. No call that could cut off what is
 * written here at this moment. */
static int lengthen(int fd, uint64_t size)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -1;
    if ((uint64_t)st.st_size >= size)
        return 0;
    return fallocate(fd, 0, (off_t)size - 1, 1);
}

static int write_pieces(struct taking *t, int fd, const struct pieces *pieces)
{
    size_t at = 0;

    for (size_t i = 0; i < pieces->list.n + pieces->list.ncuts; i++) {
        const struct store_extent *extent = &pieces->list.extent[i];
        at += PIECE_HEAD;
        if (!store_extents_add(t->dmd->extents, t->identity.ino, t->identity.btime,
                               writer_of(t), 0, extent->offset, extent->length)) {
            errno = ENOSPC;
            return -1;
        }
        if (extent->length ? store_control_write(fd, extent->offset, pieces->data + at,
                                                 extent->length) < 0
                           : lengthen(fd, extent->offset) < 0)
            return -1;
        at += (size_t)extent->length;
    }
    return 0;
}

static int apply(struct taking *t, int fd, const struct pieces *pieces)
{
    if (check(t, fd, pieces, false) < 0)
        return -1;
    DYAD_CRASH_POINT("pieces-apply");
    if (write_pieces(t, fd, pieces) < 0)
        return -1;
    return check(t, fd, pieces, true);
}

static void apply_work(void *arg)
{
    struct taking *t = arg;
    struct pieces pieces = {.size = (size_t)t->size};
    void *map = NULL;
    int fd;

    t->error = 0;
    fd = store_dir_open(t->dmd->dir, t->upath, O_RDWR, 0);
    if (fd < 0 || !store_identity_is(fd, &t->identity)) {
        t->error = fd < 0 ? errno : ENOENT;
        goto out;
    }
    if (t->size) {
        map = mmap(NULL, (size_t)t->size, PROT_READ, MAP_PRIVATE, t->fd, 0);
        if (map == MAP_FAILED) {
            t->error = errno;
            goto out;
        }
        pieces.data = map;
    }
    if (parse(&pieces) < 0 || apply(t, fd, &pieces) < 0)
        t->error = errno;
    if (map)
        munmap(map, (size_t)t->size);
out:
    store_extents_free(&pieces.list);
    util_fd_close(fd);
}

/* --- on the loop --- */

static void try_held(struct member *member);

static void taking_end(struct taking *t, int status)
{
    struct member *member = t->member;
    char *upath;

    if (status == EAGAIN || status == ENOENT || status == ESTALE)
        log_debug("rank %u is to publish \"%s\", or to ask anew", t->rank, t->upath);
    else if (status)
        log_warn("what %s has written of \"%s\" is not put into the file of this node: %s",
                 member_describe(member, t->rank), t->upath, strerror(status));
    reply(member, t->rank, t->id, status, &t->met);
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

static void applied(void *arg)
{
    struct taking *t = arg;
    struct stat st;

    if (t->error) {
        taking_end(t, t->error);
        return;
    }
    if (store_dir_stat(t->dmd->dir, t->upath, &st) < 0 || st.st_ino != t->identity.ino) {
        taking_end(t, ENOENT); /* renamed, or replaced, in the midst */
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
    return memcmp(t->storage, ours->record.entry.storage, sizeof(t->storage)) < 0;
}

/* Our file in that directory. 0; ENOENT; ESTALE: another version has come in its place; or
 * EBUSY: there is no record of what was written to it. */
static int find_in(struct taking *t, struct member_dmd *dmd)
{
    struct stat st;
    int rc = 0, fd;

    if (!dmd->dir || (fd = store_dir_open(dmd->dir, t->upath, O_PATH | O_NOFOLLOW, 0)) < 0)
        return ENOENT;
    if (fstat(fd, &st) < 0 || store_identity_read(fd, &t->identity) < 0 ||
        !S_ISREG(st.st_mode))
        rc = ENOENT;
    else if (local_file_is_superseded(dmd, t->upath, &st))
        rc = ESTALE;
    else if (!dmd->extents ||
             !store_marks_recorded(dmd->marks, 0, t->identity.ino, t->identity.btime))
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

    if (ours && is_first(t, ours))
        return EAGAIN;
    if (produce_pending(member, t->upath))
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
            taking_end(t, status); /* calls this */
            return;
        }
        t->state = APPLYING;
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
    t->size += t->len;
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
    struct taking *t = calloc(1, sizeof(*t));

    if (!t || !(t->upath = strdup(msg->entry.upath))) {
        free(t);
        return NULL;
    }
    t->member = member;
    t->rank = msg->source;
    t->id = msg->id;
    t->version = msg->entry.version;
    memcpy(t->storage, msg->entry.storage, sizeof(t->storage));
    t->fd = -1;
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

    if (!t && msg->offset == 0)
        t = taking_create(member, msg);
    if (!t || t->state != IDLE || msg->offset != t->size) {
        reply(member, msg->source, msg->id, t ? EPROTO : ENOMEM, NULL);
        return true;
    }
    /* Before bytes are kept that are of no use. */
    status = find(t);
    if (status && status != EINPROGRESS) {
        taking_end(t, status);
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
