/*
 * engine/membership/partition.h - majority or minority
 */
#ifndef DYAD_ENGINE_MEMBERSHIP_PARTITION_H
#define DYAD_ENGINE_MEMBERSHIP_PARTITION_H

#include "engine/core/member.h"

/* The rank is being lost. */
void partition_lost(struct member *member, uint32_t rank);
/* A lost rank came back, or is known to be gone. */
void partition_changed(struct member *member);
/* The earlier member of this rank knew a rank of which this one has heard nothing. */
void partition_joined_anew(struct member *member);
/* A rank that was silent has answered a PING. */
void partition_pong(struct member *member);
/* True if this side may not be the majority. */
bool partition_is_unsure(const struct member *member);

#endif
