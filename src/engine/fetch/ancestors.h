/*
 * engine/fetch/ancestors.h - the directories above a file that is waited for
 */
#ifndef DYAD_ENGINE_FETCH_ANCESTORS_H
#define DYAD_ENGINE_FETCH_ANCESTORS_H

#include "engine/core/member.h"
#include "engine/fetch/consume.h"

struct ancestor;
/* Look up the directories above upath (borrowed until ancestor_stop()) that are not here,
 * one after the other. flags: NET_LOOKUP_WAIT or 0. 0: fn will come, with EINPROGRESS: a
 * symbolic link was found among them and is being brought; then, or at once if it is here,
 * ESTALE; without waiting ENOENT: there is none. Else nothing was begun: ENOENT none is
 * missing, ESTALE one that is here is a link, ENOMEM. */
int ancestor_start(struct member *member, const char *upath, uint8_t flags, pid_t pid,
                   pid_t tid, consume_fn fn, void *arg, struct ancestor **ancestor);
/* Also from inside fn. */
void ancestor_stop(struct ancestor *ancestor);
/* The link is being brought. */
bool ancestor_is_link(const struct ancestor *ancestor);
/* Part of consume_confirm(). */
void ancestor_check(struct ancestor *ancestor);

#endif
