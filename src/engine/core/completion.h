/*
 * engine/core/completion.h - files whose close does not complete them (DYAD_COMPLETE_AT_EXIT,
 * DYAD_COMPLETE_AT_CHMOD)
 *
 * Loop thread.
 */
#ifndef DYAD_ENGINE_CORE_COMPLETION_H
#define DYAD_ENGINE_CORE_COMPLETION_H

#include "engine/core/member.h"

/* True if the user has declared when upath, of any rank, is complete. */
bool completion_is_declared(const struct member *member, const char *upath);
/* True if a file of that name and mode, closed by this rank now, counts as being written. */
bool completion_is_due(const struct member *member, const char *upath, mode_t mode);
/* True if what this rank has published there last counts so, as it is on the disk. */
bool completion_holds(const struct member *member, const char *upath);
/* What the homes are told when this rank does not write upath any more: for such a file one rank
 * does not speak for the others of its node. */
enum dht_writing completion_end(const struct member *member, const char *upath);

#endif
