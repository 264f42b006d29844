/*
 * store/looked.h - whether a rank's member has looked at what the dead have left here
 *
 * A complete file is opened without a message. That is right as long as the rank has a
 * member that is told of newer versions, and has seen to what nobody was told of before. A
 * member says so in a line of the table of the marks (store/marks.h), which every process
 * below the DMD has mapped: for them it is a load or two. A line counts as long as the
 * member lives, in whatever way that ends.
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
    STORE_LOOKING = 1, /* at what the dead have left, and at copies of its own */
    STORE_LOOKED_OWN,  /* that is over; another rank may still look at what it took */
    STORE_LOOKED,      /* nothing is left that is not known to be right */
};

/* The number of a rank: of whatever names it on its node. Never 0. */
uint64_t store_looked_rank(const void *name, size_t len);

/* Take a line, in state LOOKING; what others have said for the rank counts no more. The
 * caller holds the rank's claim. `session`: what all have in common who may find what
 * another has left. The line, or -1: none is free (64 members of one DMD on one node have
 * one each); then nobody can be told. */
int store_looked_begin(struct store_marks *marks, uint64_t rank, const char *session);
void store_looked_set(struct store_marks *marks, int line, enum store_looked_state state);
/* Does another member of the session, which lives, have the state LOOKING? */
bool store_looked_others(const struct store_marks *marks, int line);
/* The line is nobody's from now on. -1: nothing. */
void store_looked_end(struct store_marks *marks, int line);

/* Does the rank have a member that has looked? ~10 ns if so. */
bool store_looked(const struct store_marks *marks, uint64_t rank);
/* Does the rank have a member, in whatever state, in another network namespace than the
 * calling thread's? Then its claim cannot be seen from here (boot/member_claim.h), and
 * could be bound again. False also if there is none, or if that cannot be told (no line, no
 * /proc).
 */
bool store_looked_elsewhere(const struct store_marks *marks, uint64_t rank);

#endif
