/*
 * dht/node_publish_await.h - a change of a published file waits for homes that may be back; private to dht/
 */
#ifndef DYAD_DHT_NODE_PUBLISH_AWAIT_H
#define DYAD_DHT_NODE_PUBLISH_AWAIT_H

#include "dht/node_own.h"

/* Of a change: forget that homes which live were silent: they are to be asked again. */
void publish_asks_again(const struct dht_node *node, struct publish *op);
/* True if it is one, and waits for a home that is missing, or may be in a moment: it is looked at again by its timer. */
bool publish_awaits_home(struct dht_node *node, struct publish *op);

#endif
