/*
 * dht/node_copies.h - letting all homes know of our copies; private to dht/
 */
#ifndef DYAD_DHT_NODE_COPIES_H
#define DYAD_DHT_NODE_COPIES_H

#include "dht/node_core.h"

/* The home has noted us as a holder of that version (DYAD_RANK_NONE: none has): notify
 * the other homes. */
void copies_note(struct dht_node *node, const char *upath,
                 const struct dyad_version *version, uint32_t home);
/* True if we have a copy that is older. */
bool copies_are_older(const struct dht_node *node, const struct dyad_entry *newer);
/* A home has sent us a newer version, and does not count us as a holder any more. */
void copies_newer(struct dht_node *node, const struct dyad_entry *newer);
/* We publish it ourselves. */
void copies_drop(struct dht_node *node, const char *upath);

#endif
