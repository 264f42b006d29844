/*
 * engine/publish/locked.h - what processes of this rank have locked of files that several nodes write
 *
 * Private to locks.c. Loop thread.
 */
#ifndef DYAD_ENGINE_PUBLISH_LOCKED_H
#define DYAD_ENGINE_PUBLISH_LOCKED_H

#include "engine/core/member.h"
#include "engine/publish/lock_nodes.h"
#include "engine/publish/lock_ranges.h"
#include "engine/publish/locks.h"

/* Of one process and one file. */
struct locked {
    struct locked *prev, *next; /* utlist */
    struct member *member;
    uint64_t owner; /* locks_start() */
    int pidfd;
    struct net_watch *watch; /* NULL: of this process */
    void (*ended)(struct locked *locked);
    struct lock_ranges ranges;
    struct lock_nodes asked; /* for any of them */
    char upath[];
};

struct locked *locked_find(struct locked *all, const char *upath, uint64_t owner);
/* The same; made if there is none. `ended` is called when its process has ended. NULL with errno: no memory, or
 * it has. */
struct locked *locked_get(struct locked **all, struct member *member, const char *upath,
                          uint64_t owner, void (*ended)(struct locked *locked));
void locked_free(struct locked **all, struct locked *locked);
/* As locks_foreach(), of what they have. */
void locked_foreach(const struct locked *all, const char *upath, locks_info_fn fn,
                    void *arg);

#endif
