/*
 * engine/publish/locks_held.h - locks that this node's file has for processes of any node
 */
#ifndef DYAD_ENGINE_PUBLISH_LOCKS_HELD_H
#define DYAD_ENGINE_PUBLISH_LOCKS_HELD_H

#include "engine/core/member.h"

/* A request of a process of `rank`, as in NET_MSG_LOCK. */
struct locks_request {
    uint32_t rank, incarnation;
    uint64_t id;    /* of that rank */
    uint64_t owner; /* the process */
    const char *upath;
    uint64_t offset, length;
    uint8_t flags; /* NET_LOCK_* */
};

/* status 0; EAGAIN: another process has a lock; ENOLCK: it cannot be had here. Not called for
 * what was forgotten. */
typedef void (*locks_fn)(struct member *member, uint32_t rank, uint64_t id, int status);

/* Take the lock, or give it up, for that process; fn is called at once, or (NET_LOCK_WAIT) when it has
 * it, not with NET_LOCK_FORGET. 0 if this node does not write the file. Loop only. */
void locks_hold(struct member *member, const struct locks_request *request, locks_fn fn);

#endif
