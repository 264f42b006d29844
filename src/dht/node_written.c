/*
 * dht/node_written.c - as a home: which ranks write a file, one object beside the shard for each such file
 *
 * Kept by what they tell (node_writers.c): a writer is there from its begin to its end, or to that of all writers
 * of its node; or until somebody publishes the file, if it has died (`abandoned`).
 */
#include "dht/node_written.h"

#include <stdlib.h>
#include <string.h>

#include "dht/node_writers.h"

struct written *written_find(const struct dht_node *node, const char *upath)
{
    struct written *written;

    HASH_FIND(hh, node->written, upath, strlen(upath), written);
    return written;
}

struct written *written_get(struct dht_node *node, const char *upath)
{
    struct written *written = written_find(node, upath);
    size_t len = strlen(upath);

    if (written != NULL || (written = calloc(1, sizeof(*written) + len + 1)) == NULL)
        return written;
    memcpy(written->upath, upath, len + 1);
    HASH_ADD_KEYPTR(hh, node->written, written->upath, len, written);
    if (written->hh.tbl == NULL) {
        free(written);
        return NULL;
    }
    return written;
}

void written_free(struct dht_node *node, struct written *written)
{
    HASH_DEL(node->written, written);
    while (written->naskers > 0)
        util_quota_return(&node->askers, written->askers[--written->naskers].rank);
    free(written->writers);
    free(written->askers);
    free(written);
}

void written_free_empty(struct dht_node *node, struct written *written)
{
    if (written->nwriters == 0 && written->naskers == 0)
        written_free(node, written);
}

const struct dht_record *written_record(const struct dht_node *node, const char *upath)
{
    struct dht_key key;

    dht_key_init(&key, upath, node->config.depth);
    return dht_shard_find(node->shard, &key, upath);
}

const struct dyad_entry *written_published(const struct dht_node *node, const char *upath)
{
    const struct dht_record *record = written_record(node, upath);

    return record != NULL && record->entry.state == DYAD_ENTRY_PUBLISHED ? &record->entry
                                                                         : NULL;
}

struct writer *writer_find(struct written *written, uint32_t rank)
{
    for (unsigned i = 0; i < written->nwriters; i++)
        if (written->writers[i].rank == rank)
            return &written->writers[i];
    return NULL;
}

struct dyad_version written_found(const struct dht_node *node, const char *upath)
{
    const struct dyad_entry *there = written_published(node, upath);

    return there != NULL ? there->version : (struct dyad_version){0};
}

struct writer *writer_get(const struct dht_node *node, struct written *written,
                          uint32_t rank)
{
    struct writer *writer = writer_find(written, rank);
    struct writer *writers;

    if (writer != NULL)
        return writer;
    writers = realloc(written->writers, (written->nwriters + 1) * sizeof(*writers));
    if (writers == NULL)
        return NULL;
    written->writers = writers;
    writer = &writers[written->nwriters++];
    *writer = (struct writer){.rank = rank, .found = written_found(node, written->upath)};
    return writer;
}

void writer_remove(struct written *written, struct writer *writer)
{
    *writer = written->writers[--written->nwriters];
    if (written->nwriters == 0)
        written->root.kind = DYAD_BASE_NONE;
}

void written_set_root(struct written *written, const struct dyad_base *found, bool newest)
{
    if ((newest || written->nwriters == 1) && written->root.kind == DYAD_BASE_NONE)
        written->root = *found;
}

bool written_is_beside(const struct dht_node *node, uint32_t rank, uint32_t other)
{
    return rank == other ||
           (node->ops->beside != NULL && node->ops->beside(node->arg, rank, other));
}

void written_remove_node(const struct dht_node *node, struct written *written,
                         uint32_t rank, uint64_t id, uint64_t looked)
{
    for (unsigned i = written->nwriters; i-- > 0;) {
        struct writer *writer = &written->writers[i];
        if (writer->joined && written_is_beside(node, writer->rank, rank) &&
            (writer->since < looked ||
             (writer->rank == rank && writer->since == WRITERS_UNMARKED &&
              writer->id < id)))
            writer_remove(written, writer);
    }
}

struct writer *writer_live(struct written *written, uint32_t but)
{
    for (unsigned i = 0; i < written->nwriters; i++)
        if (!written->writers[i].abandoned && !written->writers[i].removed &&
            !written->writers[i].quiet && written->writers[i].rank != but)
            return &written->writers[i];
    return NULL;
}

const struct writer *writer_elsewhere(const struct dht_node *node,
                                      const struct written *written, uint32_t rank,
                                      unsigned *i)
{
    while (written != NULL && *i < written->nwriters) {
        const struct writer *writer = &written->writers[(*i)++];
        if (writer->joined && !writer->removed &&
            !written_is_beside(node, writer->rank, rank))
            return writer;
    }
    return NULL;
}
