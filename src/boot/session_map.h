/*
 * boot/session_map.h - which slots share a node
 */
#ifndef DYAD_BOOT_SESSION_MAP_H
#define DYAD_BOOT_SESSION_MAP_H

#include <stdint.h>

#include "boot/pmix.h"

struct map_node;

struct session_map {
    struct boot_pmix_job *job;   /* its node[] is kept up to date */
    struct map_node **slot_node; /* of each slot; NULL: a node of its own */
    struct map_node *nodes;
    uint32_t *numbers; /* free numbers, beyond those of the slots */
    uint32_t nnumbers;
};

/* Set *job to `ranks` slots, each a node of its own; the caller frees job->node. 0, or -1
 * ENOMEM: then call session_map_free() all the same. */
int session_map_create(struct session_map *map, struct boot_pmix_job *job, uint32_t ranks);
void session_map_free(struct session_map *map);
/* The slot is on the node of this hash. Without memory it counts as a node of its own:
 * placement is then a little worse. */
void session_map_set(struct session_map *map, uint32_t slot, uint64_t hash);

#endif
