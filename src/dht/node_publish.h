/*
 * dht/node_publish.h - publish and withdraw: one operation, at all homes; private to dht/
 */
#ifndef DYAD_DHT_NODE_PUBLISH_H
#define DYAD_DHT_NODE_PUBLISH_H

#include "dht/node_own.h"

/* An operation or an invalidation has ended: go on with those that waited for it. May
 * free `own`. */
void publish_go_on(struct dht_node *node, struct own *own);
/* Complete the operation: call its fn, and free it. */
void publish_end(struct dht_node *node, struct publish *op);
/* Bring our entry to homes that lack it. */
void publish_repair(struct dht_node *node, struct own *own);
/* Send an entry that another rank published to all homes, if we have no entry of that
 * upath. True: that was begun, and may have ended already. */
bool publish_relay(struct dht_node *node, const struct dyad_entry *entry);
/* The same for the entry of upath that the shard has now. */
bool publish_relay_record(struct dht_node *node, const char *upath);

#endif
