/*
 * journal.c - records in a file, and an index of the last one of each upath in memory
 *
 * A record is {length, kind, checksum over all the rest, fixed part, upath}
 * (journal_impl.h), and is appended to the file (journal_write.c). The index gives up or
 * replaces a record only after the write, so file and memory never disagree in the
 * direction of forgetting. One process writes, which holds the lock of the file. Numbers
 * are of this machine: the file does not travel.
 *
 * What could go wrong: a write fails half-way (journal_append_quietly()); nothing can be
 * written for a while (store_journal_put()); the file is rewritten or removed while
 * another process opens it (open_held()), or written to while others read it
 * (journal_read.c, which counts on the order of the writes here).
 */
#include "store/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/control.h"
#include "store/journal_impl.h"
#include "store/journal_write.h"
#include "store/lock.h"
#include "util/fd_close.h"
#include "util/log.h"

bool store_journal_catch_up(struct store_journal *journal)
{
    int saved = errno;

    if (!journal_has_all(journal) && journal_catch_up(journal) == 0)
        journal_compact(journal);
    errno = saved;
    return journal_has_all(journal);
}

void store_journal_on_behind(struct store_journal *journal, void (*fn)(void *arg),
                             void *arg)
{
    journal->fell_behind = fn;
    journal->fell_behind_arg = arg;
    journal_falls_behind(journal, !journal_has_all(journal));
}

/* The file of this name, locked. -1: ENOENT there is none; EBUSY.
 *
 * The writer's lock (store/lock.h) is on the file. After a rewrite it is on the new file
 * before that gets the name, and an opener checks after its lock that the file still has
 * the name. */
static int open_held(const struct store_dir *dir, const char *name)
{
    int owner = store_control_subdir(dir, "owner");
    int fd = -1;

    if (owner < 0)
        return -1;
    for (;;) {
        fd = openat(owner, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0)
            break;
        if (store_lock_take(fd) < 0) {
            util_fd_close(fd);
            fd = -1;
            break;
        }
        if (store_lock_current(fd, owner, name))
            break;
        /* Rewritten or removed between our open and our lock. */
        close(fd);
    }
    util_fd_close(owner);
    return fd;
}

/* One with no file yet. NULL with errno. */
static struct store_journal *journal_new(const struct store_dir *dir, const char *name)
{
    struct store_journal *journal;

    if (!journal_name_ok(name)) {
        errno = EINVAL;
        return NULL;
    }
    if (!(journal = calloc(1, sizeof(*journal))))
        return NULL;
    journal->dir = dir;
    journal->fd = -1;
    strcpy(journal->name, name);
    journal->live = MAGIC_LEN + record_size(0);
    journal->compact_at = JOURNAL_COMPACT_MIN;
    return journal;
}

struct store_journal *store_journal_create(const struct store_dir *dir, const char *name,
                                           uint32_t *incarnation)
{
    struct store_journal *journal = journal_new(dir, name);
    struct stat st;

    if (!journal)
        return NULL;
    do {
        journal->fd = open_held(dir, name);
        if (journal->fd >= 0)
            break;
        if (errno != ENOENT)
            goto error_destroy;
    } while (journal_rewrite(journal, true) < 0 && errno == EEXIST);
    if (journal->fd < 0 || fstat(journal->fd, &st) < 0)
        goto error_destroy;
    if (journal_magic_ok(journal->fd)) {
        if (journal_load(journal, (uint64_t)st.st_size) < 0)
            goto error_destroy;
    } else {
        log_warn("journal %s of %s is no journal; a new one is begun", name,
                 store_dir_path(dir));
        if (journal_rewrite(journal, false) < 0)
            goto error_destroy;
    }
    *incarnation = journal->openings;
    if (journal_append(journal, COUNT_KIND, "", NULL, (uint64_t)journal->openings + 1) < 0)
        goto error_destroy;
    journal->openings++;
    journal_compact(journal);
    return journal;

    int saved;
error_destroy:
    saved = errno;
    if (saved != EBUSY)
        log_error("cannot open journal %s of %s: %m", name, store_dir_path(dir));
    store_journal_destroy(journal);
    errno = saved;
    return NULL;
}

void store_journal_destroy(struct store_journal *journal)
{
    if (!journal)
        return;
    journal_index_free(journal->index);
    if (journal->fd >= 0)
        close(journal->fd);
    free(journal->label);
    free(journal);
}

struct store_journal *store_journal_open(const struct store_dir *dir, const char *name,
                                         bool (*wanted)(const char *label, void *arg),
                                         void *arg)
{
    struct store_journal *journal = journal_new(dir, name);
    char label[DYAD_UPATH_MAX + 1];
    struct stat st;
    int saved;

    if (!journal)
        return NULL;
    if ((journal->fd = open_held(dir, name)) < 0 || fstat(journal->fd, &st) < 0)
        goto error_destroy;
    if (!journal_magic_ok(journal->fd)) {
        errno = EUCLEAN;
        goto error_destroy;
    }
    if (!wanted(journal_read_label(journal->fd, label) == 0 ? label : NULL, arg)) {
        errno = ECANCELED;
        goto error_destroy;
    }
    if (journal_load(journal, (uint64_t)st.st_size) < 0)
        goto error_destroy;
    return journal;

error_destroy:
    saved = errno;
    store_journal_destroy(journal);
    errno = saved;
    return NULL;
}

int store_journal_set_label(struct store_journal *journal, const char *label)
{
    if (strlen(label) > DYAD_UPATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (journal->label && strcmp(journal->label, label) == 0)
        return 0;
    bool had_all = journal_has_all(journal);
    if (journal_label_keep(journal, label, strlen(label)) < 0)
        return -1;
    if (journal_label_write(journal, false) == 0)
        return 0;
    int saved = errno;
    journal->label_behind = true;
    journal_falls_behind(journal, had_all);
    errno = saved;
    return -1;
}

int store_journal_clear(struct store_journal *journal)
{
    struct journal_node *node, *next, *all = journal->index;
    uint64_t live = journal->live;

    journal->index = NULL;
    if (journal_rewrite(journal, false) < 0) {
        journal->index = all;
        return -1;
    }
    HASH_ITER(hh, all, node, next)
    {
        if (!node->deleted)
            live -= record_size(strlen(node->upath));
        journal_behind_set(journal, node, false);
    }
    journal_index_free(all);
    journal->live = live;
    journal->deleted = 0;
    return 0;
}

int store_journal_remove(struct store_journal *journal)
{
    int rc = 0, saved = errno;
    int owner = store_control_subdir(journal->dir, "owner");

    if (owner < 0) {
        rc = -1;
        saved = errno;
    } else {
        if (store_lock_current(journal->fd, owner, journal->name) &&
            unlinkat(owner, journal->name, 0) < 0) {
            rc = -1;
            saved = errno;
        }
        close(owner);
    }
    store_journal_destroy(journal);
    errno = saved;
    return rc;
}

/* What could not be written (the disk is full, a limit on the process) is in memory all
 * the same, and in a list: these records are appended when that can be done again, which
 * costs one small write that fails until then. Only the last record of a upath counts, so
 * their order among others does not matter. */
int store_journal_put(struct store_journal *journal, const struct store_record *record)
{
    const char *upath = record->entry.upath;
    size_t len = strlen(upath);

    if (store_dir_check(upath) < 0)
        return -1;
    if (record->kind != STORE_RECORD_ORIGINAL && record->kind != STORE_RECORD_COPY) {
        errno = EINVAL;
        return -1;
    }
    struct journal_node *node = journal_index_find(journal, upath, len);
    int rc, saved;
    if (node) {
        /* record may be the node's own, or its upath. */
        struct store_record copy = *record;
        rc = journal_append(journal, record->kind, upath, record, 0);
        saved = errno;
        journal_index_replace(journal, node, &copy);
    } else {
        node = journal_node_new(upath, len, record);
        if (!node)
            return -1;
        if (journal_index_add(journal, node) < 0) {
            free(node);
            return -1;
        }
        rc = journal_append(journal, record->kind, upath, record, 0);
        saved = errno;
    }
    journal_behind_set(journal, node, rc < 0);
    if (rc == 0) {
        if (!journal_has_all(journal) && !journal->walked)
            journal_catch_up(journal);
        journal_compact(journal);
    }
    errno = saved;
    return rc;
}

/* A deletion that could not be written is a node of the list that nobody finds. */
int store_journal_delete(struct store_journal *journal, const char *upath)
{
    struct journal_node *node = journal_find(journal, upath);

    if (!node) {
        errno = ENOENT;
        return -1;
    }
    if (journal_append(journal, DELETE_KIND, upath, NULL, 0) < 0) {
        int saved = errno;
        journal_deleted_set(journal, node, true);
        journal_behind_set(journal, node, true);
        errno = saved;
        return -1;
    }
    journal_index_remove(journal, node);
    journal_compact(journal);
    return 0;
}

int store_journal_retire(struct store_journal *journal, const char *upath)
{
    struct journal_node *node = journal_find(journal, upath);

    if (!node || node->retired) {
        errno = ENOENT;
        return -1;
    }
    node->retired = true;
    return 0;
}

const struct store_record *store_journal_find(struct store_journal *journal,
                                              const char *upath)
{
    struct journal_node *node = journal_find(journal, upath);

    return node && !node->retired ? &node->record : NULL;
}

const struct store_record *store_journal_find_any(struct store_journal *journal,
                                                  const char *upath)
{
    struct journal_node *node = journal_find(journal, upath);

    return node ? &node->record : NULL;
}

int store_journal_foreach(struct store_journal *journal,
                          int (*fn)(const struct store_record *record, void *arg),
                          void *arg)
{
    struct journal_node *node, *next;
    bool walked = journal->walked;
    int rc = 0;

    journal->walked = true;
    HASH_ITER(hh, journal->index, node, next)
    {
        if (!node->retired && !node->deleted && (rc = fn(&node->record, arg)) != 0)
            break;
    }
    journal->walked = walked;
    return rc;
}

uint64_t store_journal_count(const struct store_journal *journal)
{
    return HASH_COUNT(journal->index) - journal->deleted;
}
