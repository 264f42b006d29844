/*
 * engine/publish/withdraw.h - a name of this node is published no more
 */
#ifndef DYAD_ENGINE_PUBLISH_WITHDRAW_H
#define DYAD_ENGINE_PUBLISH_WITHDRAW_H

#include "engine/publish/produce.h"

/* Withdraw upath if it is published: status ENOENT if not. */
int produce_withdraw(struct member *member, const char *upath, produce_fn fn, void *arg);
/* The same, but only if it is published as lying on a storage of this member, who knows
 * that it does not. */
int produce_withdraw_left(struct member *member, const char *upath, produce_fn fn,
                          void *arg);

#endif
