/*
 * store/lease_table.h - leases: until when copies on this node may be opened without
 * asking
 *
 * The homes of a copy send its holder each newer version, and wait for a holder that does
 * not answer, but not for ever. So a copy may be used without asking for a time only: the
 * lease of the member that holds it (engine/coherence/copy_lease.c). It is kept beside
 * the member's line in the table of the marks (looked.h). A process that opens a complete
 * file looks at the leases of all members of its session on this node: any of them may
 * have fetched it. If none holds a copy that is a load for each line (64); else the
 * clock, too.
 *
 * The clock decides: a member that was stopped finds its lease over.
 */
#ifndef DYAD_STORE_LEASE_TABLE_H
#define DYAD_STORE_LEASE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "store/marks.h"

/* Values of a line in place of a time. */
#define STORE_LEASE_NONE UINT64_MAX /* the member holds no copy */
#define STORE_LEASE_OUT  0u

/* The line's owner sets the end of its lease (util_clock_now(); rounded down to 17 ms),
 * or one of the above. line -1: nothing happens. */
void store_lease_set(struct store_marks *marks, int line, uint64_t until);
/* For the owner: true if a process has seen since the last _set() that the lease ends
 * soon, or is over. */
bool store_lease_wanted(const struct store_marks *marks, int line);

/* Any process: true if the leases of all live members of `rank`'s session on this node
 * hold at `now`, so that a complete file may be opened without asking. A lease of which
 * less than `soon` ns are left is noted as wanted. False if the rank has no line.
 * `except`: a line that is not looked at, or -1. */
bool store_lease_holds(const struct store_marks *marks, uint64_t rank, int except,
                       uint64_t now, uint64_t soon);
/* True if any member of this node holds copies: then the clock is needed. */
bool store_lease_matters(const struct store_marks *marks);
/* True if the rank itself has a line, its member lives, and its lease is over. */
bool store_lease_is_out(const struct store_marks *marks, uint64_t rank, uint64_t now);

#endif
