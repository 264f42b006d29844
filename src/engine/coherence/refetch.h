/*
 * engine/coherence/refetch.h - what this node has made and another has published anew is
 * brought here again
 */
#ifndef DYAD_ENGINE_COHERENCE_REFETCH_H
#define DYAD_ENGINE_COHERENCE_REFETCH_H

#include "engine/core/member.h"

/* What this node has made under that name another one has published anew: bring it here, in
 * a moment in which nothing else is heard of it. */
void refetch_want(struct member *member, const char *upath);
bool refetch_wants(const struct member *member, const char *upath);
/* It was withdrawn. */
void refetch_forget(struct member *member, const char *upath);

#endif
