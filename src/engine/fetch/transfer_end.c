/*
 * transfer_end.c - how a transfer ends: the file is put into place, or it fails
 *
 * A file that is ahead of what is published is superseded as soon as it has its name: those have it
 * who write it together with others. A transfer that is invalidated (a newer version was published) never commits. If the news
 * comes while the file is being renamed, it is withdrawn as any other copy.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "engine/core/local_file.h"
#include "engine/core/module.h"
#include "engine/fetch/transfer_impl.h"
#include "engine/promoted/promoted.h"
#include "engine/publish/produce.h"
#include "store/superseded.h"
#include "util/crash.h"
#include "util/log.h"

/* ms for which a process may be in the midst of an open until it is taken for a writer of
 * the file that is there. */
#define OPENS_MAX 50

/* --- the end --- */

/* The answer is here, or not expected any more. */
void transfer_chunk_answered(struct chunk *chunk)
{
    if (chunk->asked)
        HASH_DEL(OWN(chunk->transfer->member, transfers)->gets, chunk);
    chunk->hh.tbl = NULL;
    chunk->asked = false;
}

void transfer_chunk_free(struct transfer *t, struct chunk *chunk)
{
    transfer_chunk_answered(chunk);
    DL_DELETE(t->chunks, chunk);
    t->nchunks--;
    free(chunk->data);
    free(chunk);
}

static void transfer_free(struct transfer *t)
{
    struct chunk *chunk, *tmp;

    HASH_DEL(OWN(t->member, transfers)->by_upath, t);
    DL_FOREACH_SAFE(t->chunks, chunk, tmp)
    {
        transfer_chunk_free(t, chunk);
    }
    if (t->deadline)
        net_timer_destroy(t->deadline);
    if (t->guest)
        promoted_fetch_forget(t->guest);
    free(t->local_dmd);
    free(t->bytes);
    free(t->upath);
    free(t);
}

/* A file that is ahead is only for those that join its writers; for them what those write is
 * not out of date. */
static bool is_for_others(const struct transfer *t, const struct transfer_wait *wait,
                          int status)
{
    return wait->joins ? !t->joins && status == ESTALE : t->ahead && status == 0;
}

void transfer_end(struct transfer *t, int status)
{
    struct transfer ended = {.waits = t->waits,
                             .joins = t->joins,
                             .ahead = t->ahead}; /* stands in for the one that is freed */
    struct dyad_version version = t->entry.version;
    struct member *member = t->member;
    char upath[DYAD_UPATH_MAX + 1];
    struct transfer_wait *wait;

    DL_FOREACH(ended.waits, wait)
    {
        wait->transfer = &ended; /* one that is called may end another */
    }
    t->waits = NULL;
    if (status == ECANCELED) /* nobody wanted it any more; who came since looks again */
        status = EBUSY;
    if (status)
        log_debug("the fetch of \"%s\" from rank %u ended: %s", t->upath, t->rank,
                  status == ESTALE   ? "it is out of date"
                  : status == EBUSY  ? "another process of this node had it in hand"
                  : status == EEXIST ? "it was written here meanwhile"
                                     : strerror(status));
    strcpy(upath, t->upath);
    transfer_free(t);
    modules_fetch_grew(member, upath);
    while ((wait = ended.waits)) {
        DL_DELETE(ended.waits, wait);
        wait->transfer = NULL;
        wait->ahead = ended.ahead;
        /* A waiter that asked for a newer version than the one that is outdated now must
         * not wait for one that is newer still. */
        if ((status == ESTALE && dyad_version_cmp(&wait->version, &version) > 0) ||
            is_for_others(&ended, wait, status))
            wait->fn(wait->arg, EBUSY);
        else
            wait->fn(wait->arg, status);
    }
}

void transfer_job(struct transfer *t, void (*work)(void *arg), void (*done)(void *arg))
{
    local_file_job(t->member, &t->member->dmd[ENGINE_CONSUMER], t->entry.size, &t->io, work,
                   done, t);
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

void transfer_drop(struct transfer *t)
{
    abort_work(t);
    transfer_free(t);
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
    transfer_job(t, abort_work, abort_done);
}

bool transfer_is_background(const struct transfer *t)
{
    const struct transfer_wait *wait;

    DL_FOREACH(t->waits, wait)
    {
        if (!wait->background)
            return false;
    }
    return t->waits != NULL;
}

void transfer_failed_here(struct transfer *t, const char *what, int error)
{
    util_log(transfer_is_background(t) ? UTIL_LOG_INFO : UTIL_LOG_ERROR,
             "\"%s\" cannot be %s below %s: %s%s", t->upath, what,
             store_dir_path(t->member->dmd[ENGINE_CONSUMER].dir), strerror(error),
             error == ENOSPC || error == EDQUOT
                 ? ": make room there, or use a larger DYAD_PATH"
                 : "");
    transfer_fail(t, error);
}

/* --- commit --- */

/* The file that lies at the name of the fetched one. */
struct left {
    const struct transfer *t;
    struct store_identity file;
    bool regular;  /* else it is a link or a directory, or there is none */
    bool outdated; /* superseded, or the older copy that our record names */
};

/* A live writer counts before one that died. */
static bool is_wanted(const struct left *left)
{
    struct store_marks *marks = left->t->member->dmd[ENGINE_CONSUMER].marks;
    struct store_mark_info info;

    for (int i = 0; i < OPENS_MAX; i++) {
        if (!store_marks_dirty(marks, left->t->upath, left->file.ino, left->file.btime,
                               &info))
            return !left->outdated;
        /* Between a writer's mark and its open it is not known which file it will write.
         * An event would cost each open for writing a system call. */
        if (info.state != STORE_MARK_OPENING)
            return info.state != STORE_MARK_ABANDONED;
        if (left->t->is_first) /* the next attempt finds it there, and waits */
            return true;
        usleep(1000);
    }
    return true;
}

/* The same when the file has lost its name: a process that opens the name from then on waits, and
 * does not count. */
static bool is_taken(void *arg)
{
    const struct left *left = arg;
    struct store_mark_info info;

    return store_marks_dirty(left->t->member->dmd[ENGINE_CONSUMER].marks, NULL,
                             left->file.ino, left->file.btime, &info)
               ? info.state != STORE_MARK_ABANDONED
               : !left->outdated;
}

/* True if the writer of the file here died, in this job or in one before, or the file is
 * outdated: it counts as missing. If a process begins to write to it at this moment it
 * has a mark before it opens it, which is looked for again when the file has lost its
 * name. Another rank of the node may have replaced our copy meanwhile. */
static bool counts_as_missing(struct left *left)
{
    const struct transfer *t = left->t;
    struct member_dmd *dmd = &t->member->dmd[ENGINE_CONSUMER];
    int fd = store_dir_open(dmd->dir, t->upath, O_PATH | O_NOFOLLOW, 0);
    struct stat st;
    bool missing = false;

    if (fd < 0)
        return false;
    if (fstat(fd, &st) == 0 && store_identity_read(fd, &left->file) == 0) {
        left->regular = S_ISREG(st.st_mode);
        left->outdated = local_file_is_outdated(dmd, t->upath, &st) ||
                         (t->replace && left->file.ino == t->before.identity.ino &&
                          left->file.btime == t->before.identity.btime);
        missing = !is_wanted(left);
    }
    close(fd);
    return missing;
}

static int commit(struct transfer *t)
{
    struct member_dmd *dmd = &t->member->dmd[ENGINE_CONSUMER];
    struct left left = {.t = t};
    int rc;

    if (!counts_as_missing(&left))
        return store_fetch_commit(t->fetch, t->replace && !left.regular, &t->identity);
    if (S_ISREG(t->entry.mode) && is_wanted(&left)) {
        store_fetch_abort(t->fetch); /* its writer keeps its name at every moment */
        errno = EEXIST;
        return -1;
    }
    if (S_ISREG(t->entry.mode)) {
        rc = store_fetch_commit_over(t->fetch, dmd->marks, &left.file, is_taken, &left,
                                     &t->identity);
    } else {
        store_fetch_discard_unless(dmd->dir, dmd->marks, t->upath, &left.file, is_taken,
                                   &left);
        rc = store_fetch_commit(t->fetch, t->replace, &t->identity);
    }
    if (rc == 0) {
        DYAD_CRASH_POINT("fetch-exchanged");
        store_marks_forget(dmd->marks, left.file.ino, left.file.btime);
        store_superseded_forget(dmd->dir, dmd->session, t->upath);
    }
    return rc;
}

static bool is_nobodys(void *arg)
{
    (void)arg;
    return false;
}

/* It is no version: it goes if that cannot be said. */
static void set_ahead(struct transfer *t)
{
    struct member_dmd *dmd = &t->member->dmd[ENGINE_CONSUMER];

    if (store_superseded_set(dmd->dir, dmd->session, t->upath, STORE_OLD_TOLD,
                             &t->identity) == 0)
        return;
    t->status = errno;
    store_fetch_discard_unless(dmd->dir, dmd->marks, t->upath, &t->identity, is_nobodys,
                               NULL);
}

static void commit_work(void *arg)
{
    struct transfer *t = arg;

    t->status = 0;
    DYAD_CRASH_POINT("fetch-complete");
    if (commit(t) < 0)
        t->status = errno;
    else if (t->ahead)
        set_ahead(t);
    else if (t->entry.written) /* who opens it here waits for the rest */
        local_file_set_pending(&t->member->dmd[ENGINE_CONSUMER], t->upath, &t->identity);
    t->fetch = NULL;
    DYAD_CRASH_POINT("fetch-committed");
}

/* Record the file before it has its name: if we are killed after that, the member that
 * takes over our journal (takeover.c) must find that it is a copy, which may be out of
 * date. 0 or -1 with errno. */
static int record_early(struct transfer *t)
{
    struct store_record record = {
        .kind = STORE_RECORD_COPY, .made_here = t->made_here, .entry = t->entry};

    if (!S_ISREG(t->entry.mode)) /* its identity shows when it is made */
        return 0;
    if (store_fetch_identity(t->fetch, &record.identity) < 0)
        return -1;
    t->identity = record.identity;
    if (store_journal_put(t->member->dmd[ENGINE_CONSUMER].journal, &record) < 0)
        log_error("this node's record of \"%s\" could not be written: %m", t->upath);
    return 0;
}

static bool is_recorded(const struct transfer *t)
{
    const struct store_record *record =
        store_journal_find(t->member->dmd[ENGINE_CONSUMER].journal, t->upath);

    return record && record->kind == STORE_RECORD_COPY &&
           dyad_version_cmp(&record->entry.version, &t->entry.version) == 0;
}

/* It was removed again. */
static void record_delete(const struct transfer *t)
{
    if (is_recorded(t))
        store_journal_delete(t->member->dmd[ENGINE_CONSUMER].journal, t->upath);
}

/* It was not put into place: what lies there is what lay there, of which the journal says
 * what it said before. If it is out of date meanwhile (`stale`), our record is hidden by
 * now: invalidate.c looks again. */
static void record_undo(const struct transfer *t)
{
    struct store_journal *journal = t->member->dmd[ENGINE_CONSUMER].journal;
    bool hidden = t->stale && !store_journal_find(journal, t->upath);

    if (!t->before.kind)
        record_delete(t);
    else if ((hidden || is_recorded(t)) &&
             store_journal_put(t->member->dmd[ENGINE_CONSUMER].journal, &t->before) < 0)
        log_error("this node's record of \"%s\" could not be written: %m", t->upath);
}

static void commit_done(void *arg)
{
    struct transfer *t = arg;
    struct member *member = t->member;
    struct member_dmd *dmd = &member->dmd[ENGINE_CONSUMER];
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
        if (!modules_overtaken(member, dmd, &t->newer, &record))
            record_delete(t); /* after it, as in invalidate.c */
        transfer_end(t, ESTALE);
        return;
    }
    if (t->ahead)
        record_delete(t);
    if (!S_ISREG(t->entry.mode) && store_journal_put(dmd->journal, &record) < 0)
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
        member->stats.inlined += t->inlined;
        member->stats.promoted_fetches += t->by_guest;
        member->stats.promoted_bytes += t->by_guest ? t->entry.size : 0;
    }
    log_debug("fetched \"%s\", %llu bytes, %s rank %u", t->upath,
              (unsigned long long)t->entry.size, t->inlined ? "with the entry, of" : "from",
              t->rank);
    transfer_end(t, 0);
}

/* In a promoted guest: hand the file to the member that asked. */
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
    const struct member_dmd *dmd = &t->member->dmd[ENGINE_CONSUMER];
    struct stat st;

    return modules_to_come_back(t->member, t->upath) ||
           (store_dir_stat(dmd->dir, t->upath, &st) == 0 &&
            local_file_is_outdated(dmd, t->upath, &st));
}

/* Then the loop may put it into place. */
static bool nothing_there(struct transfer *t)
{
    struct stat st;

    t->is_first = store_dir_stat(t->member->dmd[ENGINE_CONSUMER].dir, t->upath, &st) < 0;
    return t->is_first;
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
    old = store_journal_find(t->member->dmd[ENGINE_CONSUMER].journal, t->upath);
    if (old && dyad_version_cmp(&old->entry.version, &t->entry.version) > 0) {
        transfer_fail(t, EEXIST); /* we have published it meanwhile */
        return;
    }
    t->before = old ? *old : (struct store_record){0};
    t->before.entry.upath = t->upath;
    /* A file that is being published has its record already, and may become the newest.
     */
    t->replace = old && dyad_version_cmp(&old->entry.version, &t->entry.version) < 0 &&
                 !produce_pending(t->member, t->upath);
    t->made_here =
        (old && (old->kind == STORE_RECORD_ORIGINAL || old->made_here)) || replaces_made(t);
    if (record_early(t) < 0) {
        transfer_failed_here(t, "put into place", errno);
        return;
    }
    t->io_busy = t->committing = true;
    if (nothing_there(t))
        transfer_job(t, commit_work, commit_done);
    else /* it may have to wait for a writer's open */
        engine_io_submit(t->member->io, &t->io, commit_work, commit_done, t);
}
