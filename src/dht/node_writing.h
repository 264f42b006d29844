/*
 * dht/node_writing.h - files that are open for writing, on storage that nodes share;
 * private to dht/
 */
#ifndef DYAD_DHT_NODE_WRITING_H
#define DYAD_DHT_NODE_WRITING_H

#include "dht/node_core.h"

/* True if each BEGIN and END of ours has been answered. */
bool writing_all_told(const struct dht_node *node);

/* Send WRITING to the homes that have not been asked. True if an answer is outstanding.
 */
bool writing_ask_homes(struct dht_node *node, const struct dht_key *key, const char *upath,
                       struct asks *asks, uint8_t what, uint64_t when,
                       const struct dyad_base *base, uint64_t id);
/* Pass over the homes that have not answered. */
void writing_time_out(struct dht_node *node, struct asks *asks);

#endif
