/*
 * engine/coherence/outdated.h - a file of this node that is older than what is published
 */
#ifndef DYAD_ENGINE_COHERENCE_OUTDATED_H
#define DYAD_ENGINE_COHERENCE_OUTDATED_H

#include "engine/core/member.h"

/* What the record names is older than `newer`. It is removed, if it is still that file.
 * Not so what this node has made, or somebody has open for writing: that is superseded from
 * now on, if what is newer can come in its place. True: the name is to be brought here
 * again. Of directories nothing happens. Any thread. */
bool outdated_end(struct member_dmd *dmd, const struct dyad_entry *newer,
                  const struct store_record *record);

/* The name was withdrawn: what is superseded there goes. Any thread. */
void outdated_withdrawn(struct member_dmd *dmd, const char *upath);

/* On any thread: `newer` is published, and `record` is what a journal of this node, that of
 * `rank`, has of that upath: remove it, if it is older and still there. */
void outdated_discard(struct member_dmd *dmd, const struct dyad_entry *newer, uint32_t rank,
                      const struct store_record *record);

#endif
