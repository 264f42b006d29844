/*
 * node_files.c - the journals of a node are read, for one file or for many at once
 *
 * One reading is under way at a time, on a pool thread; files that are asked for
 * meanwhile wait for the next. A record may pass from one journal to another while they
 * are read: from that of a dead rank to that of the member that takes it over
 * (takeover.c). That member compares it with the homes afterwards, and has no lease until
 * then; and our own journal is looked at last.
 */
#include "engine/core/member_impl.h"
#include "engine/core/module.h"
#include "engine/core/storage.h"
#include "engine/publish/node_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "util/log.h"

struct node_files {
    struct member *member;
    char name[512]; /* of our journal; what begins with as much of it is our session's */
    size_t prefix_len;
    struct engine_io io;
    bool busy; /* from the submission until all of `reading` were told */
    struct node_file *asked, *reading; /* utlist; the second: the pool thread's */
    size_t nreading;
    struct member_dmd *dmd; /* being read */
};

/* --- on a pool thread --- */

static void look_failed(struct node_files *all, const char *name, uint32_t rank)
{
    struct node_file *file;

    log_error("journal %s of %s cannot be read: %m", name, store_dir_path(all->dmd->dir));
    DL_FOREACH(all->reading, file)
    {
        file->failed |= file->rank == DYAD_RANK_NONE || file->rank == rank;
    }
}

static int read_one(const char *name, void *arg)
{
    struct node_files *all = arg;
    uint32_t rank = (uint32_t)strtoul(name + all->prefix_len, NULL, 10);
    struct store_look *looks;
    struct node_file *file;
    size_t n = 0;

    if (strcmp(name, all->name) == 0)
        return 0;
    looks = calloc(all->nreading, sizeof(*looks));
    DL_FOREACH(all->reading, file)
    {
        file->seen |= file->rank == rank;
        if (looks)
            looks[n++] = (struct store_look){.upath = file->upath, .arg = file};
    }
    if (!looks ||
        (store_journal_look(all->dmd->dir, name, looks, n) < 0 && errno != ENOENT))
        look_failed(all, name, rank); /* what was read of it may not be all */
    else
        for (size_t i = 0; i < n; i++) {
            file = looks[i].arg;
            if (looks[i].found)
                file->found(file, all->dmd, rank, &looks[i].record);
        }
    free(looks);
    return 0;
}

static void read_work(void *arg)
{
    struct node_files *all = arg;
    struct member *member = all->member;
    char prefix[sizeof(all->name)];

    memcpy(prefix, all->name, all->prefix_len);
    prefix[all->prefix_len] = '\0';
    for (int s = 0; s < 2; s++) {
        all->dmd = &member->dmd[s];
        if (!all->dmd->dir || (s == 1 && all->dmd->dir == member->dmd[0].dir))
            continue;
        if (store_journal_list(all->dmd->dir, prefix, read_one, all) < 0)
            look_failed(all, prefix, DYAD_RANK_NONE);
    }
}

/* --- on the loop --- */

static void read_start(struct node_files *all);

static void read_done(void *arg)
{
    struct node_files *all = arg;
    struct member *member = all->member;
    struct node_file *file;

    while ((file = all->reading)) {
        DL_DELETE(all->reading, file);
        file->done(member, file);
    }
    all->busy = false;
    if (all->asked)
        read_start(all);
}

static void read_start(struct node_files *all)
{
    struct node_file *file;

    all->busy = true;
    all->reading = all->asked;
    all->asked = NULL;
    DL_COUNT(all->reading, file, all->nreading);
    engine_io_submit(all->member->io, &all->io, read_work, read_done, all);
}

static int node_files_start(struct member *member)
{
    struct node_files *all = OWN(member, node_files);

    all->member = member;
    all->prefix_len = storage_journal_name(member, all->name, sizeof(all->name));
    return 0;
}

void node_files_look(struct member *member, struct node_file *file)
{
    struct node_files *all = OWN(member, node_files);

    file->seen = file->failed = false;
    DL_APPEND(all->asked, file);
    if (!all->busy)
        read_start(all);
}

static bool is_among(const struct node_file *list, const char *upath,
                     void (*done)(struct member *, struct node_file *))
{
    const struct node_file *file;

    DL_FOREACH(list, file)
    {
        if (file->done == done && strcmp(file->upath, upath) == 0)
            return true;
    }
    return false;
}

bool node_files_looks(const struct member *member, const char *upath,
                      void (*done)(struct member *, struct node_file *))
{
    const struct node_files *all = OWN(member, node_files);

    return is_among(all->asked, upath, done) || is_among(all->reading, upath, done);
}

static void files_free(struct node_file *list)
{
    struct node_file *file, *tmp;

    DL_FOREACH_SAFE(list, file, tmp)
    {
        free(file);
    }
}

static void node_files_destroy(struct member *member)
{
    struct node_files *all = OWN(member, node_files);

    files_free(all->asked);
    files_free(all->reading);
}

const struct member_module node_files_module = {
    .own = MODULE_OWN(node_files),
    .start = node_files_start,
    .destroy = node_files_destroy,
};
