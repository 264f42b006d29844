/*
 * engine/recovery/startup_validation.h - copies that were here before the join, and what
 * must be known of them
 */
#ifndef DYAD_ENGINE_RECOVERY_STARTUP_VALIDATION_H
#define DYAD_ENGINE_RECOVERY_STARTUP_VALIDATION_H

#include "engine/core/member.h"

struct startup_validation_wait {
    struct startup_validation_wait *prev, *next; /* utlist */
    const char *upath;                           /* borrowed */
    uint64_t until;
    int error;
    void (*fn)(void *arg, int error);
    void *arg;
};
/* Something has ended that it waits for. */
void startup_validation_step(struct member *member);
/* takeover.c has been through all journals. */
void startup_validation_read(struct member *member);
/* Call fn, maybe at once, when it is known whether the copy of upath on this node is right,
 * if there is one. error 0, ETIMEDOUT (timeout_ms 0: never), ESHUTDOWN. */
void startup_validation_wait(struct member *member, struct startup_validation_wait *wait,
                             const char *upath, uint64_t timeout_ms,
                             void (*fn)(void *arg, int error), void *arg);
/* It is over, and those who ask can be told in no other way than by the answer. */
bool startup_validation_must_tell(const struct member *member);

#endif
