/*
 * engine/coherence/refetch.h - files that this node made and another has published anew
 * are brought here again
 */
#ifndef DYAD_ENGINE_COHERENCE_REFETCH_H
#define DYAD_ENGINE_COHERENCE_REFETCH_H

#include "engine/core/member.h"

/* Another node has published upath anew, which this node had made: fetch it after a
 * moment, in which a further version may come. */
void refetch_want(struct member *member, const char *upath);
bool refetch_wants(const struct member *member, const char *upath);
/* upath was withdrawn: do not fetch it. */
void refetch_forget(struct member *member, const char *upath);

#endif
