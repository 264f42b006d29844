/*
 * engine/coherence/outdated.h - a file of this node that is older than what is published
 */
#ifndef DYAD_ENGINE_COHERENCE_OUTDATED_H
#define DYAD_ENGINE_COHERENCE_OUTDATED_H

#include "engine/core/member.h"

/* The file of the record is older than `newer`: remove it, if it is still that file. A
 * file that this node has made, or that somebody has open for writing, is marked
 * superseded instead, if the newer one can take its place. True: the name is to be
 * brought here again. A directory is left alone. Any thread. */
bool outdated_end(struct member_dmd *dmd, const struct dyad_entry *newer,
                  const struct store_record *record);

/* Another node has published `newer`: what writes the file of the record, which is older, has
 * not seen that (store_marks_overtaken()). At once when it is heard of, and by the functions
 * here. Any thread. */
void outdated_note_writers(struct member_dmd *dmd, const struct dyad_entry *newer,
                           const struct store_record *record);

/* `newer` is published, and the journal of `rank` on this node has `record` of that
 * upath: remove that file, if it is older and still there. Any thread. */
void outdated_discard(struct member_dmd *dmd, const struct dyad_entry *newer, uint32_t rank,
                      const struct store_record *record);

#endif
