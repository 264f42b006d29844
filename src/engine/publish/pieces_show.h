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
/* For the publish of upath that waits for it (produce->brings): bring all that the node of that rank has, also of
 * third nodes, which is published then. fn may be called from inside: 0; EHOSTUNREACH: the rank is gone; ENOENT: its
 * node has no file of the name; ESTALE: another one, now; EEXIST: who wrote last is not known (logged); or another
 * errno value of the other node. 0 or -1 with ENOMEM. Loop thread. */
int pieces_show_from(struct member *member, enum engine_role role, const char *upath,
                     uint32_t rank, produce_fn fn, void *arg);

#endif
