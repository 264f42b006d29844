/*
 * consume_here.c - the look at what is here of a file, marks included
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/core/local_file.h"
#include "engine/fetch/consume_impl.h"
#include "util/proc.h"

/* True if a writer has the file open that this consume has to wait for. One that updates the file
 * joins its own program, which may have made it here since the asker has looked
 * (client_join.c). */
static bool is_written(const struct consume *c, struct store_marks *marks,
                       const struct store_identity *id, struct store_mark_info *info)
{
    uint64_t program;

    if (c->flags & NET_CONSUME_UPDATE)
        return store_marks_unfinished(marks, c->upath, id->ino, id->btime, 0, info) &&
               (info->state == STORE_MARK_ABANDONED ||
                (program = util_proc_program(info->pid)) == 0 ||
                program != util_proc_program(c->pid));
    return store_marks_dirty(marks, c->upath, id->ino, id->btime, info);
}

int consume_look_here(struct consume *c, void (*over)(struct consume *c))
{
    struct member_dmd *dmd = &c->member->dmd[ENGINE_CONSUMER];
    struct store_mark_info info;
    struct store_identity id;
    struct stat st;
    int fd = store_dir_open(dmd->dir, c->upath, O_PATH | O_NOFOLLOW, 0);
    int rc = 0;

    c->here.writer = 0;
    c->here.abandoned = c->here.regular = c->here.pending = c->here.unsettled = false;
    if (fd < 0) /* ELOOP: a directory above is a symbolic link */
        return errno == ENOTDIR ? ENOENT : errno == ELOOP ? ESTALE : errno;
    if (fstat(fd, &st) < 0 || store_identity_read(fd, &id) < 0) {
        close(fd);
        return errno;
    }
    c->here.size = st.st_size;
    c->here.mtime = st.st_mtim;
    if ((c->here.regular = S_ISREG(st.st_mode)) && (c->flags & NET_CONSUME_UNWRITTEN)) {
        rc = 0; /* the marks of this node are the asker's affair */
    } else if (S_ISREG(st.st_mode) && is_written(c, dmd->marks, &id, &info)) {
        rc = EAGAIN;
        /* The rest of an old version that a killed writer has left is not to be added to. */
        if ((c->flags & NET_CONSUME_WRITER) &&
            local_file_is_superseded(dmd, c->upath, &st) &&
            local_file_is_abandoned(dmd, c->upath))
            rc = ENOENT;
        c->here.writer = info.state == STORE_MARK_ABANDONED ? 0 : info.pid;
        c->here.abandoned = info.state == STORE_MARK_ABANDONED;
    } else if (local_file_is_superseded(dmd, c->upath, &st)) {
        rc = ENOENT; /* what is fetched comes in its place */
    } else if ((c->here.pending = local_file_is_pending(dmd, c->upath, &st)) ||
               local_file_is_unsettled(dmd, c->upath, &st)) {
        c->here.unsettled =
            !c->here.pending && !(c->flags & (NET_CONSUME_WRITER | NET_CONSUME_UPDATE));
    }
    close(fd);
    if (rc == EAGAIN && !c->here.abandoned && !(c->flags & NET_CONSUME_WRITER) &&
        (fd = store_dir_open(dmd->dir, c->upath, O_RDONLY, 0)) >= 0) {
        consume_watch_start(c, dmd, &info, fd, over);
        close(fd);
    }
    return rc;
}

/* refetch.c does so a moment later; the open that asks would have the file before. */
void consume_withdrawn(struct consume *c, int status, const struct dyad_entry *entry)
{
    if (status == ENOENT && entry && entry->state == DYAD_ENTRY_WITHDRAWN &&
        c->pid) /* else it is refetch.c, which sees to it */
        local_file_withdrawn(&c->member->dmd[ENGINE_CONSUMER], c->upath);
}
