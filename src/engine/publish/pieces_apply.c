/*
 * pieces_apply.c - another node's pieces go into a file of this node
 *
 * Who wrote a byte last is told by the times in the records, the sender's by our clock: a range
 * was written at some time between two, and one that is after another in all of that is the
 * newer one. Nothing is written before all of it is decided.
 *
 * Members of this node that take pieces of other nodes come one after the other, by a lock of the file,
 * and programs of this node that are about to write to it wait for that, too: put_alone(). Some may
 * not (two threads at once; a process that was stopped), and each range is recorded before it is
 * written: so the record is looked at again afterwards. What a program has written in the same places
 * since the first look may have been overwritten here: ENOTUNIQ, and the sender publishes a conflict.
 */
#include "engine/publish/pieces_apply.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "dht/base.h"
#include "engine/publish/pieces.h"
#include "engine/publish/pieces_length.h"
#include "store/control.h"
#include "store/extents_cover.h"
#include "store/fetch.h"
#include "util/clock.h"
#include "util/crash.h"
#include "util/fd_close.h"
#include "util/log.h"

#define BUFFER     (64u << 10)
#define LOOK_PAUSE 100000                     /* ns */
#define LOOK_TIME  (100 * UTIL_NSEC_PER_MSEC) /* what stands there after that counts */

/* The pieces: bytes in memory, and which of the file. */
struct pieces {
    const char *data;
    size_t size;
    struct store_extent_list list;
};

/* What was written here. */
struct ours {
    struct store_extent_list local; /* by this node */
    struct store_extent_list apart; /* and by third nodes */
    struct store_extent_list sent;  /* by the sender's node, which has sent it before */
    struct store_extent_list all;
};

uint64_t pieces_writer(const uint8_t storage[DYAD_STORAGE_ID_LEN])
{
    uint64_t random;

    memcpy(&random, storage, sizeof(random));
    return STORE_EXTENTS_OTHER | random >> 2;
}

static void by_our_clock(const struct pieces_apply *apply, struct store_extent *extent)
{
    uint64_t now = util_clock_wall_ns(), first = extent->first, last = extent->last;

    extent->first = 0;
    extent->last = UINT64_MAX;
    if (first > last || last > INT64_MAX || apply->ahead_min > apply->ahead_max)
        return;
    first += (uint64_t)apply->ahead_min;
    last += (uint64_t)apply->ahead_max;
    extent->first = first - (now > first ? (now - first) / PIECE_DRIFT : 0);
    extent->last = last + (now > last ? (now - last) / PIECE_DRIFT : 0);
}

/* The heads, in the order of the sender's list: writes ascending, then cuts. 0 or -1: EPROTO. */
static int parse(const struct pieces_apply *apply, struct pieces *pieces)
{
    struct store_extent_list *list = &pieces->list;
    size_t ncuts = 0;
    uint64_t end = 0;

    for (size_t at = 0; at < pieces->size;) {
        struct store_extent extent;
        if (pieces->size - at < PIECE_HEAD)
            goto bad;
        piece_get(pieces->data + at, &extent);
        at += PIECE_HEAD;
        if ((extent.length > pieces->size - at && !apply->history) ||
            extent.offset > INT64_MAX - extent.length ||
            (extent.length && (extent.offset < end || ncuts)))
            goto bad;
        by_our_clock(apply, &extent);
        if (store_extent_list_add(list, &extent) < 0)
            return -1;
        if (extent.length)
            end = extent.offset + extent.length;
        else
            ncuts++;
        at += apply->history ? 0 : (size_t)extent.length;
    }
    list->n -= ncuts;
    list->ncuts = ncuts;
    return 0;
bad:
    errno = EPROTO;
    return -1;
}

/* --- what was written here --- */

static void ours_free(struct ours *ours)
{
    store_extent_list_free(&ours->local);
    store_extent_list_free(&ours->apart);
    store_extent_list_free(&ours->sent);
    store_extent_list_free(&ours->all);
}

/* From when on the record counts: from when our file was that version, too; or was empty, as any
 * file that is being made is. NULL: from its making. */
static const struct dyad_base *begins(const struct pieces_apply *apply,
                                      struct dyad_base *base)
{
    const struct store_identity *id = &apply->identity;

    if (apply->base.size ||
        (apply->base.time &&
         store_extents_was(apply->dmd->extents, id->ino, id->btime, &apply->base)))
        return &apply->base;
    return store_extents_version(apply->dmd->extents, id->ino, id->btime, base) &&
                   !base->size
               ? base
               : NULL;
}

/* From which version on there is a record of ours. */
static bool say_version(struct pieces_apply *apply)
{
    const struct store_identity *id = &apply->identity;
    struct dyad_base base;

    if (!store_extents_version(apply->dmd->extents, id->ino, id->btime, &base))
        return false;
    apply->met = (struct store_extent){.offset = base.size, .length = base.time};
    return true;
}

/* 0 or -1: EBUSY: there is no record; ESTALE. What is written while it is read is in the later lists, if
 * in any; so nothing is decided upon and then missed. */
static int ours_read(struct pieces_apply *apply, struct ours *ours)
{
    struct store_extents *extents = apply->dmd->extents;
    uint64_t ino = apply->identity.ino, btime = apply->identity.btime;
    struct dyad_base base;
    uint64_t theirs = pieces_writer(apply->storage);
    const struct dyad_base *since = begins(apply, &base);
    int error;

    *ours = (struct ours){0};
    if (store_marks_recorded(apply->dmd->marks, 0, ino, btime) &&
        store_extents_list(extents, ino, btime, since, 0, STORE_EXTENTS_OTHERS,
                           &ours->local) == 0 &&
        store_extents_list(extents, ino, btime, since, 0, theirs, &ours->apart) == 0 &&
        store_extents_list(extents, ino, btime, since, theirs, 0, &ours->sent) == 0 &&
        store_extents_list(extents, ino, btime, since, 0, 0, &ours->all) == 0)
        return 0;
    log_debug("\"%s\" is not known to have been of %llu bytes, changed at %llu",
              apply->upath, (unsigned long long)apply->base.size,
              (unsigned long long)apply->base.time);
    ours_free(ours);
    error = EBUSY;
    if (!say_version(apply) &&
        store_extents_list(extents, ino, btime, NULL, 0, 0, &ours->all) == 0 &&
        !ours->all.n && !ours->all.ncuts)
        error = ESTALE; /* a copy, since a moment ago */
    store_extent_list_free(&ours->all);
    errno = error;
    return -1;
}

/* --- the file --- */

/* True if the file has those bytes already. */
static bool is_there(int fd, uint64_t offset, const char *data, uint64_t length)
{
    char *have = malloc(BUFFER);
    bool is = have != NULL;

    while (is && length > 0) {
        size_t some = length < BUFFER ? (size_t)length : BUFFER;
        ssize_t n = pread(fd, have, some, (off_t)offset);
        is = n > 0 && memcmp(have, data, (size_t)n) == 0;
        offset += (uint64_t)n;
        data += n;
        length -= (uint64_t)n;
    }
    free(have);
    return is;
}

/* What of one piece is to be written: all but what was written here later. Only decided if
 * `write` is false. *n: where in ours->apart. 0 or -1. */
static int put_piece(struct pieces_apply *apply, int fd, const struct store_extent *piece,
                     const char *data, const struct ours *ours, bool write, size_t *n)
{
    uint64_t at = piece->offset, end = piece->offset + piece->length;
    struct store_extent both;

    while (at < end) {
        bool meets = store_extent_list_meets(&ours->apart, piece, n, &both);
        uint64_t until = meets ? both.offset : end;
        if (meets && until == at && store_extent_is_newer(&both, piece)) {
            at += both.length;
        } else if (meets && until == at) {
            const char *bytes = data + (at - piece->offset);
            bool newer = store_extent_is_newer(piece, &both);
            if (!newer && !is_there(fd, at, bytes, both.length)) {
                apply->met = both;
                log_debug(
                    "bytes %llu to %llu of \"%s\": written here between %llu and "
                    "%llu, there between %llu and %llu ns",
                    (unsigned long long)at, (unsigned long long)(at + both.length - 1),
                    apply->upath, (unsigned long long)both.first,
                    (unsigned long long)both.last, (unsigned long long)piece->first,
                    (unsigned long long)piece->last);
                errno = EEXIST;
                return -1;
            }
            if (newer && write && store_control_write(fd, at, bytes, both.length) < 0)
                return -1;
            at += both.length;
        } else {
            if (write &&
                store_control_write(fd, at, data + (at - piece->offset), until - at) < 0)
                return -1;
            at = until;
            continue;
        }
        if (at < end)
            ++*n;
    }
    return 0;
}

/* What of it the sender's node has not written again, and sent by another close that was quicker.
 * *m: where in ours->sent. */
static int put_new(struct pieces_apply *apply, int fd, const struct store_extent *piece,
                   const char *data, const struct ours *ours, bool write, size_t *n,
                   size_t *m)
{
    uint64_t end = piece->offset + piece->length;
    struct store_extent both, rest = *piece;

    while (store_extent_list_meets(&ours->sent, piece, m, &both)) {
        if (store_extent_is_newer(&both, piece)) {
            rest.length = both.offset - rest.offset;
            if (put_piece(apply, fd, &rest, data + (rest.offset - piece->offset), ours,
                          write, n) < 0)
                return -1;
            rest.offset = both.offset + both.length;
        }
        if (both.offset + both.length == end)
            break;
        ++*m;
    }
    rest.length = end - rest.offset;
    return put_piece(apply, fd, &rest, data + (rest.offset - piece->offset), ours, write,
                     n);
}

static int put_pieces(struct pieces_apply *apply, int fd, const struct pieces *pieces,
                      const struct ours *ours, bool write)
{
    const struct store_extent_list *list = &pieces->list;
    const char *data = pieces->data;
    size_t n = 0, m = 0;

    if (pieces_lengths_differ(list, &ours->all, &apply->met)) {
        errno = EEXIST;
        return -1;
    }
    if (write && pieces_shorten(fd, list, &ours->all) < 0)
        return -1;
    for (size_t i = 0; i < list->n; i++) {
        struct store_extent piece = store_extent_list_left_of(&list->extent[i], &ours->all);
        data += PIECE_HEAD;
        if (piece.length && put_new(apply, fd, &piece, data, ours, write, &n, &m) < 0)
            return -1;
        data += list->extent[i].length;
    }
    return write ? pieces_lengthen(fd, list, &ours->all) : 0;
}

static int record(const struct pieces_apply *apply, const struct store_extent_list *list)
{
    uint64_t writer =
        pieces_writer(apply->storage) |
        (apply->shown && !apply->history && !apply->kept ? STORE_EXTENTS_SHOWN : 0);

    for (size_t i = 0; i < list->n + list->ncuts; i++) {
        if (!store_extents_add_other(apply->dmd->extents, apply->identity.ino,
                                     apply->identity.btime, writer, &list->extent[i])) {
            errno = ENOSPC;
            return -1;
        }
    }
    return 0;
}

/* True if a program of this node has written meanwhile where pieces went, or behind where they
 * have cut the file. Where it was about to write before, and is the newer one, none went. */
static bool has_met(struct pieces_apply *apply, const struct ours *ours,
                    const struct ours *now, const struct store_extent_list *list)
{
    struct store_extent behind = {.offset = INT64_MAX};
    struct store_extent_list cut = {.extent = &behind, .n = 1};

    for (size_t c = 0; c < list->ncuts; c++) {
        const struct store_extent *end = &list->extent[list->n + c];
        if (end->offset < behind.offset)
            behind.offset = end->offset;
        if (end->last > behind.last)
            behind.last = end->last;
    }
    behind.length = INT64_MAX - behind.offset;
    return store_extent_list_changed(&ours->local, &now->local, list, true, &apply->met) ||
           (list->ncuts &&
            store_extent_list_changed(&ours->local, &now->local, &cut, true, &apply->met));
}

/* 0 or -1: ENOTUNIQ, or as ours_read(). A program that has added a range since then takes it back, for the file is held,
 * unless it has seen that too often: for that it is waited a moment, of which no event tells. */
static int look_again(struct pieces_apply *apply, const struct ours *ours,
                      const struct store_extent_list *list)
{
    const struct timespec pause = {.tv_nsec = LOOK_PAUSE};
    const uint64_t until = util_clock_now() + LOOK_TIME;
    struct ours now;
    bool last, met;

    do {
        last = util_clock_now() >= until;
        if (ours_read(apply, &now) < 0)
            return -1;
        met = has_met(apply, ours, &now, list);
        ours_free(&now);
        if (met && !last)
            nanosleep(&pause, NULL);
    } while (met && !last);
    if (!met)
        return 0;
    errno = ENOTUNIQ;
    return -1;
}

/* Our file is a copy of a version that has them, of which nothing is known (unless another open was quicker). From
 * now on it is one that has been their version `base`, with which their writers began. */
static int adopt(const struct pieces_apply *apply, int fd, struct store_extent_list *list)
{
    const struct store_identity *id = &apply->identity;
    struct store_extents *extents = apply->dmd->extents;
    struct store_extent_list all;
    bool empty = !apply->base.size && !apply->base.time, has;
    struct dyad_base version;
    struct store_extent *last;
    struct stat st;

    if (fstat(fd, &st) < 0 ||
        store_extents_list(extents, id->ino, id->btime, NULL, 0, 0, &all) < 0)
        return -1;
    has = all.n || all.ncuts;
    store_extent_list_free(&all);
    if (has)
        return empty || store_extents_was(extents, id->ino, id->btime, &apply->base) ? 0
                                                                                     : -1;
    store_extents_add_version(extents, id->ino, id->btime, &apply->base);
    version = dht_base_of(&st);
    /* Which of them it has, and what else, is not known: all that was written since is brought. */
    if (apply->ahead)
        return ftruncate(fd, (off_t)apply->base.size);
    /* What was being written when that was published may lie behind its end. */
    while (list->n && list->extent[list->n - 1].offset >= version.size)
        store_extent_list_drop_last(list);
    last = list->n ? &list->extent[list->n - 1] : NULL;
    if (last && last->length > version.size - last->offset)
        last->length = version.size - last->offset;
    if (record(apply, list) < 0)
        return -1;
    store_extents_add_published(extents, id->ino, id->btime, &version,
                                util_clock_wall_ns());
    return 0;
}

static int put(struct pieces_apply *apply, int fd, struct pieces *pieces)
{
    const struct store_identity *id = &apply->identity;
    struct dyad_base base;
    struct ours ours;
    int rc;

    if (apply->history)
        return adopt(apply, fd, &pieces->list);
    if (ours_read(apply, &ours) < 0)
        return -1;
    if (!store_extents_cover(apply->dmd->extents, id->ino, id->btime, begins(apply, &base),
                             fd)) {
        log_debug("not all of \"%s\" is on record", apply->upath);
        say_version(apply);
        errno =
            ours.all.n || ours.all.ncuts ? EBUSY : ESTALE; /* a copy, since a moment ago */
        ours_free(&ours);
        return -1;
    }
    rc = put_pieces(apply, fd, pieces, &ours, false);
    DYAD_CRASH_POINT("pieces-apply");
    if (rc == 0)
        rc = record(apply, &pieces->list);
    if (rc == 0)
        rc = put_pieces(apply, fd, pieces, &ours, true);
    if (rc == 0)
        rc = look_again(apply, &ours, &pieces->list);
    ours_free(&ours);
    return rc;
}

/* The other one's bytes are in the file, or ours are, before the next one looks. A child that was
 * forked meanwhile has the description, too: the lock is given up. */
static int put_alone(struct pieces_apply *apply, int fd, struct pieces *pieces)
{
    struct flock lock = {.l_type = F_WRLCK, .l_start = STORE_LOCK_PIECES, .l_len = 1};
    struct store_extents *extents = apply->dmd->extents;
    int rc, saved;

    while ((rc = fcntl(fd, F_OFD_SETLKW, &lock)) < 0 && errno == EINTR)
        ;
    if (rc < 0)
        return -1;
    store_extents_hold(extents, apply->identity.ino, apply->identity.btime);
    rc = put(apply, fd, pieces);
    saved = errno;
    store_extents_release(extents, apply->identity.ino, apply->identity.btime);
    lock.l_type = F_UNLCK;
    fcntl(fd, F_OFD_SETLK, &lock);
    errno = saved;
    return rc;
}

int pieces_apply(struct pieces_apply *apply)
{
    struct pieces pieces = {.size = (size_t)apply->size};
    void *map = NULL;
    int error = 0, fd;

    fd = store_fetch_open_named(apply->dmd->dir, apply->upath, O_RDWR);
    if (fd < 0 || !store_identity_is(fd, &apply->identity)) {
        error = fd < 0 ? errno : ESTALE;
        goto out;
    }
    if (apply->size) {
        map = mmap(NULL, (size_t)apply->size, PROT_READ, MAP_PRIVATE, apply->fd, 0);
        if (map == MAP_FAILED) {
            error = errno;
            goto out;
        }
        pieces.data = map;
    }
    if (parse(apply, &pieces) < 0 || put_alone(apply, fd, &pieces) < 0)
        error = errno;
    if (map)
        munmap(map, (size_t)apply->size);
out:
    store_extent_list_free(&pieces.list);
    util_fd_close(fd);
    return error;
}
