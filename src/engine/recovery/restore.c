/*
 * restore.c - publishing again what an earlier member of this rank had published
 *
 * Its journals are ours now. An original that is still here is published again (the homes
 * may have changed since), a copy is checked, a removed file is withdrawn, and any other
 * record is deleted. Loop only.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/coherence/refetch.h"
#include "engine/core/local_file.h"
#include "engine/core/module.h"
#include "engine/namespace/directories.h"
#include "engine/recovery/takeover.h"
#include "engine/recovery/takeover_gone.h"
#include "util/log.h"

struct restore {
    struct member_dmd *dmd;
    struct member *member;
    struct {
        char *upath;
        bool retired; /* the record stays in the journal's file (refetch.c) */
    } * lost;
    char **asked; /* changes whose close had not ended */
    size_t nlost, nrestored, nasked;
};

/* Removed, perhaps, by an earlier member that had no time to say so, or that had taken it
 * over from somebody like that. The record goes when the homes know. */
static bool is_gone(const struct restore *restore, const struct store_record *record)
{
    return record->kind == STORE_RECORD_ORIGINAL &&
           store_dir_lacks(restore->dmd->dir, record->entry.upath);
}

/* SAME is also what its image had begun to publish when it ended. */
static enum local_file_left what_is_left(struct member_dmd *dmd,
                                         const struct store_record *record)
{
    if (record->kind == STORE_RECORD_ORIGINAL)
        return local_file_left(dmd, record, NULL);
    return local_file_still_there(dmd, record) ? LOCAL_FILE_SAME : LOCAL_FILE_OTHER;
}

static void lose(struct restore *restore, const char *upath, bool retired)
{
    void *grown = realloc(restore->lost, (restore->nlost + 1) * sizeof(*restore->lost));

    if (!grown)
        return;
    restore->lost = grown;
    restore->lost[restore->nlost].retired = retired;
    if ((restore->lost[restore->nlost].upath = strdup(upath)))
        restore->nlost++;
}

/* Its close had not ended: it is looked up first. */
static void ask_later(struct restore *restore, const char *upath)
{
    char **grown = realloc(restore->asked, (restore->nasked + 1) * sizeof(*grown));

    if (grown)
        restore->asked = grown;
    if (grown && (grown[restore->nasked] = strdup(upath)))
        restore->nasked++;
    else
        log_error("out of memory: \"%s\" is not published again", upath);
}

static void ask(struct restore *restore, char *upath)
{
    struct store_journal *journal = restore->dmd->journal;
    struct store_record record = *store_journal_find(journal, upath);

    record.entry.upath = upath;
    takeover_is_to_ask(&record);
    store_journal_put(journal, &record); /* if it cannot be written: it is, in memory */
    takeover_check_copy(restore->member,
                        (enum engine_role)(restore->dmd - restore->member->dmd), &record);
    free(upath);
}

static int restore_one(const struct store_record *record, void *arg)
{
    struct restore *restore = arg;
    struct dyad_entry entry = record->entry;
    enum local_file_left left = what_is_left(restore->dmd, record);

    if (left == LOCAL_FILE_SAME && record->base.kind != DYAD_BASE_NONE &&
        record->kind == STORE_RECORD_ORIGINAL) {
        ask_later(restore, entry.upath);
        return 0;
    }
    if (left == LOCAL_FILE_SAME) {
        entry.owner = restore->member->self.rank;
        /* Homes that have changed since do not know of the copy. */
        if (record->kind == STORE_RECORD_COPY)
            dht_node_hold(restore->member->dht, entry.upath, &entry.version);
        /* While this rank had no member no INVALIDATE could reach it. */
        if (record->kind == STORE_RECORD_COPY)
            takeover_check_copy(restore->member,
                                (enum engine_role)(restore->dmd - restore->member->dmd),
                                record);
        if (record->kind == STORE_RECORD_ORIGINAL &&
            dht_node_restore(restore->member->dht, &entry) == 0) {
            restore->nrestored++;
            if (S_ISDIR(entry.mode))
                directories_restored(
                    restore->member,
                    (enum engine_role)(restore->dmd - restore->member->dmd), record);
        }
        return 0;
    }
    if (is_gone(restore, record)) {
        takeover_gone_add(restore->member,
                          (enum engine_role)(restore->dmd - restore->member->dmd), record);
        return 0;
    }
    /* It was about to come in the place of what this node had made (transfer_end.c). The record
     * stays: if we are killed before it is here, who takes over finds it. */
    if (record->kind == STORE_RECORD_COPY && record->made_here &&
        !store_dir_lacks(restore->dmd->dir, entry.upath)) {
        refetch_want(restore->member, entry.upath);
        return 0;
    }
    /* Homes that have become others since would take it for the newest. */
    if (left == LOCAL_FILE_SUPERSEDED)
        refetch_want(restore->member, entry.upath);
    lose(restore, entry.upath, left == LOCAL_FILE_SUPERSEDED);
    return 0;
}

static void restore_joined(struct member *member)
{
    for (int s = 0; s < 2; s++) {
        struct restore restore = {.dmd = &member->dmd[s], .member = member};
        if (!restore.dmd->journal ||
            (s == 1 && restore.dmd->journal == member->dmd[0].journal))
            continue;
        store_journal_foreach(restore.dmd->journal, restore_one, &restore);
        for (size_t i = 0; i < restore.nlost; i++) {
            if (restore.lost[i].retired)
                store_journal_retire(restore.dmd->journal, restore.lost[i].upath);
            else
                store_journal_delete(restore.dmd->journal, restore.lost[i].upath);
            free(restore.lost[i].upath);
        }
        free(restore.lost);
        for (size_t i = 0; i < restore.nasked; i++)
            ask(&restore, restore.asked[i]);
        free(restore.asked);
        if (restore.nrestored > 0)
            log_info("serving %zu files that this rank published before it was replaced",
                     restore.nrestored);
    }
    dht_node_restored(member->dht);
}

const struct member_module restore_module = {
    .joined = restore_joined,
};
