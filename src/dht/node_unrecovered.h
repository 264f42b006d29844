/*
 * dht/node_unrecovered.h - dead ranks whose shard may be lost; private to dht/
 */
#ifndef DYAD_DHT_NODE_UNRECOVERED_H
#define DYAD_DHT_NODE_UNRECOVERED_H

#include "dht/node_core.h"

/* True if the rank is dead, or back with an empty shard, and its successors may not have
 * all entries that it had. */
bool unrecovered_is(const struct dht_node *node, uint32_t rank);
/* True if the rank is back, and its negative answers are not to be believed. */
bool unrecovered_is_empty(const struct dht_node *node, uint32_t rank);
/* True if, as a home of the key, we stand in for a missing or unrecovered rank. */
bool unrecovered_stands_in(const struct dht_node *node, const struct dht_key *key);
/* The homes of a key if all missing and unrecovered ranks were live. Returns how many. */
unsigned node_homes_all(const struct dht_node *node, const struct dht_key *key,
                        uint32_t homes[DHT_REPLICAS_MAX]);

#endif
