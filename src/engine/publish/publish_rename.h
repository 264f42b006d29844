/*
 * engine/publish/publish_rename.h - names that appear by a rename or a link
 */
#ifndef DYAD_ENGINE_PUBLISH_PUBLISH_RENAME_H
#define DYAD_ENGINE_PUBLISH_PUBLISH_RENAME_H

#include "engine/core/member.h"
#include "engine/publish/produce.h"

/* Publish `to`, which appeared by a rename (or a link: `from` is ""), with all that is
 * below it if it is a directory. */
int produce_rename(struct member *member, const char *from, const char *to, produce_fn fn,
                   void *arg);
/* The same for a rename of some time ago: old names by produce_withdraw_left(). */
int produce_rename_left(struct member *member, const char *from, const char *to,
                        produce_fn fn, void *arg);

#endif
