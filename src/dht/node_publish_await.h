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
/* Say so in the entry that is sent. */
void publish_note_change(struct publish *op);
/* True if the entry is such a change, of a rank that lives: it brings it to all homes itself, and says what it began from.
 * Of anybody else a home would take it unseen, in the place of a version that it does not know. */
bool publish_is_left_to_publisher(const struct dht_node *node,
                                  const struct dyad_entry *entry);

#endif
