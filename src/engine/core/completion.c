/*
 * completion.c - files whose close does not complete them
 *
 * A rank that publishes such a file tells the homes, as one does whose other processes have the
 * file open: it stays among those who write it (dht/node_writers.c), and readers wait.
 *
 * | declared                | it is complete when                                          |
 * |-------------------------|--------------------------------------------------------------|
 * | DYAD_COMPLETE_AT_EXIT   | the ranks that have published it are at their exit, or dead   |
 * | DYAD_COMPLETE_AT_CHMOD  | nobody may write it any more (chmod a-w), or as above         |
 */
#include "engine/core/completion.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config/probes.h"
#include "engine/core/module.h"
#include "util/log.h"

#define ANY_WRITE (S_IWUSR | S_IWGRP | S_IWOTH)

struct completion {
    bool exiting;
};

bool completion_is_declared(const struct member *member, const char *upath)
{
    return probes_declared(member->config, upath);
}

bool completion_is_due(const struct member *member, const char *upath, mode_t mode)
{
    const struct engine_config *config = member->config;

    return S_ISREG(mode) && !OWN(member, completion)->exiting &&
           (probes_glob(config->complete_at_exit, upath) ||
            ((mode & ANY_WRITE) && probes_glob(config->complete_at_chmod, upath)));
}

static bool is_ours(const struct member *member, const struct store_record *record)
{
    return record->kind == STORE_RECORD_ORIGINAL &&
           record->entry.version.rank == member->self.rank;
}

bool completion_holds(const struct member *member, const char *upath)
{
    bool holds = false;

    for (int s = 0; s < 2 && !holds && completion_is_declared(member, upath); s++) {
        const struct member_dmd *dmd = &member->dmd[s];
        const struct store_record *record =
            dmd->dir ? store_journal_find(dmd->journal, upath) : NULL;
        struct stat st;

        holds = record && is_ours(member, record) &&
                store_dir_stat(dmd->dir, upath, &st) == 0 &&
                completion_is_due(member, upath, st.st_mode);
    }
    return holds;
}

enum dht_writing completion_end(const struct member *member, const char *upath)
{
    return completion_is_declared(member, upath) ? DHT_WRITING_END_OWN : DHT_WRITING_END;
}

struct names {
    const struct member *member;
    char **name;
    size_t n;
};

static int add_name(const struct store_record *record, void *arg)
{
    struct names *names = arg;
    char **name;

    if (!is_ours(names->member, record) ||
        !completion_is_declared(names->member, record->entry.upath))
        return 0;
    if (!(name = realloc(names->name, (names->n + 1) * sizeof(*name))))
        return -1;
    names->name = name;
    if (!(name[names->n] = strdup(record->entry.upath)))
        return -1;
    names->n++;
    return 0;
}

/* Their readers would else wait until this rank, which may serve until the job ends, is gone. */
static void exiting(struct member *member, bool soon)
{
    struct completion *completion = OWN(member, completion);
    struct names names = {.member = member};
    bool failed = false;

    (void)soon;
    if (completion->exiting ||
        (!member->config->complete_at_exit && !member->config->complete_at_chmod))
        return;
    completion->exiting = true;
    for (int s = 0; s < 2; s++)
        failed |= member->dmd[s].dir &&
                  store_journal_foreach(member->dmd[s].journal, add_name, &names) < 0;
    for (size_t i = 0; i < names.n; i++) {
        failed |= dht_node_writing(member->dht, names.name[i], DHT_WRITING_END_OWN, 0, NULL,
                                   NULL) < 0;
        free(names.name[i]);
    }
    free(names.name);
    if (failed)
        log_error(
            "out of memory: readers of files that are complete now, at the exit of "
            "this program, wait until its rank is gone");
}

const struct member_module completion_module = {
    .own = MODULE_OWN(completion),
    .exiting = exiting,
};
