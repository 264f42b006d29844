/*
 * dht/node_publish.h - publish and withdraw: one operation, at all homes; private to dht/
 */
#ifndef DYAD_DHT_NODE_PUBLISH_H
#define DYAD_DHT_NODE_PUBLISH_H

#include "dht/node_own.h"

/* After an operation or an invalidation: go on with what waited for its end. `own` may be
 * gone then. */
void publish_go_on(struct dht_node *node, struct own *own);
/* Its completion. */
void publish_end(struct dht_node *node, struct publish *op);
/* Bring what is ours to homes that lack it. */
void publish_repair(struct dht_node *node, struct own *own);
/* Give an entry that another rank published to all homes, if nothing of ours is there.
 * True: that was begun, and may be over. */
bool publish_relay(struct dht_node *node, const struct dyad_entry *entry);
/* The same of what the shard has of upath now. */
bool publish_relay_record(struct dht_node *node, const char *upath);

#endif
