/*
 * util/quota.h - how much of one kind each rank may have here at a time
 *
 * A rank that proves to be of the session, but is broken, could ask without end for what is kept here until it is
 * answered. So what is kept for a rank is counted, and beyond a bound that no job comes near it is refused, with a
 * line in the log (one in ten seconds at most). Not thread-safe.
 */
#ifndef DYAD_UTIL_QUOTA_H
#define DYAD_UTIL_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

struct util_quota_rank;

/* All zero: nothing is counted yet. */
struct util_quota {
    struct util_quota_rank *ranks; /* uthash */
    uint64_t refused, logged_at;
};

/* Count one more for the rank (any number). False: it has `most` of them, or there is no memory; nothing is
 * counted. `what` is named in the log: a plural. */
bool util_quota_take(struct util_quota *quota, uint32_t rank, uint32_t most,
                     const char *what);
/* One that was counted is gone. */
void util_quota_return(struct util_quota *quota, uint32_t rank);
/* Forget all, and free what that takes. */
void util_quota_clear(struct util_quota *quota);

#endif
