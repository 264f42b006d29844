/*
 * store/looked.h - whether a rank's member has done its startup validation
 *
 * A complete file is opened without a message. That is right as long as the rank has a
 * member that gets the newer versions (INVALIDATE), and has validated the copies for
 * which no member got them before. A member says so in a line of the table of the marks
 * (store/marks.h), which every process below the DMD has mapped: reading it is a load or
 * two. A line counts as long as the member lives, in whatever way it ends.
 *
 * begin, set and end are for one thread, the one that began: its end counts as the
 * member's. The others are for any process and thread. All keep errno.
 */
#ifndef DYAD_STORE_LOOKED_H
#define DYAD_STORE_LOOKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/marks.h"

enum store_looked_state {
    STORE_LOOKING = 1, /* it looks at files of dead ranks, and at copies of its own */
    STORE_LOOKED_OWN,  /* that is over; another rank may still look at what it took */
    STORE_LOOKED,      /* all copies are known to be right */
};

/* The number of a rank: a hash of the name that it has on its node. Never 0. */
uint64_t store_looked_rank(const void *name, size_t len);

/* Take a line, in state LOOKING; earlier lines of the rank count no more. The caller
 * holds the rank's claim. `session`: a name that all members have in common that take
 * over each other's files. Returns the line, or -1: none is free (64 members of one DMD
 * on one node have one each); then processes must ask the member. */
int store_looked_begin(struct store_marks *marks, uint64_t rank, const char *session);
void store_looked_set(struct store_marks *marks, int line, enum store_looked_state state);
/* True if another live member of the session has the state LOOKING. */
bool store_looked_others(const struct store_marks *marks, int line);
/* Free the line. -1: nothing happens. */
void store_looked_end(struct store_marks *marks, int line);

/* True if the rank has a member that has looked. ~10 ns if so. */
bool store_looked(const struct store_marks *marks, uint64_t rank);
/* True if the rank has a member, in whatever state, in another network namespace than the
 * calling thread's. Then its claim cannot be seen from here (boot/member_claim.h), and
 * could be bound again. False also if that cannot be found out (no line, no /proc). */
bool store_looked_elsewhere(const struct store_marks *marks, uint64_t rank);

#endif
