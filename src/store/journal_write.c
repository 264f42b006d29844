/*
 * journal_write.c - one pwrite at the known end, or a new file that is renamed into place
 *
 * journal.c says what is written when, and what happens if it cannot be.
 */
#include "store/journal_write.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <utlist.h>

#include "store/control.h"
#include "store/journal_impl.h"
#include "util/crash.h"
#include "util/fd_close.h"
#include "util/log.h"

/* Records that are caught up with at a time: ~3 ms. */
#define CATCH_UP 1024

/* Into buf, RECORD_MAX long and aligned; returns the length. `record` may be NULL. */
static size_t encode(void *buf, uint32_t kind, const char *upath,
                     const struct store_record *record, uint64_t counter)
{
    struct disk_record *disk = buf;
    size_t n = strlen(upath), len = record_size(n);

    memset(disk, 0, sizeof(*disk));
    disk->len = (uint32_t)len;
    disk->kind = kind;
    disk->counter = counter;
    if (record) {
        const struct dyad_entry *entry = &record->entry;
        if (kind == STORE_RECORD_COPY && record->made_here)
            disk->kind = MADE_KIND;
        disk->counter = entry->version.counter;
        disk->rank = entry->version.rank;
        disk->incarnation = entry->version.incarnation;
        disk->owner = entry->owner;
        disk->state = entry->state | (entry->conflict ? DISK_CONFLICT : 0) |
                      (entry->recorded ? DISK_RECORDED : 0) |
                      (entry->emptied ? DISK_EMPTIED : 0) |
                      (uint32_t)record->base.kind << DISK_BASE;
        memcpy(disk->storage, entry->storage, sizeof(disk->storage));
        disk->size = entry->size;
        disk->mtime_sec = entry->mtime_sec;
        disk->mtime_nsec = entry->mtime_nsec;
        disk->mode = entry->mode;
        disk->component = entry->component;
        disk->dev = record->identity.dev;
        disk->ino = record->identity.ino;
        disk->btime = record->identity.btime;
        disk->ctime = record->identity.ctime;
        disk->file_size = record->identity.size;
        disk->base_size = record->base.size;
        disk->base_time = record->base.time;
    }
    memcpy(disk + 1, upath, n);
    disk->checksum = journal_checksum(disk, len);
    return len;
}

/* One record read from the file. 0 or -1 ENOMEM. */
static int apply(const struct disk_record *disk, void *arg)
{
    struct store_journal *journal = arg;
    const char *upath = (const char *)(disk + 1);
    size_t len = disk->len - sizeof(*disk);
    struct store_record record;

    if (disk->kind == COUNT_KIND) {
        journal->openings = (uint32_t)disk->counter;
        return 0;
    }
    if (disk->kind == LABEL_KIND)
        return journal_label_keep(journal, upath, len);
    struct journal_node *node = journal_index_find(journal, upath, len);
    if (disk->kind == DELETE_KIND) {
        if (node)
            journal_index_remove(journal, node);
        return 0;
    }
    journal_decode(disk, &record);
    if (node) {
        journal_index_replace(journal, node, &record);
        return 0;
    }
    node = journal_node_new(upath, len, &record);
    if (!node)
        return -1;
    if (journal_index_add(journal, node) < 0) {
        free(node);
        return -1;
    }
    return 0;
}

int journal_load(struct store_journal *journal, uint64_t size)
{
    journal->end = MAGIC_LEN;
    if (journal_walk(journal->fd, &journal->end, apply, journal) < 0)
        return -1;
    if (journal->end >= size)
        return 0;
    if (size - journal->end > RECORD_MAX)
        log_warn("journal %s: damaged at byte %llu: the %llu bytes after it are lost",
                 journal->name, (unsigned long long)journal->end,
                 (unsigned long long)(size - journal->end));
    return ftruncate(journal->fd, (off_t)journal->end);
}

/* A buffered write of the whole new file. */
struct output {
    int fd;
    uint64_t offset;
    size_t used;
    char *buf;
};

static int output_flush(struct output *out)
{
    if (store_control_write(out->fd, out->offset, out->buf, out->used) < 0)
        return -1;
    out->offset += out->used;
    out->used = 0;
    return 0;
}

static int output_record(struct output *out, uint32_t kind, const char *upath,
                         const struct store_record *record, uint64_t counter)
{
    _Alignas(8) char disk[RECORD_MAX];
    size_t len = encode(disk, kind, upath, record, counter);

    if (out->used + len > JOURNAL_BUFFER && output_flush(out) < 0)
        return -1;
    memcpy(out->buf + out->used, disk, len);
    out->used += len;
    return 0;
}

static int output_all(struct output *out, const struct store_journal *journal)
{
    const struct journal_node *node;
    int rc;

    memcpy(out->buf, MAGIC, MAGIC_LEN);
    out->used = MAGIC_LEN;
    rc = output_record(out, COUNT_KIND, "", NULL, journal->openings);
    if (rc == 0 && journal->label)
        rc = output_record(out, LABEL_KIND, journal->label, NULL, 0);
    for (node = journal->index; rc == 0 && node; node = node->hh.next)
        if (!node->deleted)
            rc = output_record(out, node->record.kind, node->upath, &node->record, 0);
    return rc == 0 ? output_flush(out) : rc;
}

int journal_rewrite(struct store_journal *journal, bool only_new)
{
    char temp[STORE_TEMP_NAME_SIZE];
    struct output out = {.buf = malloc(JOURNAL_BUFFER)};
    struct journal_node *node, *tmp;
    int rc = -1;

    if (!out.buf)
        return -1;
    int tmpdir = store_control_subdir(journal->dir, "tmp");
    if (tmpdir < 0)
        goto out_buf;
    int owner = store_control_subdir(journal->dir, "owner");
    if (owner < 0)
        goto out_tmpdir;
    out.fd = store_control_temp(tmpdir, temp);
    if (out.fd < 0)
        goto out_owner;
    rc = output_all(&out, journal);
    DYAD_CRASH_POINT("journal-written");
    if (rc == 0)
        rc = only_new ? store_control_rename_new(tmpdir, temp, owner, journal->name)
                      : renameat(tmpdir, temp, owner, journal->name);
    DYAD_CRASH_POINT("journal-renamed");
    if (rc == 0) {
        if (journal->fd >= 0)
            close(journal->fd);
        journal->fd = out.fd;
        journal->end = out.offset;
        journal->compact_at = JOURNAL_COMPACT_MIN;
        journal->label_behind = false;
        /* The caller may be at work on a deletion: these are written all the same. */
        DL_FOREACH_SAFE2(journal->behind, node, tmp, later)
        {
            if (!node->deleted)
                journal_behind_set(journal, node, false);
        }
    } else {
        int saved = errno;
        unlinkat(tmpdir, temp, 0);
        close(out.fd);
        errno = saved;
    }
out_owner:
    util_fd_close(owner);
out_tmpdir:
    util_fd_close(tmpdir);
out_buf:
    free(out.buf);
    return rc;
}

/* `again`: it has been tried before, and the failure was logged.
 *
 * A record is written at the known end by one pwrite. If that fails half-way the end
 * stays where it was and the rest is cut off, now if possible, at the latest when the
 * file is opened again. */
static int journal_append_quietly(struct store_journal *journal, uint32_t kind,
                                  const char *upath, const struct store_record *record,
                                  uint64_t counter, bool again)
{
    _Alignas(8) char disk[RECORD_MAX];
    size_t len = encode(disk, kind, upath, record, counter);
    struct stat st;

    if (fstat(journal->fd, &st) < 0)
        return -1;
    if (st.st_nlink == 0) {
        if (!again)
            log_warn("journal %s was removed while in use; it is written anew",
                     journal->name);
        if (journal_rewrite(journal, false) < 0)
            return -1;
    }
    if (store_control_write(journal->fd, journal->end, disk, len) < 0) {
        int saved = errno;
        /* If this fails too, the next record overwrites it or the next opening cuts it. */
        if (ftruncate(journal->fd, (off_t)journal->end) < 0)
            log_debug("journal %s: %m", journal->name);
        if (!again)
            log_error("cannot record %s in journal %s of %s: %s; free some space there",
                      upath, journal->name, store_dir_path(journal->dir), strerror(saved));
        errno = saved;
        return -1;
    }
    journal->end += len;
    return 0;
}

int journal_append(struct store_journal *journal, uint32_t kind, const char *upath,
                   const struct store_record *record, uint64_t counter)
{
    return journal_append_quietly(journal, kind, upath, record, counter, false);
}

void journal_compact(struct store_journal *journal)
{
    if (journal->end <= journal->compact_at ||
        journal->end - journal->live <= journal->live)
        return;
    int saved = errno;
    if (journal_rewrite(journal, false) < 0) {
        log_warn("cannot compact journal %s: %m", journal->name);
        journal->compact_at = 2 * journal->end;
    }
    errno = saved;
}

static bool is_new(const struct store_journal *journal)
{
    return journal->end == MAGIC_LEN + 2 * record_size(0);
}

int journal_label_write(struct store_journal *journal, bool again)
{
    if (is_new(journal) ? journal_append_quietly(journal, LABEL_KIND, journal->label, NULL,
                                                 0, again) < 0
                        : journal_rewrite(journal, false) < 0)
        return -1;
    journal->label_behind = false;
    return 0;
}

/* True if a rewrite is worth while. On a full disk it would take the little space that is
 * left from others, again and again. */
static bool has_room(const struct store_journal *journal)
{
    struct statvfs fs;

    return fstatvfs(journal->fd, &fs) < 0 ||
           (uint64_t)fs.f_bavail * fs.f_frsize > journal->live;
}

/* The label comes last, for it costs the whole file, unless that is new. */
int journal_catch_up(struct store_journal *journal)
{
    if (journal->label_behind && is_new(journal) && journal_label_write(journal, true) < 0)
        return -1;
    for (int i = 0; journal->behind && i < CATCH_UP; i++) {
        struct journal_node *node = journal->behind;
        uint32_t kind = node->deleted ? DELETE_KIND : node->record.kind;
        if (journal_append_quietly(journal, kind, node->upath,
                                   node->deleted ? NULL : &node->record, 0, true) < 0)
            return -1;
        if (node->deleted)
            journal_index_remove(journal, node);
        else
            journal_behind_set(journal, node, false);
    }
    if (journal->behind || !journal->label_behind)
        return 0;
    return has_room(journal) ? journal_label_write(journal, true) : -1;
}
