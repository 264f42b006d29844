/*
 * engine/publish/pieces_send.h - give what was written here of a file to the node that has it
 *
 * The homes have refused the publish of a file because another node's has come first. What a
 * description of this node has written (store/extents.h) goes to that node, which puts it
 * into its file and publishes that (pieces_take.h).
 */
#ifndef DYAD_ENGINE_PUBLISH_PIECES_SEND_H
#define DYAD_ENGINE_PUBLISH_PIECES_SEND_H

#include "engine/core/member.h"

struct produce;

/* True if the publish p, which `there` has come before, can give its pieces to the owner of
 * `there`. Loop thread. */
bool pieces_may_send(const struct produce *p, const struct dyad_entry *there);
/* Send the pieces of p->mark to p->taker. 0: produce_pieces_sent(p) will be
 * called, not from inside; or -1 with errno. Loop thread. */
int pieces_send(struct produce *p);

#endif
