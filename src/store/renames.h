/*
 * store/renames.h - renames, links and removals that are under way on this DMD
 *
 * A process that renames a file notifies its member afterwards, which publishes the new
 * name and withdraws the old one. If the process were killed in between, the new name
 * would stay unpublished, and the old one published without a file; likewise for a
 * removal. So the process first notes the rename in the table of the marks
 * (store/marks.h), which every process below the DMD has mapped: ~0.3 us, and no
 * descriptor. A member of its session on this node handles the notes of a dead process
 * (engine/recovery/takeover_renames.c). All functions are thread-safe and safe between
 * processes, and never wait. Names that are too long, and more renames at a time than
 * there are places (MARKS_RENAMES), are not written down.
 */
#ifndef DYAD_STORE_RENAMES_H
#define DYAD_STORE_RENAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "store/marks.h"

#define STORE_RENAME_MAX 960 /* both names of a rename, with their NULs */

struct store_rename {
    uint64_t ino;     /* of the file that gets another name */
    const char *from; /* "": it keeps its name (a link), or had none below this DMD */
    const char *to;   /* "": it leaves the DMD, or is removed */
};

/* A place in the table; 0: none. */
typedef uint32_t store_rename_t;

/* The number of a session: a hash of its name. */
uint64_t store_renames_session(const char *name);

/* Before the real call. 0: no place is free, or the names are too long. */
store_rename_t store_renames_begin(struct store_marks *marks, uint64_t session,
                                   const struct store_rename *rename);
/* The call has failed, or the member was notified; or a rename that was found left is
 * settled: free the place. 0: nothing happens. */
void store_renames_end(struct store_marks *marks, store_rename_t place);

/* Take the renames that dead processes of the session have left, and call fn with each.
 * `own`: also those that this process has taken and not ended (an earlier member in it).
 * fn returns false: it cannot handle it now. Each that is taken must be ended, or given
 * back for the next member that looks. */
void store_renames_left(struct store_marks *marks, uint64_t session, bool own,
                        bool (*fn)(const struct store_rename *rename, store_rename_t place,
                                   void *arg),
                        void *arg);
void store_renames_give_back(struct store_marks *marks, store_rename_t place);

#endif
