/*
 * engine/coherence/invalidate_by_node.h - a version is no longer used on this node,
 * whichever of its members has it in its journal
 */
#ifndef DYAD_ENGINE_COHERENCE_INVALIDATE_BY_NODE_H
#define DYAD_ENGINE_COHERENCE_INVALIDATE_BY_NODE_H

#include "engine/core/member.h"

/* dht_node_ops.invalidate_node: remove every file of newer->upath that is older and in a
 * journal of this node, our own included. `rank`: the rank that is known to have one; if
 * we see no journal of it, dht_node_unseen() is called. */
void invalidate_by_node(void *arg, const struct dyad_entry *newer, uint32_t rank,
                        uint64_t token);
/* True if such a removal of upath is under way. */
bool invalidate_by_node_pending(const struct member *member, const char *upath);

#endif
