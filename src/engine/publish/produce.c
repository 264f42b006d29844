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
#include <uthash.h>
#include <utlist.h>

#include "engine/core/member_impl.h"
#include "engine/core/module.h"
#include "engine/membership/exit_barrier.h"
#include "engine/namespace/directories.h"
#include "engine/core/local_file.h"
#include "engine/publish/inline_bytes.h"
#include "engine/publish/lost_update.h"
#include "engine/publish/produce.h"
#include "engine/publish/produce_impl.h"
#include "engine/publish/shared_storage.h"
#include "store/superseded.h"
#include "util/clock.h"
#include "util/crash.h"
#include "util/log.h"

/* All for one name. It is there as long as one is: so the end of one needs no memory. */
struct produce_name {
    UT_hash_handle hh; /* by upath */
    struct produce *first;
    char upath[];
};

static struct produce_name *name_find(struct member *member, const char *upath)
{
    struct produce_name *name;

    HASH_FIND_STR(member->produces, upath, name);
    return name;
}

static struct produce *produces_of(struct member *member, const char *upath)
{
    struct produce_name *name = name_find(member, upath);

    return name ? name->first : NULL;
}

static struct produce_name *name_create(struct member *member, const char *upath)
{
    struct produce_name *name = calloc(1, sizeof(*name) + strlen(upath) + 1);

    if (!name)
        return NULL;
    strcpy(name->upath, upath);
    HASH_ADD_STR(member->produces, upath, name);
    if (!name->hh.tbl) {
        free(name);
        return NULL;
    }
    return name;
}

/* 0 or -1: no memory. */
static int produce_link(struct produce *p)
{
    struct produce_name *name = name_find(p->member, p->upath);

    if (!name && !(name = name_create(p->member, p->upath)))
        return -1;
    DL_APPEND(name->first, p);
    return 0;
}

static void produce_unlink(struct produce *p)
{
    struct produce_name *name = name_find(p->member, p->upath);

    DL_DELETE(name->first, p);
    if (name->first)
        return;
    HASH_DEL(p->member->produces, name);
    free(name);
}

struct produce *produce_create(struct member *member, enum engine_role role,
                               const char *upath, produce_fn fn, void *arg)
{
    struct produce *p = calloc(1, sizeof(*p));

    if (!p || !(p->upath = strdup(upath))) {
        free(p);
        errno = ENOMEM;
        return NULL;
    }
    p->member = member;
    p->role = role;
    p->fn = fn;
    p->arg = arg;
    if (produce_link(p) < 0) {
        free(p->upath);
        free(p);
        errno = ENOMEM;
        return NULL;
    }
    exit_barrier_activity(member);
    return p;
}

static void produce_release(struct produce *p)
{
    struct parent *parent, *tmp;

    DL_FOREACH_SAFE(p->parents, parent, tmp)
    {
        directories_leave(&parent->wait);
        free(parent);
    }
    free(p->upath);
    free(p);
}

void produce_free(struct produce *p)
{
    produce_unlink(p);
    produce_release(p);
}

static void changed_go_on(struct member *member, const char *upath);

void produce_end(struct produce *p, int status)
{
    struct member *member = p->member;
    produce_fn fn = p->fn;
    void *arg = p->arg;
    char *upath = p->upath;

    if (p->early || p->parents) {
        p->status = status;
        p->ended = true;
        modules_published(member, upath);
        return;
    }
    /* Removed, or a link: nobody tells us of what we do ourselves. */
    bool changes_path = !p->record.entry.mode || S_ISLNK(p->record.entry.mode);
    produce_unlink(p);
    p->upath = NULL;
    produce_release(p);
    modules_published(member, upath);
    changed_go_on(member, upath);
    if (changes_path)
        modules_path_changed(member, upath);
    free(upath);
    exit_barrier_activity(member);
    if (fn)
        fn(arg, status);
}

static void end_posted(void *arg)
{
    struct produce *p = arg;
    produce_end(p, p->status);
}

/* The end, but not from inside the start. */
static void produce_end_later(struct produce *p, int status)
{
    p->status = status;
    net_loop_post(p->member->loop, &p->post, end_posted, p);
}

bool produce_pending(struct member *member, const char *upath)
{
    struct produce *p;

    DL_FOREACH(produces_of(member, upath), p)
    {
        if (!p->ended)
            return true;
    }
    return false;
}

/* Of dht_node_ops. What is published is older than the file of `newer` if it is the file
 * that lay here before. */
static void overtaken(void *arg, const struct dyad_entry *newer)
{
    struct member *member = arg;
    struct produce *p;

    DL_FOREACH(produces_of(member, newer->upath), p)
    {
        const struct store_identity *is = &p->record.identity, *was = &p->before.identity;
        const struct member_dmd *dmd = &member->dmd[p->role];
        if (!p->ended && p->ahead && p->before.kind && was->ino == is->ino &&
            was->btime == is->btime &&
            dyad_version_cmp(&p->before.entry.version, &newer->version) < 0 &&
            !dyad_storage_equal(newer->storage, store_dir_id(dmd->dir)))
            store_marks_overtaken(dmd->marks, p->mark, is->ino, is->btime);
    }
}

static void produce_destroy(struct member *member)
{
    while (member->produces)
        produce_free(member->produces->first);
}

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
static void parents_start(struct produce *p)
{
    for (size_t len = strlen(p->upath); len > 0; len--) {
        if (p->upath[len] == '/' && !parent_start(p, len, 0))
            return;
    }
}

/* --- publish --- */

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

static enum dht_ahead publish_ahead(void *arg, const struct dyad_version *version,
                                    const struct dyad_entry *refused,
                                    struct dyad_entry *entry, struct dyad_base *base)
{
    struct produce *p = arg;
    struct store_journal *journal = p->member->dmd[p->role].journal;
    const struct store_record *known = store_journal_find(journal, p->upath);

    if (!version)
        return lost_update_confirm(p, entry, base);
    enum dht_ahead rc = refused ? produce_look_again(p, refused, entry) : DHT_AHEAD_GO;

    if (refused && (rc != DHT_AHEAD_STOP || p->superseded))
        rc = lost_update_judge(p, refused, rc, entry, base);
    if (rc == DHT_AHEAD_STOP) {
        publish_undo(p);
        return rc;
    }
    if (!p->ahead && known)
        p->before = *known;
    p->before.entry.upath = p->upath;
    p->ahead = true;
    p->version = p->record.entry.version = *version;
    p->unwritten = store_journal_put(journal, &p->record) < 0 ? errno : 0;
    DYAD_CRASH_POINT("produce-recorded");
    return rc;
}

static void writer_ended(struct produce *p)
{
    if (!p->mark)
        return;
    store_marks_clear(p->member->dmd[p->role].marks, p->mark);
    shared_end(p->member, p->role, p->upath, p->mark, false, NULL, NULL);
}

static void publish_done(void *arg, int status, const struct dyad_version *version)
{
    struct produce *p = arg;
    struct member *member = p->member;

    if (status == EHOSTUNREACH) {
        /* The table keeps it and tells the homes as soon as one is back. Close() is not to
         * fail for that. */
        log_warn("no home of \"%s\" can be reached now: it will be published when one can",
                 p->upath);
        status = 0;
    }
    lost_update_settle(p);
    if (status == 0) {
        DYAD_CRASH_POINT("produce-published");
        if (p->unwritten)
            log_error(
                "\"%s\" is published, but this node's record of it could not be written: "
                "%s",
                p->upath, strerror(p->unwritten));
        writer_ended(p);
        DYAD_CRASH_POINT("produce-cleared");
        member->stats.published++;
        log_debug("published \"%s\", %llu bytes, version %llu", p->upath,
                  (unsigned long long)p->record.entry.size,
                  (unsigned long long)version->counter);
        if (p->conflict)
            status = EIO;
    } else if (status == ECANCELED) {
        writer_ended(p);
        log_debug("\"%s\" was changed by another process before it was published",
                  p->upath);
        status = 0;
    } else {
        publish_undo(p);
        log_error("\"%s\" could not be published: %s", p->upath, strerror(status));
    }
    produce_end(p, status);
}

/* A file with several names may be written by another one, of which the homes of this one
 * do not hear: its owner sees it when it serves. 0 or -1 with errno. */
static int publish_start(struct produce *p)
{
    const void *bytes =
        p->linked ? NULL : inline_bytes(p->member, p->role, &p->record, p->mark);
    struct dyad_base base = p->base;

    if (p->mark)
        store_marks_base(p->member->dmd[p->role].marks, p->mark, &base);
    return dht_node_publish_ahead(p->member->dht, &p->record.entry, &base, bytes,
                                  publish_ahead, publish_done, p);
}

/* A publish of the same name is under way, and has looked at the file already. */
static bool is_behind_another(const struct produce *produce)
{
    const struct produce *p;

    DL_FOREACH(produces_of(produce->member, produce->upath), p)
    {
        if (!p->ended && !p->awaits && p != produce)
            return true;
    }
    return false;
}

/* True if the file on disk, down to its ctime, is the one of our record. (A file that is
 * being published has its record already.) */
static bool is_published_so(const struct produce *p)
{
    const struct store_record *known =
        store_journal_find(p->member->dmd[p->role].journal, p->upath);

    return !is_behind_another(p) && known && known->kind == STORE_RECORD_ORIGINAL &&
           store_identity_equal(&known->identity, &p->record.identity);
}

static void answer_early(void *arg)
{
    struct produce *p = arg;
    produce_fn fn = p->fn;
    void *fn_arg = p->arg;

    p->early = false;
    p->fn = NULL;
    if (p->ended)
        produce_end(p, p->status);
    fn(fn_arg, 0);
}

int produce_start(struct member *member, enum engine_role role, const char *upath,
                  store_mark_t mark, produce_fn fn, void *arg)
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
    rc = produce_look(p);
    if (rc < 0)
        goto error;
    if (rc > 0) { /* removed or renamed since: whoever did that sees to the new name */
        writer_ended(p);
        produce_end_later(p, 0);
        return 0;
    }
    parents_start(p);
    if (S_ISDIR(p->record.entry.mode)) {
        parent_start(p, strlen(p->upath), p->record.entry.mode);
        produce_end_later(p, 0);
        return 0;
    }
    if (!mark && fn && is_published_so(p)) { /* its close has published just this */
        produce_end_later(p, 0);
        return 0;
    }
    if (p->superseded &&
        !p->record.entry
             .conflict) /* somebody has written it since, and it is the newest again */
        store_superseded_clear(member->dmd[role].dir, member->dmd[role].session, upath);
    DYAD_CRASH_POINT("produce-begin");
    if (publish_start(p) < 0)
        goto error;
    if (member->config->async_publish && fn) {
        p->early = true;
        net_loop_post(member->loop, &p->post, answer_early, p);
    }
    return 0;
error:
    rc = errno;
    produce_free(p);
    errno = rc;
    return -1;
}

/* --- chmod, utimens and the like; mkdir and symlink --- */

/* True if two entries describe the same state of a file. */
static bool entry_same(const struct dyad_entry *a, const struct dyad_entry *b)
{
    return a->size == b->size && a->mode == b->mode && a->mtime_sec == b->mtime_sec &&
           a->mtime_nsec == b->mtime_nsec;
}

/* True if the homes may have the bytes of a file that has got another name. */
static bool is_inlined_still(const struct produce *p)
{
    return p->linked && p->record.entry.size <= (uint64_t)p->member->config->inline_max;
}

/* `before` is what was published of the file before the change. */
static void set_base(struct produce *p, const struct dyad_entry *before)
{
    p->base = (struct dyad_base){
        DYAD_BASE_FROM, before->size,
        (uint64_t)before->mtime_sec * UTIL_NSEC_PER_SEC + before->mtime_nsec};
}

static void changed_publish(struct produce *p)
{
    if (publish_start(p) < 0)
        produce_end(p, errno);
}

/* Not in our journal: another rank of this node may have published it. */
static void changed_looked_up(void *arg, int status, const struct dyad_entry *entry)
{
    struct produce *p = arg;

    p->lookup = NULL;
    if (status == ENOENT && p->late_name) {
        parents_start(p);
        changed_publish(p);
        return;
    }
    if (status != 0 || (entry_same(entry, &p->record.entry) && !is_inlined_still(p)) ||
        (p->late_name && !dyad_storage_equal(entry->storage, p->record.entry.storage))) {
        produce_end(p, status == ENOENT ? 0 : status);
        return;
    }
    set_base(p, entry);
    p->record.entry.version = entry->version;
    p->record.entry.conflict = entry->conflict;
    changed_publish(p);
}

/* 0: it is under way; -1 with errno. */
static int changed_step(struct produce *p)
{
    struct member_dmd *dmd = &p->member->dmd[p->role];
    const struct store_record *known;
    int rc;

    if ((p->awaits = is_behind_another(p)))
        return 0;
    if ((rc = produce_look(p)) < 0)
        return -1;
    known = store_journal_find(dmd->journal, p->upath);
    if (rc > 0 || p->superseded || !S_ISREG(p->record.entry.mode) ||
        local_file_being_written(dmd, p->upath) ||
        (known && known->identity.ino == p->record.identity.ino &&
         known->identity.btime == p->record.identity.btime &&
         entry_same(&known->entry, &p->record.entry) && !is_inlined_still(p))) {
        produce_end_later(p, 0);
        return 0;
    }
    if (known) {
        set_base(p, &known->entry);
        return publish_start(p);
    }
    p->lookup = dht_node_lookup(p->member->dht, p->upath, 0, NULL, changed_looked_up, p);
    return p->lookup ? 0 : -1;
}

static void changed_go_on(struct member *member, const char *upath)
{
    struct produce *p;

    DL_FOREACH(produces_of(member, upath), p)
    {
        if (p->awaits) {
            if (changed_step(p) < 0)
                produce_end_later(p, errno);
            return; /* the next one goes on when this one has ended */
        }
    }
}

static int changed_start(struct member *member, enum engine_role role, const char *upath,
                         bool late_name, produce_fn fn, void *arg)
{
    struct produce *p;
    int rc;

    if (!member->dmd[role].dir) {
        errno = EINVAL;
        return -1;
    }
    if (!(p = produce_create(member, role, upath, fn, arg)))
        return -1;
    if ((rc = produce_look(p)) < 0)
        goto error;
    if (rc == 0 && !S_ISREG(p->record.entry.mode)) {
        produce_free(p);
        return produce_start(member, role, upath, 0, fn, arg);
    }
    p->late_name = late_name;
    if (changed_step(p) < 0)
        goto error;
    return 0;
error:
    rc = errno;
    produce_free(p);
    errno = rc;
    return -1;
}

int produce_changed(struct member *member, enum engine_role role, const char *upath,
                    produce_fn fn, void *arg)
{
    return changed_start(member, role, upath, false, fn, arg);
}

int produce_late_name(struct member *member, enum engine_role role, const char *upath,
                      produce_fn fn, void *arg)
{
    return changed_start(member, role, upath, true, fn, arg);
}

static bool is_pending(struct member *member)
{
    return member->produces != NULL;
}

static int produce_begin_table(struct member *member)
{
    member->table_ops.overtaken = overtaken;
    return 0;
}

const struct member_module produce_module = {
    .start = produce_begin_table,
    .pending = is_pending,
    .destroy = produce_destroy,
};
