/*
 * engine/publish/shared_storage.h - files that several nodes see: who writes them
 */
#ifndef DYAD_ENGINE_PUBLISH_SHARED_STORAGE_H
#define DYAD_ENGINE_PUBLISH_SHARED_STORAGE_H

#include "engine/core/member.h"
#include "engine/publish/produce.h"

/* Do other nodes see the files of this role, or may they? Then the homes are told of what
 * is written, and asked before something is read. */
bool shared_storage(const struct member *member, enum engine_role role);
/* upath is about to be opened for writing, under this mark. fn when the homes know, or
 * cannot be told (logged); not before this returns. 0 or -1 with errno. */
int shared_begin(struct member *member, enum engine_role role, const char *upath,
                 store_mark_t mark, produce_fn fn, void *arg);
/* The mark is over: all is well, or its writer died over it or could not write. upath (may
 * be NULL): its name, in case that this member knows nothing of the mark. fn (may be NULL)
 * when the homes know. */
void shared_end(struct member *member, enum engine_role role, const char *upath,
                store_mark_t mark, bool abandoned, produce_fn fn, void *arg);
/* What is at `from`, or below it, has that other name. */
void shared_renamed(struct member *member, const char *from, const char *to);
/* upath is another name of a file that is being written on this node. */
void shared_named(struct member *member, enum engine_role role, const char *upath);

#endif
