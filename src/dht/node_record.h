/*
 * dht/node_record.h - as a home: a record without an entry, and who holds that there is
 * nothing; private to dht/
 */
#ifndef DYAD_DHT_NODE_RECORD_H
#define DYAD_DHT_NODE_RECORD_H

#include "dht/node_core.h"

/* It says nothing any more. Those with an entry stay: tombstones last. */
bool record_is_empty(const struct dht_record *record);
void record_remove_empty(struct dht_node *node, struct dht_record *record);
/* The rank keeps the answer that nothing is published; the record is made if need be.
 * False: it must not. */
bool record_note(struct dht_node *node, struct dht_record *record,
                 const struct dht_key *key, const struct net_msg *msg);
/* The record's holders, if it has any, are not holders of nothing any more. */
void record_forget_noted(struct dht_node *node, struct dht_record *record);

#endif
