/*
 * engine/publish/produce.h - publishing the files that this node has made
 */
#ifndef DYAD_ENGINE_PUBLISH_PRODUCE_H
#define DYAD_ENGINE_PUBLISH_PRODUCE_H

#include "engine/core/member.h"

/* status 0 or errno value */
typedef void (*produce_fn)(void *arg, int status);
/* Publish upath as it is on disk; clears `mark` (0: none), but with ENOENT: no file has that
 * name. fn (may be NULL) is called
 * when the homes have acknowledged; with DYAD_ASYNC_PUBLISH when it is sent. 0 or -1 with
 * errno (nothing was begun). */
int produce_start(struct member *member, enum engine_role role, const char *upath,
                  store_mark_t mark, produce_fn fn, void *arg);
/* The same for a file into which another node's pieces have been put (pieces_take.c). That
 * node's own publish, of the version `yielded`, which is copied, gives way to this one; ESTALE:
 * this one has given way to another node's. */
int produce_merged(struct member *member, enum engine_role role, const char *upath,
                   const struct dyad_version *yielded, produce_fn fn, void *arg);
/* True while a publish of upath is under way. */
bool produce_pending(struct member *member, const char *upath);
/* The program made upath (a directory, a link), or changed the times, permissions or
 * length of a file by its name. A file is published anew if it was published and nobody
 * writes it. status 0 also if there was nothing to publish. */
int produce_changed(struct member *member, enum engine_role role, const char *upath,
                    produce_fn fn, void *arg);

#endif
