/*
 * engine/publish/lock_nodes.h - the nodes that are asked for a lock, by a rank of each
 */
#ifndef DYAD_ENGINE_PUBLISH_LOCK_NODES_H
#define DYAD_ENGINE_PUBLISH_LOCK_NODES_H

#include "engine/core/member.h"

/* All zero: none. */
struct lock_nodes {
    uint32_t *rank;
    unsigned n;
};

void lock_nodes_free(struct lock_nodes *nodes);
/* Add a rank behind the others, if it is not there. 0, or -1: no memory. */
int lock_nodes_add(struct lock_nodes *nodes, uint32_t rank);
/* One rank of each node of those `ranks`, and our own, in the order of nodes, which is the same to all
 * ranks. 0, or -1: one is not known, or no memory. */
int lock_nodes_choose(struct lock_nodes *nodes, struct member *member,
                      const uint32_t *ranks, unsigned n);

#endif
