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
/* The homes were asked about a copy, and do not know that version: that is the last word
 * when they have said so for that long, and so often. All 0: they have not, or not the last
 * time. */
#define ADOPT_UNKNOWN_TIME (10 * UTIL_NSEC_PER_SEC)
#define ADOPT_UNKNOWN_EACH 3
struct adopt_unknown {
    uint64_t since;
    unsigned answers;
};
/* They have said it once more. */
bool adopt_unknown_is_sure(struct adopt_unknown *unknown);
/* When it can be sure, for who is to be asked again: question_pause.by. */
uint64_t adopt_unknown_by(const struct adopt_unknown *unknown);
/* It is: the copy goes, of both sides. */
void adopt_drop_unknown(struct member *member, const char *upath,
                        const struct dyad_version *version);
void adopt_copies_stop(struct member *member);

#endif
