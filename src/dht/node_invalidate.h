/*
 * dht/node_invalidate.h - the home role: holders of what is older are invalidated; private
 * to dht/
 */
#ifndef DYAD_DHT_NODE_INVALIDATE_H
#define DYAD_DHT_NODE_INVALIDATE_H

#include "dht/node_core.h"

struct invalidation;

/* The PUBLISH is to be acknowledged when all holders have been told. NULL: ENOMEM */
struct invalidation *invalidation_create(struct dht_node *node, struct dht_record *record,
                                         const struct net_msg *msg);
/* Move the ranks that hold something older from the record, which has not the new version
 * yet, to it. */
void invalidation_take_holders(struct dht_node *node, struct invalidation *inv,
                               const struct net_msg *msg);
/* The record has the new version. May end and free it. */
void invalidation_start(struct dht_node *node, struct invalidation *inv);
/* Acknowledge this PUBLISH as well when holders of what is older than `version` have been
 * told. False: they have been. */
bool invalidation_join(struct dht_record *record, const struct dyad_version *version,
                       uint32_t rank, uint64_t id);

#endif
