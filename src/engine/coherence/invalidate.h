/*
 * engine/coherence/invalidate.h - what happens here when another node has published anew
 */
#ifndef DYAD_ENGINE_COHERENCE_INVALIDATE_H
#define DYAD_ENGINE_COHERENCE_INVALIDATE_H

#include "engine/core/member.h"

/* dht_node_ops.invalidate: an older version is no longer to be used on this node. */
void produce_invalidate(void *arg, const struct dyad_entry *newer, uint64_t token);
/* Is upath (NULL: anything) still to go because of one? Its end: member_module.invalidated.
 */
bool invalidate_pending(const struct member *member, const char *upath);
/* The record of what was replaced goes, unless something new was recorded since. */
void invalidate_forget(struct member *member, const char *upath);

#endif
