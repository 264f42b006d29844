/*
 * engine/fetch/bring.h - bring directories and all that is published below them here
 */
#ifndef DYAD_ENGINE_FETCH_BRING_H
#define DYAD_ENGINE_FETCH_BRING_H

#include "engine/core/member.h"
#include "engine/fetch/consume.h"

/* Bring the directories above upath (`parents`), or all that is published at and below
 * it, here, without waiting for a publish. `pid`: the process that waits. fn is not
 * called before this returns. NULL: ENOMEM. */
struct bring *bring_start(struct member *member, const char *upath, bool parents, pid_t pid,
                          consume_fn fn, void *arg);
void bring_cancel(struct bring *bring);
/* True if the name of upath's directory exists here and is no symbolic link. */
bool bring_parent_here(struct member *member, const char *upath);

#endif
