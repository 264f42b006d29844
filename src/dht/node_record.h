/*
 * dht/node_record.h - as a home: records without an entry, and ranks that keep a negative
 * entry; private to dht/
 */
#ifndef DYAD_DHT_NODE_RECORD_H
#define DYAD_DHT_NODE_RECORD_H

#include "dht/node_core.h"

/* True if the record can be removed. One with an entry stays: tombstones last. */
bool record_is_empty(const struct dht_record *record);
void record_remove_empty(struct dht_node *node, struct dht_record *record);
/* True if the rank is one of the record's homes now, as far as this one knows. */
bool record_has_home(struct dht_node *node, const struct dht_record *record, uint32_t rank);
/* Note that the rank keeps the answer "not published"; `record` NULL: create the record.
 * False: the rank must not keep it. */
bool record_note(struct dht_node *node, struct dht_record *record,
                 const struct dht_key *key, const struct net_msg *msg);
/* The record's holders, if any, do not hold a negative entry any more. */
void record_forget_noted(struct dht_node *node, struct dht_record *record);

#endif
