/*
 * engine/core/aborted.h - boot_abort_catch() was left by an abort()
 */
#ifndef DYAD_ENGINE_CORE_ABORTED_H
#define DYAD_ENGINE_CORE_ABORTED_H

#include "engine/core/member.h"

/* What holds anything up, of other processes or of this one, is let go; nothing is freed.
 * The loop's thread of a member or of a promoted guest, whose last act it is. A line was
 * logged before. `is_followed`: by another member in this process, or by another image of
 * it, so the claim is to live on; then boot_fdtable_move() is to follow. */
void aborted_leave(struct member *member, bool is_followed);
/* The object stays for ever, and is no leak. */
void aborted_keep(void *what);

#endif
