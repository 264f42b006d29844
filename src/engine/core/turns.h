/*
 * engine/core/turns.h - files that coupled components change in turns (DYAD_TURNS)
 *
 * A component is a launch, or all launches with one DYAD_COMPONENT. A version says which one has published
 * it; an open for reading waits as long as that is the reader's own (fetch/consume_pending.c).
 */
#ifndef DYAD_ENGINE_CORE_TURNS_H
#define DYAD_ENGINE_CORE_TURNS_H

#include "engine/core/member.h"

/* A number for the component of this rank, the same in all its ranks; never 0. */
uint32_t turns_component(const struct member *member);
/* Its name, for messages; lives as long as the member. */
const char *turns_component_name(const struct member *member);

#endif
