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
 * The file lies on a node, and any member there can serve it (serve_other.c). So where its
 * owner is dead, in exec, or silent, another of its node is asked in its place, at once.
 *
 * Who asks decides who fetches: for a promoted guest its own process does (promoted.h), and
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

#include "engine/coherence/outdated.h"
#include "engine/core/local_file.h"
#include "engine/core/member_impl.h"
#include "engine/fetch/restock.h"
#include "engine/fetch/transfer.h"
#include "engine/fetch/transfer_impl.h"
#include "engine/membership/unreachable.h"
#include "engine/promoted/promoted.h"
#include "engine/publish/produce.h"
#include "util/clock.h"
#include "store/superseded.h"
#include "util/crash.h"
#include "util/log.h"

/* For so many ms somebody may be in the midst of an open before he is taken for a writer
 * of what was there. */
#define OPENS_MAX 50

/* --- the end --- */

static void transfer_free(struct transfer *t)
{
    struct chunk *chunk, *tmp;

    HASH_DEL(t->member->transfers, t);
    DL_FOREACH_SAFE(t->chunks, chunk, tmp)
    {
        transfer_chunk_free(t, chunk);
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
        log_debug("the fetch of \"%s\" from rank %u ended: %s", t->upath, t->rank,
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
        if (!chunk->data)
            transfer_chunk_free(t, chunk);
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

/* What lies where the file is to go. */
struct left {
    const struct transfer *t;
    struct store_identity file;
    bool superseded;
};

/* Who writes to it now counts before who died over it. */
static bool is_wanted(void *arg)
{
    const struct left *left = arg;
    struct store_marks *marks = left->t->member->side[ENGINE_CONSUMER].marks;
    struct store_mark_info info;

    for (int i = 0; i < OPENS_MAX; i++) {
        if (!store_marks_dirty(marks, left->t->upath, left->file.ino, left->file.btime,
                               &info))
            return !left->superseded;
        /* Between his mark and his open it cannot be told which file he will write. */
        if (info.state != STORE_MARK_OPENING)
            return info.state != STORE_MARK_ABANDONED;
        usleep(1000);
    }
    return true;
}

/* It was begun here by somebody who died over it, in this job or in one before, or is out
 * of date: it counts as missing. Somebody may begin to write to it at this moment; he has a
 * mark before he opens it, and it is looked for again when the file has lost its name. */
static bool counts_as_missing(struct left *left)
{
    struct member_side *side = &left->t->member->side[ENGINE_CONSUMER];
    int fd = store_dir_open(side->dir, left->t->upath, O_PATH | O_NOFOLLOW, 0);
    struct stat st;
    bool missing = false;

    if (fd < 0)
        return false;
    if (fstat(fd, &st) == 0 && store_identity_read(fd, &left->file) == 0) {
        left->superseded = local_file_is_superseded(side, left->t->upath, &st);
        missing = !is_wanted(left);
    }
    close(fd);
    return missing;
}

static int commit(struct transfer *t)
{
    struct member_side *side = &t->member->side[ENGINE_CONSUMER];
    struct left left = {.t = t};
    int rc;

    if (!counts_as_missing(&left))
        return store_fetch_commit(t->fetch, t->replace, &t->identity);
    if (S_ISREG(t->entry.mode)) {
        rc = store_fetch_commit_over(t->fetch, &left.file, is_wanted, &left, &t->identity);
    } else {
        store_fetch_discard_unless(side->dir, t->upath, &left.file, is_wanted, &left);
        rc = store_fetch_commit(t->fetch, t->replace, &t->identity);
    }
    if (rc == 0) {
        DYAD_CRASH_POINT("fetch-exchanged");
        store_marks_forget(side->marks, left.file.ino, left.file.btime);
        store_superseded_clear(side->dir, side->session, t->upath);
    }
    return rc;
}

static void commit_work(void *arg)
{
    struct transfer *t = arg;

    t->status = 0;
    DYAD_CRASH_POINT("fetch-complete");
    if (commit(t) < 0)
        t->status = errno;
    t->fetch = NULL;
    DYAD_CRASH_POINT("fetch-committed");
}

/* Before the file has its name: if we are killed then, who takes over our journal
 * (takeover.c) must find that it is a copy, which may be out of date. 0 or -1 with errno.
 */
static int record_early(struct transfer *t)
{
    struct store_record record = {
        .kind = STORE_RECORD_COPY, .made_here = t->made_here, .entry = t->entry};

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
    struct store_record record = {.kind = STORE_RECORD_COPY,
                                  .made_here = t->made_here,
                                  .entry = t->entry,
                                  .identity = t->identity};
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
        if (outdated_end(side, &t->newer, &record))
            restock_want(member, t->upath);
        else
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
              (unsigned long long)t->entry.size, t->rank);
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

/* Of this rank or another of the node. */
static bool replaces_made(const struct transfer *t)
{
    const struct member_side *side = &t->member->side[ENGINE_CONSUMER];
    struct stat st;

    return restock_wants(t->member, t->upath) ||
           (store_dir_stat(side->dir, t->upath, &st) == 0 &&
            local_file_is_superseded(side, t->upath, &st));
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
    /* What is being published has its record already, and may yet become the newest. */
    t->replace = old && dyad_version_cmp(&old->entry.version, &t->entry.version) < 0 &&
                 !produce_pending(t->member, t->upath);
    t->made_here =
        (old && (old->kind == STORE_RECORD_ORIGINAL || old->made_here)) || replaces_made(t);
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

/* May it have the file, and answer? */
static bool can_be_asked(struct member *member, uint32_t rank, const uint8_t *storage)
{
    const struct net_peer *peer =
        rank == member->self.rank ? &member->self : net_worker_peer(member->worker, rank);

    return !lost_is_suspect(member, rank) &&
           (!peer || dyad_storage_equal(peer->storage_producer, storage) ||
            dyad_storage_equal(peer->storage_consumer, storage));
}

bool transfer_next(struct transfer *t)
{
    struct member *member = t->member;
    uint32_t rank = t->other;

    if (member->hands_over) /* a promoted guest knows one rank */
        return false;
    do
        rank = dht_node_neighbour(member->dht, t->entry.owner, rank);
    while (rank != DYAD_RANK_NONE && !can_be_asked(member, rank, t->entry.storage));
    if (rank == DYAD_RANK_NONE)
        return false;
    t->rank = t->source = t->other = rank;
    t->rank_only = false;
    log_debug("\"%s\" is asked for of rank %u, which is on the node of rank %u", t->upath,
              rank, t->entry.owner);
    return true;
}

/* The owner, if it is there as far as we know; or if nobody else is. */
static void rank_choose(struct transfer *t)
{
    struct member *member = t->member;

    t->rank = t->source = t->entry.owner;
    t->other = DYAD_RANK_NONE;
    if (!member->hands_over && t->rank != member->self.rank &&
        (!dht_node_is_live(member->dht, t->rank) || lost_is_suspect(member, t->rank)))
        transfer_next(t);
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
    rank_choose(t);
    HASH_ADD_KEYPTR(hh, member->transfers, t->upath, strlen(t->upath), t);
    if (!t->hh.tbl) {
        net_timer_destroy(t->deadline);
        free(t->upath);
        free(t);
        errno = ENOMEM;
        return -1;
    }
    t->local_dmd = transfer_local_dmd(member, entry);
    DL_APPEND(t->waits, wait);
    wait->transfer = t;
    if (!t->local_dmd && t->rank == t->entry.owner)
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
    if (t && dyad_version_cmp(&t->entry.version, &newer->version) < 0) {
        t->stale = true;
        t->newer = *newer;
        t->newer.upath = t->upath;
    }
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
