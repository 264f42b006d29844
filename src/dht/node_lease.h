/*
 * dht/node_lease.h - how long the lease of a holder that is lost must be waited for;
 * private to dht/
 */
#ifndef DYAD_DHT_NODE_LEASE_H
#define DYAD_DHT_NODE_LEASE_H

#include "dht/node_core.h"

/* True if the rank, which is taken for dead, may still use its copies under a lease. */
bool lease_may_last(const struct dht_node *node, uint32_t rank);
/* True if a holder may have a lease that only lost homes of the key know, and none of
 * these homes has answered. */
bool lease_of_home_may_last(const struct dht_node *node, const struct dht_key *key,
                            struct asks *asks);

#endif
