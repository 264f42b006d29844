/*
 * engine/recovery/restore.h - what an earlier member of this rank had published
 */
#ifndef DYAD_ENGINE_RECOVERY_RESTORE_H
#define DYAD_ENGINE_RECOVERY_RESTORE_H

#include "engine/core/member.h"

/* Publish again what an earlier member of this rank had published. */
void restore_start(struct member *member);

#endif
