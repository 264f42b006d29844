/*
 * produce_changed.c - publishing a file whose permissions, times or length were changed by its
 * name, or that got a name while it was being written
 *
 * If somebody writes it, the close of that will publish it; else it is published anew if what
 * an entry says of it has changed.
 */
#include <errno.h>
#include <sys/stat.h>

#include "engine/core/local_file.h"
#include "engine/core/member_impl.h"
#include "engine/publish/produce.h"
#include "engine/publish/produce_impl.h"

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

static void changed_publish(struct produce *p)
{
    if (produce_publish(p) < 0)
        produce_end(p, errno);
}

/* Not in our journal: another rank of this node may have published it. */
static void changed_looked_up(void *arg, int status, const struct dyad_entry *entry)
{
    struct produce *p = arg;

    p->lookup = NULL;
    if (status == ENOENT && p->late_name) {
        produce_parents(p);
        changed_publish(p);
        return;
    }
    if (status != 0 || (entry_same(entry, &p->record.entry) && !is_inlined_still(p)) ||
        (p->late_name && !dyad_storage_equal(entry->storage, p->record.entry.storage))) {
        produce_end(p, status == ENOENT ? 0 : status);
        return;
    }
    produce_base(p, entry);
    p->record.entry.version = entry->version;
    p->record.entry.conflict = entry->conflict;
    if (produce_is_same_content(entry, &p->record.entry))
        p->record.entry.component = entry->component;
    changed_publish(p);
}

/* 0: it is under way; -1 with errno. */
static int changed_step(struct produce *p)
{
    struct member_dmd *dmd = &p->member->dmd[p->role];
    const struct store_record *known;
    int rc;

    if ((p->awaits = produce_is_behind(p)))
        return 0;
    if ((rc = produce_look(p)) < 0)
        return -1;
    known = store_journal_find(dmd->journal, p->upath);
    if (rc > 0 || p->superseded || !S_ISREG(p->record.entry.mode) ||
        local_file_being_written(p->member, dmd, p->upath) ||
        (known && known->identity.ino == p->record.identity.ino &&
         known->identity.btime == p->record.identity.btime &&
         entry_same(&known->entry, &p->record.entry) && !is_inlined_still(p))) {
        produce_end_later(p, 0);
        return 0;
    }
    if (known) {
        produce_base(p, &known->entry);
        return produce_publish(p);
    }
    p->lookup = dht_node_lookup(p->member->dht, p->upath, 0, NULL, changed_looked_up, p);
    return p->lookup ? 0 : -1;
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
    p->step = changed_step;
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
