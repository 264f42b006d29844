/*
 * engine/recovery/takeover_copies.h - copies that are compared with their homes
 * (adopt_check_copy())
 */
#ifndef DYAD_ENGINE_RECOVERY_TAKEOVER_COPIES_H
#define DYAD_ENGINE_RECOVERY_TAKEOVER_COPIES_H

#include "engine/core/member.h"

/* Parts of adopt_undecided(), adopt_pending() and adopt_stop(). */
bool adopt_copies_undecided(const struct member *member, const char *upath);
bool adopt_copies_pending(struct member *member);
void adopt_copies_stop(struct member *member);

#endif
