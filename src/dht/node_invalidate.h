/*
 * dht/node_invalidate.h - the home role: invalidating holders of older versions; private
 * to dht/
 */
#ifndef DYAD_DHT_NODE_INVALIDATE_H
#define DYAD_DHT_NODE_INVALIDATE_H

#include "dht/node_core.h"

struct invalidation;

/* Begin an invalidation: the PUBLISH `msg` is acknowledged at its end. NULL: ENOMEM */
struct invalidation *invalidation_create(struct dht_node *node, struct dht_record *record,
                                         const struct net_msg *msg);
/* Move the ranks that hold an older version from the record, which does not have the new
 * version yet, to the invalidation. */
void invalidation_take_holders(struct dht_node *node, struct invalidation *inv,
                               const struct net_msg *msg);
/* The record has the new version: send INVALIDATE. May end and free `inv`. */
void invalidation_start(struct dht_node *node, struct invalidation *inv);
/* True if a holder of an older version than the record's has not been invalidated yet. */
bool invalidation_is_awaited(const struct dht_record *record);
/* Acknowledge this PUBLISH as well when the holders of versions below `version` have been
 * invalidated. False: they have been already. */
bool invalidation_join(struct dht_record *record, const struct dyad_version *version,
                       uint32_t rank, uint64_t id);

#endif
