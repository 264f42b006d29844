/*
 * journal.c - records in a file, and an index of the last one of each upath in memory
 *
 * A record is {length, kind, checksum over all the rest, fixed part, upath}. It is written
 * at the known end by one pwrite; if that fails half-way the end stays where it was and the
 * rest is cut off, now if possible, at the latest when it is opened again. The index is
 * changed only after the write, so file and memory never disagree in the direction of
 * forgetting. Numbers are of this machine: the file does not travel.
 *
 * What could not be written (the disk is full, a limit on the process) is in memory all the
 * same, and in a list: these records are appended when that can be done again, which costs
 * one small write that fails until then. Only the last record of a upath counts, so their
 * order among others does not matter. A deletion that could not be written is a node of the
 * list that nobody finds. The label comes last, for it costs the whole file, unless that is
 * new.
 *
 * The writer's claim (store/lock.h) is on the file; after a rewrite it is on the new file
 * before that gets the name, and an opener checks after its claim that the file still has
 * the name. Others read the file while it is written to: journal_read.c says what keeps
 * that safe, which is the order of the writes here.
 */
#include "store/journal_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Out of memory in a table's growth is an error like any other, not the end of the host
 * program. */
#define uthash_fatal(msg)             ((void)0)
#define HASH_NONFATAL_OOM             1
#define HASH_FUNCTION(key, len, hash) ((hash) = (unsigned)XXH3_64bits(key, len))
#define XXH_INLINE_ALL
#include <xxhash.h>
#include <uthash.h>
#include <utlist.h>

#include "store/control.h"
#include "store/lock.h"
#include "util/crash.h"
#include "util/log.h"

#define NAME_LIMIT 200
#ifdef DYAD_CRASH_POINTS
#define COMPACT_MIN (1u << 11) /* a test does not write a million bytes for it */
#else
#define COMPACT_MIN (1u << 20)
#endif
#define BUFFER (1u << 20)
/* Records that are caught up with at a time: ~3 ms. */
#define CATCH_UP 1024

struct node {
    UT_hash_handle hh;
    struct store_record record;
    bool retired, behind;      /* `behind`: not in the file, or not this one */
    bool deleted;              /* but not in the file, so it is behind */
    struct node *prev, *later; /* utlist: journal->behind */
    char upath[];
};

struct store_journal {
    const struct store_dir *dir;
    char name[NAME_LIMIT + 1];
    int fd;
    uint32_t openings;
    char *label;         /* NULL: none */
    uint64_t end, live;  /* size of the file; of that, what a rewrite would keep */
    uint64_t compact_at; /* not before the file has this size: a rewrite failed */
    struct node *index;
    uint64_t deleted;    /* of them */
    struct node *behind; /* what the file lacks */
    bool label_behind;   /* and the label */
    bool walked;         /* no node goes but the one that the caller is at */
    void (*fell_behind)(void *arg);
    void *fell_behind_arg;
};

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
        disk->state = entry->state;
        memcpy(disk->storage, entry->storage, sizeof(disk->storage));
        disk->size = entry->size;
        disk->mtime_sec = entry->mtime_sec;
        disk->mtime_nsec = entry->mtime_nsec;
        disk->mode = entry->mode;
        disk->dev = record->identity.dev;
        disk->ino = record->identity.ino;
        disk->btime = record->identity.btime;
        disk->ctime = record->identity.ctime;
        disk->file_size = record->identity.size;
    }
    memcpy(disk + 1, upath, n);
    disk->checksum = journal_checksum(disk, len);
    return len;
}

static struct node *index_find(struct store_journal *journal, const char *upath, size_t len)
{
    struct node *node;
    HASH_FIND(hh, journal->index, upath, len, node);
    return node;
}

static struct node *find(struct store_journal *journal, const char *upath)
{
    struct node *node = index_find(journal, upath, strlen(upath));
    return node && !node->deleted ? node : NULL;
}

static struct node *node_new(const char *upath, size_t len,
                             const struct store_record *record)
{
    struct node *node = malloc(sizeof(*node) + len + 1);
    if (!node)
        return NULL;
    node->record = *record;
    node->retired = node->behind = node->deleted = false;
    memcpy(node->upath, upath, len);
    node->upath[len] = '\0';
    node->record.entry.upath = node->upath;
    return node;
}

/* 0, or -1 ENOMEM. */
static int index_add(struct store_journal *journal, struct node *node)
{
    size_t len = strlen(node->upath);

    HASH_ADD_KEYPTR(hh, journal->index, node->upath, len, node);
    if (!node->hh.tbl) {
        errno = ENOMEM;
        return -1;
    }
    journal->live += record_size(len);
    return 0;
}

static bool has_all(const struct store_journal *journal)
{
    return !journal->behind && !journal->label_behind;
}

static void falls_behind(struct store_journal *journal, bool had_all)
{
    if (had_all && journal->fell_behind)
        journal->fell_behind(journal->fell_behind_arg);
}

static void behind_set(struct store_journal *journal, struct node *node, bool behind)
{
    bool had_all = has_all(journal);

    if (node->behind == behind)
        return;
    node->behind = behind;
    if (!behind) {
        DL_DELETE2(journal->behind, node, prev, later);
        return;
    }
    DL_APPEND2(journal->behind, node, prev, later);
    falls_behind(journal, had_all);
}

/* A rewrite leaves it out. */
static void deleted_set(struct store_journal *journal, struct node *node, bool deleted)
{
    uint64_t size = record_size(strlen(node->upath));

    if (node->deleted == deleted)
        return;
    node->deleted = deleted;
    if (deleted) {
        journal->deleted++;
        journal->live -= size;
    } else {
        journal->deleted--;
        journal->live += size;
    }
}

static void index_remove(struct store_journal *journal, struct node *node)
{
    behind_set(journal, node, false);
    deleted_set(journal, node, true);
    journal->deleted--;
    HASH_DEL(journal->index, node);
    free(node);
}

static void index_replace(struct store_journal *journal, struct node *node,
                          const struct store_record *record)
{
    node->record = *record;
    node->record.entry.upath = node->upath;
    node->retired = false;
    deleted_set(journal, node, false);
}

/* 0 or -1 ENOMEM. */
static int label_keep(struct store_journal *journal, const char *label, size_t len)
{
    char *copy = strndup(label, len);

    if (!copy)
        return -1;
    if (journal->label)
        journal->live -= record_size(strlen(journal->label));
    free(journal->label);
    journal->label = copy;
    journal->live += record_size(len);
    return 0;
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
        return label_keep(journal, upath, len);
    struct node *node = index_find(journal, upath, len);
    if (disk->kind == DELETE_KIND) {
        if (node)
            index_remove(journal, node);
        return 0;
    }
    journal_decode(disk, &record);
    if (node) {
        index_replace(journal, node, &record);
        return 0;
    }
    node = node_new(upath, len, &record);
    if (!node)
        return -1;
    if (index_add(journal, node) < 0) {
        free(node);
        return -1;
    }
    return 0;
}

/* Read the file up to the first record that is not whole; the end is there. */
static int load(struct store_journal *journal, uint64_t size)
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

    if (out->used + len > BUFFER && output_flush(out) < 0)
        return -1;
    memcpy(out->buf + out->used, disk, len);
    out->used += len;
    return 0;
}

/* Write what the index holds to a new file that takes the place of the old one. `only_new`:
 * only if there is none. */
static int rewrite(struct store_journal *journal, bool only_new)
{
    char temp[STORE_TEMP_NAME_SIZE];
    struct output out = {.buf = malloc(BUFFER)};
    struct node *node, *tmp;
    int saved, rc = -1;

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
    memcpy(out.buf, MAGIC, MAGIC_LEN);
    out.used = MAGIC_LEN;
    rc = output_record(&out, COUNT_KIND, "", NULL, journal->openings);
    if (rc == 0 && journal->label)
        rc = output_record(&out, LABEL_KIND, journal->label, NULL, 0);
    for (node = journal->index; rc == 0 && node; node = node->hh.next)
        if (!node->deleted)
            rc = output_record(&out, node->record.kind, node->upath, &node->record, 0);
    if (rc == 0)
        rc = output_flush(&out);
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
        journal->compact_at = COMPACT_MIN;
        journal->label_behind = false;
        /* The caller may be at work on a deletion: these are written all the same. */
        DL_FOREACH_SAFE2(journal->behind, node, tmp, later)
        {
            if (!node->deleted)
                behind_set(journal, node, false);
        }
    } else {
        saved = errno;
        unlinkat(tmpdir, temp, 0);
        close(out.fd);
        errno = saved;
    }
out_owner:
    saved = errno;
    close(owner);
    errno = saved;
out_tmpdir:
    saved = errno;
    close(tmpdir);
    errno = saved;
out_buf:
    free(out.buf);
    return rc;
}

/* `again`: it has been tried before, and the failure said. */
static int append_quietly(struct store_journal *journal, uint32_t kind, const char *upath,
                          const struct store_record *record, uint64_t counter, bool again)
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
        if (rewrite(journal, false) < 0)
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

static int append(struct store_journal *journal, uint32_t kind, const char *upath,
                  const struct store_record *record, uint64_t counter)
{
    return append_quietly(journal, kind, upath, record, counter, false);
}

/* After the index was changed. A failure is no error of the change: the old file is whole.
 */
static void compact(struct store_journal *journal)
{
    if (journal->end <= journal->compact_at ||
        journal->end - journal->live <= journal->live)
        return;
    int saved = errno;
    if (rewrite(journal, false) < 0) {
        log_warn("cannot compact journal %s: %m", journal->name);
        journal->compact_at = 2 * journal->end;
    }
    errno = saved;
}

static bool is_new(const struct store_journal *journal)
{
    return journal->end == MAGIC_LEN + 2 * record_size(0);
}

/* The label has its place: a journal that had none is new, any other is written anew. */
static int label_write(struct store_journal *journal, bool again)
{
    if (is_new(journal)
            ? append_quietly(journal, LABEL_KIND, journal->label, NULL, 0, again) < 0
            : rewrite(journal, false) < 0)
        return -1;
    journal->label_behind = false;
    return 0;
}

/* Is it worth while to try? On a full disk it would take what little there is from others,
 * again and again. */
static bool has_room(const struct store_journal *journal)
{
    struct statvfs fs;

    return fstatvfs(journal->fd, &fs) < 0 ||
           (uint64_t)fs.f_bavail * fs.f_frsize > journal->live;
}

/* Some of what the file lacks. 0, or -1: it cannot be written yet. */
static int catch_up(struct store_journal *journal)
{
    if (journal->label_behind && is_new(journal) && label_write(journal, true) < 0)
        return -1;
    for (int i = 0; journal->behind && i < CATCH_UP; i++) {
        struct node *node = journal->behind;
        uint32_t kind = node->deleted ? DELETE_KIND : node->record.kind;
        if (append_quietly(journal, kind, node->upath, node->deleted ? NULL : &node->record,
                           0, true) < 0)
            return -1;
        if (node->deleted)
            index_remove(journal, node);
        else
            behind_set(journal, node, false);
    }
    if (journal->behind || !journal->label_behind)
        return 0;
    return has_room(journal) ? label_write(journal, true) : -1;
}

bool store_journal_catch_up(struct store_journal *journal)
{
    int saved = errno;

    if (!has_all(journal) && catch_up(journal) == 0)
        compact(journal);
    errno = saved;
    return has_all(journal);
}

void store_journal_on_behind(struct store_journal *journal, void (*fn)(void *arg),
                             void *arg)
{
    journal->fell_behind = fn;
    journal->fell_behind_arg = arg;
    falls_behind(journal, !has_all(journal));
}

/* The file of this name, claimed. -1: ENOENT there is none; EBUSY. */
static int open_claimed(const struct store_dir *dir, const char *name)
{
    int owner = store_control_subdir(dir, "owner");
    int fd = -1, saved;

    if (owner < 0)
        return -1;
    for (;;) {
        fd = openat(owner, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0)
            break;
        if (store_lock_take(fd) < 0) {
            saved = errno;
            close(fd);
            fd = -1;
            errno = saved;
            break;
        }
        if (store_lock_current(fd, owner, name))
            break;
        /* Rewritten or removed between our open and our claim. */
        close(fd);
    }
    saved = errno;
    close(owner);
    errno = saved;
    return fd;
}

static bool name_ok(const char *name)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t len = strlen(name);

    return len > 0 && len <= NAME_LIMIT && strspn(name, allowed) == len &&
           strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* One with no file yet. NULL with errno. */
static struct store_journal *journal_new(const struct store_dir *dir, const char *name)
{
    struct store_journal *journal;

    if (!name_ok(name)) {
        errno = EINVAL;
        return NULL;
    }
    if (!(journal = calloc(1, sizeof(*journal))))
        return NULL;
    journal->dir = dir;
    journal->fd = -1;
    strcpy(journal->name, name);
    journal->live = MAGIC_LEN + record_size(0);
    journal->compact_at = COMPACT_MIN;
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
        journal->fd = open_claimed(dir, name);
        if (journal->fd >= 0)
            break;
        if (errno != ENOENT)
            goto error_destroy;
    } while (rewrite(journal, true) < 0 && errno == EEXIST);
    if (journal->fd < 0 || fstat(journal->fd, &st) < 0)
        goto error_destroy;
    if (journal_magic_ok(journal->fd)) {
        if (load(journal, (uint64_t)st.st_size) < 0)
            goto error_destroy;
    } else {
        log_warn("journal %s of %s is no journal; a new one is begun", name,
                 store_dir_path(dir));
        if (rewrite(journal, false) < 0)
            goto error_destroy;
    }
    *incarnation = journal->openings;
    if (append(journal, COUNT_KIND, "", NULL, (uint64_t)journal->openings + 1) < 0)
        goto error_destroy;
    journal->openings++;
    compact(journal);
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
    struct node *node, *next;

    if (!journal)
        return;
    HASH_ITER(hh, journal->index, node, next)
    {
        HASH_DEL(journal->index, node);
        free(node);
    }
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
    if ((journal->fd = open_claimed(dir, name)) < 0 || fstat(journal->fd, &st) < 0)
        goto error_destroy;
    if (!journal_magic_ok(journal->fd)) {
        errno = EUCLEAN;
        goto error_destroy;
    }
    if (!wanted(journal_read_label(journal->fd, label) == 0 ? label : NULL, arg)) {
        errno = ECANCELED;
        goto error_destroy;
    }
    if (load(journal, (uint64_t)st.st_size) < 0)
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
    bool had_all = has_all(journal);
    if (label_keep(journal, label, strlen(label)) < 0)
        return -1;
    if (label_write(journal, false) == 0)
        return 0;
    int saved = errno;
    journal->label_behind = true;
    falls_behind(journal, had_all);
    errno = saved;
    return -1;
}

const char *store_journal_label(const struct store_journal *journal)
{
    return journal->label;
}

int store_journal_clear(struct store_journal *journal)
{
    struct node *node, *next, *all = journal->index;
    uint64_t live = journal->live;

    journal->index = NULL;
    if (rewrite(journal, false) < 0) {
        journal->index = all;
        return -1;
    }
    HASH_ITER(hh, all, node, next)
    {
        if (!node->deleted)
            live -= record_size(strlen(node->upath));
        behind_set(journal, node, false);
        HASH_DEL(all, node);
        free(node);
    }
    journal->live = live;
    journal->deleted = 0;
    return 0;
}

int store_journal_list(const struct store_dir *dir, const char *prefix,
                       int (*fn)(const char *name, void *arg), void *arg)
{
    int owner = store_control_subdir(dir, "owner");
    DIR *list = owner >= 0 ? fdopendir(owner) : NULL;
    struct dirent *entry;
    int rc = 0;

    if (!list) {
        int saved = errno;
        if (owner >= 0)
            close(owner);
        errno = saved;
        return -1;
    }
    while (rc == 0 && (entry = readdir(list)))
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 && name_ok(entry->d_name))
            rc = fn(entry->d_name, arg);
    closedir(list);
    return rc;
}

/* Whatever is neither a count nor the label counts as one, and what is not read, too. */
static int has_records(const char *name, void *arg)
{
    int fd = openat(*(int *)arg, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    _Alignas(8) char buf[RECORD_MAX];
    ssize_t n = fd < 0 ? 0 : pread(fd, buf, sizeof(buf), MAGIC_LEN);
    size_t at = 0;

    if (fd >= 0)
        close(fd);
    while (n > 0 && at + sizeof(struct disk_record) <= (size_t)n) {
        struct disk_record disk;
        memcpy(&disk, buf + at, sizeof(disk));
        if ((disk.kind != COUNT_KIND && disk.kind != LABEL_KIND) || disk.len < sizeof(disk))
            return 1;
        at += disk.len;
    }
    return n > 0 && at < (size_t)n;
}

bool store_journal_any(const struct store_dir *dir, const char *prefix)
{
    int saved = errno, owner = store_control_subdir(dir, "owner"), rc;

    rc = owner < 0 ? 0 : store_journal_list(dir, prefix, has_records, &owner);
    if (owner >= 0)
        close(owner);
    errno = saved;
    return rc != 0;
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
    struct node *node = index_find(journal, upath, len);
    int rc, saved;
    if (node) {
        /* record may be the node's own, or its upath. */
        struct store_record copy = *record;
        rc = append(journal, record->kind, upath, record, 0);
        saved = errno;
        index_replace(journal, node, &copy);
    } else {
        node = node_new(upath, len, record);
        if (!node)
            return -1;
        if (index_add(journal, node) < 0) {
            free(node);
            return -1;
        }
        rc = append(journal, record->kind, upath, record, 0);
        saved = errno;
    }
    behind_set(journal, node, rc < 0);
    if (rc == 0) {
        if (!has_all(journal) && !journal->walked)
            catch_up(journal);
        compact(journal);
    }
    errno = saved;
    return rc;
}

int store_journal_delete(struct store_journal *journal, const char *upath)
{
    struct node *node = find(journal, upath);

    if (!node) {
        errno = ENOENT;
        return -1;
    }
    if (append(journal, DELETE_KIND, upath, NULL, 0) < 0) {
        int saved = errno;
        deleted_set(journal, node, true);
        behind_set(journal, node, true);
        errno = saved;
        return -1;
    }
    index_remove(journal, node);
    compact(journal);
    return 0;
}

int store_journal_retire(struct store_journal *journal, const char *upath)
{
    struct node *node = find(journal, upath);

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
    struct node *node = find(journal, upath);

    return node && !node->retired ? &node->record : NULL;
}

int store_journal_foreach(struct store_journal *journal,
                          int (*fn)(const struct store_record *record, void *arg),
                          void *arg)
{
    struct node *node, *next;
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

uint64_t store_journal_bytes(const struct store_journal *journal)
{
    return journal->end;
}
