/*
 * engine/recovery/takeover_copies.h - copies that are compared with their homes
 * (takeover_check_copy())
 */
#ifndef DYAD_ENGINE_RECOVERY_TAKEOVER_COPIES_H
#define DYAD_ENGINE_RECOVERY_TAKEOVER_COPIES_H

#include "engine/core/member.h"

/* Parts of takeover_undecided() and takeover_pending(). */
bool takeover_copies_undecided(const struct member *member, const char *upath);
bool takeover_copies_pending(struct member *member);

#endif
