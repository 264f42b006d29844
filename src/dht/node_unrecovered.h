/*
 * dht/node_unrecovered.h - the dead whose shard nobody can make good; private to dht/
 */
#ifndef DYAD_DHT_NODE_UNRECOVERED_H
#define DYAD_DHT_NODE_UNRECOVERED_H

#include "dht/node_core.h"

/* Dead, or back with an empty shard: not all that it had is with its successors. */
bool unrecovered_is(const struct dht_node *node, uint32_t rank);
/* ... back, and not to be believed. */
bool unrecovered_is_empty(const struct dht_node *node, uint32_t rank);
/* As a home of the key we stand in for some that are missing, or unrecovered. */
bool unrecovered_stands_in(const struct dht_node *node, const struct dht_key *key);
/* Homes of a key if all who are missing, or unrecovered, were live. */
unsigned node_homes_all(const struct dht_node *node, const struct dht_key *key,
                        uint32_t homes[DHT_REPLICAS_MAX]);

#endif
