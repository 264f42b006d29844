/*
 * engine/fetch/ancestors.h - the directories above a name that are not here
 */
#ifndef DYAD_ENGINE_FETCH_ANCESTORS_H
#define DYAD_ENGINE_FETCH_ANCESTORS_H

#include "engine/core/member.h"
#include "engine/fetch/consume.h"

struct ancestor;

/* Look up the directories above upath (borrowed until ancestor_stop()) that are not here,
 * one after the other. flags: NET_LOOKUP_WAIT or 0. 0: fn will come, once. EINPROGRESS: one
 * of them, ancestor_upath(), is published as a symbolic link, which is to be brought; then
 * the name is to be resolved again. ESTALE: so it is at once, for the link is here. Without
 * waiting ENOENT: there is none. Else nothing was begun: ENOENT none is missing, ESTALE one
 * that is here is a link, ENOMEM. */
int ancestor_start(struct member *member, const char *upath, uint8_t flags, consume_fn fn,
                   void *arg, struct ancestor **ancestor);
/* Also from inside fn. */
void ancestor_stop(struct ancestor *ancestor);
/* The one that was looked up last. */
const char *ancestor_upath(const struct ancestor *ancestor);
/* Part of consume_confirm(). */
void ancestor_check(struct ancestor *ancestor);

#endif
