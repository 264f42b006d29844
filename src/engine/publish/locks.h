/*
 * engine/publish/locks.h - locks of processes of this rank on files that several nodes write
 */
#ifndef DYAD_ENGINE_PUBLISH_LOCKS_H
#define DYAD_ENGINE_PUBLISH_LOCKS_H

#include "engine/core/member.h"
#include "engine/publish/lock_ranges.h"

struct locks_op;

/* For `owner` (its pid, and for a lock of one of its threads the number of that above 32 bits), what its
 * GUEST_LOCK asks for, as fcntl(2) does it; `asked` is not kept. fn is called later, with 0, EAGAIN
 * (another one has them) or ENOLCK (logged). NULL with errno: 0: it is done; ENOLCK; ENOMEM. */
struct locks_op *locks_start(struct member *member, const struct net_msg *asked,
                             uint64_t owner, void (*fn)(void *arg, int status), void *arg);
/* fn is not called; what was locked already is given up. */
void locks_cancel(struct locks_op *op);

/* A process of this rank has those bytes locked; or (since, util_clock_now(), not 0) waits for them, on the node
 * of the rank `asks`, or DYAD_RANK_NONE. */
typedef void (*locks_info_fn)(void *arg, pid_t pid, const struct lock_range *range,
                              uint64_t since, uint32_t asks);

/* Call fn for all of that file. Loop thread. */
void locks_foreach(struct member *member, const char *upath, locks_info_fn fn, void *arg);

#endif
