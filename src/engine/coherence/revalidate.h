/*
 * engine/coherence/revalidate.h - copies whose homes have changed
 */
#ifndef DYAD_ENGINE_COHERENCE_REVALIDATE_H
#define DYAD_ENGINE_COHERENCE_REVALIDATE_H

#include "engine/core/member.h"

/* The rank was lost, or is back. */
void revalidate_rank(struct member *member, uint32_t rank);
/* Is a copy still to be looked at? */
bool revalidate_pending(struct member *member);

#endif
