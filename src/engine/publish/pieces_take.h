/*
 * engine/publish/pieces_take.h - put what another node has written into a file of this node
 */
#ifndef DYAD_ENGINE_PUBLISH_PIECES_TAKE_H
#define DYAD_ENGINE_PUBLISH_PIECES_TAKE_H

#include "engine/core/member.h"

/* A publish of upath here has been refused, and gives its pieces to another node: who waits
 * for its end to give theirs to this node may be told to publish instead. Loop thread. */
void pieces_retry(struct member *member);

/* True while pieces are put into the file of that name, until it is published or that has failed:
 * it is not as it was published. modules_published() follows. Loop thread. */
bool pieces_are_taken(struct member *member, const char *upath);

/* A publish here of others' pieces was refused by one home for `to` (copied). Another home may have
 * refused `to` for what was published here: then its owner comes to give its pieces, and is told to publish
 * instead (EAGAIN). Without memory that is logged. Loop thread. */
void pieces_gave_way(struct member *member, const struct dyad_entry *to);

#endif
