/*
 * engine/coherence/revalidate.h - copies whose homes have changed
 */
#ifndef DYAD_ENGINE_COHERENCE_REVALIDATE_H
#define DYAD_ENGINE_COHERENCE_REVALIDATE_H

#include "engine/core/member.h"

/* The rank was lost, or is back: look the copies up again of which it is a home. */
void revalidate_rank(struct member *member, uint32_t rank);
/* True if a copy is still to be looked up. */
bool revalidate_pending(struct member *member);

#endif
