/*
 * lock_nodes.c - the nodes that are asked for a lock, by a rank of each
 */
#include "engine/publish/lock_nodes.h"

#include <stdlib.h>
#include <string.h>

#include "engine/core/joined_writers.h"

void lock_nodes_free(struct lock_nodes *nodes)
{
    free(nodes->rank);
    *nodes = (struct lock_nodes){0};
}

int lock_nodes_add(struct lock_nodes *nodes, uint32_t rank)
{
    uint32_t *grown;

    for (unsigned i = 0; i < nodes->n; i++)
        if (nodes->rank[i] == rank)
            return 0;
    if (!(grown = realloc(nodes->rank, (nodes->n + 1) * sizeof(*grown))))
        return -1;
    nodes->rank = grown;
    nodes->rank[nodes->n++] = rank;
    return 0;
}

static const struct net_peer *peer_of(struct member *member, uint32_t rank)
{
    return rank == member->self.rank ? &member->self
                                     : net_worker_peer(member->worker, rank);
}

/* The order of nodes, which all agree on. */
static int order(const struct net_peer *a, const struct net_peer *b)
{
    int node = strcmp(a->node, b->node);

    return node ? node
                : memcmp(a->storage_producer, b->storage_producer, DYAD_STORAGE_ID_LEN);
}

int lock_nodes_choose(struct lock_nodes *nodes, struct member *member,
                      const uint32_t *ranks, unsigned n)
{
    if (lock_nodes_add(nodes, member->self.rank) < 0)
        return -1;
    for (unsigned i = 0; i < n; i++) {
        const struct net_peer *peer = peer_of(member, ranks[i]);
        bool beside = false;
        unsigned at = 0;
        if (!peer)
            return -1;
        for (unsigned k = 0; k < nodes->n; k++) {
            const struct net_peer *other = peer_of(member, nodes->rank[k]);
            beside |= joined_writers_are_beside(peer, other);
            at += order(other, peer) < 0;
        }
        if (beside)
            continue;
        if (lock_nodes_add(nodes, ranks[i]) < 0)
            return -1;
        memmove(&nodes->rank[at + 1], &nodes->rank[at],
                (nodes->n - 1 - at) * sizeof(*nodes->rank));
        nodes->rank[at] = ranks[i];
    }
    return 0;
}
