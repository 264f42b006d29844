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
int produce_start(struct member *member, enum engine_side side, const char *upath,
                  store_mark_t mark, produce_fn fn, void *arg);
/* Withdraw upath if it is published: status ENOENT if not. */
int produce_withdraw(struct member *member, const char *upath, produce_fn fn, void *arg);
/* The same, but only if it is published as lying on a storage of this member, who knows
 * that it does not. */
int produce_withdraw_left(struct member *member, const char *upath, produce_fn fn,
                          void *arg);
/* Is a publish of upath under way? */
bool produce_pending(struct member *member, const char *upath);
/* True if a description still writes to the file: its last close will publish it under its
 * name of then. */
bool produce_being_written(struct member_side *side, const char *upath);
/* Publish again what an earlier member of this rank had published. */
void produce_restore(struct member *member);
/* Is the file on disk still the one of the record, and is nobody writing it? Any thread. */
bool produce_still_there(struct member_side *side, const struct store_record *record);
/* The same, whether somebody has it open for writing or not. Any thread. */
bool produce_is_same(struct member_side *side, const struct store_record *record);
/* Is the file of that inode, which is at upath, out of date, and keeps its name until it is
 * replaced (store/superseded.h)? As far as its mode and count of links tell, for nothing.
 * Any thread. */
bool produce_is_superseded(const struct member_side *side, const char *upath,
                           const struct stat *st);

/* The program changed what upath is: made it (a directory, a link), or gave a file other
 * times, permissions or another length by name. A file is published anew if it was
 * published and nobody is writing it. status 0 also if there was nothing to publish. */
int produce_changed(struct member *member, enum engine_side side, const char *upath,
                    produce_fn fn, void *arg);

#endif
