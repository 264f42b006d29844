/*
 * produce.c - publish, withdraw, rename; and what happens to a file that somebody else
 * replaced
 *
 * Order of a publish: look at the file, tell the homes, keep the record in the journal,
 * clear the mark, answer. A consumer's GET may come between the second step and the third
 * (the homes notify it before they answer us): serve.c holds it until the publish has
 * ended. Looking at the file is one open and one stat of what was closed a moment ago; it
 * is done on the loop, because a trip through a pool thread would cost more.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "engine/member.h"
#include "store/fetch.h"
#include "util/log.h"

struct produce {
    struct produce *prev, *next; /* utlist */
    struct member *member;
    enum engine_side side;
    char *upath;
    store_mark_t mark;
    produce_fn fn;
    void *arg;
    struct store_record record;
    struct dht_lookup *lookup;
    struct net_post post;
    int status;
    bool early; /* answer_early is posted: it must find this object */
    bool ended; /* meanwhile the publish ended, with `status` */
};

static struct produce *produce_create(struct member *member, enum engine_side side,
                                      const char *upath, produce_fn fn, void *arg)
{
    struct produce *p = calloc(1, sizeof(*p));

    if (!p || !(p->upath = strdup(upath))) {
        free(p);
        errno = ENOMEM;
        return NULL;
    }
    p->member = member;
    p->side = side;
    p->fn = fn;
    p->arg = arg;
    DL_APPEND(member->produces, p);
    linger_activity(member);
    return p;
}

static void produce_free(struct produce *p)
{
    DL_DELETE(p->member->produces, p);
    free(p->upath);
    free(p);
}

static void produce_end(struct produce *p, int status)
{
    struct member *member = p->member;
    produce_fn fn = p->fn;
    void *arg = p->arg;
    char *upath = p->upath;

    if (p->early) {
        p->status = status;
        p->ended = true;
        return;
    }
    p->upath = NULL;
    produce_free(p);
    serve_published(member, upath);
    free(upath);
    linger_activity(member);
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

    DL_FOREACH(member->produces, p)
    {
        if (strcmp(p->upath, upath) == 0)
            return true;
    }
    return false;
}

void produce_stop(struct member *member)
{
    struct produce *p, *tmp;

    DL_FOREACH_SAFE(member->produces, p, tmp)
    {
        produce_free(p);
    }
}

/* --- publish --- */

static void publish_done(void *arg, int status, const struct dyad_version *version)
{
    struct produce *p = arg;
    struct member *member = p->member;
    struct member_side *side = &member->side[p->side];

    if (status == EHOSTUNREACH) {
        /* The table keeps it and tells the homes as soon as one is back. Close() is not to
         * fail for that. */
        log_warn("no home of \"%s\" can be reached now: it will be published when one can",
                 p->upath);
        status = 0;
    }
    if (status == 0) {
        p->record.entry.version = *version;
        if (store_journal_put(side->journal, &p->record) < 0)
            log_error(
                "\"%s\" is published, but this node's record of it could not be written: "
                "%m",
                p->upath);
        if (p->mark)
            store_marks_clear(side->marks, p->mark);
        member->stats.published++;
        log_debug("published \"%s\", %llu bytes, version %llu", p->upath,
                  (unsigned long long)p->record.entry.size,
                  (unsigned long long)version->counter);
    } else {
        log_error("\"%s\" could not be published: %s", p->upath, strerror(status));
    }
    produce_end(p, status);
}

/* The file as it is now. 0: p->record filled; 1: nothing that could be published; -1 with
 * errno. */
static int look_at_file(struct produce *p)
{
    struct member_side *side = &p->member->side[p->side];
    const struct store_record *known;
    struct stat st;
    int fd = store_dir_open(side->dir, p->upath, O_PATH | O_NOFOLLOW, 0);
    int rc = 1;

    if (fd < 0)
        return errno == ENOENT ? 1 : -1;
    if (fstat(fd, &st) < 0 || store_identity_read(fd, &p->record.identity) < 0)
        rc = -1;
    else if (S_ISREG(st.st_mode))
        rc = 0;
    close(fd);
    if (rc != 0)
        return rc;
    p->record.kind = STORE_RECORD_ORIGINAL;
    p->record.entry.upath = p->upath;
    p->record.entry.owner = p->member->self.rank;
    p->record.entry.state = DYAD_ENTRY_PUBLISHED;
    store_dir_describe(side->dir, &st, &p->record.entry);
    if ((known = store_journal_find(side->journal, p->upath)))
        p->record.entry.version = known->entry.version;
    return 0;
}

/* Is the file on disk, down to its ctime, the one that our record says is published? */
static bool is_published_so(const struct produce *p)
{
    const struct store_record *known =
        store_journal_find(p->member->side[p->side].journal, p->upath);

    return known && known->kind == STORE_RECORD_ORIGINAL &&
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

int produce_start(struct member *member, enum engine_side side, const char *upath,
                  store_mark_t mark, produce_fn fn, void *arg)
{
    struct produce *p;
    int rc;

    if (!member->side[side].dir) {
        errno = EINVAL;
        return -1;
    }
    if (!(p = produce_create(member, side, upath, fn, arg)))
        return -1;
    p->mark = mark;
    rc = look_at_file(p);
    if (rc < 0)
        goto error;
    if (rc > 0) { /* removed or renamed since: whoever did that sees to the new name */
        if (mark)
            store_marks_clear(member->side[side].marks, mark);
        produce_end_later(p, 0);
        return 0;
    }
    if (!mark && fn && is_published_so(p)) { /* its close has published just this */
        produce_end_later(p, 0);
        return 0;
    }
    if (dht_node_publish(member->dht, &p->record.entry, publish_done, p) < 0)
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

/* --- withdraw --- */

static void withdraw_done(void *arg, int status, const struct dyad_version *version)
{
    struct produce *p = arg;

    (void)version;
    if (status == 0)
        p->member->stats.withdrawn++;
    else
        log_error("\"%s\" was removed here but could not be withdrawn: %s", p->upath,
                  strerror(status));
    produce_end(p, status);
}

static void forget(struct member *member, const char *upath)
{
    for (int s = 0; s < 2; s++) {
        if (member->side[s].journal && store_journal_find(member->side[s].journal, upath))
            store_journal_delete(member->side[s].journal, upath);
    }
}

static void withdraw_looked_up(void *arg, int status, const struct dyad_entry *entry)
{
    struct produce *p = arg;
    struct dyad_entry gone = {.upath = p->upath, .state = DYAD_ENTRY_WITHDRAWN};

    p->lookup = NULL;
    forget(p->member, p->upath);
    /* Only what is published leaves a tombstone: a program's temporary files are no news.
     */
    if (status != 0) {
        produce_end(p, status);
        return;
    }
    gone.version = entry->version;
    gone.owner = p->member->self.rank;
    memcpy(gone.storage, store_dir_id(p->member->side[p->side].dir), DYAD_STORAGE_ID_LEN);
    if (dht_node_publish(p->member->dht, &gone, withdraw_done, p) < 0)
        produce_end(p, errno);
}

int produce_withdraw(struct member *member, const char *upath, produce_fn fn, void *arg)
{
    enum engine_side side =
        member->side[ENGINE_PRODUCER].dir ? ENGINE_PRODUCER : ENGINE_CONSUMER;
    struct produce *p = produce_create(member, side, upath, fn, arg);

    if (!p)
        return -1;
    if (!(p->lookup =
              dht_node_lookup(member->dht, upath, 0, NULL, withdraw_looked_up, p))) {
        produce_free(p);
        return -1;
    }
    return 0;
}

/* --- rename: the new names, then the old ones --- */

struct rename_op {
    struct engine_io io;
    struct member *member;
    enum engine_side side;
    char *from, *to; /* from "": a link */
    produce_fn fn;
    void *arg;
    char **files; /* parts behind `to`: "" for `to` itself */
    size_t nfiles, next;
    bool withdrawing;
    int status;
    struct net_post post;
};

static void rename_free(struct rename_op *op)
{
    for (size_t i = 0; i < op->nfiles; i++)
        free(op->files[i]);
    free(op->files);
    free(op->from);
    free(op->to);
    free(op);
}

static int rename_found(const char *upath, const struct stat *st, void *arg)
{
    struct rename_op *op = arg;
    char **files;

    (void)st;
    if ((op->nfiles & (op->nfiles + 1)) == 0) { /* full at 2^n - 1 */
        files = realloc(op->files, (2 * op->nfiles + 1) * sizeof(*files));
        if (!files)
            return ENOMEM;
        op->files = files;
    }
    if (!(op->files[op->nfiles] = strdup(upath + strlen(op->to))))
        return ENOMEM;
    op->nfiles++;
    return 0;
}

static void rename_walk(void *arg)
{
    struct rename_op *op = arg;
    struct stat st;

    op->side = ENGINE_PRODUCER;
    if (!op->member->side[op->side].dir ||
        store_dir_stat(op->member->side[op->side].dir, op->to, &st) < 0)
        op->side = ENGINE_CONSUMER;
    if (!op->member->side[op->side].dir)
        return;
    int rc = store_dir_walk(op->member->side[op->side].dir, op->to, rename_found, op);
    if (rc != 0 && !(rc < 0 && errno == ENOENT))
        op->status = rc < 0 ? errno : rc;
}

static void rename_step(struct rename_op *op);

static void rename_stepped(void *arg, int status)
{
    struct rename_op *op = arg;

    if (status && status != ENOENT && !op->status)
        op->status = status;
    rename_step(op);
}

/* True if a description still writes to the file: its last close will publish it under its
 * name of then. */
static bool being_written(struct member_side *side, const char *upath)
{
    struct store_identity id;
    bool dirty = false;
    int fd = store_dir_open(side->dir, upath, O_PATH | O_NOFOLLOW, 0);

    if (fd < 0)
        return false;
    if (store_identity_read(fd, &id) == 0)
        dirty = store_marks_dirty(side->marks, NULL, id.ino, id.btime, NULL);
    close(fd);
    return dirty;
}

static void rename_step(struct rename_op *op)
{
    char name[2 * DYAD_UPATH_MAX + 2];

    for (;;) {
        if (op->next == op->nfiles) {
            if (op->withdrawing || !op->from[0]) {
                op->fn(op->arg, op->status);
                rename_free(op);
                return;
            }
            op->withdrawing = true;
            op->next = 0;
            continue;
        }
        const char *behind = op->files[op->next++];
        snprintf(name, sizeof(name), "%s%s", op->withdrawing ? op->from : op->to, behind);
        int rc;
        if (op->withdrawing)
            rc = produce_withdraw(op->member, name, rename_stepped, op);
        else if (being_written(&op->member->side[op->side], name))
            continue;
        else
            rc = produce_start(op->member, op->side, name, 0, rename_stepped, op);
        if (rc == 0)
            return;
        if (!op->status)
            op->status = errno;
    }
}

static void rename_walked(void *arg)
{
    rename_step(arg);
}

int produce_rename(struct member *member, const char *from, const char *to, produce_fn fn,
                   void *arg)
{
    struct rename_op *op = calloc(1, sizeof(*op));

    if (!op || !(op->from = strdup(from)) || !(op->to = strdup(to))) {
        if (op)
            rename_free(op);
        errno = ENOMEM;
        return -1;
    }
    op->member = member;
    op->fn = fn;
    op->arg = arg;
    engine_io_submit(member->io, &op->io, rename_walk, rename_walked, op);
    return 0;
}

/* --- what an earlier member of this rank had published --- */

struct restore {
    struct member_side *side;
    struct member *member;
    char **lost;
    size_t nlost, nrestored;
};

bool produce_still_there(struct member_side *side, const struct store_record *record)
{
    struct stat st;
    struct store_identity id;
    int fd = store_dir_open(side->dir, record->entry.upath, O_PATH | O_NOFOLLOW, 0);
    bool same;

    if (fd < 0)
        return false;
    /* Not ctime: chmod, link and rename leave the bytes alone. A writer leaves a mark. */
    same = fstat(fd, &st) == 0 && store_identity_read(fd, &id) == 0 &&
           id.ino == record->identity.ino && id.btime == record->identity.btime &&
           id.size == record->entry.size && st.st_mtim.tv_sec == record->entry.mtime_sec &&
           (uint32_t)st.st_mtim.tv_nsec == record->entry.mtime_nsec &&
           !store_marks_dirty(side->marks, NULL, id.ino, id.btime, NULL);
    close(fd);
    return same;
}

static int restore_one(const struct store_record *record, void *arg)
{
    struct restore *restore = arg;
    struct dyad_entry entry = record->entry;
    char **lost;

    if (produce_still_there(restore->side, record)) {
        entry.owner = restore->member->self.rank;
        if (record->kind == STORE_RECORD_ORIGINAL &&
            dht_node_restore(restore->member->dht, &entry) == 0)
            restore->nrestored++;
        return 0;
    }
    if ((lost = realloc(restore->lost, (restore->nlost + 1) * sizeof(*lost)))) {
        restore->lost = lost;
        if ((lost[restore->nlost] = strdup(record->entry.upath)))
            restore->nlost++;
    }
    return 0;
}

void produce_restore(struct member *member)
{
    for (int s = 0; s < 2; s++) {
        struct restore restore = {.side = &member->side[s], .member = member};
        if (!restore.side->journal ||
            (s == 1 && restore.side->journal == member->side[0].journal))
            continue;
        store_journal_foreach(restore.side->journal, restore_one, &restore);
        for (size_t i = 0; i < restore.nlost; i++) {
            store_journal_delete(restore.side->journal, restore.lost[i]);
            free(restore.lost[i]);
        }
        free(restore.lost);
        if (restore.nrestored > 0)
            log_info("serving %zu files that this rank published before it was replaced",
                     restore.nrestored);
    }
}

/* --- superseded or withdrawn by somebody else --- */

struct invalidate {
    struct engine_io io;
    struct member *member;
    char *upath;
    struct store_record record[2];
    bool remove[2];
    uint64_t token;
    struct transfer_wait commit;
};

static void invalidate_work(void *arg)
{
    struct invalidate *inv = arg;

    for (int s = 0; s < 2; s++) {
        struct member_side *side = &inv->member->side[s];
        inv->record[s].entry.upath = inv->upath;
        /* Whoever has it open keeps the old bytes. A file that is not the one we recorded,
         * or is being written, is newer. */
        if (inv->remove[s] && produce_still_there(side, &inv->record[s]) &&
            !store_marks_dirty(side->marks, inv->upath, 0, 0, NULL) &&
            store_fetch_discard(side->dir, inv->upath, &inv->record[s].identity) < 0 &&
            errno != ESTALE && errno != ENOENT)
            log_error("the outdated \"%s\" below %s could not be removed: %m", inv->upath,
                      store_dir_path(side->dir));
    }
}

static void invalidate_done(void *arg)
{
    struct invalidate *inv = arg;

    dht_node_invalidated(inv->member->dht, inv->token);
    free(inv->upath);
    free(inv);
}

/* No copy of ours is between two names. */
static void invalidate_begin(void *arg, int status)
{
    struct invalidate *inv = arg;

    (void)status;
    engine_io_submit(inv->member->io, &inv->io, invalidate_work, invalidate_done, inv);
}

static void publish_again(struct member *member, const char *upath)
{
    for (int s = 1; s >= 0; s--) {
        const struct store_record *record;
        if (member->side[s].journal &&
            (record = store_journal_find(member->side[s].journal, upath)) &&
            record->kind == STORE_RECORD_ORIGINAL) {
            produce_start(member, (enum engine_side)s, upath, 0, NULL, NULL);
            return;
        }
    }
}

void produce_invalidate(void *arg, const struct dyad_entry *newer, uint64_t token)
{
    struct member *member = arg;
    struct invalidate *inv = calloc(1, sizeof(*inv));

    transfer_invalidate(member, newer);
    if (newer->owner == member->self.rank && newer->state == DYAD_ENTRY_PUBLISHED) {
        /* The homes know of this rank only what an earlier member of it began to publish.
         */
        dht_node_invalidated(member->dht, token);
        publish_again(member, newer->upath);
        return;
    }
    if (!inv || !(inv->upath = strdup(newer->upath))) {
        free(inv);
        log_error("out of memory: an outdated copy of \"%s\" may stay on this node",
                  newer->upath);
        return; /* no answer: the home will find this holder silent */
    }
    inv->member = member;
    inv->token = token;
    for (int s = 0; s < 2; s++) {
        struct member_side *side = &member->side[s];
        const struct store_record *record;
        if (!side->journal || !(record = store_journal_find(side->journal, newer->upath)) ||
            dyad_version_cmp(&record->entry.version, &newer->version) >= 0)
            continue;
        inv->record[s] = *record;
        /* The new version may lie in this very storage: then the name is its own now. */
        inv->remove[s] = newer->state != DYAD_ENTRY_PUBLISHED ||
                         !dyad_storage_equal(newer->storage, store_dir_id(side->dir));
        store_journal_delete(side->journal, newer->upath);
        if (member->side[0].journal == member->side[1].journal)
            break;
    }
    inv->commit.fn = invalidate_begin;
    inv->commit.arg = inv;
    if (!transfer_await_commit(member, newer, &inv->commit))
        invalidate_begin(inv, 0);
}
