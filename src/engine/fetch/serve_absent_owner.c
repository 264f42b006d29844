/*
 * serve_absent_owner.c - find a file that another rank of this node has published
 *
 * A reader asks this rank because the owner is dead, in exec, or stopped. The journals of
 * the node say which file the version is (node_files.c); it is served like one of ours:
 * if it is still that file, with its size and times, and nobody writes it (serve.c).
 * Nothing is taken over for that; files of dead ranks are taken over in takeover.c.
 *
 * What could go wrong: the file is in no journal (look_work()).
 */
#include "engine/core/local_file.h"
#include "engine/core/member_impl.h"
#include "engine/core/module.h"
#include "engine/fetch/serve.h"
#include "engine/fetch/serve_absent_owner.h"
#include "engine/publish/node_files.h"
#include "engine/publish/produce.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "util/log.h"

#define FOUND_MAX 16

/* A version is always the same file. The last few are remembered, since each chunk is
 * asked for by itself. */
struct found {
    char *upath;
    struct member_dmd *dmd;
    struct store_record record; /* entry.upath is not set */
};

struct search {
    struct node_file file;
    struct search *earlier, *later; /* utlist */
    struct member *member;
    struct engine_io io;
    struct dyad_entry entry;
    struct member_dmd *dmd; /* NULL: not found */
    struct store_record record;
    char upath[];
};

struct serve_absent_owner {
    struct found found[FOUND_MAX];
    unsigned next;
    struct search *searches; /* those that node_files.c has handed back */
};

static void remember(struct member *member, const struct search *s)
{
    struct serve_absent_owner *all = OWN(member, serve_absent_owner);
    struct found *found = &all->found[all->next];
    char *upath = strdup(s->upath);

    if (!upath)
        return; /* it is searched for again */
    all->next = (all->next + 1) % FOUND_MAX;
    free(found->upath);
    *found = (struct found){.upath = upath, .dmd = s->dmd, .record = s->record};
    found->record.entry.upath = NULL;
}

/* --- on a pool thread --- */

static void record_found(struct node_file *file, struct member_dmd *dmd, uint32_t rank,
                         const struct store_record *record)
{
    struct search *s = (struct search *)file;

    (void)rank;
    if (s->dmd || dyad_version_cmp(&record->entry.version, &s->entry.version) != 0 ||
        !local_file_still_there(dmd, record))
        return;
    s->dmd = dmd;
    s->record = *record;
}

/* No journal has the file, because that could not be written (a full disk, a limit on the
 * process: journal_retry.c). What lies there itself is looked at: it must have the size,
 * mtime and mode that the homes know (local_file_left()). If its rank is dead the file is
 * then taken over, or withdrawn: the event `wanted` (look_done()). */
static void look_work(void *arg)
{
    struct search *s = arg;

    s->record = (struct store_record){.kind = STORE_RECORD_ORIGINAL, .entry = s->entry};
    for (int i = 0; i < 2 && !s->dmd; i++) {
        struct member_dmd *dmd = &s->member->dmd[i];
        if (dmd->dir &&
            local_file_left(dmd, &s->record, &s->record.identity) == LOCAL_FILE_SAME)
            s->dmd = dmd;
    }
}

/* --- on the loop --- */

static void look_done(void *arg)
{
    struct search *s = arg;
    struct member *member = s->member;

    modules_wanted(member, &s->entry);
    if (s->dmd)
        remember(member, s);
    DL_DELETE2(OWN(member, serve_absent_owner)->searches, s, earlier, later);
    serve_searched(member, &s->entry, s->dmd ? 0 : EHOSTUNREACH);
    free(s);
}

static void journals_read(struct member *member, struct node_file *file)
{
    struct search *s = (struct search *)file;

    DL_APPEND2(OWN(member, serve_absent_owner)->searches, s, earlier, later);
    if (!s->dmd) {
        engine_io_submit(member->io, &s->io, look_work, look_done, s);
        return;
    }
    remember(member, s);
    DL_DELETE2(OWN(member, serve_absent_owner)->searches, s, earlier, later);
    serve_searched(member, &s->entry, 0);
    free(s);
}

static bool lies_here(const struct member *member, const struct dyad_entry *entry)
{
    for (int i = 0; i < 2; i++)
        if (member->dmd[i].dir &&
            dyad_storage_equal(entry->storage, store_dir_id(member->dmd[i].dir)))
            return true;
    return false;
}

int serve_absent_owner_find(struct member *member, const struct dyad_entry *entry,
                            struct member_dmd **dmd, struct store_record *record)
{
    struct serve_absent_owner *all = OWN(member, serve_absent_owner);
    size_t len = strlen(entry->upath);
    struct search *s;

    for (unsigned i = 0; i < FOUND_MAX; i++) {
        const struct found *found = &all->found[i];
        if (!found->upath || strcmp(found->upath, entry->upath) != 0 ||
            dyad_version_cmp(&found->record.entry.version, &entry->version) != 0)
            continue;
        *dmd = found->dmd;
        *record = found->record;
        return 0;
    }
    if (!lies_here(member, entry))
        return EHOSTUNREACH;
    if (!(s = calloc(1, sizeof(*s) + len + 1)))
        return ENOMEM;
    s->member = member;
    s->entry = *entry;
    s->entry.upath = s->file.upath = memcpy(s->upath, entry->upath, len + 1);
    s->file.rank = DYAD_RANK_NONE;
    s->file.found = record_found;
    s->file.done = journals_read;
    node_files_look(member, &s->file);
    return EINPROGRESS;
}

static void serve_absent_owner_destroy(struct member *member)
{
    struct serve_absent_owner *all = OWN(member, serve_absent_owner);
    struct search *s, *tmp;

    DL_FOREACH_SAFE2(all->searches, s, tmp, later)
    {
        free(s);
    }
    for (unsigned i = 0; i < FOUND_MAX; i++)
        free(all->found[i].upath);
}

const struct member_module serve_absent_owner_module = {
    .own = MODULE_OWN(serve_absent_owner),
    .destroy = serve_absent_owner_destroy,
};
