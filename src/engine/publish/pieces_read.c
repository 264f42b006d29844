/*
 * pieces_read.c - what is sent, chunk by chunk, from the file and its record
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/publish/pieces.h"
#include "engine/publish/pieces_send_impl.h"
#include "store/extents_cover.h"
#include "store/fetch.h"
#include "util/read_at.h"

#define CHUNK          (1u << 20)
#define UNENDED_PAUSE  100000 /* ns */
#define UNENDED_PAUSES 10000  /* of them: a second */

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

void pieces_check_again(void *arg)
{
    struct sending *s = arg;

    s->error = 0;
    if (is_stale(s))
        s->last = false;
}

void pieces_read_chunk(void *arg)
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
