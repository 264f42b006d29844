/*
 * transfer.c - the bytes of one file to this node
 *
 * One transfer per upath and member; a fetch of another member of this node holds the
 * temporary file's lock, and we wait for that in the kernel. Two ways: an owner on this
 * node (same node name, and its DMD is reachable under its path with the storage id it
 * told) is copied from directly (transfer_copy.c); any other is asked for chunks with GET
 * (transfer_chunks.c), `chunks` of them in memory at a time, whether on the way or being
 * written, so memory stays flat whatever the size. Chunks are written by pool threads.
 *
 * Who asks decides who fetches: for a promoted guest its own process does (peer.h), and
 * gives us the complete temporary file, from where on it is a fetch like any other; if that
 * fails in whatever way we begin ourselves.
 *
 * A transfer that is invalidated (a newer version was published) never commits.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "engine/peer.h"
#include "engine/transfer_impl.h"
#include "util/clock.h"
#include "util/crash.h"
#include "util/log.h"

/* --- the end --- */

static void transfer_free(struct transfer *t)
{
    struct chunk *chunk, *tmp;

    HASH_DEL(t->member->transfers, t);
    DL_FOREACH_SAFE(t->chunks, chunk, tmp)
    {
        free(chunk->data);
        free(chunk);
    }
    if (t->deadline)
        net_timer_destroy(t->deadline);
    if (t->guest)
        peer_fetch_forget(t->guest);
    free(t->local_dmd);
    free(t->upath);
    free(t);
}

static void transfer_end(struct transfer *t, int status)
{
    struct transfer_wait *waits = t->waits, *wait, *tmp;
    struct dyad_version version = t->entry.version;

    t->waits = NULL;
    if (status)
        log_debug("the fetch of \"%s\" from rank %u ended: %s", t->upath, t->entry.owner,
                  status == ESTALE   ? "it is out of date"
                  : status == EBUSY  ? "another process of this node had it in hand"
                  : status == EEXIST ? "it was written here meanwhile"
                                     : strerror(status));
    transfer_free(t);
    DL_FOREACH_SAFE(waits, wait, tmp)
    {
        wait->transfer = NULL;
        /* Who asked for a newer version than the one that is outdated now must not wait for
         * one that is newer still. */
        if (status == ESTALE && dyad_version_cmp(&wait->version, &version) > 0)
            wait->fn(wait->arg, EBUSY);
        else
            wait->fn(wait->arg, status);
    }
}

static void abort_work(void *arg)
{
    struct transfer *t = arg;

    if (t->fetch)
        store_fetch_abort(t->fetch);
    t->fetch = NULL;
}

static void abort_done(void *arg)
{
    struct transfer *t = arg;
    transfer_end(t, t->status);
}

/* Fail once nothing of it is in another thread's hands. Chunks on the way are forgotten. */
void transfer_fail(struct transfer *t, int status)
{
    struct chunk *chunk, *tmp;

    if (!t->failing) {
        t->failing = true;
        t->status = status;
    }
    DL_FOREACH_SAFE(t->chunks, chunk, tmp)
    {
        if (!chunk->data) {
            DL_DELETE(t->chunks, chunk);
            t->nchunks--;
            free(chunk);
        }
    }
    if (t->nchunks > 0 || t->io_busy)
        return;
    t->io_busy = true;
    net_timer_stop(t->deadline);
    engine_io_submit(t->member->io, &t->io, abort_work, abort_done, t);
}

void transfer_failed_here(struct transfer *t, const char *what, int error)
{
    log_error("\"%s\" cannot be %s below %s: %s%s", t->upath, what,
              store_dir_path(t->member->side[ENGINE_CONSUMER].dir), strerror(error),
              error == ENOSPC || error == EDQUOT
                  ? ": make room there, or use a larger DYAD_PATH"
                  : "");
    transfer_fail(t, error);
}

/* --- commit --- */

struct abandoned {
    const struct transfer *t;
    struct store_identity left;
};

/* A mark of a live writer counts before others. */
static bool is_not_abandoned(void *arg)
{
    const struct abandoned *a = arg;
    struct store_mark_info info;

    return !store_marks_dirty(a->t->member->side[ENGINE_CONSUMER].marks, a->t->upath,
                              a->left.ino, a->left.btime, &info) ||
           info.state != STORE_MARK_ABANDONED;
}

/* What lies there was begun here by somebody who died over it, in this job or in one
 * before: it counts as missing. Somebody may begin to write to it at this moment; he has a
 * mark before he opens it, and it is looked for again when the file has lost its name. */
static void discard_abandoned(struct transfer *t)
{
    struct member_side *side = &t->member->side[ENGINE_CONSUMER];
    int fd = store_dir_open(side->dir, t->upath, O_PATH | O_NOFOLLOW, 0);
    struct abandoned a = {.t = t};
    const struct store_identity *left = &a.left;

    if (fd < 0)
        return;
    if (store_identity_read(fd, &a.left) == 0 && !is_not_abandoned(&a) &&
        store_fetch_discard_unless(side->dir, t->upath, left, is_not_abandoned, &a) == 0)
        store_marks_forget(side->marks, left->ino, left->btime);
    close(fd);
}

static void commit_work(void *arg)
{
    struct transfer *t = arg;

    t->status = 0;
    DYAD_CRASH_POINT("fetch-complete");
    discard_abandoned(t);
    if (store_fetch_commit(t->fetch, t->replace, &t->identity) < 0)
        t->status = errno;
    t->fetch = NULL;
    DYAD_CRASH_POINT("fetch-committed");
}

/* Before the file has its name: if we are killed then, who takes over our journal (adopt.c)
 * must find that it is a copy, which may be out of date. 0 or -1 with errno. */
static int record_early(struct transfer *t)
{
    struct store_record record = {.kind = STORE_RECORD_COPY, .entry = t->entry};

    if (!S_ISREG(t->entry.mode)) /* its identity shows when it is made */
        return 0;
    if (store_fetch_identity(t->fetch, &record.identity) < 0)
        return -1;
    t->identity = record.identity;
    if (store_journal_put(t->member->side[ENGINE_CONSUMER].journal, &record) < 0)
        log_error("this node's record of \"%s\" could not be written: %m", t->upath);
    return 0;
}

/* It was not put into place. */
static void record_undo(struct transfer *t)
{
    struct store_journal *journal = t->member->side[ENGINE_CONSUMER].journal;
    const struct store_record *record = store_journal_find(journal, t->upath);

    if (record && record->kind == STORE_RECORD_COPY &&
        dyad_version_cmp(&record->entry.version, &t->entry.version) == 0)
        store_journal_delete(journal, t->upath);
}

static void commit_done(void *arg)
{
    struct transfer *t = arg;
    struct member *member = t->member;
    struct member_side *side = &member->side[ENGINE_CONSUMER];
    struct store_record record = {
        .kind = STORE_RECORD_COPY, .entry = t->entry, .identity = t->identity};
    int status = t->status;

    t->io_busy = false;
    if (status)
        record_undo(t);
    if (status == EEXIST) { /* written here meanwhile */
        transfer_end(t, EEXIST);
        return;
    }
    if (status) {
        transfer_failed_here(t, "put into place", status);
        return;
    }
    if (t->stale) { /* the news came while it was being renamed: it is withdrawn as any
                       other copy */
        if (produce_still_there(side, &record))
            store_fetch_discard(side->dir, t->upath, &t->identity);
        record_undo(t); /* after it, as in invalidate.c */
        transfer_end(t, ESTALE);
        return;
    }
    if (!S_ISREG(t->entry.mode) && store_journal_put(side->journal, &record) < 0)
        log_error("this node's record of \"%s\" could not be written: %m", t->upath);
    if (!S_ISREG(t->entry.mode)) {
        log_debug("made \"%s\" as rank %u has it", t->upath, t->entry.owner);
        transfer_end(t, 0);
        return;
    }
    if (t->local_dmd) {
        member->stats.local_copies++;
    } else {
        member->stats.fetches++;
        member->stats.bytes_fetched += t->entry.size;
        member->stats.peer_fetches += t->by_guest;
        member->stats.peer_bytes += t->by_guest ? t->entry.size : 0;
    }
    log_debug("fetched \"%s\", %llu bytes, from rank %u", t->upath,
              (unsigned long long)t->entry.size, t->entry.owner);
    transfer_end(t, 0);
}

/* In a promoted guest: the file goes to whoever asked. */
static void transfer_give(struct transfer *t)
{
    int fd = t->waits ? store_fetch_give(t->fetch) : -1;

    if (fd < 0) {
        transfer_fail(t, EIO);
        return;
    }
    t->fetch = NULL;
    t->waits->fd = fd;
    t->member->stats.fetches++;
    t->member->stats.bytes_fetched += t->entry.size;
    transfer_end(t, 0);
}

void transfer_commit(struct transfer *t)
{
    const struct store_record *old;

    if (t->stale) {
        transfer_fail(t, ESTALE);
        return;
    }
    if (t->member->hands_over) {
        transfer_give(t);
        return;
    }
    net_timer_stop(t->deadline);
    old = store_journal_find(t->member->side[ENGINE_CONSUMER].journal, t->upath);
    t->replace = old && dyad_version_cmp(&old->entry.version, &t->entry.version) < 0;
    if (record_early(t) < 0) {
        transfer_failed_here(t, "put into place", errno);
        return;
    }
    t->io_busy = t->committing = true;
    engine_io_submit(t->member->io, &t->io, commit_work, commit_done, t);
}

/* --- the beginning --- */

static void begin_work(void *arg)
{
    struct transfer *t = arg;

    t->status = 0;
    t->fetch = store_fetch_begin(t->member->side[ENGINE_CONSUMER].dir, &t->entry);
    if (!t->fetch)
        t->status = errno;
}

/* Another member of this node fetches it: wait until it has, then look at the directory
 * again. */
struct other_fetch { /* freed by the pool if the member is gone first */
    struct engine_io io;
    struct member *member;
    struct store_dir *dir;
    char upath[DYAD_UPATH_MAX + 1];
};

static void other_wait(void *arg)
{
    struct other_fetch *other = arg;

    store_fetch_wait(other->dir, other->upath);
    store_dir_destroy(other->dir);
}

static void other_done(void *arg)
{
    struct other_fetch *other = arg;
    struct transfer *t;

    HASH_FIND_STR(other->member->transfers, other->upath, t);
    if (t && t->io_busy) {
        t->io_busy = false;
        transfer_end(t, EBUSY);
    }
    free(other);
}

static void wait_for_other(struct transfer *t)
{
    struct other_fetch *other = calloc(1, sizeof(*other));

    if (other) {
        other->member = t->member;
        strcpy(other->upath, t->upath);
        other->dir = store_dir_create(store_dir_path(t->member->side[ENGINE_CONSUMER].dir));
    }
    if (!other || !other->dir ||
        engine_io_spawn(t->member->io, &other->io, other_wait, other_done, other) < 0) {
        if (other && other->dir)
            store_dir_destroy(other->dir);
        free(other);
        transfer_failed_here(t, "fetched", ENOMEM);
        return;
    }
    t->io_busy = true;
}

static void begin_done(void *arg)
{
    struct transfer *t = arg;

    t->io_busy = false;
    if (t->status == EBUSY) {
        wait_for_other(t);
    } else if (t->status) {
        transfer_failed_here(t, "fetched", t->status);
    } else if (t->failing) {
        transfer_fail(t, t->status);
    } else if (t->local_dmd) {
        transfer_copy(t);
    } else {
        transfer_ask_chunks(t);
    }
}

static void transfer_begin(struct transfer *t)
{
    t->io_busy = true;
    engine_io_submit(t->member->io, &t->io, begin_work, begin_done, t);
}

/* A promoted guest has fetched it, or has not. */
static void guest_fetched(void *arg, int status, int fd)
{
    struct transfer *t = arg;

    t->guest = NULL;
    if (status == 0) {
        t->by_guest = true;
        t->fetch = store_fetch_adopt(t->member->side[ENGINE_CONSUMER].dir, &t->entry, fd);
        if (t->fetch) {
            transfer_commit(t);
            return;
        }
        t->by_guest = false;
    }
    if (t->stale || status == ESTALE)
        transfer_fail(t, ESTALE);
    else if (status == EBUSY)
        transfer_end(t, EBUSY);
    else
        transfer_begin(t);
}

int transfer_start(struct member *member, const struct dyad_entry *entry,
                   struct transfer_wait *wait)
{
    struct transfer *t;

    wait->version = entry->version;
    wait->fd = -1;
    HASH_FIND_STR(member->transfers, entry->upath, t);
    if (t) {
        DL_APPEND(t->waits, wait);
        wait->transfer = t;
        return 0;
    }
    if (!(t = calloc(1, sizeof(*t))) || !(t->upath = strdup(entry->upath)) ||
        !(t->deadline = net_timer_create(member->loop, transfer_silent, t))) {
        if (t)
            free(t->upath);
        free(t);
        errno = ENOMEM;
        return -1;
    }
    t->member = member;
    t->entry = *entry;
    t->entry.upath = t->upath;
    t->source = t->entry.owner;
    t->local_dmd = transfer_local_dmd(member, entry);
    DL_APPEND(t->waits, wait);
    wait->transfer = t;
    HASH_ADD_KEYPTR(hh, member->transfers, t->upath, strlen(t->upath), t);
    if (!t->local_dmd)
        t->guest = peer_fetch_start(member, wait->pid, &t->entry, guest_fetched, t);
    if (!t->guest)
        transfer_begin(t);
    return 0;
}

void transfer_leave(struct transfer_wait *wait)
{
    if (wait->transfer)
        DL_DELETE(wait->transfer->waits,
                  wait); /* the fetch goes on: the file is wanted here */
    wait->transfer = NULL;
}

void transfer_invalidate(struct member *member, const struct dyad_entry *newer)
{
    struct transfer *t;

    HASH_FIND_STR(member->transfers, newer->upath, t);
    if (t && dyad_version_cmp(&t->entry.version, &newer->version) < 0)
        t->stale = true;
}

bool transfer_await_commit(struct member *member, const struct dyad_entry *newer,
                           struct transfer_wait *wait)
{
    struct transfer *t;

    HASH_FIND_STR(member->transfers, newer->upath, t);
    if (!t || !t->committing || !t->stale)
        return false;
    wait->version = newer->version;
    wait->transfer = t;
    wait->fd = -1;
    DL_APPEND(t->waits, wait);
    return true;
}

/* After the pool's threads are gone: nothing is in anybody's hands. */
void transfer_stop(struct member *member)
{
    struct transfer *t, *tmp;

    HASH_ITER(hh, member->transfers, t, tmp)
    {
        abort_work(t);
        transfer_free(t);
    }
}
