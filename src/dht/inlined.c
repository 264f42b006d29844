/*
 * dht/inlined.c - the bytes of small files that a shard keeps beside their records
 */
#include "dht/inlined.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "dht/shard.h"

static size_t file_bytes(const struct dht_inlined_file *file)
{
    return sizeof(*file) + file->len;
}

static void drop(struct dht_inlined *inlined, struct dht_inlined_file *file)
{
    DL_DELETE(inlined->first, file);
    file->record->inlined = NULL;
    inlined->files--;
    inlined->bytes -= file_bytes(file);
    free(file);
}

void dht_inlined_set(struct dht_inlined *inlined, struct dht_record *record,
                     const void *bytes, size_t len, uint64_t digest)
{
    struct dht_inlined_file *file;

    if (record->inlined != NULL)
        drop(inlined, record->inlined);
    if (len == 0 || inlined->max < sizeof(*file) || len > inlined->max - sizeof(*file) ||
        (file = malloc(sizeof(*file) + len)) == NULL)
        return;
    file->record = record;
    file->len = len;
    file->digest = digest;
    memcpy(file->bytes, bytes, len);
    file->held = true;
    while (inlined->bytes > inlined->max - file_bytes(file)) {
        struct dht_inlined_file *oldest;
        DL_FOREACH(inlined->first, oldest)
        {
            if (!oldest->held)
                break;
        }
        if (oldest == NULL) {
            free(file);
            return;
        }
        drop(inlined, oldest);
    }
    DL_APPEND(inlined->first, file);
    record->inlined = file;
    inlined->files++;
    inlined->bytes += file_bytes(file);
}
