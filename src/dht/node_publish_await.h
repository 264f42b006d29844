/*
 * dht/node_publish_await.h - a change of a published file waits for homes that may be back; private to dht/
 */
#ifndef DYAD_DHT_NODE_PUBLISH_AWAIT_H
#define DYAD_DHT_NODE_PUBLISH_AWAIT_H

#include "dht/node_own.h"

/* True if it is made from a version that is named, and is to be refused by homes that have another. */
bool publish_is_change(const struct publish *op);
/* Of a change: forget that homes which live were silent: they are to be asked again. */
void publish_asks_again(const struct dht_node *node, struct publish *op);
/* True if it is one and waits for a home that is missing: it is to go on (publish_advance()) when ranks are back, or not
 * waited for any more. */
bool publish_awaits_home(const struct dht_node *node, const struct publish *op);

#endif
