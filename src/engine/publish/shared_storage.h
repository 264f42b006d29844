/*
 * engine/publish/shared_storage.h - writers of files in storage that several nodes see
 */
#ifndef DYAD_ENGINE_PUBLISH_SHARED_STORAGE_H
#define DYAD_ENGINE_PUBLISH_SHARED_STORAGE_H

#include "engine/core/member.h"
#include "engine/publish/produce.h"

/* True if other nodes see the files of this role, or may. Then the homes are notified of
 * each writer, and asked before a file is read. */
bool shared_storage(const struct member *member, enum engine_role role);
/* upath is about to be opened for writing, under this mark. fn is called when the homes
 * know, or cannot be reached (logged); not before this returns. 0 or -1 with errno. */
int shared_begin(struct member *member, enum engine_role role, const char *upath,
                 store_mark_t mark, produce_fn fn, void *arg);
/* The mark has ended; `abandoned`: its writer died or could not write. upath (may be
 * NULL): its name, in case that this member does not know the mark. fn (may be NULL) is
 * called when the homes know. */
void shared_end(struct member *member, enum engine_role role, const char *upath,
                store_mark_t mark, bool abandoned, produce_fn fn, void *arg);
/* `from`, and all names below it, were renamed to `to`. */
void shared_renamed(struct member *member, const char *from, const char *to);
/* upath is another name of a file that is being written on this node. */
void shared_named(struct member *member, enum engine_role role, const char *upath);

#endif
