/*
 * engine/recovery/startup_validation.h - comparing copies that were here before the join
 * with the table
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
/* An operation has ended that the validation may wait for. */
void startup_validation_step(struct member *member);
/* takeover.c has read all journals. */
void startup_validation_read(struct member *member);
/* Call fn, maybe in this call, when a copy of upath on this node, if any, is validated.
 * error 0, ETIMEDOUT (timeout_ms 0: never), ESHUTDOWN. */
void startup_validation_wait(struct member *member, struct startup_validation_wait *wait,
                             const char *upath, uint64_t timeout_ms,
                             void (*fn)(void *arg, int error), void *arg);
/* True if the validation is over, and processes that ask learn that only by the answer.
 */
bool startup_validation_must_tell(const struct member *member);

#endif
