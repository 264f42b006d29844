/*
 * engine/recovery/takeover_copies.h - copies that are compared with their homes
 * (takeover_check_copy())
 */
#ifndef DYAD_ENGINE_RECOVERY_TAKEOVER_COPIES_H
#define DYAD_ENGINE_RECOVERY_TAKEOVER_COPIES_H

#include "engine/core/member.h"

/* Parts of takeover_undecided(), takeover_pending() and adopt_stop(). */
bool takeover_copies_undecided(const struct member *member, const char *upath);
bool takeover_copies_pending(struct member *member);
void takeover_copies_stop(struct member *member);

#endif
