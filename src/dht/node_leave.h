/*
 * dht/node_leave.h - records that go to other homes: of a rank that leaves in order, of
 * what a newcomer waits for, of what the dead have left, of what we stand in for; private
 * to dht/
 */
#ifndef DYAD_DHT_NODE_LEAVE_H
#define DYAD_DHT_NODE_LEAVE_H

#include "dht/node_core.h"

/* What was to be passed on until now; has been all that was so then? */
uint64_t leave_mark(const struct dht_node *node);
bool leave_passed(const struct dht_node *node, uint64_t mark);
/* Ranks have died: pass on what they have published. */
void leave_orphans_published(struct dht_node *node);
/* As a home we took a newer version, from `source`. */
void leave_note(struct dht_node *node, const struct dht_record *record, uint32_t source);
/* True: we are no home any more, and said so. */
bool leave_refuses(struct dht_node *node, const struct net_msg *msg);

#endif
