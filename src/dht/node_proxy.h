/*
 * dht/node_proxy.h - the publisher's part: a live rank of its node is invalidated in place
 * of a holder that no home can know of; private to dht/
 */
#ifndef DYAD_DHT_NODE_PROXY_H
#define DYAD_DHT_NODE_PROXY_H

#include "dht/node_own.h"

/* All homes that could be asked have answered: have neighbours of the others remove older
 * copies there. True: the publish waits for that. */
bool proxy_see_to(struct dht_node *node, struct publish *op);
/* The publish ends, or begins anew with another version. */
void proxy_forget(struct dht_node *node, struct publish *op);
/* op->proxy_timer has expired. */
void proxy_timeout(struct dht_node *node, struct publish *op);
/* The rank is dead. True if it was asked in the place of another. */
bool proxy_rank_dead(struct dht_node *node, struct publish *op, uint32_t rank);
/* An answer has come. True if it was one to op. */
bool proxy_reply(struct dht_node *node, struct publish *op, const struct net_msg *msg);

#endif
