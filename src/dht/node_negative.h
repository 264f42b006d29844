/*
 * dht/node_negative.h - is a negative answer sure?; private to dht/
 */
#ifndef DYAD_DHT_NODE_NEGATIVE_H
#define DYAD_DHT_NODE_NEGATIVE_H

#include "dht/node_lookup_homes.h"

enum negative {
    NEGATIVE_SURE,
    NEGATIVE_TENTATIVE, /* asked again soon it may be sure, or not be negative */
    NEGATIVE_UNKNOWN,   /* nobody can say, and that may last */
};

/* All that were asked have answered or failed, at least one has answered, and nothing is
 * published as far as these know: is that so? */
enum negative negative_judge(struct dht_node *node, struct dht_lookup *l);

#endif
