/*
 * invalidate_by_node.c - a version is no longer used on this node, whichever of its members
 * has it in its journal
 *
 * The journals of the others are read on a pool thread (publish/node_files.c), and what
 * they have of it is removed there; then our own is seen to, and the home is answered.
 *
 * What could go wrong: a rank could not record what it published (a full disk, a limit on
 * file sizes), and was killed. No journal knows its file (take_unrecorded()).
 */
#include "engine/coherence/invalidate_by_node.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/coherence/invalidate.h"
#include "engine/coherence/outdated.h"
#include "engine/core/local_file.h"
#include "engine/core/module.h"
#include "engine/publish/node_files.h"
#include "engine/publish/produce.h"
#include "util/clock.h"
#include "util/log.h"

struct outdated {
    struct node_file file;
    struct dyad_entry newer;
    uint64_t token;
    struct member *member;
    /* By role: the file that lies there, if no journal knows it; kind 0: it does, or there
     * is none. While journals are read it is the pool thread's. */
    struct store_record there[2];
    char upath[];
};

static bool is_of(const struct store_record *record, const struct store_record *file)
{
    return record->identity.ino == file->identity.ino &&
           record->identity.btime == file->identity.btime &&
           record->entry.size == file->entry.size &&
           record->entry.mtime_sec == file->entry.mtime_sec &&
           record->entry.mtime_nsec == file->entry.mtime_nsec;
}

/* Not a file that lay there before this job. */
static bool is_of_this_job(const struct member *member, const struct stat *st)
{
    uint64_t ran = (util_clock_now() - member->started) / UTIL_NSEC_PER_SEC;

    return st->st_ctim.tv_sec >= time(NULL) - (time_t)ran - 1;
}

/* Of what nobody writes, and nobody is about to publish (either has a mark), the record is
 * in a journal by now, be it published or fetched: both are recorded before. */
static void look_there(struct outdated *o, int role)
{
    struct member_dmd *dmd = &o->member->dmd[role];
    struct store_record *file = &o->there[role];
    struct stat st;
    int fd;

    if (!dmd->dir || !dmd->journal || store_dir_shared(dmd->dir) ||
        (role == 1 && dmd->dir == o->member->dmd[0].dir) ||
        (o->newer.state == DYAD_ENTRY_PUBLISHED &&
         (S_ISDIR(o->newer.mode) ||
          dyad_storage_equal(o->newer.storage, store_dir_id(dmd->dir)))) ||
        (fd = store_dir_open(dmd->dir, o->upath, O_PATH | O_NOFOLLOW, 0)) < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && is_of_this_job(o->member, &st) &&
        store_identity_read(fd, &file->identity) == 0 &&
        !local_file_is_superseded(dmd, o->upath, &st) &&
        !store_marks_dirty(dmd->marks, o->upath, file->identity.ino, file->identity.btime,
                           NULL)) {
        file->kind = STORE_RECORD_ORIGINAL;
        store_dir_describe(dmd->dir, &st, &file->entry);
    }
    close(fd);
}

/* The file was there before the journals were read, and none of them has it: the rank that
 * the home asks about had published it in a version before `newer`. It is recorded now as
 * ours, in the version before `newer`, and so it goes out of date as any other of ours. (A
 * rank that lives and cannot write its journal may have published the file after `newer`,
 * a moment ago. Then opens here ask for it, as long as it is marked.) */
static void take_unrecorded(struct outdated *o, int role)
{
    struct member *member = o->member;
    struct member_dmd *dmd = &member->dmd[role];
    struct store_record *file = &o->there[role];
    const struct store_record *own;

    if (!file->kind || o->newer.version.counter < 2 || produce_pending(member, o->upath) ||
        store_marks_dirty(dmd->marks, o->upath, file->identity.ino, file->identity.btime,
                          NULL))
        return;
    own = store_journal_find(dmd->journal, o->upath);
    if (own &&
        (is_of(own, file) || dyad_version_cmp(&own->entry.version, &o->newer.version) >= 0))
        return;
    log_info("\"%s\" below %s, which rank %u had and could not record, is out of date",
             o->upath, store_dir_path(dmd->dir), o->file.rank);
    file->entry.upath = o->upath;
    file->entry.owner = member->self.rank;
    file->entry.state = DYAD_ENTRY_PUBLISHED;
    file->entry.version = o->newer.version;
    file->entry.version.counter--;
    /* Any other failure was logged, and the record is in memory. */
    if (store_journal_put(dmd->journal, file) < 0 && errno == ENOMEM)
        log_error("out of memory: an outdated file of \"%s\" may stay on this node",
                  o->upath);
}

/* On storage that nodes share there are journals of other nodes, whose writers' marks we
 * do not see: there only the journal of that rank counts, which is of our node. */
static void outdated_found(struct node_file *file, struct member_dmd *dmd, uint32_t rank,
                           const struct store_record *record)
{
    struct outdated *o = (struct outdated *)file;
    struct store_record *there = &o->there[dmd == &o->member->dmd[1]];

    if (there->kind && is_of(record, there))
        there->kind = 0;
    if (rank == file->rank || !store_dir_shared(dmd->dir))
        outdated_discard(dmd, &o->newer, rank, record);
}

static void outdated_done(struct member *member, struct node_file *file)
{
    struct outdated *o = (struct outdated *)file;

    if (!file->seen)
        dht_node_unseen(member->dht, o->token);
    for (int role = 0; role < 2 && !file->failed; role++)
        take_unrecorded(o, role);
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
    o->member = member;
    for (int role = 0; role < 2 && newer->owner != member->self.rank; role++)
        look_there(o, role);
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
