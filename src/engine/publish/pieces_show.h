/*
 * engine/publish/pieces_show.h - who reads a file that several nodes write, and that it has open
 * for writing, sees what the others have written
 */
#ifndef DYAD_ENGINE_PUBLISH_PIECES_SHOW_H
#define DYAD_ENGINE_PUBLISH_PIECES_SHOW_H

#include "engine/core/member.h"
#include "engine/publish/produce.h"

/* As `after` of a SHOW: of no time; the receiver only notes who asks. */
#define PIECES_NOTHING UINT64_MAX

/* Bring what all other nodes have written of upath, until now, into the file of this node; not
 * `bring`: let them know only that this node writes it, too, so that their reads ask it. 0: fn will
 * be called, not from inside: 0, or an errno value after a log line: not all of it could be had; or
 * -1 with errno. Loop thread. */
int pieces_show(struct member *member, enum engine_role role, const char *upath, bool bring,
                produce_fn fn, void *arg);
/* The same from that rank alone, and all that it has, also of third nodes. fn may be called from inside. */
int pieces_show_from(struct member *member, enum engine_role role, const char *upath,
                     uint32_t rank, produce_fn fn, void *arg);

#endif
