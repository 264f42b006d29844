/*
 * invalidate.c - removing a file that another rank replaced or withdrew
 *
 * The table calls this when the file here is out of date, and waits for the answer before
 * the other rank's close or unlink returns. In memory the record is removed at once; the
 * file by a pool thread, and only if it is still the one of the record. A directory is
 * removed if it was withdrawn, or was replaced by a file or link, and is empty. A file
 * that this node has made keeps its name until it is replaced (outdated.c).
 *
 * What could go wrong: somebody reads the journal before the file is gone
 * (invalidate_forget()); a second home is answered before the first (invalidate_done()).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "engine/coherence/invalidate.h"
#include "engine/coherence/outdated.h"
#include "engine/coherence/refetch.h"
#include "engine/core/local_file.h"
#include "engine/core/member.h"
#include "engine/core/module.h"
#include "engine/fetch/consume.h"
#include "engine/fetch/transfer.h"
#include "engine/namespace/directories.h"
#include "engine/publish/lost_update.h"
#include "engine/publish/produce.h"
#include "util/crash.h"
#include "util/log.h"

struct invalidate {
    struct invalidate *prev, *next; /* utlist */
    struct engine_io io;
    struct member *member;
    char *upath;
    struct store_record record[2];
    bool remove[2];
    struct dyad_entry newer; /* its upath is ours */
    bool refetch;            /* this node has made it, and is to have it again */
    mode_t mode[2];          /* of a directory that stays; 0: as it is */
    uint64_t token;
    bool done; /* nothing older is here: to be answered after those that came before */
    struct transfer_wait commit;
};

struct invalidates {
    struct invalidate *all; /* utlist */
};

/* Remove the directory only if it is empty: a process may have made files in it since. */
static void remove_directory(struct member_dmd *dmd, const char *upath)
{
    if (store_dir_rmdir(dmd->dir, upath) < 0 && errno != ENOTEMPTY && errno != EEXIST &&
        errno != ENOENT && errno != ENOTDIR)
        log_warn("the removed directory \"%s\" stays below %s: %m", upath,
                 store_dir_path(dmd->dir));
}

/* A directory here must stay writable for us: see store/fetch.h. */
static void change_directory(struct member_dmd *dmd, const char *upath, mode_t mode)
{
    int fd = store_dir_open(dmd->dir, upath, O_RDONLY | O_DIRECTORY, 0);

    if (fd < 0)
        return; /* removed meanwhile, or not to be read: it keeps what it has */
    if (fchmod(fd, (mode & 07777) | S_IRWXU) < 0)
        log_warn("the permissions of directory \"%s\" below %s cannot be changed: %m",
                 upath, store_dir_path(dmd->dir));
    close(fd);
}

static void invalidate_work(void *arg)
{
    struct invalidate *inv = arg;

    for (int s = 0; s < 2; s++) {
        struct member_dmd *dmd = &inv->member->dmd[s];
        inv->record[s].entry.upath = inv->upath;
        if (inv->mode[s])
            change_directory(dmd, inv->upath, inv->mode[s]);
        if (inv->remove[s])
            DYAD_CRASH_POINT("invalidate-begin");
        if (inv->remove[s] && S_ISDIR(inv->record[s].entry.mode)) {
            if (local_file_still_there(dmd, &inv->record[s]))
                remove_directory(dmd, inv->upath);
            continue;
        }
        /* Processes that have it open keep the old bytes. A file that is not the one we
         * recorded is newer. */
        if (inv->remove[s])
            inv->refetch |= outdated_end(dmd, &inv->newer, &inv->record[s]);
        if (inv->remove[s])
            DYAD_CRASH_POINT("invalidate-removed");
    }
}

static struct invalidate *first_of(const struct member *member, const char *upath)
{
    struct invalidate *inv;

    DL_FOREACH(OWN(member, invalidates)->all, inv)
    {
        if (!upath || strcmp(inv->upath, upath) == 0)
            break;
    }
    return inv;
}

bool invalidate_pending(const struct member *member, const char *upath)
{
    return first_of(member, upath) != NULL;
}

/* After the file is removed the record is removed from the journal's file, too, unless
 * something new has been recorded there meanwhile. Until then a neighbour that looks into
 * the journal (copy_lease_ask.c), or takes it over if this process is killed
 * (takeover.c), must not take the file for one that was never a copy. */
void invalidate_forget(struct member *member, const char *upath)
{
    for (int s = 0; s < 2; s++) {
        struct store_journal *journal = member->dmd[s].journal;
        if (journal && !store_journal_find(journal, upath))
            store_journal_delete(journal, upath);
    }
}

static void invalidate_end(struct invalidate *inv)
{
    struct member *member = inv->member;

    DL_DELETE(OWN(member, invalidates)->all, inv);
    if (inv->newer.state == DYAD_ENTRY_PUBLISHED) {
        /* Or an earlier version has brought that about, or the same from another home. */
        if (inv->refetch || refetch_wants(member, inv->upath)) {
            refetch_want(member, inv->upath);
            dht_node_stays(member->dht, inv->token);
        }
    } else if (refetch_wants(member, inv->upath)) {
        local_file_withdrawn(&member->dmd[ENGINE_CONSUMER], inv->upath);
        refetch_forget(member, inv->upath);
    }
    if (!invalidate_pending(member, inv->upath) && !refetch_wants(member, inv->upath))
        invalidate_forget(member, inv->upath);
    dht_node_invalidated(member->dht, inv->token);
    modules_path_changed(member, inv->upath);
    free(inv->upath);
    free(inv);
    modules_invalidated(member);
}

/* Each home sends an INVALIDATE. The second finds no record any more, and would be
 * answered while the file is still there: so the homes of one name are answered in the
 * order in which they sent it. */
static void invalidate_done(void *arg)
{
    struct invalidate *inv = arg;
    struct member *member = inv->member;
    char upath[DYAD_UPATH_MAX + 1];

    inv->done = true;
    strcpy(upath, inv->upath);
    while ((inv = first_of(member, upath)) && inv->done)
        invalidate_end(inv);
}

/* A copy was being put into place when the news came, and that failed: what lies there is
 * what lay there before, and so does the journal say again (transfer_end.c). */
static void take_again(struct invalidate *inv)
{
    for (int s = 0; s < 2; s++) {
        struct store_journal *journal = inv->member->dmd[s].journal;
        const struct store_record *record =
            journal ? store_journal_find(journal, inv->upath) : NULL;
        if (!record || dyad_version_cmp(&record->entry.version, &inv->newer.version) >= 0)
            continue;
        inv->record[s] = *record;
        if (inv->remove[s])
            store_journal_retire(journal, inv->upath);
        else
            store_journal_delete(journal, inv->upath);
        if (inv->member->dmd[0].journal == inv->member->dmd[1].journal)
            break;
    }
}

/* No copy of ours is between two names. */
static void invalidate_begin(void *arg, int status)
{
    struct invalidate *inv = arg;

    (void)status;
    take_again(inv);
    engine_io_submit(inv->member->io, &inv->io, invalidate_work, invalidate_done, inv);
}

/* One directory is as good as another, but for its permissions. It is a copy from now on,
 * to be removed when the other one is. */
static void keep_directory(struct invalidate *inv, int s, const struct dyad_entry *newer)
{
    struct store_record kept = inv->record[s];

    kept.kind = STORE_RECORD_COPY;
    kept.entry = *newer;
    if (store_journal_put(inv->member->dmd[s].journal, &kept) < 0)
        log_error("this node's record of directory \"%s\" could not be written: %m",
                  newer->upath);
    if (inv->remove[s] && ((newer->mode ^ inv->record[s].entry.mode) & 07777))
        inv->mode[s] = newer->mode;
    inv->remove[s] = false;
}

static void publish_again(struct member *member, const char *upath)
{
    for (int s = 1; s >= 0; s--) {
        const struct store_record *record;
        if (member->dmd[s].journal &&
            (record = store_journal_find(member->dmd[s].journal, upath)) &&
            record->kind == STORE_RECORD_ORIGINAL) {
            produce_start(member, (enum engine_role)s, upath, 0, NULL, NULL);
            return;
        }
    }
}

/* True if the file here is the one that this rank has published, though the newer version
 * should lie in the same storage. Then we have written over that one without knowing it,
 * for no home could be asked (we had been stopped, or cut off): ours is the last. (As a
 * rule the clock has put ours above it; not if the other node's clock is ahead:
 * dht/node_publish.c.) */
static bool is_written_over(const struct member *member, const struct dyad_entry *newer)
{
    for (int s = 0; s < 2 && newer->state == DYAD_ENTRY_PUBLISHED; s++) {
        const struct member_dmd *dmd = &member->dmd[s];
        const struct store_record *record;
        if (dmd->journal && dyad_storage_equal(newer->storage, store_dir_id(dmd->dir)) &&
            (record = store_journal_find(dmd->journal, newer->upath)) &&
            record->kind == STORE_RECORD_ORIGINAL && S_ISREG(record->entry.mode) &&
            dyad_version_cmp(&record->entry.version, &newer->version) < 0 &&
            (record->entry.size != newer->size ||
             record->entry.mtime_sec != newer->mtime_sec ||
             record->entry.mtime_nsec != newer->mtime_nsec) &&
            local_file_still_there((struct member_dmd *)dmd, record))
            return true;
    }
    return false;
}

/* Ours: we have withdrawn it ourselves. */
static void invalidate(struct member *member, const struct dyad_entry *newer,
                       uint64_t token, bool ours)
{
    bool known =
        refetch_wants(member, newer->upath) || invalidate_pending(member, newer->upath);
    struct invalidate *inv;

    transfer_invalidate(member, newer);
    consume_invalidate(member, newer);
    directories_forget(member, newer->upath);
    /* The homes know of this rank only what an earlier member of it began to publish. */
    if ((newer->owner == member->self.rank && newer->state == DYAD_ENTRY_PUBLISHED) ||
        is_written_over(member, newer)) {
        dht_node_invalidated(member->dht, token);
        publish_again(member, newer->upath);
        return;
    }
    inv = calloc(1, sizeof(*inv));
    if (!inv || !(inv->upath = strdup(newer->upath))) {
        free(inv);
        log_error("out of memory: an outdated copy of \"%s\" may stay on this node",
                  newer->upath);
        if (ours)
            dht_node_invalidated(member->dht, token);
        return; /* no answer: the home will find this holder silent */
    }
    inv->member = member;
    inv->token = token;
    inv->newer = *newer;
    inv->newer.upath = inv->upath;
    DL_APPEND(OWN(member, invalidates)->all, inv);
    for (int s = 0; s < 2; s++) {
        struct member_dmd *dmd = &member->dmd[s];
        const struct store_record *record;
        if (!dmd->journal || !(record = store_journal_find(dmd->journal, newer->upath)) ||
            dyad_version_cmp(&record->entry.version, &newer->version) >= 0)
            continue;
        known = true;
        inv->record[s] = *record;
        /* The new version may lie in this very storage: then the name is its own now. */
        inv->remove[s] = newer->state != DYAD_ENTRY_PUBLISHED ||
                         !dyad_storage_equal(newer->storage, store_dir_id(dmd->dir));
        outdated_note_writers(dmd, newer, record);
        if (newer->conflict && record->kind == STORE_RECORD_ORIGINAL)
            lost_update_say(member, dmd, newer->upath, newer->owner);
        if (S_ISDIR(record->entry.mode) && newer->state == DYAD_ENTRY_PUBLISHED &&
            S_ISDIR(newer->mode))
            keep_directory(inv, s, newer);
        else if (inv->remove[s])
            store_journal_retire(dmd->journal, newer->upath);
        else
            store_journal_delete(dmd->journal, newer->upath);
        if (member->dmd[0].journal == member->dmd[1].journal)
            break;
    }
    inv->commit.fn = invalidate_begin;
    inv->commit.arg = inv;
    if (transfer_await_commit(member, newer, &inv->commit))
        return;
    if (ours && !known)
        invalidate_end(inv); /* the usual removal: nothing for the I/O threads */
    else
        invalidate_begin(inv, 0);
}

void produce_invalidate(void *arg, const struct dyad_entry *newer, uint64_t token)
{
    log_debug("told of version %llu of \"%s\"", (unsigned long long)newer->version.counter,
              newer->upath);
    invalidate(arg, newer, token, false);
}

/* Never removes this rank's own files: its program has removed them, or they have another
 * name by now, or this one again. */
static void withdrawn(void *arg, const struct dyad_entry *gone, uint64_t token)
{
    struct member *member = arg;

    for (int s = 0; s < 2; s++) {
        struct store_journal *journal = member->dmd[s].journal;
        const struct store_record *record =
            journal ? store_journal_find(journal, gone->upath) : NULL;
        if (record && record->kind == STORE_RECORD_ORIGINAL &&
            dyad_version_cmp(&record->entry.version, &gone->version) < 0)
            store_journal_delete(journal, gone->upath);
    }
    invalidate(member, gone, token, true);
}

static int invalidate_start(struct member *member)
{
    member->table_ops.invalidate = produce_invalidate;
    member->table_ops.withdrawn = withdrawn;
    return 0;
}

const struct member_module invalidates_module = {
    .own = MODULE_OWN(invalidates),
    .start = invalidate_start,
};
