/*
 * store/lease_table.h - until when copies on this node may be opened without a question
 *
 * The homes of a copy tell its holder of a newer version, and wait for a holder that does
 * not answer, but not for ever. So a copy is good without a question for a time only: the
 * lease of the member that holds it (engine/coherence/copy_lease.c). It stands beside the
 * member's line in the table of the marks (looked.h). Who opens a complete file looks at
 * those of all members of its session on this node: any of them may have fetched it. With
 * none that holds a copy that is a load for each line (64); else the clock, too.
 *
 * What counts is the clock: who was stopped finds its lease over.
 */
#ifndef DYAD_STORE_LEASE_TABLE_H
#define DYAD_STORE_LEASE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "store/marks.h"

/* What a member's line says, in place of a time. */
#define STORE_LEASE_NONE UINT64_MAX /* it holds nothing that could be out of date */
#define STORE_LEASE_OUT  0u

/* The line's owner: until when (util_clock_now(); rounded down to 17 ms), or one of the
 * above. -1: nothing. */
void store_lease_set(struct store_marks *marks, int line, uint64_t until);
/* The same one: has somebody seen since the last _set() that it ends soon, or is over? */
bool store_lease_wanted(const struct store_marks *marks, int line);

/* Any process: may a complete file be opened at `now` without a question, as far as the
 * members of `rank`'s session are concerned that live on this node? A lease of which
 * less than `soon` ns are left is noted as wanted. False if the rank has no line.
 * `except`: a line that is not looked at, or -1. */
bool store_lease_holds(const struct store_marks *marks, uint64_t rank, int except,
                       uint64_t now, uint64_t soon);
/* Does any member of this node hold copies? Then the clock is needed. */
bool store_lease_matters(const struct store_marks *marks);
/* Of the rank alone: it has a line, its member lives, and its lease is over. */
bool store_lease_is_out(const struct store_marks *marks, uint64_t rank, uint64_t now);

#endif
