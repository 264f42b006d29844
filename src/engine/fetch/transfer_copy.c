/*
 * transfer_copy.c - a file from another managed directory of this node
 *
 * The owner's storage is here, though under another name: a pool thread copies the file (or
 * clones it), and then looks whether somebody has written to it meanwhile.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/fetch/transfer_impl.h"

static int copy_checked(struct transfer *t, struct store_dir *dir)
{
    struct store_marks *marks = store_marks_create(dir);
    struct store_identity before, after;
    struct stat st;
    int fd = -1;
    int rc = -1;

    if (!marks || (fd = store_dir_open(dir, t->upath, O_RDONLY, 0)) < 0)
        goto done;
    if (fstat(fd, &st) < 0 || store_identity_read(fd, &before) < 0)
        goto done;
    errno = ESTALE;
    if ((uint64_t)st.st_size != t->entry.size || st.st_mtim.tv_sec != t->entry.mtime_sec ||
        (uint32_t)st.st_mtim.tv_nsec != t->entry.mtime_nsec)
        goto done;
    if (store_fetch_copy(t->fetch, fd) < 0)
        goto done;
    /* Nobody wrote to it while it was read: no mark now, and it looks as before. The mark
     * of the publish itself may still stand: it is CLOSING. */
    struct store_mark_info info;
    if (store_identity_read(fd, &after) < 0)
        goto done;
    if (!store_identity_equal(&before, &after) ||
        (store_marks_dirty(marks, NULL, after.ino, after.btime, &info) &&
         info.state != STORE_MARK_CLOSING)) {
        errno = ESTALE;
        goto done;
    }
    rc = 0;
done:
    if (rc < 0 && errno == ENOENT)
        errno = ESTALE;
    int saved = errno;
    if (fd >= 0)
        close(fd);
    if (marks)
        store_marks_destroy(marks);
    errno = saved;
    return rc;
}

static void copy_work(void *arg)
{
    struct transfer *t = arg;
    struct store_dir *dir = store_dir_create(t->local_dmd);

    t->status = 0;
    if (!dir || copy_checked(t, dir) < 0)
        t->status = errno;
    store_dir_destroy(dir);
}

/* We found that the file is not the published version any more. A GET makes the owner
 * publish a newer one; its answer is not used. */
static void owner_tell(struct transfer *t)
{
    struct net_msg get = {
        .type = NET_MSG_GET,
        .flags = NET_GET_OWNER,
        .id = t->member->next_id,
        .entry = t->entry,
        .length = t->entry.size > 0,
    };

    t->member->next_id += 2;
    member_send(t->member, t->entry.owner, &get);
}

static void copy_done(void *arg)
{
    struct transfer *t = arg;

    t->io_busy = false;
    if (t->status == 0) {
        transfer_commit(t);
    } else if (t->status == ESTALE) {
        owner_tell(t);
        transfer_fail(t, ESTALE);
    } else {
        transfer_failed_here(t, "copied", t->status);
    }
}

void transfer_copy(struct transfer *t)
{
    t->io_busy = true;
    engine_io_submit(t->member->io, &t->io, copy_work, copy_done, t);
}

/* The owner's DMD if it is on this node and is the one that the entry means; malloc'ed. */
char *transfer_local_dmd(struct member *member, const struct dyad_entry *entry)
{
    const struct net_peer *peer = entry->owner == member->self.rank
                                      ? &member->self
                                      : net_worker_peer(member->worker, entry->owner);
    const char *paths[2];
    uint8_t id[DYAD_STORAGE_ID_LEN];

    if (!S_ISREG(entry->mode)) /* no bytes that a copy would spare */
        return NULL;
    if (!peer || strcmp(peer->node, member->self.node) != 0)
        return NULL;
    paths[0] = peer->dmd_producer;
    paths[1] = peer->dmd_consumer;
    for (int i = 0; i < 2; i++) {
        if (paths[i][0] && store_dir_read_id(paths[i], id) == 0 &&
            dyad_storage_equal(id, entry->storage))
            return strdup(paths[i]);
    }
    return NULL;
}
