/*
 * lost_update.c - a publish that would lose what another node has written
 *
 * The homes refuse a version if another node's has come between it and its base, which is
 * what the file was at its writer's open (dht/base.h):
 *
 *  the writer                          is published as     here                    close
 *  emptied or made the file (SINCE)    the newest          the newest              0, warning
 *  the same; the other has written     a conflict          superseded              EIO
 *  since, and ours is a part, shorter
 *  the same, and wrote nothing         nothing             superseded, brought     0
 *  wrote nothing into an empty file    nothing             superseded, brought     0
 *  changed the file in part: what is   its pieces, by the  superseded, brought     0
 *  recorded, of an unchanged recorded  owner of the other
 *  changed the file in part, else      a conflict          superseded              EIO
 *  none: its mode, times or length     nothing             superseded, brought     -
 *  were changed by its name
 *  none: another node's pieces are in  nothing             superseded, brought     ESTALE
 *  changed in part what another node   nothing             removed                 0
 *  wrote, too, and has removed since
 *
 * A conflict is an entry like any other, of the later writer, so that all homes end with
 * it; but an open of it fails, on every node, until the name is removed or the file made
 * anew. Each node keeps what it has written.
 */
#include "engine/publish/lost_update.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "dht/base.h"
#include "engine/core/local_file.h"
#include "engine/core/member_impl.h"
#include "engine/core/module.h"
#include "engine/publish/pieces_send.h"
#include "store/superseded.h"
#include "util/clock.h"
#include "util/log.h"

static enum dht_ahead conflict(struct produce *p, struct dyad_entry *entry,
                               const struct dyad_entry *other)
{
    p->other = *other;
    p->other.upath = p->upath;
    p->conflict = p->record.entry.conflict = entry->conflict = true;
    p->record.entry.recorded = entry->recorded = false;
    return DHT_AHEAD_CHANGED;
}

/* The file here is superseded, and the other one brought. */
static enum dht_ahead give_way(struct produce *p, const struct dyad_entry *other)
{
    p->other = *other;
    p->other.upath = p->upath;
    p->gives_way = true;
    return DHT_AHEAD_STOP;
}

/* True if this node has been told of a later version since the publish began, which may have
 * the size and mtime of what the writer began from. That is not empty: of an empty one nothing
 * is lost (that the later one was cut to nothing within a tick of the clock is not seen by this). */
static bool is_told(const struct produce *p)
{
    struct dyad_base now;

    store_marks_base(p->member->dmd[p->role].marks, p->mark, &now);
    return now.kind == DYAD_BASE_OVERTAKEN && now.size > 0;
}

struct fit {
    const struct produce *p;
    const struct dyad_entry *there;
};

static bool fits(void *arg, const struct dyad_base *base)
{
    const struct fit *fit = arg;

    return base->kind != DYAD_BASE_OVERTAKEN &&
           !dht_base_is_overtaken(base, fit->there, fit->p->record.entry.storage);
}

/* True if the file was opened when another process of the node was changing it, which began
 * from what is there: so did both. */
static bool joined_one_that_fits(const struct produce *p, const struct dyad_entry *there)
{
    struct fit fit = {p, there};

    return store_marks_any_base(p->member->dmd[p->role].marks, p->record.identity.ino,
                                p->record.identity.btime, fits, &fit);
}

#define CLOCKS (50 * UTIL_NSEC_PER_MSEC) /* a cluster's differ by less */

/* True if the other one was written since the writer of this one has emptied it. */
static bool is_since(const struct dyad_base *base, const struct dyad_entry *there)
{
    return (uint64_t)there->mtime_sec * UTIL_NSEC_PER_SEC + there->mtime_nsec >=
           base->time + CLOCKS;
}

/* True if it ends, or has a hole, before the other one ends: in one directory the file had the bytes of both. If each is whole the
 * later close decides, as the last write would there. */
static bool lacks_bytes(const struct produce *p, const struct dyad_entry *there)
{
    uint64_t size = p->record.entry.size;
    off64_t hole = -1;
    int fd;

    if (there->size > size)
        return true;
    fd = store_dir_open(p->member->dmd[p->role].dir, p->upath,
                        O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd >= 0) {
        hole = lseek64(fd, 0, SEEK_HOLE);
        close(fd);
    }
    return hole >= 0 && (uint64_t)hole < there->size && (uint64_t)hole < size;
}

enum dht_ahead lost_update_judge(struct produce *p, const struct dyad_entry *there,
                                 enum dht_ahead go, struct dyad_entry *entry,
                                 struct dyad_base *base)
{
    struct dyad_base was = *base;

    if (p->conflict) /* superseded or not */
        return DHT_AHEAD_CHANGED;
    if (dht_base_is_removed(&was, there)) {
        p->stopped = p->removed = p->merged; /* who has sent the pieces asks anew */
        base->kind = DYAD_BASE_OVERTAKEN;    /* by any that is made since */
        return p->merged ? DHT_AHEAD_STOP : go;
    }
    if (was.kind == DYAD_BASE_FROM && is_told(p))
        was.kind = DYAD_BASE_OVERTAKEN;
    if (!dht_base_is_overtaken(&was, there, p->record.entry.storage))
        return go;
    if (p->mark && was.kind == DYAD_BASE_FROM && !there->conflict &&
        joined_one_that_fits(p, there)) {
        produce_base(p, there);
        base->kind = p->base.kind;
        base->size = p->base.size;
        base->time = p->base.time;
        return p->superseded ? DHT_AHEAD_CHANGED : go; /* by what it has in it */
    }
    if (!p->mark) { /* the other one counts, which the change of a name did not reach */
        p->stopped = true;
        return p->merged ? give_way(p, there) : DHT_AHEAD_STOP;
    }
    base->kind = DYAD_BASE_NONE; /* it was looked at */
    if (was.kind == DYAD_BASE_SINCE && is_since(&was, there)) {
        if (produce_is_unwritten(p))
            return give_way(p, there);
        if (lacks_bytes(p, there))
            return conflict(p, entry, there);
    }
    if (was.kind == DYAD_BASE_SINCE) {
        log_warn(
            "\"%s\" was published by %s while a process here had it open to write it "
            "anew: the one of here replaces it",
            p->upath, member_describe(p->member, there->owner));
        return go;
    }
    if (was.kind != DYAD_BASE_VERSION && was.size == 0 && produce_is_unwritten(p))
        return give_way(p, there);
    if (pieces_may_send(p, there)) {
        p->other = *there;
        p->other.upath = p->upath;
        p->taker = there->owner;
        p->merges = true;
        return DHT_AHEAD_STOP;
    }
    return conflict(p, entry, there);
}

/* The homes took the version as one that followed its base: but the other version had its
 * size and mtime. */
enum dht_ahead lost_update_confirm(struct produce *p, struct dyad_entry *entry,
                                   struct dyad_base *base)
{
    const struct dyad_entry unknown = {.owner = DYAD_RANK_NONE};

    if (!is_told(p))
        return DHT_AHEAD_GO;
    base->kind = DYAD_BASE_NONE;
    return conflict(p, entry, &unknown);
}

void lost_update_say(struct member *member, const struct member_dmd *dmd, const char *upath,
                     uint32_t other)
{
    log_error(
        "\"%s\" was written here and by %s at once, and neither has what the other wrote: "
        "opens of it fail (EIO) until it is removed or made anew. Each node keeps its own "
        "file; what was written here is below %s. Let one node write it, or each its own",
        upath, other == DYAD_RANK_NONE ? "another node" : member_describe(member, other),
        store_dir_path(dmd->dir));
}

/* Also if another process of this node has written the file since, whose close is to come: it
 * looks for the mark, and takes it away. One whose publish is under way already looks once more at its
 * end (is_refused_beside()), which comes after this: its homes have told us of its version by
 * then, and such news waits for what we publish.
 */
static void mark_refused(struct produce *p)
{
    struct member_dmd *dmd = &p->member->dmd[p->role];

    if (store_superseded_set(dmd->dir, dmd->session, p->upath, STORE_OLD_REFUSED,
                             &p->record.identity) == 0 ||
        errno == ESTALE || errno == ENOENT) /* it has no name here any more */
        return;
    p->abandoned = true;
    store_marks_abandon(dmd->marks, p->mark);
}

void lost_update_settle(struct produce *p)
{
    struct member_dmd *dmd = &p->member->dmd[p->role];

    if (p->gives_way || p->conflict)
        mark_refused(p);
    if (p->gives_way)
        modules_overtaken(p->member, dmd, &p->other, &p->record);
    if (!p->conflict)
        return;
    if (p->met_length)
        log_error(
            "bytes %llu to %llu of \"%s\" were written here and by %s, and which came "
            "first is not known",
            (unsigned long long)p->met, (unsigned long long)(p->met + p->met_length - 1),
            p->upath, member_describe(p->member, p->other.owner));
    lost_update_say(p->member, dmd, p->upath, p->other.owner);
}

static bool is_written(const struct produce *p)
{
    const struct store_identity *id = &p->record.identity;

    return store_marks_dirty(p->member->dmd[p->role].marks, p->upath, id->ino, id->btime,
                             NULL);
}

/* The last of those who have it open may have ended between the two looks, and found it not marked. */
void lost_update_removed(struct produce *p)
{
    struct member_dmd *dmd = &p->member->dmd[p->role];
    const struct store_identity *id = &p->record.identity;

    if (is_written(p))
        store_superseded_set(dmd->dir, dmd->session, p->upath, STORE_OLD_REFUSED, id);
    if (!is_written(p))
        local_file_discard(dmd, p->upath, id);
}
