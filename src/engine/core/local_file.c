/*
 * local_file.c - a file of this node, and what a record or a mark says of it
 *
 * Each function looks at the disk with a descriptor of its own: between two of them a
 * name may come to mean another file.
 */
#include "engine/core/local_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/fetch.h"
#include "store/superseded.h"
#include "util/log.h"

#define NEAR_SIZE (64u << 10) /* the loop reads or writes so many bytes itself */

static bool is_marked(const struct member_dmd *dmd, const char *upath,
                      const struct stat *st, unsigned of)
{
    return store_superseded_may(st->st_mode, st->st_nlink) &&
           store_superseded(store_dir_real_path(dmd->dir), dmd->session, upath, of,
                            st->st_ino);
}

bool local_file_is_superseded(const struct member_dmd *dmd, const char *upath,
                              const struct stat *st)
{
    return is_marked(dmd, upath, st, STORE_OLD);
}

bool local_file_is_outdated(const struct member_dmd *dmd, const char *upath,
                            const struct stat *st)
{
    return is_marked(dmd, upath, st, STORE_OLD | STORE_UNSETTLED);
}

bool local_file_is_unsettled(const struct member_dmd *dmd, const char *upath,
                             const struct stat *st)
{
    return is_marked(dmd, upath, st, STORE_UNSETTLED);
}

bool local_file_is_pending(const struct member_dmd *dmd, const char *upath,
                           const struct stat *st)
{
    return is_marked(dmd, upath, st, STORE_PENDING);
}

struct discarded {
    const struct member_dmd *dmd;
    const struct store_identity *identity;
};

static bool is_opened(void *arg)
{
    const struct discarded *d = arg;

    return store_marks_dirty(d->dmd->marks, NULL, d->identity->ino, d->identity->btime,
                             NULL);
}

int local_file_discard(const struct member_dmd *dmd, const char *upath,
                       const struct store_identity *identity)
{
    struct discarded d = {dmd, identity};

    if (store_fetch_discard_unless(dmd->dir, dmd->marks, upath, identity, is_opened, &d) <
        0)
        return -1;
    store_superseded_forget(dmd->dir, dmd->session, upath);
    return 0;
}

void local_file_withdrawn(struct member_dmd *dmd, const char *upath)
{
    struct store_identity id;
    struct stat st;
    int fd = store_dir_open(dmd->dir, upath, O_PATH | O_NOFOLLOW, 0);

    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && store_identity_read(fd, &id) == 0 &&
        local_file_is_superseded(dmd, upath, &st) &&
        !store_marks_dirty(dmd->marks, upath, id.ino, id.btime, NULL) &&
        local_file_discard(dmd, upath, &id) < 0 && errno == ENOENT)
        store_superseded_forget(dmd->dir, dmd->session, upath);
    close(fd);
}

void local_file_set_pending(const struct member_dmd *dmd, const char *upath,
                            const struct store_identity *identity)
{
    if (store_superseded_set(dmd->dir, dmd->session, upath, STORE_PENDING, identity) < 0 &&
        errno != ESTALE && errno != ENOENT)
        log_warn("\"%s\" below %s cannot be marked as written by other nodes, too: %m",
                 upath, store_dir_path(dmd->dir));
}

bool local_file_is_same(struct member_dmd *dmd, const struct store_record *record)
{
    struct stat st;
    struct store_identity id;
    int fd = store_dir_open(dmd->dir, record->entry.upath, O_PATH | O_NOFOLLOW, 0);
    bool same;

    if (fd < 0)
        return false;
    /* A directory or a link is unchanged as long as its inode is the same. */
    if (fstat(fd, &st) == 0 && !S_ISREG(st.st_mode)) {
        same = store_identity_read(fd, &id) == 0 && id.ino == record->identity.ino &&
               id.btime == record->identity.btime &&
               (st.st_mode & S_IFMT) == (record->entry.mode & S_IFMT);
        close(fd);
        return same;
    }
    /* Not ctime: chmod, link and rename leave the bytes alone. A writer leaves a mark. */
    same = fstat(fd, &st) == 0 && store_identity_read(fd, &id) == 0 &&
           id.ino == record->identity.ino && id.btime == record->identity.btime &&
           id.size == record->entry.size && st.st_mtim.tv_sec == record->entry.mtime_sec &&
           (uint32_t)st.st_mtim.tv_nsec == record->entry.mtime_nsec;
    close(fd);
    return same;
}

bool local_file_still_there(struct member_dmd *dmd, const struct store_record *record)
{
    const struct store_identity *id = &record->identity;

    return local_file_is_same(dmd, record) &&
           !(S_ISREG(record->entry.mode) &&
             store_marks_dirty(dmd->marks, NULL, id->ino, id->btime, NULL));
}

bool local_file_being_written(const struct member *member, struct member_dmd *dmd,
                              const char *upath)
{
    struct store_mark_info info;
    struct store_identity id;
    bool dirty = false;
    int fd = store_dir_open(dmd->dir, upath, O_PATH | O_NOFOLLOW, 0);

    if (fd < 0)
        return false;
    if (store_identity_read(fd, &id) == 0)
        dirty = store_marks_dirty(dmd->marks, NULL, id.ino, id.btime, &info) &&
                !(member->config->async_publish && info.state == STORE_MARK_CLOSING &&
                  !store_marks_any_open(dmd->marks, id.ino, id.btime));
    close(fd);
    return dirty;
}

bool local_file_is_abandoned(struct member_dmd *dmd, const char *upath)
{
    int fd = store_dir_open(dmd->dir, upath, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    struct store_mark_info info = {.state = STORE_MARK_FREE};
    struct store_identity id;

    if (fd < 0)
        return false;
    if (store_identity_read(fd, &id) == 0)
        while (store_marks_dirty(dmd->marks, NULL, id.ino, id.btime, &info) &&
               info.state == STORE_MARK_DIRTY && info.pid != getpid() &&
               store_marks_ruling_due(dmd->marks, info.mark, fd) &&
               store_marks_left(dmd->marks, info.mark) &&
               store_marks_rule(dmd->marks, info.mark, fd))
            ;
    close(fd);
    return info.state == STORE_MARK_ABANDONED;
}

/* --- files of dead ranks --- */

/* True if a live process writes the file, or that cannot be found out. Else all its marks
 * are ABANDONED. */
static bool is_left_open(struct member_dmd *dmd, const char *upath,
                         const struct store_identity *id)
{
    struct store_mark_info info;
    struct store_identity file;
    store_mark_t last = 0;
    bool is = false;
    int fd = -1;

    while (!is && store_marks_dirty(dmd->marks, upath, id->ino, id->btime, &info) &&
           info.state != STORE_MARK_ABANDONED) {
        if (fd < 0)
            fd = store_dir_open(dmd->dir, upath, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
        is = info.mark == last || fd < 0 || store_identity_read(fd, &file) < 0 ||
             file.ino != id->ino || file.btime != id->btime;
        if (!is)
            store_marks_rule(dmd->marks, info.mark, fd);
        last = info.mark; /* found again, it was not ruled abandoned: its writer lives */
    }
    if (fd >= 0)
        close(fd);
    return is;
}

enum local_file_left local_file_left(struct member_dmd *dmd,
                                     const struct store_record *record,
                                     struct store_identity *identity)
{
    const struct dyad_entry *entry = &record->entry;
    bool known = record->identity.ino != 0;
    struct dyad_entry here = {0};
    struct store_identity id;
    struct stat st;
    bool read;
    int fd;

    if (!dyad_storage_equal(entry->storage, store_dir_id(dmd->dir)))
        return LOCAL_FILE_UNKNOWN;
    if ((fd = store_dir_open(dmd->dir, entry->upath, O_PATH | O_NOFOLLOW, 0)) < 0)
        return store_dir_lacks(dmd->dir, entry->upath) ? LOCAL_FILE_GONE
                                                       : LOCAL_FILE_UNKNOWN;
    read = fstat(fd, &st) == 0 && store_identity_read(fd, &id) == 0;
    close(fd);
    if (known && local_file_still_there(dmd, record))
        return read && local_file_is_superseded(dmd, entry->upath, &st)
                   ? LOCAL_FILE_SUPERSEDED
                   : LOCAL_FILE_SAME;
    if (!read || S_ISDIR(st.st_mode) || is_left_open(dmd, entry->upath, &id))
        return LOCAL_FILE_UNKNOWN;
    store_dir_describe(dmd->dir, &st, &here);
    if (known ? id.ino != record->identity.ino || id.btime != record->identity.btime
              : here.mode != entry->mode)
        return LOCAL_FILE_OTHER;
    if (here.size != entry->size || here.mtime_sec != entry->mtime_sec ||
        here.mtime_nsec != entry->mtime_nsec ||
        !store_marks_take_closed(dmd->marks, id.ino, id.btime))
        return LOCAL_FILE_OTHER;
    if (identity)
        *identity = id;
    return LOCAL_FILE_SAME;
}

void local_file_job(struct member *member, struct member_dmd *dmd, uint64_t size,
                    struct engine_io *io, void (*work)(void *arg), void (*done)(void *arg),
                    void *arg)
{
    if (size <= NEAR_SIZE && store_dir_local(dmd->dir))
        engine_io_near(member->io, &dmd->near, io, work, done, arg);
    else
        engine_io_submit(member->io, io, work, done, arg);
}
