/*
 * engine/membership/nested.h - a launch that a rank of another launch has started
 */
#ifndef DYAD_ENGINE_MEMBERSHIP_NESTED_H
#define DYAD_ENGINE_MEMBERSHIP_NESTED_H

#include "engine/core/member.h"

/* Is a member alive that has started this launch? Finds out, and tells it. */
bool nested_is_inner(struct member *member);
/* The same, and will it serve what we leave on this node? */
bool nested_is_served(struct member *member);
/* Does a rank live of a launch that this member has started? */
bool nested_has_inner(struct member *member);

#endif
