/*
 * dht/node_writers.h - as a home: the ranks that write a file, and those that wait for
 * the end of that; private to dht/
 */
#ifndef DYAD_DHT_NODE_WRITERS_H
#define DYAD_DHT_NODE_WRITERS_H

#include "dht/node_core.h"

/* A newer version of upath is in force: it is not abandoned any more. */
void writers_published(struct dht_node *node, const char *upath);

#endif
