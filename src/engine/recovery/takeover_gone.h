/*
 * engine/recovery/takeover_gone.h - files that a dead rank of this node had published,
 * and that were removed
 */
#ifndef DYAD_ENGINE_RECOVERY_TAKEOVER_GONE_H
#define DYAD_ENGINE_RECOVERY_TAKEOVER_GONE_H

#include "engine/core/member.h"

/* Withdraw `found`, a record of the dead rank's journal, if the homes still know that
 * version. Our own journal has it until then; -1 (logged): it could not be written there,
 * or no memory. */
int takeover_gone_add(struct member *member, enum engine_role role,
                      const struct store_record *found);
/* The same for a file that is here, but not as it was published: `found` is in no
 * journal, and is not written to ours. If we die meanwhile, the next takeover finds it
 * again. */
void takeover_gone_lost(struct member *member, enum engine_role role,
                        const struct store_record *found);
/* Part of takeover_pending(). */
bool takeover_gone_pending(struct member *member);

#endif
