/*
 * engine/membership/partition.h - majority or minority
 */
#ifndef DYAD_ENGINE_MEMBERSHIP_PARTITION_H
#define DYAD_ENGINE_MEMBERSHIP_PARTITION_H

#include "engine/core/member.h"

/* The rank is being lost. */
void partition_lost(struct member *member, uint32_t rank);
/* It came back, or is known to be gone. */
void partition_changed(struct member *member);
/* The member before us knew a rank that nothing has been heard of. */
void partition_joined_anew(struct member *member);
/* One that was silent is there. */
void partition_pong(struct member *member);
/* May this be another side than the majority? */
bool partition_is_unsure(const struct member *member);

#endif
