/*
 * engine/publish/withdraw.h - withdrawing a name of this node
 */
#ifndef DYAD_ENGINE_PUBLISH_WITHDRAW_H
#define DYAD_ENGINE_PUBLISH_WITHDRAW_H

#include "engine/publish/produce.h"

/* Withdraw upath if it is published: status ENOENT if not. */
int produce_withdraw(struct member *member, const char *upath, produce_fn fn, void *arg);
/* The same, but only if the homes say that it lies on a storage of this member, where it
 * does not lie any more. */
int produce_withdraw_left(struct member *member, const char *upath, produce_fn fn,
                          void *arg);

#endif
