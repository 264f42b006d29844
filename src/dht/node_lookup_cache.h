/*
 * dht/node_lookup_cache.h - answers of look-ups, kept as long as they are true; private to
 * dht/
 */
#ifndef DYAD_DHT_NODE_LOOKUP_CACHE_H
#define DYAD_DHT_NODE_LOOKUP_CACHE_H

#include "dht/node_lookup_homes.h"

/* Is there an answer, here or with another member of this node, that counts for the lookup?
 * It has its status and `best` then. */
bool cache_answers(struct dht_node *node, struct dht_lookup *l);
/* A lookup has begun that would bring one. */
void cache_expect(struct dht_node *node, const struct dht_lookup *l);
/* It has ended with `best` and `status`; `whole`: all who answered will tell us. */
void cache_fill(struct dht_node *node, const struct dht_lookup *l, bool whole);
/* The homes have answered this one (status 0 or ENOENT): what is kept and says otherwise
 * may be older. */
void cache_answered(struct dht_node *node, const struct dht_lookup *l);
/* The same of an INVALIDATE. */
void cache_newer(struct dht_node *node, const struct dyad_entry *newer);
/* Something happened to the upath: what is kept or on its way is not true any more. */
void cache_drop(struct dht_node *node, const char *upath);
/* Homes may have moved. */
void cache_drop_all(struct dht_node *node);

#endif
