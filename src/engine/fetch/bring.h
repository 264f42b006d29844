/*
 * engine/fetch/bring.h - make directories and what is below them be here
 */
#ifndef DYAD_ENGINE_FETCH_BRING_H
#define DYAD_ENGINE_FETCH_BRING_H

#include "engine/core/member.h"
#include "engine/fetch/consume.h"

/* Make the directories above upath (parents), or all that is published at and below it, be
 * here, without waiting for what is not published. fn is not called before this returns.
 * NULL: ENOMEM. */
struct bring *bring_start(struct member *member, const char *upath, bool parents, pid_t pid,
                          consume_fn fn, void *arg);
void bring_cancel(struct bring *bring);
/* Is something that is no symbolic link at the name of the directory of upath? */
bool bring_parent_here(struct member *member, const char *upath);

#endif
