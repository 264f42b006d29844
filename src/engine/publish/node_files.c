/*
 * node_files.c - the journals of a node are read, for one file or for many at once
 *
 * One reading is under way at a time, on a pool thread; what is asked for meanwhile waits
 * for the next. A record may pass from one journal to another while they are read: from
 * that of a dead rank to that of who takes it over (takeover.c). Who does compares it with
 * the homes afterwards, and has no lease until then; and our own journal is looked at last.
 */
#include "engine/coherence/invalidate.h"
#include "engine/coherence/outdated.h"
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
    struct member_side *side; /* being read */
};

/* --- on a pool thread --- */

static void look_failed(struct node_files *all, const char *name, uint32_t rank)
{
    struct node_file *file;

    log_error("journal %s of %s cannot be read: %m", name, store_dir_path(all->side->dir));
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
        (store_journal_look(all->side->dir, name, looks, n) < 0 && errno != ENOENT))
        look_failed(all, name, rank); /* what was read of it may not be all */
    else
        for (size_t i = 0; i < n; i++) {
            file = looks[i].arg;
            if (looks[i].found)
                file->found(file, all->side, rank, &looks[i].record);
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
        all->side = &member->side[s];
        if (!all->side->dir || (s == 1 && all->side->dir == member->side[0].dir))
            continue;
        if (store_journal_list(all->side->dir, prefix, read_one, all) < 0)
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

static struct node_files *get(struct member *member)
{
    struct node_files *all = run_of(member)->node_files;

    if (all || !(all = calloc(1, sizeof(*all))))
        return all;
    all->member = member;
    all->prefix_len = member_sides_journal_name(member, all->name, sizeof(all->name));
    return run_of(member)->node_files = all;
}

void node_files_look(struct member *member, struct node_file *file)
{
    struct node_files *all = get(member);

    file->seen = file->failed = false;
    if (!all) {
        file->failed = true;
        file->done(member, file);
        return;
    }
    DL_APPEND(all->asked, file);
    if (!all->busy)
        read_start(all);
}

/* --- what is out of date --- */

struct outdated {
    struct node_file file;
    struct dyad_entry newer;
    uint64_t token;
    char upath[];
};

/* On storage that nodes share there are journals of others, whose writers' marks we do not
 * see: there only that rank's counts, which is of our node. */
static void outdated_found(struct node_file *file, struct member_side *side, uint32_t rank,
                           const struct store_record *record)
{
    if (rank == file->rank || !store_dir_shared(side->dir))
        outdated_discard(side, &((struct outdated *)file)->newer, rank, record);
}

static void outdated_done(struct member *member, struct node_file *file)
{
    struct outdated *o = (struct outdated *)file;

    if (!file->seen)
        dht_node_unseen(member->dht, o->token);
    /* Where a journal could not be read nobody is answered: another will be asked. */
    produce_invalidate(member, &o->newer, file->failed ? 0 : o->token);
    free(o);
}

void node_files_invalidate(void *arg, const struct dyad_entry *newer, uint32_t rank,
                           uint64_t token)
{
    struct member *member = arg;
    size_t len = strlen(newer->upath);
    struct outdated *o = calloc(1, sizeof(*o) + len + 1);

    if (!o) {
        log_error("out of memory: an outdated copy of \"%s\" may stay on this node",
                  newer->upath);
        return; /* no answer: the home will find us silent */
    }
    o->newer = *newer;
    o->newer.upath = o->file.upath = memcpy(o->upath, newer->upath, len + 1);
    o->token = token;
    o->file.rank = rank;
    o->file.found = outdated_found;
    o->file.done = outdated_done;
    node_files_look(member, &o->file);
}

static bool is_among(const struct node_file *list, const char *upath)
{
    const struct node_file *file;

    DL_FOREACH(list, file)
    {
        if (file->done == outdated_done && strcmp(file->upath, upath) == 0)
            return true;
    }
    return false;
}

bool node_files_pending(const struct member *member, const char *upath)
{
    const struct node_files *all = run_of((struct member *)member)->node_files;

    return all && (is_among(all->asked, upath) || is_among(all->reading, upath));
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
    struct node_files *all = run_of(member)->node_files;

    if (!all)
        return;
    files_free(all->asked);
    files_free(all->reading);
    free(all);
    run_of(member)->node_files = NULL;
}

static int node_files_start(struct member *member)
{
    member->table_ops.invalidate_node = node_files_invalidate;
    return 0;
}

const struct member_module node_files_module = {
    .name = "node_files",
    .start = node_files_start,
    .destroy = node_files_destroy,
};
