/*
 * outdated.c - a file that is out of date goes, in place of the live rank that had it
 *
 * The rank does not answer the homes: it is stopped, cut off from them, or in exec. What it
 * has, its journal says; a neighbour (adopt.c) reads that and removes the file, while the
 * rank may go on at any moment.
 *
 * - What is removed is the file that the journal names as older than what is published: of
 *   that inode, birth time, size, mtime and mode, and with nobody writing it. A newer file
 *   under that name differs in one of these: a fetch, a rename and most writers make
 *   another inode; who writes in place leaves a mark until it is published; chmod and
 *   utimens, which are published without one, change what is compared. So it does no harm
 *   that the journal lags behind what the rank has published.
 * - Between that look and the removal the name may pass to another file: the file that was
 *   moved aside is looked at, and put back; so it is if somebody writes to it by then
 *   (store_fetch_discard_unless()).
 * - When the rank goes on it has a record without a file, like one whose file was removed
 *   by its INVALIDATE; the INVALIDATE itself, late, or what it hears from the homes when it
 *   finds them again, removes that. If it is killed first, who takes its journal over finds
 *   a file that is gone, and withdraws a version that is no longer the newest.
 * - It may be in the midst of putting an outdated fetch into place. Then it does so when it
 *   goes on, and takes it away again when the INVALIDATE comes: milliseconds later.
 *
 * A directory stays: what is in it is others' as well. So does what lies in the storage in
 * which the new version is.
 */
#include <errno.h>
#include <sys/stat.h>

#include "engine/member.h"
#include "store/fetch.h"
#include "util/log.h"

struct outdated {
    struct member_side *side;
    const struct store_record *record;
    const char *upath;
};

static bool is_written(void *arg)
{
    const struct outdated *o = arg;

    return store_marks_dirty(o->side->marks, o->upath, o->record->identity.ino,
                             o->record->identity.btime, NULL);
}

void outdated_discard(struct member_side *side, const struct dyad_entry *newer,
                      uint32_t rank, const struct store_record *record)
{
    const char *upath = newer->upath;
    struct outdated outdated = {.side = side, .record = record, .upath = upath};
    struct stat st;

    if (dyad_version_cmp(&record->entry.version, &newer->version) >= 0 ||
        S_ISDIR(record->entry.mode) ||
        (newer->state == DYAD_ENTRY_PUBLISHED &&
         dyad_storage_equal(newer->storage, store_dir_id(side->dir))) ||
        !produce_still_there(side, record) || is_written(&outdated) ||
        store_dir_stat(side->dir, upath, &st) < 0 ||
        ((st.st_mode ^ record->entry.mode) & (S_IFMT | 0777)))
        return;
    if (store_fetch_discard_unless(side->dir, upath, &record->identity, is_written,
                                   &outdated) == 0)
        log_info("\"%s\" below %s, which rank %u had, is out of date: removed", upath,
                 store_dir_path(side->dir), rank);
    else if (errno != ESTALE && errno != ENOENT && errno != EBUSY)
        log_error("the outdated \"%s\" below %s could not be removed: %m", upath,
                  store_dir_path(side->dir));
}
