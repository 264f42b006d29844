/*
 * journal_read.c - the records of a journal's file
 *
 * A file is walked from its beginning up to the first record that is not whole: a record
 * counts if its checksum is right. Nothing is mapped, so no truncation can raise SIGBUS.
 *
 * What could go wrong: the file is read while its writer writes; store_journal_look()
 * says why the result is still the state of some moment. But a writer without disk space
 * knows more than its file says (store_journal_put()), and one that is stopped may be
 * about to write. So who reads beside a writer compares with the disk before it acts.
 */
#include "store/journal_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "store/control.h"
#include "util/fd_close.h"

uint64_t journal_checksum(const struct disk_record *disk, size_t len)
{
    size_t skip = offsetof(struct disk_record, counter);

    return XXH3_64bits_withSeed((const char *)disk + skip, len - skip,
                                (uint64_t)disk->len << 32 | disk->kind);
}

void journal_decode(const struct disk_record *disk, struct store_record *record)
{
    *record = (struct store_record){
        .kind = disk->kind == MADE_KIND ? STORE_RECORD_COPY
                                        : (enum store_record_kind)disk->kind,
        .made_here = disk->kind == MADE_KIND,
        .entry = {.version = {disk->counter, disk->rank, disk->incarnation},
                  .owner = disk->owner,
                  .state = (enum dyad_entry_state)(disk->state & (DISK_EMPTIED - 1)),
                  .conflict = disk->state & DISK_CONFLICT,
                  .recorded = disk->state & DISK_RECORDED,
                  .emptied = disk->state & DISK_EMPTIED,
                  .size = disk->size,
                  .mode = disk->mode,
                  .component = disk->component % (1u << DYAD_COMPONENT_BITS),
                  .mtime_sec = disk->mtime_sec,
                  .mtime_nsec = disk->mtime_nsec},
        .identity = {disk->dev, disk->ino, disk->btime, disk->ctime, disk->file_size},
        .base = {.kind = (enum dyad_base_kind)(disk->state >> DISK_BASE),
                 .size = disk->base_size,
                 .time = disk->base_time},
    };
    memcpy(record->entry.storage, disk->storage, sizeof(disk->storage));
}

static bool valid(const struct disk_record *disk)
{
    if (disk->kind != STORE_RECORD_ORIGINAL && disk->kind != STORE_RECORD_COPY &&
        disk->kind != COUNT_KIND && disk->kind != DELETE_KIND && disk->kind != LABEL_KIND &&
        disk->kind != MADE_KIND)
        return false;
    if (memchr(disk + 1, '\0', disk->len - sizeof(*disk)))
        return false;
    return disk->checksum == journal_checksum(disk, disk->len);
}

bool journal_magic_ok(int fd)
{
    char magic[MAGIC_LEN];

    return pread(fd, magic, MAGIC_LEN, 0) == MAGIC_LEN &&
           memcmp(magic, MAGIC, MAGIC_LEN) == 0;
}

/* The whole records at the start of buf[have]; *torn: another follows that never will be
 * one. Returns what fn did; *at: where it ended. */
static int walk_buffer(const char *buf, size_t have, size_t *at, bool *torn,
                       int (*fn)(const struct disk_record *disk, void *arg), void *arg)
{
    _Alignas(8) char copy[RECORD_MAX]; /* records have any length: one that is aligned */
    const struct disk_record *disk = (const struct disk_record *)copy;
    int rc;

    while (have - *at >= sizeof(*disk)) {
        memcpy(copy, buf + *at, sizeof(*disk));
        *torn = disk->len < sizeof(*disk) || disk->len > RECORD_MAX;
        if (*torn || have - *at < disk->len)
            break;
        memcpy(copy, buf + *at, disk->len);
        *torn = !valid(disk);
        if (*torn)
            break;
        if ((rc = fn(disk, arg)) != 0)
            return rc;
        *at += disk->len;
    }
    return 0;
}

int journal_walk(int fd, uint64_t *end,
                 int (*fn)(const struct disk_record *disk, void *arg), void *arg)
{
    char *buf = malloc(JOURNAL_BUFFER);
    size_t have = 0;
    bool torn = false;
    int rc = buf ? 0 : -1;

    while (rc == 0 && !torn) {
        size_t at = 0;
        ssize_t n = pread(fd, buf + have, JOURNAL_BUFFER - have, (off_t)(*end + have));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            rc = -1;
        if (n <= 0)
            break;
        have += (size_t)n;
        rc = walk_buffer(buf, have, &at, &torn, fn, arg);
        *end += at;
        have -= at;
        memmove(buf, buf + at, have);
    }
    free(buf);
    return rc;
}

/* The label stands behind the count, or the two of a new journal. */
int journal_read_label(int fd, char label[DYAD_UPATH_MAX + 1])
{
    _Alignas(8) char buf[RECORD_MAX];
    const struct disk_record *disk = (const struct disk_record *)buf;
    off_t at = MAGIC_LEN;

    for (int i = 0; i < 3; i++) {
        ssize_t n = pread(fd, buf, sizeof(buf), at);
        if (n < (ssize_t)sizeof(*disk) || disk->len < sizeof(*disk) ||
            (ssize_t)disk->len > n || !valid(disk))
            break;
        if (disk->kind == LABEL_KIND) {
            memcpy(label, disk + 1, disk->len - sizeof(*disk));
            label[disk->len - sizeof(*disk)] = '\0';
            return 0;
        }
        at += disk->len;
    }
    errno = ENOENT;
    return -1;
}

/* Without its lock. A descriptor or -1. */
static int open_beside(const struct store_dir *dir, const char *name)
{
    int owner = store_control_subdir(dir, "owner");
    int fd;

    if (owner < 0)
        return -1;
    fd = openat(owner, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    util_fd_close(owner);
    return fd;
}

int store_journal_read_label(const struct store_dir *dir, const char *name,
                             char label[DYAD_UPATH_MAX + 1])
{
    int fd = open_beside(dir, name);
    int rc;

    if (fd < 0)
        return -1;
    rc = journal_read_label(fd, label);
    util_fd_close(fd);
    return rc;
}

struct look {
    struct store_look *looks;
    size_t n;
};

static int look_order(const void *a, const void *b)
{
    return strcmp(((const struct store_look *)a)->upath,
                  ((const struct store_look *)b)->upath);
}

/* As strcmp(); the record's has no NUL. */
static int upath_order(const struct disk_record *disk, const char *upath)
{
    size_t len = disk->len - sizeof(*disk);
    int order = strncmp((const char *)(disk + 1), upath, len);

    return order != 0 ? order : upath[len] == '\0' ? 0 : -1;
}

static int look_at(const struct disk_record *disk, void *arg)
{
    struct look *look = arg;
    size_t low = 0, high = look->n;

    if (disk->kind == COUNT_KIND || disk->kind == LABEL_KIND)
        return 0;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (upath_order(disk, look->looks[mid].upath) > 0)
            low = mid + 1;
        else
            high = mid;
    }
    for (; low < look->n && upath_order(disk, look->looks[low].upath) == 0; low++) {
        struct store_look *found = &look->looks[low];
        found->found = disk->kind != DELETE_KIND;
        journal_decode(disk, &found->record);
        found->record.entry.upath = found->upath;
    }
    return 0;
}

/* Reading beside the writer: the writer's lock keeps no reader off, and none is needed.
 * Between two rewrites the file only grows, a record at a time. So whatever the writer
 * does meanwhile, what is read is a beginning of what it has written: the state of some
 * moment not before the call, or, if it ends at a record of which a part was seen, one
 * record earlier. A record that could not be written is cut off, and another comes in its
 * place; a mixture of the two has a wrong checksum. After a rewrite the descriptor here
 * is of the old file, which stays as it was last. */
int store_journal_look(const struct store_dir *dir, const char *name,
                       struct store_look *looks, size_t n)
{
    struct look look = {looks, n};
    uint64_t end = MAGIC_LEN;
    int fd = open_beside(dir, name);
    int rc = -1;

    if (fd < 0)
        return -1;
    qsort(looks, n, sizeof(*looks), look_order);
    for (size_t i = 0; i < n; i++)
        looks[i].found = false;
    if (journal_magic_ok(fd))
        rc = journal_walk(fd, &end, look_at, &look);
    else
        errno = EUCLEAN;
    util_fd_close(fd);
    return rc;
}
