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

#endif
