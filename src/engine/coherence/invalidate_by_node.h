/*
 * engine/coherence/invalidate_by_node.h - a version is no longer used on this node,
 * whichever of its members has it in its journal
 */
#ifndef DYAD_ENGINE_COHERENCE_INVALIDATE_BY_NODE_H
#define DYAD_ENGINE_COHERENCE_INVALIDATE_BY_NODE_H

#include "engine/core/member.h"

/* dht_node_ops.invalidate_node: remove what any journal of this node has of newer->upath
 * that is older, our own included. `rank`: who is known to have it. If it has no journal in
 * our sight dht_node_unseen() says so. */
void invalidate_by_node(void *arg, const struct dyad_entry *newer, uint32_t rank,
                        uint64_t token);
/* Is one of upath under way? */
bool invalidate_by_node_pending(const struct member *member, const char *upath);

#endif
