/*
 * directories.c - the directories that this member knows to be published
 *
 * A published file's directories must be published too, or a consumer's stat of them would
 * say that there is nothing. That is done once for each directory and member, so the
 * publish of a file costs one look into a table here. Before a directory is published it is
 * looked up: of many ranks that write into one directory one publishes it, and the others,
 * having asked as holders of a copy, are told if it is withdrawn or replaced (then it is
 * forgotten here, and looked up again when it is next needed). Ranks that begin at the same
 * time may all publish it; the last one then owns the entry, which costs nothing but these
 * messages, as a directory has no bytes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uthash.h>
#include <utlist.h>

#include "engine/core/member.h"
#include "engine/core/module.h"
#include "engine/namespace/directories.h"
#include "util/log.h"

struct known_dir {
    UT_hash_handle hh; /* by upath */
    struct member *member;
    enum engine_role role;
    enum { LOOKING, PUBLISHING, KNOWN } state;
    bool forgotten; /* to go when what is under way has ended */
    mode_t mode;    /* as published; of the file system while that is under way */
    bool changed;   /* its permissions may be others than those that are under way */
    struct dht_lookup *lookup;
    struct store_record record;
    struct directories_wait *waits;
    char upath[];
};

struct directories {
    struct known_dir *by_upath;
};

static void dir_free(struct known_dir *dir)
{
    if (dir->lookup)
        dht_node_cancel(dir->member->dht, dir->lookup);
    HASH_DEL(OWN(dir->member, directories)->by_upath, dir);
    free(dir);
}

static void dir_end(struct known_dir *dir, int status)
{
    struct directories_wait *waits = dir->waits, *wait, *tmp;

    dir->waits = NULL;
    DL_FOREACH(waits, wait)
    {
        wait->dir = NULL;
    }
    if (status || dir->forgotten)
        dir_free(dir);
    else
        dir->state = KNOWN;
    DL_FOREACH_SAFE(waits, wait, tmp)
    {
        wait->fn(wait->arg, status);
    }
}

/* The directory on disk. 0, or an errno value. */
static int dir_look(struct known_dir *dir)
{
    struct member_dmd *dmd = &dir->member->dmd[dir->role];
    struct stat st;
    int fd = store_dir_open(dmd->dir, dir->upath, O_PATH | O_NOFOLLOW, 0);
    int rc = 0;

    if (fd < 0)
        return errno;
    if (fstat(fd, &st) < 0 || store_identity_read(fd, &dir->record.identity) < 0)
        rc = errno;
    else if (!S_ISDIR(st.st_mode))
        rc = ENOTDIR;
    close(fd);
    if (rc)
        return rc;
    dir->record.kind = STORE_RECORD_ORIGINAL;
    dir->record.entry.upath = dir->upath;
    dir->record.entry.owner = dir->member->self.rank;
    dir->record.entry.state = DYAD_ENTRY_PUBLISHED;
    store_dir_describe(dmd->dir, &st, &dir->record.entry);
    return 0;
}

static void dir_publish(struct known_dir *dir);

/* The operation under way has ended. Publish again if a chmod has come since dir_look().
 */
static void dir_told(struct known_dir *dir)
{
    mode_t told = dir->record.entry.mode;

    if (dir->changed && !dir->forgotten) {
        dir->changed = false;
        if (dir_look(dir) == 0 && (dir->record.entry.mode & 07777) != (told & 07777)) {
            dir_publish(dir);
            return;
        }
    }
    dir_end(dir, 0);
}

static void dir_record(struct known_dir *dir)
{
    if (store_journal_put(dir->member->dmd[dir->role].journal, &dir->record) < 0)
        log_error("this node's record of directory \"%s\" could not be written: %m",
                  dir->upath);
    dir->mode = dir->record.entry.mode;
}

/* The journal has it before the homes, as with files (produce.c). */
static enum dht_ahead ahead(void *arg, const struct dyad_version *version,
                            const struct dyad_entry *refused, struct dyad_entry *entry,
                            struct dyad_base *base)
{
    struct known_dir *dir = arg;

    (void)refused;
    (void)entry;
    (void)base;
    dir->record.entry.version = *version;
    dir_record(dir);
    return DHT_AHEAD_GO;
}

static void published(void *arg, int status, const struct dyad_version *version)
{
    struct known_dir *dir = arg;

    if (status == EHOSTUNREACH) /* the table tells the homes when it can */
        status = 0;
    (void)version; /* ahead() */
    if (status == 0) {
        log_debug("published directory \"%s\"", dir->upath);
    } else {
        log_error("directory \"%s\" could not be published: %s", dir->upath,
                  strerror(status));
        dir_end(dir, status);
        return;
    }
    dir_told(dir);
}

static void dir_publish(struct known_dir *dir)
{
    int status = dir_look(dir);

    /* The directory is gone again: its removal withdraws it. */
    if (status == 0 && dht_node_publish_ahead(dir->member->dht, &dir->record.entry, NULL,
                                              NULL, ahead, published, dir) < 0)
        status = errno;
    dir->state = PUBLISHING;
    if (status)
        dir_end(dir, status);
}

static void looked_up(void *arg, int status, const struct dyad_entry *entry)
{
    struct known_dir *dir = arg;

    dir->lookup = NULL;
    if (entry)
        dir->record.entry.version = entry->version;
    /* If this rank is the owner the entry is of an earlier member, and not in the
     * journal. */
    if (status == 0 && S_ISDIR(entry->mode) && entry->owner != dir->member->self.rank &&
        (!dir->mode || (entry->mode & 07777) == (dir->mode & 07777)) &&
        dir_look(dir) == 0) {
        dir->record.kind = STORE_RECORD_COPY;
        dir->record.entry = *entry;
        dir->record.entry.upath = dir->upath;
        dir_record(dir);
        dir_told(dir);
        return;
    }
    dir_publish(dir);
}

static struct known_dir *dir_create(struct member *member, enum engine_role role,
                                    const char *upath, size_t len)
{
    struct known_dir *dir = calloc(1, sizeof(*dir) + len + 1);

    if (!dir)
        return NULL;
    dir->member = member;
    dir->role = role;
    memcpy(dir->upath, upath, len);
    HASH_ADD_KEYPTR(hh, OWN(member, directories)->by_upath, dir->upath, len, dir);
    if (!dir->hh.tbl) {
        free(dir);
        errno = ENOMEM;
        return NULL;
    }
    return dir;
}

int directories_ensure(struct member *member, enum engine_role role, const char *upath,
                       size_t len, mode_t mode, struct directories_wait *wait)
{
    struct known_dir *dir;

    HASH_FIND(hh, OWN(member, directories)->by_upath, upath, len, dir);
    if (dir && dir->state == KNOWN) {
        if (!mode || (mode & 07777) == (dir->mode & 07777))
            return 1;
        dir->role = role;
        DL_APPEND(dir->waits, wait);
        wait->dir = dir;
        dir_publish(dir);
        return 0;
    }
    if (!dir) {
        if (!(dir = dir_create(member, role, upath, len)))
            return -1;
        dir->state = LOOKING;
        dir->mode = mode;
        if (!(dir->lookup = dht_node_lookup(member->dht, dir->upath, NET_LOOKUP_COPY, NULL,
                                            looked_up, dir))) {
            dir_free(dir);
            errno = ENOMEM;
            return -1;
        }
    } else if (mode) {
        dir->changed = true;
    }
    DL_APPEND(dir->waits, wait);
    wait->dir = dir;
    return 0;
}

void directories_leave(struct directories_wait *wait)
{
    if (wait->dir)
        DL_DELETE(wait->dir->waits, wait);
    wait->dir = NULL;
}

void directories_restored(struct member *member, enum engine_role role,
                          const struct store_record *record)
{
    size_t len = strlen(record->entry.upath);
    struct known_dir *dir;

    HASH_FIND(hh, OWN(member, directories)->by_upath, record->entry.upath, len, dir);
    if (!dir && (dir = dir_create(member, role, record->entry.upath, len))) {
        dir->state = KNOWN;
        dir->mode = record->entry.mode;
    }
}

void directories_forget(struct member *member, const char *upath)
{
    struct known_dir *dir;

    HASH_FIND_STR(OWN(member, directories)->by_upath, upath, dir);
    if (!dir)
        return;
    if (dir->state == KNOWN)
        dir_free(dir);
    else
        dir->forgotten = true;
}

static void directories_destroy(struct member *member)
{
    struct known_dir *dir, *tmp;

    HASH_ITER(hh, OWN(member, directories)->by_upath, dir, tmp)
    {
        dir->lookup = NULL; /* goes with the table */
        dir_free(dir);
    }
}

const struct member_module directories_module = {
    .own = MODULE_OWN(directories),
    .destroy = directories_destroy,
};
