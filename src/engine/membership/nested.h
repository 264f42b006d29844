/*
 * engine/membership/nested.h - a launch that a rank of another launch has started
 */
#ifndef DYAD_ENGINE_MEMBERSHIP_NESTED_H
#define DYAD_ENGINE_MEMBERSHIP_NESTED_H

#include "engine/core/member.h"

/* True if the member that started this launch is alive. Looks for it, and notifies it. */
bool nested_is_inner(struct member *member);
/* True if, also, that member will serve what we leave on this node. */
bool nested_is_served(struct member *member);
/* True if a rank lives of a launch that this member has started. */
bool nested_has_inner(struct member *member);
/* True if a launch is known that this process has started, and that may have ended. */
bool nested_has_started(const struct member *member);

#endif
