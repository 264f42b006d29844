/*
 * engine/publish/late_names.h - names that a file gets while it is being written
 */
#ifndef DYAD_ENGINE_PUBLISH_LATE_NAMES_H
#define DYAD_ENGINE_PUBLISH_LATE_NAMES_H

#include "engine/core/member.h"
#include "engine/publish/produce.h"

/* upath is a new name of a file that is being written: it is published after the file. */
void late_name_note(struct member *member, enum engine_role role, const char *upath);
/* produce_start() for a file whose last description was closed, and then for the names
 * that waited for that. `fn` must not be NULL. */
int produce_closed(struct member *member, enum engine_role role, const char *upath,
                   store_mark_t mark, produce_fn fn, void *arg);

#endif
