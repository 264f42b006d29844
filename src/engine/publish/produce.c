/*
 * produce.c - publish what this node has made
 *
 * Order of a publish: look at the file, write the record to the journal, tell the homes,
 * clear the mark, answer. So whoever finds the journal of a process that was killed finds
 * in it all that the homes may know; what they do not know yet is published then
 * (takeover.c). If the homes refuse the version the record is written once more, with the
 * next (publish_ahead()). A consumer's GET may come before the homes have answered us (they
 * notify it first): serve.c holds it until the publish has ended. Looking at the file is
 * one open and one stat of what was closed a moment ago, and is done on the loop.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <utlist.h>

#include "config/probes.h"
#include "dht/base.h"
#include "engine/core/completion.h"
#include "engine/core/local_file.h"
#include "engine/core/member_impl.h"
#include "engine/namespace/directories.h"
#include "engine/publish/inline_bytes.h"
#include "engine/publish/lost_update.h"
#include "engine/publish/pieces_take.h"
#include "engine/publish/produce.h"
#include "engine/publish/produce_impl.h"
#include "engine/core/joined_writers.h"
#include "engine/publish/shared_storage.h"
#include "engine/publish/withdraw.h"
#include "store/extents.h"
#include "store/superseded.h"
#include "util/crash.h"
#include "util/log.h"

/* --- its directories --- */

static void parent_done(void *arg, int status)
{
    struct parent *parent = arg;
    struct produce *p = parent->produce;

    (void)status; /* was logged; the file itself is published */
    DL_DELETE(p->parents, parent);
    free(parent);
    if (p->ended && !p->parents)
        produce_end(p, p->status);
}

/* See that the directory of the first `len` bytes of the upath is published. False: it is.
 */
static bool parent_start(struct produce *p, size_t len, mode_t mode)
{
    struct parent *parent = calloc(1, sizeof(*parent));
    int rc = -1;

    if (parent) {
        parent->produce = p;
        parent->wait.fn = parent_done;
        parent->wait.arg = parent;
        DL_APPEND(p->parents, parent);
        rc = directories_ensure(p->member, p->role, p->upath, len, mode, &parent->wait);
    }
    if (rc < 0)
        log_error("out of memory: a directory of \"%s\" is not published", p->upath);
    if (rc != 0 && parent) {
        DL_DELETE(p->parents, parent);
        free(parent);
    }
    return rc == 0;
}

/* From the nearest upwards: above one that is known all are. */
void produce_parents(struct produce *p)
{
    for (size_t len = strlen(p->upath); len > 0; len--) {
        if (p->upath[len] == '/' && !parent_start(p, len, 0))
            return;
    }
}

/* --- publish --- */

/* True if other descriptions of the file are open for writing on this node, or are just being opened. */
static bool is_written_beside(const struct produce *p)
{
    const struct store_identity *id = &p->record.identity;

    return store_marks_dirty_beside(p->member->dmd[p->role].marks, p->mark, p->upath,
                                    id->ino, id->btime);
}

/* This close does not complete it. What gets its name by a rename is complete, and so is what another
 * rank has left. */
static bool is_held(const struct produce *p)
{
    return p->mark && completion_is_due(p->member, p->upath, p->record.entry.mode);
}

/* It has failed: the journal says what it said before, unless another publish of that name
 * has begun. */
static void publish_undo(struct produce *p)
{
    struct store_journal *journal = p->member->dmd[p->role].journal;
    const struct store_record *record = store_journal_find(journal, p->upath);

    if (!p->ahead || !record || dyad_version_cmp(&record->entry.version, &p->version) != 0)
        return;
    p->ahead = false;
    if (p->before.kind)
        store_journal_put(journal, &p->before);
    else
        store_journal_delete(journal, p->upath);
}

/* Again, though it was superseded, as soon as the homes say so. Who reads it until then asks them. */
static void is_newest(struct produce *p)
{
    const struct member_dmd *dmd = &p->member->dmd[p->role];

    if (store_superseded_unsettle(dmd->dir, dmd->session, p->upath, &p->record.identity) <
            0 &&
        errno != ESTALE && errno != ENOENT) {
        log_warn("\"%s\" below %s cannot be marked while it is published: %m", p->upath,
                 store_dir_path(dmd->dir));
        store_superseded_clear(dmd->dir, dmd->session, p->upath, STORE_OLD | STORE_PENDING);
    }
    p->superseded = false;
    p->unsettled = true;
}

/* The homes have taken it. One that is not published stays as it is: who reads it asks. */
static void is_settled(struct produce *p)
{
    const struct member_dmd *dmd = &p->member->dmd[p->role];

    if (p->unsettled)
        store_superseded_clear(dmd->dir, dmd->session, p->upath, STORE_UNSETTLED);
}

/* Who opens this version, and has others write it with it, begins with that. */
static void note_version(const struct produce *p)
{
    const struct member_dmd *dmd = &p->member->dmd[p->role];
    const struct store_identity *id = &p->record.identity;
    struct dyad_base version = dht_base_from(&p->record.entry);

    if (dmd->extents && p->record.entry.recorded && p->looked)
        store_extents_add_published(dmd->extents, id->ino, id->btime, &version, p->looked);
}

static enum dht_ahead publish_ahead(void *arg, const struct dyad_version *version,
                                    const struct dyad_entry *refused,
                                    struct dyad_entry *entry, struct dyad_base *base)
{
    struct produce *p = arg;
    struct store_journal *journal = p->member->dmd[p->role].journal;
    const struct store_record *known = store_journal_find(journal, p->upath);

    if (!version)
        return lost_update_confirm(p, entry, base);
    /* Or it has waited for the publish before it: others of this node may have written the file since it was looked
     * at, and have published it, in a version below this one. */
    enum dht_ahead rc = refused || !p->begins
                            ? produce_look_again(p, entry, refused != NULL)
                            : DHT_AHEAD_GO;

    if (refused && !p->gone)
        rc = lost_update_judge(p, refused, rc, entry, base);
    if (rc == DHT_AHEAD_STOP) {
        publish_undo(p);
        return rc;
    }
    if (p->superseded && !p->record.entry.conflict)
        is_newest(p);
    if (!p->ahead && known)
        p->before = *known;
    p->before.entry.upath = p->upath;
    p->ahead = true;
    p->version = p->record.entry.version = *version;
    p->record.base = (struct dyad_base){.kind = DYAD_BASE_NONE};
    if (dht_base_is_change(base)) /* until is_acknowledged() */
        p->record.base = *base;
    note_version(p);
    p->unwritten = store_journal_put(journal, &p->record) < 0 ? errno : 0;
    DYAD_CRASH_POINT("produce-recorded");
    return rc;
}

/* True if another process of this node, which had the file open, too, was refused after we looked at
 * the file, for a version that was replaced or removed meanwhile, and has marked it. Which of the two
 * published last the homes know. */
static bool is_refused_beside(const struct produce *p)
{
    const struct member_dmd *dmd = &p->member->dmd[p->role];
    struct stat st;

    return (p->base.stays || p->joint) && !p->conflict &&
           store_dir_stat(dmd->dir, p->upath, &st) == 0 &&
           st.st_ino == p->record.identity.ino &&
           store_superseded_may(st.st_mode, st.st_nlink) &&
           store_superseded(store_dir_real_path(dmd->dir), dmd->session, p->upath,
                            STORE_OLD_REFUSED, st.st_ino);
}

/* Other nodes may still write it: who opens it here asks. Before it is seen to be complete. */
static void set_pending(struct produce *p)
{
    if ((p->others || is_held(p)) && !p->conflict && !shared_storage(p->member, p->role))
        local_file_set_pending(&p->member->dmd[p->role], p->upath, &p->record.identity);
}

static void writer_ended(struct produce *p)
{
    if (!p->mark)
        return;
    if (!p->abandoned)
        store_marks_clear(p->member->dmd[p->role].marks, p->mark);
    shared_end(p->member, p->role, p->upath, p->mark, false, NULL, NULL);
}

void produce_given_up(struct produce *p)
{
    writer_ended(p);
    if (p->mark && p->record.entry.recorded)
        joined_writers_closed(p->member, p->upath, NULL, NULL);
}

/* No file has the name: it was removed, or renamed, and whoever did that sees to the new name; but
 * not to the pieces that have been put into it. The closer, which has the file open, looks for itself,
 * and keeps the mark until then. */
static int gone_status(const struct produce *p)
{
    if (p->merged)
        return ESTALE;
    return p->mark && p->fn ? ENOENT : 0;
}

static void left_withdrawn(void *arg, int status)
{
    struct produce *p = arg;

    (void)status;
    produce_end(p, p->status);
}

/* It was removed while it was published, and a home, or all of them, may have taken it above that
 * removal. True: left_withdrawn() ends the publish. */
static bool withdraw_left(struct produce *p, int status)
{
    p->status = status;
    return produce_withdraw_left(p->member, p->upath, left_withdrawn, p) == 0;
}

void produce_ask_anew(struct produce *p)
{
    int rc = produce_look(p);

    p->merges = false;
    if (rc > 0) {
        if ((rc = gone_status(p)) == 0)
            writer_ended(p);
        produce_end(p, rc);
    } else if (rc < 0 || produce_publish(p) < 0) {
        produce_end(p, errno);
    }
}

/* Another node has removed the file which this one was writing, too, as on one node a program may that
 * others have open. */
static void is_removed(struct produce *p)
{
    log_debug("\"%s\" was removed by another node while it was written", p->upath);
    produce_given_up(p);
    lost_update_removed(p);
}

/* No home has refused it, or none can be reached for long. Who takes over from us asks the homes of one that may have been (takeover_copies.c). */
static void is_acknowledged(struct produce *p)
{
    struct store_journal *journal = p->member->dmd[p->role].journal;
    const struct store_record *known = store_journal_find(journal, p->upath);
    struct store_record record;

    if (!known || known->base.kind == DYAD_BASE_NONE ||
        dyad_version_cmp(&known->entry.version, &p->version) != 0)
        return;
    record = *known;
    record.base.kind = DYAD_BASE_NONE;
    record.entry.upath = p->upath;
    if (store_journal_put(journal, &record) < 0)
        p->unwritten = errno;
}

static void publish_done(void *arg, int status, const struct dyad_version *version)
{
    struct produce *p = arg;
    struct member *member = p->member;

    if (status == 0 || status == EHOSTUNREACH) /* its close ends so, too */
        is_acknowledged(p);

    if (status == EHOSTUNREACH) {
        /* The table keeps it and tells the homes as soon as one is back. Close() is not to
         * fail for that. */
        log_warn("no home of \"%s\" can be reached now: it will be published when one can",
                 p->upath);
        status = 0;
    }
    lost_update_settle(p);
    if (status == 0 && is_refused_beside(p)) {
        produce_ask_anew(p);
        return;
    }
    if (status == 0) {
        set_pending(p);
        is_settled(p);
        DYAD_CRASH_POINT("produce-published");
        if (p->unwritten)
            log_error(
                "\"%s\" is published, but this node's record of it could not be written: "
                "%s",
                p->upath, strerror(p->unwritten));
        writer_ended(p);
        if ((p->base.stays &&
             !shared_storage(member, p->role)) || /* they may have closed it */
            completion_is_declared(member, p->upath))
            joined_writers_closed(member, p->upath, NULL, NULL);
        DYAD_CRASH_POINT("produce-cleared");
        member->stats.published++;
        log_debug("published \"%s\", %llu bytes, version %llu", p->upath,
                  (unsigned long long)p->record.entry.size,
                  (unsigned long long)version->counter);
        if (p->conflict)
            status = EIO;
        if (store_dir_lacks(member->dmd[p->role].dir, p->upath) && withdraw_left(p, status))
            return;
    } else if (status == ECANCELED && p->merges) {
        produce_merge(p);
        pieces_retry(member);
        return;
    } else if (status == ECANCELED) {
        log_debug("\"%s\" was changed by another process before it was published",
                  p->upath);
        status = p->gone                                      ? gone_status(p)
                 : p->merged && (p->stopped || p->superseded) ? ESTALE
                                                              : 0;
        if (status == 0) {
            produce_given_up(p);
        }
        if (p->removed)
            lost_update_removed(p);
        if (p->gone && withdraw_left(p, status))
            return;
    } else if (status == EIDRM) {
        publish_undo(p);
        is_removed(p);
        status = 0;
    } else {
        publish_undo(p);
        log_error("\"%s\" could not be published: %s", p->upath, strerror(status));
    }
    produce_end(p, status);
}

/* A file with several names may be written by another one, of which the homes of this one
 * do not hear: its owner sees it when it serves. 0 or -1 with errno. */
int produce_publish(struct produce *p)
{
    const void *bytes =
        p->linked ? NULL : inline_bytes(p->member, p->role, &p->record, p->mark);
    struct store_marks *marks = p->member->dmd[p->role].marks;
    struct dyad_base base = p->base;
    struct dyad_version version;
    int rc;

    if (p->mark && base.kind != DYAD_BASE_VERSION) {
        store_marks_base(marks, p->mark, &base);
        if (store_marks_ahead(marks, p->mark, &version))
            base = dht_base_version(&version);
    }
    if (p->mark)
        joined_writers_opened(p->member, p->upath);
    base.looked = util_clock_now();
    p->base.stays = p->mark && is_written_beside(p);
    p->joint = p->mark && base.kind != DYAD_BASE_SINCE && p->record.entry.recorded &&
               store_marks_shared_file(marks, p->mark);
    /* This description was opened after a removal that others of this node, who still write the
     * file, are to be told of: what it writes counts. */
    base.joint = p->joint && base.kind != DYAD_BASE_OVERTAKEN;
    base.stays = p->base.stays || is_held(p);
    base.ends = p->mark && !base.stays && !completion_is_declared(p->member, p->upath);
    p->begins = true;
    rc = dht_node_publish_ahead(p->member->dht, &p->record.entry, &base, bytes,
                                publish_ahead, publish_done, p);
    p->begins = false;
    return rc;
}

/* True if the file on disk, down to its ctime, is the one of our record. (A file that is being published has
 * its record already.) Or it is what was published or fetched, as it was, and another node has published a newer
 * version by now, which counts. */
static bool is_published_so(const struct produce *p)
{
    const struct store_record *known =
        store_journal_find_any(p->member->dmd[p->role].journal, p->upath);

    if (!known || produce_is_behind(p))
        return false;
    if (known->entry.conflict) /* which is to be heard of again */
        return false;
    if (known->kind == STORE_RECORD_ORIGINAL &&
        store_identity_equal(&known->identity, &p->record.identity))
        return true;
    return known->identity.ino == p->record.identity.ino &&
           known->identity.btime == p->record.identity.btime &&
           produce_is_same_content(&known->entry, &p->record.entry) &&
           (p->superseded || (known->kind == STORE_RECORD_COPY &&
                              known->entry.mode == p->record.entry.mode));
}

/* The file was made to be written together with another node (give_up_joined()), and nothing was written; nor has
 * anybody of this node published it since, empty as it is. */
static bool is_joined_in_vain(const struct produce *p)
{
    const struct member_dmd *dmd = &p->member->dmd[p->role];
    const struct store_identity *id = &p->record.identity;
    const struct dyad_base version = dht_base_from(&p->record.entry);

    return p->mark && store_marks_joins(dmd->marks, p->mark) && produce_is_unwritten(p) &&
           !(dmd->extents &&
             store_extents_published(dmd->extents, id->ino, id->btime, &version));
}

/* The file was made here to be written together with another node, and was not: it goes, and whoever opens the
 * name again does so as if it had never been here. One that others of this node have open stays, and is
 * superseded: it is to come from there. */
static void give_up_joined(struct produce *p)
{
    struct member_dmd *dmd = &p->member->dmd[p->role];

    if (S_ISREG(p->record.entry.mode) && !p->superseded &&
        store_superseded_set(dmd->dir, dmd->session, p->upath, STORE_OLD_REFUSED,
                             &p->record.identity) < 0 &&
        errno != ESTALE && errno != ENOENT)
        log_warn("the empty file \"%s\" below %s cannot be marked as older: %m", p->upath,
                 store_dir_path(dmd->dir));
    produce_given_up(p);
    if (!p->superseded && S_ISREG(p->record.entry.mode))
        local_file_discard(dmd, p->upath, &p->record.identity);
    produce_end_later(p, 0);
}

/* Who closes it waits no more. Who reads it here does if other nodes write it, too, or in turn, also in that process. */
static void leaves_mark(const struct produce *p)
{
    const struct member_dmd *dmd = &p->member->dmd[p->role];
    const bool shared = store_marks_shared_file(dmd->marks, p->mark);

    if (shared || probes_glob(p->member->config->turns, p->upath))
        store_marks_take(dmd->marks, p->mark);
    else
        store_marks_clear(dmd->marks, p->mark);
    if (shared)
        local_file_set_pending(dmd, p->upath, &p->record.identity);
}

static void answer_early(void *arg)
{
    struct produce *p = arg;
    produce_fn fn = p->fn;
    void *fn_arg = p->arg;

    p->early = false;
    p->fn = NULL;
    p->answered = true;
    if (p->ended)
        produce_end(p, p->status);
    fn(fn_arg, 0);
}

static int start(struct member *member, enum engine_role role, const char *upath,
                 store_mark_t mark, const struct dyad_version *yielded, produce_fn fn,
                 void *arg)
{
    struct produce *p;
    int rc;

    if (!member->dmd[role].dir) {
        errno = EINVAL;
        return -1;
    }
    if (!(p = produce_create(member, role, upath, fn, arg)))
        return -1;
    p->mark = mark;
    if (yielded) {
        p->merged = true;
        p->base = dht_base_version(yielded);
    }
    rc = produce_look(p);
    if (rc < 0)
        goto error;
    if (rc > 0) {
        if ((rc = gone_status(p)) == 0)
            writer_ended(p);
        produce_end_later(p, rc);
        return 0;
    }
    if (is_joined_in_vain(p)) {
        give_up_joined(p);
        return 0;
    }
    produce_parents(p);
    if (S_ISDIR(p->record.entry.mode)) {
        parent_start(p, strlen(p->upath), p->record.entry.mode);
        produce_end_later(p, mark ? ENOENT : 0); /* the closer's file has another name */
        return 0;
    }
    if (!mark && !yielded && fn &&
        is_published_so(p)) { /* its close has published just this */
        if (p->superseded)
            log_info(
                "\"%s\" has not changed since it was published, and another node's newer "
                "version counts",
                p->upath);
        produce_end_later(p, 0);
        return 0;
    }
    if (yielded && p->superseded) {
        produce_end_later(p, ESTALE);
        return 0;
    }
    if (p->superseded && !p->record.entry.conflict)
        is_newest(p); /* somebody has written it since */
    DYAD_CRASH_POINT("produce-begin");
    if (produce_publish(p) < 0)
        goto error;
    if (member->config->async_publish && fn && !yielded) {
        p->early = true;
        if (mark)
            leaves_mark(p);
        net_loop_post(member->loop, &p->post, answer_early, p);
    }
    return 0;
error:
    rc = errno;
    produce_free(p);
    errno = rc;
    return -1;
}

int produce_start(struct member *member, enum engine_role role, const char *upath,
                  store_mark_t mark, produce_fn fn, void *arg)
{
    return start(member, role, upath, mark, NULL, fn, arg);
}

int produce_merged(struct member *member, enum engine_role role, const char *upath,
                   const struct dyad_version *yielded, produce_fn fn, void *arg)
{
    return start(member, role, upath, 0, yielded, fn, arg);
}
