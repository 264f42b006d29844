/*
 * engine/fetch/ancestors.h - the directories above a name that are not here
 */
#ifndef DYAD_ENGINE_FETCH_ANCESTORS_H
#define DYAD_ENGINE_FETCH_ANCESTORS_H

#include "engine/core/member.h"
#include "engine/fetch/consume.h"

struct ancestor;

/* Look up the directories above upath (borrowed until ancestor_stop()) that are not here,
 * one after the other. flags: NET_LOOKUP_WAIT or 0. Returns 0: fn will be called once,
 * with EINPROGRESS: one of them, ancestor_upath(), is published as a symbolic link: fetch
 * it, then resolve the name again; ESTALE: the link is here by now: resolve again at
 * once; ENOENT or another error (without WAIT): none is a link. Else fn is not called, and
 * the result is ENOENT none is missing, ESTALE one that is here is a link, or ENOMEM. */
int ancestor_start(struct member *member, const char *upath, uint8_t flags, consume_fn fn,
                   void *arg, struct ancestor **ancestor);
/* Free it; fn is not called any more. Also from inside fn. */
void ancestor_stop(struct ancestor *ancestor);
/* The directory that was looked up last. */
const char *ancestor_upath(const struct ancestor *ancestor);
/* Part of consume_confirm(). */
void ancestor_check(struct ancestor *ancestor);

#endif
