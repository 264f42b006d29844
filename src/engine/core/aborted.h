/*
 * engine/core/aborted.h - boot_abort_catch() was left by an abort()
 */
#ifndef DYAD_ENGINE_CORE_ABORTED_H
#define DYAD_ENGINE_CORE_ABORTED_H

#include "engine/core/member.h"

/* Let go of whatever this or another process would wait for; nothing is freed. The last
 * call of the loop's thread of a member or promoted guest; the caller has logged why.
 * `is_followed`: another member in this process, or another image of it, follows, so the
 * claim stays open; then the caller calls boot_fdtable_move(). */
void aborted_leave(struct member *member, bool is_followed);
/* Keep the object for ever; a leak checker does not report it. */
void aborted_keep(void *what);

#endif
