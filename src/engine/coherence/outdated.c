/*
 * outdated.c - a file that is out of date is removed, or superseded until it is replaced
 *
 * A copy is removed. Programs expect to find the files that their node has made: so such
 * a file keeps its name until the newer version has been brought (refetch.c), and is
 * superseded meanwhile, which means that calls through the library treat it as not there
 * (docs/engine.md has the mark). A file that somebody has open for writing is superseded,
 * too. An empty directory goes when it was withdrawn. What lies in the new version's
 * storage stays.
 *
 * What could go wrong: the journal that names the file lags behind (judge()); the file is
 * replaced, or written, between the look and the removal (judge_same()); the rank that
 * had the file may go on at any moment (outdated_discard()).
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/coherence/outdated.h"
#include "engine/core/local_file.h"
#include "engine/core/member.h"
#include "engine/publish/produce.h"
#include "store/fetch.h"
#include "store/superseded.h"
#include "util/crash.h"
#include "util/log.h"

#define TRIES 8 /* each is a writer that came or went in some us */

struct outdated_file {
    struct member_dmd *dmd;
    const struct store_record *record;
    const char *upath;
    int fd; /* of what was at upath after the look; -1: nothing */
};

static bool is_written(const struct outdated_file *o)
{
    return store_marks_dirty(o->dmd->marks, o->upath, o->record->identity.ino,
                             o->record->identity.btime, NULL);
}

/* The mark of a writer is gone when it has published. */
static bool is_changed(const struct outdated_file *o)
{
    const struct store_record *record = o->record;
    struct stat st;

    return o->fd >= 0 && fstat(o->fd, &st) == 0 && S_ISREG(st.st_mode) &&
           (st.st_ino != record->identity.ino ||
            (uint64_t)st.st_size != record->entry.size ||
            st.st_mtim.tv_sec != record->entry.mtime_sec ||
            (uint32_t)st.st_mtim.tv_nsec != record->entry.mtime_nsec);
}

static bool must_stay(struct outdated_file *o)
{
    return is_written(o) || is_changed(o);
}

/* The same when the file has lost its name: a process that opens the name from then on waits, and
 * does not count. */
static bool is_taken(void *arg)
{
    const struct outdated_file *o = arg;

    return store_marks_dirty(o->dmd->marks, NULL, o->record->identity.ino,
                             o->record->identity.btime, NULL) ||
           is_changed(o);
}

/* True if the file keeps its name, superseded. Besides the files that this node has made
 * this is one that a process has open for writing: its close publishes a still newer
 * version, or leaves the file superseded. A file that cannot be marked so (no hard links)
 * is removed. */
static bool is_kept(struct outdated_file *o, const struct dyad_entry *newer)
{
    struct member_dmd *dmd = o->dmd;

    if (newer->state != DYAD_ENTRY_PUBLISHED || !dmd->brings ||
        !S_ISREG(o->record->entry.mode) ||
        (o->record->kind == STORE_RECORD_COPY && !o->record->made_here && !is_written(o)))
        return false;
    if (store_superseded_set(dmd->dir, dmd->session, o->upath, STORE_OLD_TOLD,
                             &o->record->identity) == 0) {
        DYAD_CRASH_POINT("outdated-marked");
        return true;
    }
    log_debug("\"%s\" below %s cannot be marked as out of date: %m", o->upath,
              store_dir_path(dmd->dir));
    return false;
}

/* With other permissions only it is the same file, of which a writer has missed nothing. */
static bool is_chmod(const struct dyad_entry *newer, const struct dyad_entry *older)
{
    return newer->mode != older->mode &&
           dyad_storage_equal(newer->storage, older->storage) &&
           newer->size == older->size && newer->mtime_sec == older->mtime_sec &&
           newer->mtime_nsec == older->mtime_nsec;
}

void outdated_note_writers(struct member_dmd *dmd, const struct dyad_entry *newer,
                           const struct store_record *record)
{
    if (newer->state == DYAD_ENTRY_PUBLISHED &&
        !dyad_storage_equal(newer->storage, store_dir_id(dmd->dir)) &&
        !is_chmod(newer, &record->entry))
        store_marks_overtaken(dmd->marks, 0, record->identity.ino, record->identity.btime,
                              newer);
}

enum outdated { NONE, KEPT, REMOVED };

/* The file was the one of the record when judge() looked.
 * - Before it is removed its name may pass to another file. The file that was moved aside
 *   is looked at (store_fetch_discard_unless()), and put back if it is another one, or if
 *   somebody writes to it by then, or has done so and published it. If a writer has
 *   come meanwhile, the file is judged again: as one that is being written, or, if that
 *   writer is gone and has not changed it, as before. For no journal names it any more: if
 *   it stayed it would pass for the newest one.
 * - Before it is marked as superseded it may be written and published, by a process that
 *   has looked for that mark earlier. So the file is looked at once more when it is
 *   marked: a process that has not written it by then finds the mark when it publishes,
 *   and removes it. */
static enum outdated judge_same(struct outdated_file *o, const struct dyad_entry *newer)
{
    struct member_dmd *dmd = o->dmd;

    for (int tries = 0; tries < TRIES; tries++) {
        if (is_kept(o, newer)) {
            if (!is_changed(o))
                return KEPT;
            store_superseded_clear(dmd->dir, dmd->session, o->upath, STORE_OLD_TOLD);
            return NONE;
        }
        errno = EBUSY; /* nor taken away for a moment from who is about to publish it */
        if (!must_stay(o) &&
            store_fetch_discard_unless(dmd->dir, dmd->marks, o->upath, &o->record->identity,
                                       is_taken, o) == 0)
            return REMOVED;
        if (errno != EBUSY || is_changed(o) ||
            (newer->state != DYAD_ENTRY_PUBLISHED && is_written(o)))
            break;
    }
    if (errno != ESTALE && errno != ENOENT && errno != EBUSY)
        log_error("the outdated \"%s\" below %s could not be removed: %m", o->upath,
                  store_dir_path(dmd->dir));
    return NONE;
}

/* Only the file that the journal names is touched: of that inode, birth time, size, mtime
 * and mode, and with no writer. A newer file under that name differs in one of these: a
 * fetch, a rename and most writers make another inode; a process that writes in place
 * leaves a mark until it has published; chmod and utimens, which are published without a
 * mark, change a compared field. So it does no harm that the journal lags behind the
 * rank's publishes. */
static enum outdated judge(struct member_dmd *dmd, const struct dyad_entry *newer,
                           const struct store_record *record)
{
    struct outdated_file o = {.dmd = dmd, .record = record, .upath = newer->upath};
    enum outdated what = NONE;

    if (S_ISDIR(record->entry.mode))
        return NONE;
    if (local_file_is_same(dmd, record)) {
        o.fd = store_dir_open(dmd->dir, o.upath, O_PATH | O_NOFOLLOW, 0);
        what = judge_same(&o, newer);
        if (o.fd >= 0)
            close(o.fd);
    }
    /* Who has opened it before it was marked, or has kept it from that. */
    outdated_note_writers(dmd, newer, record);
    return what;
}

bool outdated_end(struct member_dmd *dmd, const struct dyad_entry *newer,
                  const struct store_record *record)
{
    return judge(dmd, newer, record) != NONE && newer->state == DYAD_ENTRY_PUBLISHED &&
           dmd->brings && (record->kind == STORE_RECORD_ORIGINAL || record->made_here);
}

/* Remove the directory only if it is empty: a process may have made files in it since. */
static void discard_directory(struct member_dmd *dmd, const struct dyad_entry *newer,
                              const struct store_record *record)
{
    if (newer->state == DYAD_ENTRY_WITHDRAWN && local_file_still_there(dmd, record))
        store_dir_rmdir(dmd->dir, newer->upath);
}

/* This is done in place of the rank that had the file and does not answer the homes,
 * because it is stopped, cut off from them, in exec, or dead. We are another rank of its
 * node, and have read its journal (node_files.c), while the rank may go on, or its
 * journal be taken over, at any moment.
 * - When the rank goes on it has a record without a file, like one whose file was removed
 *   by its INVALIDATE; the INVALIDATE itself, late, or what the rank hears from the homes
 *   when it finds them again, removes that record. If the rank is killed first, the
 *   member that takes its journal over finds a file that is gone, and withdraws a version
 *   that is no longer the newest.
 * - The rank may be in the midst of putting an outdated fetch into place. Then it does so
 *   when it goes on, and takes the file away again when the INVALIDATE comes:
 *   milliseconds later. */
void outdated_discard(struct member_dmd *dmd, const struct dyad_entry *newer, uint32_t rank,
                      const struct store_record *record)
{
    const char *upath = newer->upath;
    enum outdated what;
    struct stat st;

    if (dyad_version_cmp(&record->entry.version, &newer->version) >= 0)
        return;
    if (S_ISDIR(record->entry.mode)) {
        discard_directory(dmd, newer, record);
        return;
    }
    if ((newer->state == DYAD_ENTRY_PUBLISHED &&
         dyad_storage_equal(newer->storage, store_dir_id(dmd->dir))) ||
        store_dir_stat(dmd->dir, upath, &st) < 0 ||
        ((st.st_mode ^ record->entry.mode) & (S_IFMT | 0777)))
        return;
    what = judge(dmd, newer, record);
    if (what != NONE)
        log_info("\"%s\" below %s, which rank %u had, is out of date: %s", upath,
                 store_dir_path(dmd->dir), rank,
                 what == KEPT ? "not used any more" : "removed");
}
