/*
 * dht/node_leave.h - passing records on to other homes: at a handoff, to a newcomer, for
 * dead owners, and those that we stand in for; private to dht/
 */
#ifndef DYAD_DHT_NODE_LEAVE_H
#define DYAD_DHT_NODE_LEAVE_H

#include "dht/node_core.h"

/* mark: the position up to which records are to be passed on now; passed: true if all up
 * to `mark` have been. */
uint64_t leave_mark(const struct dht_node *node);
bool leave_passed(const struct dht_node *node, uint64_t mark);
/* Ranks have died: pass the entries on that they had published. */
void leave_orphans_published(struct dht_node *node);
/* As a home we took a newer version, from `source`: pass it on if need be. */
void leave_note(struct dht_node *node, const struct dht_record *record, uint32_t source);
/* True: we are no home any more, and have refused the request. */
bool leave_refuses(struct dht_node *node, const struct net_msg *msg);

#endif
