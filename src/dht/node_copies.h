/*
 * dht/node_copies.h - all homes know of our copies; private to dht/
 */
#ifndef DYAD_DHT_NODE_COPIES_H
#define DYAD_DHT_NODE_COPIES_H

#include "dht/node_core.h"

/* The home has noted us as a holder of that version (DYAD_RANK_NONE: none has); the others
 * are told. */
void copies_note(struct dht_node *node, const char *upath,
                 const struct dyad_version *version, uint32_t home);
/* A home told us of a newer version, and counts us no more. */
void copies_newer(struct dht_node *node, const struct dyad_entry *newer);
/* We publish it ourselves. */
void copies_drop(struct dht_node *node, const char *upath);

#endif
