/*
 * engine/recovery/takeover_gone.h - what a dead rank of this node had published and was
 * removed
 */
#ifndef DYAD_ENGINE_RECOVERY_TAKEOVER_GONE_H
#define DYAD_ENGINE_RECOVERY_TAKEOVER_GONE_H

#include "engine/core/member.h"

/* `found`, of its journal: withdraw it, if it is still what the homes know. It is in our
 * own journal until then; -1: it could not be written there, or no memory; logged. */
int takeover_gone_add(struct member *member, enum engine_role role,
                      const struct store_record *found);
/* The same of what is here, but not as it was published: `found` is in no journal, and
 * stays so. If we die over it, it is found again as it was now. */
void takeover_gone_lost(struct member *member, enum engine_role role,
                        const struct store_record *found);
/* Part of takeover_pending(). */
bool takeover_gone_pending(struct member *member);

#endif
