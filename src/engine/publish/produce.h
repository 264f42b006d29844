/*
 * engine/publish/produce.h - publishing what this node has made, and withdrawing it
 */
#ifndef DYAD_ENGINE_PUBLISH_PRODUCE_H
#define DYAD_ENGINE_PUBLISH_PRODUCE_H

#include "engine/core/member.h"

/* status 0 or errno value */
typedef void (*produce_fn)(void *arg, int status);
/* Publish upath as it is on disk; clears `mark` (0: none). With DYAD_ASYNC_PUBLISH fn is
 * called once it is sent. 0 or -1 with errno (nothing begun). */
int produce_start(struct member *member, enum engine_role role, const char *upath,
                  store_mark_t mark, produce_fn fn, void *arg);
/* Is a publish of upath under way? */
bool produce_pending(struct member *member, const char *upath);
/* The program changed what upath is: made it (a directory, a link), or gave a file other
 * times, permissions or another length by name. A file is published anew if it was
 * published and nobody is writing it. status 0 also if there was nothing to publish. */
int produce_changed(struct member *member, enum engine_role role, const char *upath,
                    produce_fn fn, void *arg);

#endif
