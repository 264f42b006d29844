/*
 * session_map.c - nodes by hash, each with a number as long as a slot is there
 */
#include "boot/session_map.h"

#include <stdlib.h>

#include <uthash.h>

struct map_node {
    UT_hash_handle hh;
    uint64_t hash;
    uint32_t number, users;
};

int session_map_create(struct session_map *map, struct boot_pmix_job *job, uint32_t ranks)
{
    map->job = job;
    map->job->nranks = ranks;
    map->job->nnodes = 2 * ranks; /* a bound: a slot without a node counts as one */
    map->job->node = calloc(ranks, sizeof(*map->job->node));
    map->slot_node = calloc(ranks, sizeof(*map->slot_node));
    map->numbers = calloc(ranks, sizeof(*map->numbers));
    if (!map->job->node || !map->slot_node || !map->numbers)
        return -1;
    for (uint32_t i = 0; i < ranks; i++) {
        map->job->node[i] = i;
        map->numbers[i] = 2 * ranks - 1 - i;
    }
    map->nnumbers = ranks;
    return 0;
}

void session_map_set(struct session_map *map, uint32_t slot, uint64_t hash)
{
    struct map_node *old = map->slot_node[slot], *node;

    if (old && old->hash == hash)
        return;
    if (old && --old->users == 0) {
        map->numbers[map->nnumbers++] = old->number;
        HASH_DEL(map->nodes, old);
        free(old);
    }
    map->slot_node[slot] = NULL;
    map->job->node[slot] = slot;
    HASH_FIND(hh, map->nodes, &hash, sizeof(hash), node);
    if (!node) {
        if (!(node = calloc(1, sizeof(*node))))
            return;
        node->hash = hash;
        HASH_ADD(hh, map->nodes, hash, sizeof(node->hash), node);
        if (!node->hh.tbl) {
            free(node);
            return;
        }
        node->number = map->numbers[--map->nnumbers];
    }
    node->users++;
    map->slot_node[slot] = node;
    map->job->node[slot] = node->number;
}

void session_map_free(struct session_map *map)
{
    struct map_node *node, *next;

    HASH_ITER(hh, map->nodes, node, next)
    {
        HASH_DEL(map->nodes, node);
        free(node);
    }
    free(map->slot_node);
    free(map->numbers);
}
