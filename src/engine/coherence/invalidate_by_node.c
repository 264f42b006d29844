/*
 * invalidate_by_node.c - a version is no longer used on this node, whichever of its members
 * has it in its journal
 *
 * The journals of the others are read on a pool thread (publish/node_files.c), and what
 * they have of it is removed there; then our own is seen to, and the home is answered.
 */
#include "engine/coherence/invalidate_by_node.h"

#include <stdlib.h>
#include <string.h>

#include "engine/coherence/invalidate.h"
#include "engine/coherence/outdated.h"
#include "engine/core/module.h"
#include "engine/publish/node_files.h"
#include "util/log.h"

struct outdated {
    struct node_file file;
    struct dyad_entry newer;
    uint64_t token;
    char upath[];
};

/* On storage that nodes share there are journals of other nodes, whose writers' marks we
 * do not see: there only the journal of that rank counts, which is of our node. */
static void outdated_found(struct node_file *file, struct member_dmd *dmd, uint32_t rank,
                           const struct store_record *record)
{
    if (rank == file->rank || !store_dir_shared(dmd->dir))
        outdated_discard(dmd, &((struct outdated *)file)->newer, rank, record);
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

void invalidate_by_node(void *arg, const struct dyad_entry *newer, uint32_t rank,
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

bool invalidate_by_node_pending(const struct member *member, const char *upath)
{
    return node_files_looks(member, upath, outdated_done);
}

static int invalidate_by_node_start(struct member *member)
{
    member->table_ops.invalidate_node = invalidate_by_node;
    return 0;
}

const struct member_module invalidate_by_node_module = {
    .start = invalidate_by_node_start,
};
