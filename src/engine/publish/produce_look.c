/*
 * produce_look.c - the file that is to be published, and whether a refused publish goes on
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dht/base.h"
#include "engine/core/local_file.h"
#include "engine/core/member_impl.h"
#include "engine/core/turns.h"
#include "engine/publish/produce_impl.h"
#include "store/extents.h"
#include "store/superseded.h"
#include "util/clock.h"

bool produce_is_same_content(const struct dyad_entry *a, const struct dyad_entry *b)
{
    return a->size == b->size && a->mtime_sec == b->mtime_sec &&
           a->mtime_nsec == b->mtime_nsec;
}

/* True if all that was ever written to the file is on record, or since some version
 * (store/extents.h). `known`: what
 * was published of this file before, or NULL. */
static bool is_recorded(const struct produce *p, const struct dyad_entry *known)
{
    struct member_dmd *dmd = &p->member->dmd[p->role];
    const struct store_identity *id = &p->record.identity;

    if (!dmd->extents || p->conflict || !S_ISREG(p->record.entry.mode) ||
        !store_marks_recorded(dmd->marks, p->mark, id->ino, id->btime))
        return false;
    return p->mark || p->merged ||
           (known && (known->recorded || known->size == 0) &&
            produce_is_same_content(known, &p->record.entry));
}

void produce_base(struct produce *p, const struct dyad_entry *before)
{
    p->base = dht_base_from(before);
}

/* True if something is on record that writers other than `but` have done to it, of which all, or not all, is
 * (a map). Where no other node writes it and nothing is recorded, nothing is looked for. */
static bool is_written(const struct produce *p, uint64_t but)
{
    struct member_dmd *dmd = &p->member->dmd[p->role];
    const struct store_identity *id = &p->record.identity;

    return (p->mark || p->merged) && dmd->extents &&
           (store_marks_recorded(dmd->marks, p->mark, id->ino, id->btime) ||
            (p->mark && store_marks_shared_file(dmd->marks, p->mark))) &&
           store_extents_any(dmd->extents, id->ino, id->btime, but);
}

bool produce_is_unwritten(const struct produce *p)
{
    return p->record.entry.size == 0 && !is_written(p, STORE_EXTENTS_OTHERS);
}

bool produce_is_anew(const struct produce *p)
{
    struct dyad_base base;

    store_marks_base(p->member->dmd[p->role].marks, p->mark, &base);
    return base.kind == DYAD_BASE_SINCE;
}

int produce_look(struct produce *p)
{
    struct member_dmd *dmd = &p->member->dmd[p->role];
    const struct store_record *known;
    bool is_known;
    struct stat st;
    int fd = store_dir_open(dmd->dir, p->upath, O_PATH | O_NOFOLLOW, 0);
    int rc = 1;

    /* Or an older file is being taken from the name (store_fetch_discard_unless()): some us, and a
     * second at most. */
    if (fd < 0 && errno == ENOENT) {
        store_marks_await_name(dmd->marks, p->upath);
        fd = store_dir_open(dmd->dir, p->upath, O_PATH | O_NOFOLLOW, 0);
    }
    p->superseded = false;
    p->looked = util_clock_wall_ns();
    p->gone = fd < 0;
    if (fd < 0)
        return errno == ENOENT ? 1 : -1;
    if (fstat(fd, &st) < 0 || store_identity_read(fd, &p->record.identity) < 0)
        rc = -1;
    else if (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode) || S_ISDIR(st.st_mode))
        rc = 0;
    close(fd);
    if (rc != 0)
        return rc;
    p->record.kind = STORE_RECORD_ORIGINAL;
    p->record.entry.upath = p->upath;
    p->record.entry.owner = p->member->self.rank;
    p->record.entry.state = DYAD_ENTRY_PUBLISHED;
    p->linked =
        store_superseded_may(st.st_mode, st.st_nlink) &&
        st.st_nlink > 1 + store_superseded_links(
                              store_dir_real_path(dmd->dir), dmd->session, p->upath,
                              STORE_OLD | STORE_PENDING | STORE_UNSETTLED, st.st_ino);
    p->superseded = local_file_is_superseded(dmd, p->upath, &st);
    p->unsettled = p->unsettled || local_file_is_unsettled(dmd, p->upath, &st);
    store_dir_describe(dmd->dir, &st, &p->record.entry);
    if (p->record.entry.size > DYAD_SIZE_MAX) {
        errno = EFBIG;
        return -1;
    }
    p->record.entry.conflict = p->conflict;
    known = store_journal_find(dmd->journal, p->upath);
    is_known = known && known->identity.ino == p->record.identity.ino &&
               known->identity.btime == p->record.identity.btime;
    if (known)
        p->record.entry.version = known->entry.version;
    if (is_known && !p->mark)
        p->record.entry.conflict = known->entry.conflict;
    p->record.entry
        .component = /* who changes its permissions takes no turn, nor who takes pieces */
        is_known && (p->merged ||
                     (!p->mark && produce_is_same_content(&known->entry, &p->record.entry)))
            ? known->entry.component
            : turns_component(p->member);
    p->record.entry.recorded = is_recorded(p, is_known ? &known->entry : NULL);
    p->record.entry.emptied = S_ISREG(st.st_mode) && st.st_size == 0 &&
                              ((is_known && known->entry.emptied &&
                                produce_is_same_content(&known->entry, &p->record.entry)) ||
                               is_written(p, 0));
    if (dmd->extents &&
        store_extents_held(dmd->extents, p->record.identity.ino, p->record.identity.btime))
        p->looked = 0;
    return 0;
}

/* A version was refused, or is sent late. If the file is not here as it was, the next version must not name
 * what it was: readers would ask in vain. What is gone, or out of date, was the earlier one.
 * What was changed is published as it is now, also if another process of this node has done
 * so: its version has our bytes, but it may be on its way to the homes, so that readers
 * elsewhere still use the version before (lost_update_judge() sees to it that nothing that
 * other nodes have published since is lost). A recorded file's other publisher gives away its
 * own pieces only, if it is refused elsewhere: so no publish of such a file is left to another.
 */
enum dht_ahead produce_look_again(struct produce *p, struct dyad_entry *entry, bool refused)
{
    const struct store_record was = p->record;
    const struct store_identity *id = &p->record.identity;
    int rc = produce_look(p);
    bool alone = p->mark && (p->record.entry.recorded || produce_is_anew(p)), changed;

    if (rc < 0) {
        p->record = was;
        return DHT_AHEAD_GO;
    }
    if (rc > 0 || ((p->record.entry.mode ^ was.entry.mode) & S_IFMT))
        return DHT_AHEAD_STOP;
    changed = id->ino != was.identity.ino || id->btime != was.identity.btime ||
              !produce_is_same_content(&p->record.entry, &was.entry) ||
              p->record.entry.mode != was.entry.mode;
    entry->size = p->record.entry.size;
    entry->mode = p->record.entry.mode;
    entry->mtime_sec = p->record.entry.mtime_sec;
    entry->mtime_nsec = p->record.entry.mtime_nsec;
    entry->recorded = p->record.entry.recorded;
    entry->emptied = p->record.entry.emptied;
    entry->component = p->record.entry.component;
    if (refused && !alone && p->superseded)
        return DHT_AHEAD_STOP;
    return changed ? DHT_AHEAD_CHANGED : DHT_AHEAD_GO;
}
