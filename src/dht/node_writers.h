/*
 * dht/node_writers.h - as a home: who writes what, and who waits for that to end; private
 * to dht/
 */
#ifndef DYAD_DHT_NODE_WRITERS_H
#define DYAD_DHT_NODE_WRITERS_H

#include "dht/node_core.h"

/* A newer version of upath is in force. */
void writers_published(struct dht_node *node, const char *upath);

#endif
