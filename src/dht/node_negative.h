/*
 * dht/node_negative.h - whether a negative answer is sure; private to dht/
 */
#ifndef DYAD_DHT_NODE_NEGATIVE_H
#define DYAD_DHT_NODE_NEGATIVE_H

#include "dht/node_lookup_homes.h"

enum negative {
    NEGATIVE_SURE,
    NEGATIVE_TENTATIVE, /* if asked again soon, it may be sure, or not negative */
    NEGATIVE_UNKNOWN,   /* no rank that can be reached knows, and that may last */
};

/* Judge a negative answer: all ranks that were asked have answered or failed, at least
 * one has answered, and none of them knows a published entry. */
enum negative negative_judge(struct dht_node *node, struct dht_lookup *l);

#endif
