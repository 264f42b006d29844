/*
 * dht/node_home_answers.h - the home role: a shard that answers, notifies and invalidates;
 * private to dht/
 */
#ifndef DYAD_DHT_NODE_HOME_ANSWERS_H
#define DYAD_DHT_NODE_HOME_ANSWERS_H

#include "dht/node_core.h"

/* Answer a PUBLISH. Returns true. */
bool home_publish(struct dht_node *node, const struct net_msg *msg);

#endif
