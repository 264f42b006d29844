/*
 * engine/publish/pieces_show.h - who reads a file that several nodes write, and that it has open
 * for writing, sees what the others have written
 */
#ifndef DYAD_ENGINE_PUBLISH_PIECES_SHOW_H
#define DYAD_ENGINE_PUBLISH_PIECES_SHOW_H

#include "engine/core/member.h"
#include "engine/publish/produce.h"

/* Bring what all other nodes have written of upath, until now, into the file of this node; not
 * `bring`: let them know only that this node writes it, too, so that their reads ask it. 0: fn will
 * be called, not from inside: 0, or an errno value after a log line: not all of it could be had; or
 * -1 with errno. Loop thread. */
int pieces_show(struct member *member, enum engine_role role, const char *upath, bool bring,
                produce_fn fn, void *arg);

#endif
