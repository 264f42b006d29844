/*
 * engine/coherence/unknown_version.h - a copy of a version that its homes do not know
 */
#ifndef DYAD_ENGINE_COHERENCE_UNKNOWN_VERSION_H
#define DYAD_ENGINE_COHERENCE_UNKNOWN_VERSION_H

#include "engine/core/member.h"
#include "util/clock.h"

/* Seconds after which a copy is removed whose version its homes do not know. */
#define UNKNOWN_VERSION_BOUND 15.0
/* Counts answers of homes that do not know the version of a copy: they are believed after
 * so many, over that time. All 0: the last answer was not of this kind. */
#define UNKNOWN_VERSION_TIME (10 * UTIL_NSEC_PER_SEC)
#define UNKNOWN_VERSION_EACH 3
struct unknown_version {
    uint64_t since;
    unsigned answers;
};
/* Count one more such answer. True: the homes are to be believed. */
bool unknown_version_is_sure(struct unknown_version *unknown);
/* The earliest time at which that can become true: retry_pause.by. */
uint64_t unknown_version_by(const struct unknown_version *unknown);
/* Remove the copy, in both directories. */
void unknown_version_drop(struct member *member, const char *upath,
                          const struct dyad_version *version);

#endif
