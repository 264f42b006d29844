/*
 * engine/publish/held_open.h - a description that its opener has closed, and that another
 * process still holds
 */
#ifndef DYAD_ENGINE_PUBLISH_HELD_OPEN_H
#define DYAD_ENGINE_PUBLISH_HELD_OPEN_H

#include "engine/core/member.h"
#include "engine/publish/produce.h"

/* `pid` has closed the description of `mark`, which another process holds; its descriptor
 * `number` is open on the file, until fn is called: when that process can be trusted to
 * settle the mark, or when the mark was settled. 0 or -1 with errno. */
int held_open_watch(struct member *member, enum engine_role role, const char *upath,
                    store_mark_t mark, pid_t pid, int number, produce_fn fn, void *arg);

#endif
