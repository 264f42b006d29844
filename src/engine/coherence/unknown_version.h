/*
 * engine/coherence/unknown_version.h - a copy of a version that its homes do not know
 */
#ifndef DYAD_ENGINE_COHERENCE_UNKNOWN_VERSION_H
#define DYAD_ENGINE_COHERENCE_UNKNOWN_VERSION_H

#include "engine/core/member.h"
#include "util/clock.h"

/* Seconds after which a copy goes that its homes do not know. */
#define UNKNOWN_VERSION_BOUND 15.0
/* The homes were asked about a copy, and do not know that version: that is the last word
 * when they have said so for that long, and so often. All 0: they have not, or not the last
 * time. */
#define UNKNOWN_VERSION_TIME (10 * UTIL_NSEC_PER_SEC)
#define UNKNOWN_VERSION_EACH 3
struct unknown_version {
    uint64_t since;
    unsigned answers;
};
/* They have said it once more. */
bool unknown_version_is_sure(struct unknown_version *unknown);
/* When it can be sure, for who is to be asked again: question_pause.by. */
uint64_t unknown_version_by(const struct unknown_version *unknown);
/* It is: the copy goes, of both sides. */
void unknown_version_drop(struct member *member, const char *upath,
                          const struct dyad_version *version);

#endif
