/*
 * dht/node_publish_await.h - a change of a published file waits for homes that may be back; private to dht/
 */
#ifndef DYAD_DHT_NODE_PUBLISH_AWAIT_H
#define DYAD_DHT_NODE_PUBLISH_AWAIT_H

#include "dht/node_own.h"

/* Forget that homes which live were silent: they are to be asked again. */
void publish_asks_again(const struct dht_node *node, struct publish *op);
/* True if the operation waits for a home that is missing: it is to go on (publish_advance()) when that is back, or not
 * waited for any more. Of that rank, or DYAD_RANK_NONE: of any: whether it was passed over, and may still be missing. */
bool publish_awaits_home(const struct dht_node *node, const struct publish *op,
                         uint32_t rank);

#endif
