/*
 * dht/index.c - a hash table of directories, each with the list of its records
 *
 * A record is appended with a number that only rises, and a listing goes on behind the
 * number at which its last page ended. So whatever changes between two pages, a record that
 * is there all the time comes exactly once. A page behind the first passes over what the
 * earlier ones have given: some nanoseconds a record.
 *
 * Adding costs one hash of the directory's path and one look into the table (sim_dht shows
 * it): listings cost a publish no message.
 */
#include "dht/index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

struct dht_directory {
    UT_hash_handle hh;
    struct dht_record *records; /* utlist, by dir_number */
    size_t len;
    char path[]; /* without a NUL */
};

struct dht_index {
    struct dht_directory *directories;
    uint64_t last_number, bytes;
};

static unsigned hash_of(const char *path, size_t len)
{
    return (unsigned)XXH3_64bits(path, len);
}

static size_t parent_len(const char *upath)
{
    const char *slash = strrchr(upath, '/');
    return slash != NULL ? (size_t)(slash - upath) : 0;
}

static struct dht_directory *directory_find(struct dht_index *index, const char *path,
                                            size_t len)
{
    struct dht_directory *dir;

    HASH_FIND_BYHASHVALUE(hh, index->directories, path, len, hash_of(path, len), dir);
    return dir;
}

static struct dht_directory *directory_get(struct dht_index *index, const char *path,
                                           size_t len)
{
    struct dht_directory *dir = directory_find(index, path, len);

    if (dir != NULL)
        return dir;
    dir = calloc(1, sizeof(*dir) + len + 1);
    if (dir == NULL)
        return NULL;
    memcpy(dir->path, path, len);
    dir->len = len;
    HASH_ADD_KEYPTR_BYHASHVALUE(hh, index->directories, dir->path, len, hash_of(path, len),
                                dir);
    if (dir->hh.tbl == NULL) {
        free(dir);
        errno = ENOMEM;
        return NULL;
    }
    index->bytes += sizeof(*dir) + len + 1;
    return dir;
}

static void directory_free(struct dht_index *index, struct dht_directory *dir)
{
    index->bytes -= sizeof(*dir) + dir->len + 1;
    HASH_DEL(index->directories, dir);
    free(dir);
}

struct dht_index *dht_index_create(void)
{
    return calloc(1, sizeof(struct dht_index));
}

void dht_index_destroy(struct dht_index *index)
{
    struct dht_directory *dir, *tmp;

    if (index == NULL)
        return;
    HASH_ITER(hh, index->directories, dir, tmp)
    {
        struct dht_record *record;
        DL_FOREACH2(dir->records, record, dir_next)
        {
            record->dir = NULL;
        }
        directory_free(index, dir);
    }
    free(index);
}

int dht_index_add(struct dht_index *index, struct dht_record *record)
{
    struct dht_directory *dir;

    if (record->dir != NULL)
        return 0;
    dir = directory_get(index, record->upath, parent_len(record->upath));
    if (dir == NULL)
        return -1;
    record->dir = dir;
    record->dir_number = ++index->last_number;
    DL_APPEND2(dir->records, record, dir_prev, dir_next);
    return 0;
}

void dht_index_remove(struct dht_index *index, struct dht_record *record)
{
    struct dht_directory *dir = record->dir;

    if (dir == NULL)
        return;
    DL_DELETE2(dir->records, record, dir_prev, dir_next);
    record->dir = NULL;
    if (dir->records == NULL)
        directory_free(index, dir);
}

bool dht_index_list(struct dht_index *index, const char *parent, struct dht_list_at *at,
                    int (*fn)(const char *name, const struct dyad_entry *entry, void *arg),
                    void *arg)
{
    size_t len = strlen(parent);
    struct dht_directory *dir = directory_find(index, parent, len);
    struct dht_record *record;

    if (at->end == 0)
        at->end = index->last_number;
    if (dir == NULL)
        return false;
    DL_FOREACH2(dir->records, record, dir_next)
    {
        if (record->dir_number <= at->after)
            continue;
        if (record->dir_number > at->end)
            break;
        if (fn(record->upath + len + (len > 0), &record->entry, arg) != 0)
            return true;
        at->after = record->dir_number;
    }
    return false;
}

uint64_t dht_index_bytes(const struct dht_index *index)
{
    return index->bytes;
}
