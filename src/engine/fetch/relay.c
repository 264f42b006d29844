/*
 * relay.c - the owner's list of who reads a version, as a binary tree
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
#define TREES_MAX   64 /* files whose readers are remembered */

struct tree {
    struct tree *prev, *next; /* utlist; the one asked for last is first */
    struct dyad_version version;
    uint32_t *reader; /* ranks, as they came */
    size_t used, size;
    char upath[];
};

struct relay {
    struct tree *trees;
    unsigned ntrees;
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
static bool is_large(const struct member *member, const struct dyad_entry *entry)
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
    if (!is_large(member, entry) || rank == member->self.rank || net_is_guest(rank) ||
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

static void relay_destroy(struct member *member)
{
    struct relay *relay = OWN(member, relay);

    while (relay->trees)
        tree_free(relay, relay->trees);
}

const struct member_module relay_module = {
    .own = MODULE_OWN(relay),
    .destroy = relay_destroy,
};
