/*
 * relay.c - the owner's list of who reads a version, as a binary tree; and, of each reader, what the owner's bytes were
 *
 * The readers of a file are numbered as they come. The first two get it from the owner;
 * number i asks number i / 2 - 1, which has the bytes, or is getting them, and passes them
 * on as they come (serve.c). So the owner sends a file twice, and so does each reader. A
 * reader whose relay fails in whatever way asks the owner for the rest (transfer_chunks.c).
 *
 * What could go wrong: readers that wait for each other. A relay has a lower number than
 * those that ask it, and asks one with a lower number still, or the owner.
 */
#include "engine/fetch/relay.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "engine/core/module.h"
#include "engine/membership/unreachable.h"
#include "util/log.h"

#define OWN_READERS 2  /* served by the owner, and by each relay */
#define TREES_MAX   64 /* files whose readers are remembered, and of which chunks are */

struct tree {
    struct tree *prev, *next; /* utlist; the one asked for last is first */
    struct dyad_version version;
    uint32_t *reader; /* ranks, as they came */
    size_t used, size;
    char upath[];
};

/* Of a file that was fetched. */
struct chunks {
    struct chunks *prev, *next; /* utlist; the last one noted is first */
    struct dyad_version version;
    size_t n;
    uint64_t *digest; /* of each, as the owner made it; 0: not known */
    char upath[];
};

struct relay {
    struct tree *trees;
    unsigned ntrees;
    struct chunks *chunks;
    unsigned nfiles; /* of these */
};

static void tree_free(struct relay *relay, struct tree *tree)
{
    DL_DELETE(relay->trees, tree);
    relay->ntrees--;
    free(tree->reader);
    free(tree);
}

/* The tree of that version, an empty one at first. NULL: no memory. */
static struct tree *tree_of(struct relay *relay, const struct dyad_entry *entry)
{
    size_t len = strlen(entry->upath);
    struct tree *tree;

    DL_FOREACH(relay->trees, tree)
    {
        if (strcmp(tree->upath, entry->upath) == 0)
            break;
    }
    if (tree && dyad_version_cmp(&tree->version, &entry->version) == 0) {
        DL_DELETE(relay->trees, tree);
        DL_PREPEND(relay->trees, tree);
        return tree;
    }
    if (tree)
        tree_free(relay, tree);
    else if (relay->ntrees == TREES_MAX)
        tree_free(relay, relay->trees->prev); /* utlist: the last one */
    if (!(tree = calloc(1, sizeof(*tree) + len + 1)))
        return NULL;
    tree->version = entry->version;
    memcpy(tree->upath, entry->upath, len + 1);
    DL_PREPEND(relay->trees, tree);
    relay->ntrees++;
    return tree;
}

/* The number of a reader, a new one if it has none; 0, which is served by the owner, where
 * there is no memory for it. */
static size_t number_of(struct tree *tree, uint32_t rank)
{
    for (size_t i = 0; i < tree->used; i++)
        if (tree->reader[i] == rank)
            return i;
    if (tree->used == tree->size) {
        size_t size = tree->size ? 2 * tree->size : 16;
        uint32_t *reader = realloc(tree->reader, size * sizeof(*reader));
        if (!reader)
            return 0;
        tree->reader = reader;
        tree->size = size;
    }
    tree->reader[tree->used] = rank;
    return tree->used++;
}

/* One window of chunks is sent in the time that relays take to begin. */
bool relay_is_large(const struct member *member, const struct dyad_entry *entry)
{
    return entry->size >
           (uint64_t)member->config->chunk_size * (uint64_t)member->config->chunks;
}

bool relay_redirect(struct member *member, uint32_t rank, uint64_t id,
                    const struct dyad_entry *entry)
{
    struct net_msg msg = {.type = NET_MSG_REDIRECT, .id = id};
    struct tree *tree;

    /* A promoted guest knows no rank but its own member, and its file's owner. */
    if (!relay_is_large(member, entry) || rank == member->self.rank || net_is_guest(rank) ||
        !(tree = tree_of(OWN(member, relay), entry)))
        return false;
    msg.entry.version = entry->version;
    for (size_t i = number_of(tree, rank); i >= OWN_READERS;) {
        i = i / OWN_READERS - 1;
        msg.rank = tree->reader[i];
        if (!dht_node_is_live(member->dht, msg.rank) ||
            unreachable_is_silent(member, msg.rank)) {
            log_debug(
                "rank %u is not to pass \"%s\" on to rank %u: it cannot be reached now",
                msg.rank, entry->upath, rank);
            continue;
        }
        if (member_send(member, rank, &msg) < 0)
            return false;
        log_debug("rank %u is to get \"%s\" from rank %u", rank, entry->upath, msg.rank);
        return true;
    }
    return false;
}

static void chunks_free(struct relay *relay, struct chunks *chunks)
{
    DL_DELETE(relay->chunks, chunks);
    relay->nfiles--;
    free(chunks->digest);
    free(chunks);
}

static struct chunks *chunks_find(const struct relay *relay, const struct dyad_entry *entry)
{
    struct chunks *chunks;

    DL_FOREACH(relay->chunks, chunks)
    {
        if (strcmp(chunks->upath, entry->upath) == 0)
            return chunks;
    }
    return NULL;
}

/* The number of a chunk as we ask for them; SIZE_MAX: it is none. */
static size_t chunk_number(const struct member *member, const struct dyad_entry *entry,
                           uint64_t offset, uint64_t length)
{
    uint64_t size = (uint64_t)member->config->chunk_size;
    uint64_t left = offset < entry->size ? entry->size - offset : 0;

    return offset % size == 0 && length == (left < size ? left : size)
               ? (size_t)(offset / size)
               : SIZE_MAX;
}

void relay_note(struct member *member, const struct dyad_entry *entry, uint64_t offset,
                uint64_t length, uint64_t digest)
{
    struct relay *relay = OWN(member, relay);
    size_t number = chunk_number(member, entry, offset, length), len;
    struct chunks *chunks = chunks_find(relay, entry);

    if (chunks && dyad_version_cmp(&chunks->version, &entry->version) != 0) {
        chunks_free(relay, chunks);
        chunks = NULL;
    }
    if (digest == 0 || number == SIZE_MAX || !relay_is_large(member, entry))
        return;
    if (!chunks) {
        if (relay->nfiles == TREES_MAX)
            chunks_free(relay, relay->chunks->prev); /* utlist: the last one */
        len = strlen(entry->upath) + 1;
        if (!(chunks = calloc(1, sizeof(*chunks) + len)))
            return;
        chunks->n = (size_t)((entry->size - 1) / (uint64_t)member->config->chunk_size + 1);
        if (!(chunks->digest = calloc(chunks->n, sizeof(*chunks->digest)))) {
            free(chunks);
            return;
        }
        chunks->version = entry->version;
        memcpy(chunks->upath, entry->upath, len);
        DL_PREPEND(relay->chunks, chunks);
        relay->nfiles++;
    }
    if (number < chunks->n)
        chunks->digest[number] = digest;
}

uint64_t relay_digest(struct member *member, const struct dyad_entry *entry,
                      uint64_t offset, uint64_t length)
{
    const struct chunks *chunks = chunks_find(OWN(member, relay), entry);
    size_t number = chunk_number(member, entry, offset, length);

    return chunks && dyad_version_cmp(&chunks->version, &entry->version) == 0 &&
                   number < chunks->n
               ? chunks->digest[number]
               : 0;
}

static void relay_destroy(struct member *member)
{
    struct relay *relay = OWN(member, relay);

    while (relay->chunks)
        chunks_free(relay, relay->chunks);

    while (relay->trees)
        tree_free(relay, relay->trees);
}

const struct member_module relay_module = {
    .own = MODULE_OWN(relay),
    .destroy = relay_destroy,
};
