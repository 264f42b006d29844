/*
 * dht/node_lookup_cache.h - the lookup cache: answers kept as long as they are true;
 * private to dht/
 */
#ifndef DYAD_DHT_NODE_LOOKUP_CACHE_H
#define DYAD_DHT_NODE_LOOKUP_CACHE_H

#include "dht/node_lookup_homes.h"

/* True if an answer that counts for the lookup is kept, here or by another member of this
 * node; then l->status and l->best are set from it. */
bool cache_answers(struct dht_node *node, struct dht_lookup *l);
/* A lookup has begun whose answer is to be kept. */
void cache_expect(struct dht_node *node, const struct dht_lookup *l);
/* It has ended with `best` and `status`; `whole`: all homes that answered will notify us.
 */
void cache_fill(struct dht_node *node, const struct dht_lookup *l, bool whole);
/* The homes have answered this lookup (status 0 or ENOENT): drop a kept answer that says
 * otherwise, since it may be older. */
void cache_answered(struct dht_node *node, const struct dht_lookup *l);
/* The same for an INVALIDATE. */
void cache_newer(struct dht_node *node, const struct dyad_entry *newer);
/* The upath has changed: an answer that is kept or on its way is not true any more. */
void cache_drop(struct dht_node *node, const char *upath);
/* Homes may have moved. */
void cache_drop_all(struct dht_node *node);

#endif
