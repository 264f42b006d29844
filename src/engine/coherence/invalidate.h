/*
 * engine/coherence/invalidate.h - older files of this node, when another publishes anew
 */
#ifndef DYAD_ENGINE_COHERENCE_INVALIDATE_H
#define DYAD_ENGINE_COHERENCE_INVALIDATE_H

#include "engine/core/member.h"

/* dht_node_ops.invalidate: an older version is no longer to be used on this node. */
void produce_invalidate(void *arg, const struct dyad_entry *newer, uint64_t token);
/* True while an invalidation of upath (NULL: any) is under way; member_module.invalidated
 * reports its end. */
bool invalidate_pending(const struct member *member, const char *upath);
/* Remove the record of the replaced file, unless a new one was recorded since. */
void invalidate_forget(struct member *member, const char *upath);

#endif
