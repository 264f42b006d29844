/*
 * withdraw.c - withdrawing a name of this node
 *
 * The homes are told with a tombstone of a version above all that is known; the record in
 * the journal goes when they have acknowledged it.
 */
#include "engine/publish/withdraw.h"

#include <errno.h>
#include <string.h>

#include "engine/core/module.h"
#include "engine/namespace/directories.h"
#include "engine/publish/produce_impl.h"
#include "store/superseded.h"
#include "util/crash.h"
#include "util/log.h"

/* Forget the records of upath that are older than `version` (NULL: all). */
static void forget(struct member *member, const char *upath,
                   const struct dyad_version *version)
{
    const struct store_record *record;

    for (int s = 0; s < 2; s++) {
        if (member->dmd[s].journal &&
            (record = store_journal_find(member->dmd[s].journal, upath)) &&
            (!version || dyad_version_cmp(&record->entry.version, version) < 0))
            store_journal_delete(member->dmd[s].journal, upath);
    }
}

/* The record is removed only now: if we are killed before that, the member that takes
 * over our journal finds it without a file, and withdraws it (takeover.c). */
static void withdraw_done(void *arg, int status, const struct dyad_version *version)
{
    struct produce *p = arg;

    DYAD_CRASH_POINT("withdraw-published");
    forget(p->member, p->upath, version);
    for (int s = 0; s < 2; s++)
        if (p->member->dmd[s].dir &&
            (s == 0 || p->member->dmd[1].dir != p->member->dmd[0].dir))
            store_superseded_forget(p->member->dmd[s].dir, p->member->dmd[s].session,
                                    p->upath);
    if (status == 0)
        p->member->stats.withdrawn++;
    else
        log_error("\"%s\" was removed here but could not be withdrawn: %s", p->upath,
                  strerror(status));
    produce_end(p, status);
}

/* `version` of it is published. 0 or -1. */
static int withdraw_begin(struct produce *p, const struct dyad_version *version)
{
    struct dyad_entry gone = {.upath = p->upath,
                              .state = DYAD_ENTRY_WITHDRAWN,
                              .owner = p->member->self.rank,
                              .version = *version};

    DYAD_CRASH_POINT("withdraw-begin");
    memcpy(gone.storage, store_dir_id(p->member->dmd[p->role].dir), DYAD_STORAGE_ID_LEN);
    return dht_node_publish(p->member->dht, &gone, withdraw_done, p);
}

static bool lies_here(const struct member *member, const struct dyad_entry *entry)
{
    for (int s = 0; s < 2; s++) {
        const struct store_dir *dir = member->dmd[s].dir;
        if (dir && dyad_storage_equal(entry->storage, store_dir_id(dir)))
            return true;
    }
    return false;
}

/* Or it may be. */
static bool is_here(const struct member *member, const char *upath)
{
    for (int s = 0; s < 2; s++)
        if (member->dmd[s].dir && !store_dir_lacks(member->dmd[s].dir, upath))
            return true;
    return false;
}

static void withdraw_looked_up(void *arg, int status, const struct dyad_entry *entry)
{
    struct produce *p = arg;

    p->lookup = NULL;
    directories_forget(p->member, p->upath);
    /* A name that a dead process has left is withdrawn because it was not here: it may
     * have been made anew since. */
    if (p->only_here && is_here(p->member, p->upath)) {
        produce_end(p, ENOENT);
        return;
    }
    /* Only what is published leaves a tombstone: a program's temporary files are no news.
     */
    if (status != 0) {
        forget(p->member, p->upath, NULL);
        produce_end(p, status);
        return;
    }
    if (p->only_here && !lies_here(p->member, entry)) {
        forget(p->member, p->upath, &entry->version);
        produce_end(p, ENOENT);
        return;
    }
    if (withdraw_begin(p, &entry->version) < 0)
        produce_end(p, errno);
}

/* The record of a file that this rank has published, if it knows of no newer version. */
static const struct store_record *own_record(const struct member *member, const char *upath)
{
    const struct store_record *record;

    for (int s = 0; s < 2; s++)
        if (member->dmd[s].journal &&
            (record = store_journal_find(member->dmd[s].journal, upath)) &&
            record->kind == STORE_RECORD_ORIGINAL)
            return record;
    return NULL;
}

static int withdraw_start(struct member *member, const char *upath, bool only_here,
                          produce_fn fn, void *arg)
{
    enum engine_role role =
        member->dmd[ENGINE_PRODUCER].dir ? ENGINE_PRODUCER : ENGINE_CONSUMER;
    struct produce *p = produce_create(member, role, upath, fn, arg);
    const struct store_record *own = only_here ? NULL : own_record(member, upath);

    if (!p)
        return -1;
    /* A removal withdraws the name, whichever rank has published it since. For our own
     * file the homes need not be asked: they may be silent, and others take the
     * tombstone. */
    if (own) {
        directories_forget(member, upath);
        if (withdraw_begin(p, &own->entry.version) == 0)
            return 0;
        produce_free(p);
        errno = ENOMEM;
        return -1;
    }
    p->only_here = only_here;
    if (!(p->lookup =
              dht_node_lookup(member->dht, upath, 0, NULL, withdraw_looked_up, p))) {
        produce_free(p);
        return -1;
    }
    return 0;
}

int produce_withdraw(struct member *member, const char *upath, produce_fn fn, void *arg)
{
    return withdraw_start(member, upath, false, fn, arg);
}

int produce_withdraw_left(struct member *member, const char *upath, produce_fn fn,
                          void *arg)
{
    return withdraw_start(member, upath, true, fn, arg);
}
