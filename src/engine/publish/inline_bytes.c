/*
 * inline_bytes.c - the bytes of a small file, to go with its publish
 *
 * They must be those of the version, as they are when an owner serves a GET. The record
 * has the state of the file, down to its ctime, from before the read; it has to be the same
 * after it, and no writer may have the file open but the one whose close this is, whose
 * mark is still held. A program without the library that writes in place, within one tick
 * of the kernel's clock and without a change of size, is not seen: nor is it in a GET.
 */
#include "engine/publish/inline_bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/msg.h"

/* True if somebody may fetch it, and the loop may read it. */
static bool is_inlined(struct member *member, struct member_dmd *dmd,
                       const struct dyad_entry *entry)
{
    return entry->size > 0 && entry->size <= (uint64_t)member->config->inline_max &&
           entry->size <= NET_MSG_BLOB_MAX && S_ISREG(entry->mode) &&
           (member->job->nnodes > 1 || member->config->node) && store_dir_local(dmd->dir) &&
           !store_dir_shared(dmd->dir) && engine_io_is_near(&dmd->near);
}

const void *inline_bytes(struct member *member, enum engine_role role,
                         const struct store_record *record, store_mark_t mark)
{
    static unsigned char buf[NET_MSG_BLOB_MAX]; /* loop thread only */
    struct member_dmd *dmd = &member->dmd[role];
    const struct dyad_entry *entry = &record->entry;
    const struct store_identity *before = &record->identity;
    struct store_identity after;
    bool whole;
    int fd;

    /* Not blocked by what may have taken the name since: a FIFO, a lease. */
    if (!is_inlined(member, dmd, entry) ||
        (fd = store_dir_open(dmd->dir, entry->upath, O_RDONLY | O_NOFOLLOW | O_NONBLOCK,
                             0)) < 0)
        return NULL;
    whole = pread(fd, buf, (size_t)entry->size, 0) == (ssize_t)entry->size &&
            store_identity_read(fd, &after) == 0 && store_identity_equal(before, &after) &&
            !store_marks_dirty_beside(dmd->marks, mark, NULL, before->ino, before->btime);
    close(fd);
    return whole ? buf : NULL;
}
