/*
 * engine/namespace/directories.h - the directories above what is published
 */
#ifndef DYAD_ENGINE_NAMESPACE_DIRECTORIES_H
#define DYAD_ENGINE_NAMESPACE_DIRECTORIES_H

#include "engine/core/member.h"

struct known_dir;
struct directories_wait {
    struct directories_wait *prev, *next; /* utlist */
    void (*fn)(void *arg, int status);    /* status: errno value; was logged */
    void *arg;
    struct known_dir *dir; /* NULL: fn or directories_leave() was called */
};
/* Publish the directory upath[len], which is here, if it is not published; mode not 0:
 * with these permissions. 1: it is published; 0: wait->fn will be called (maybe in this
 * call); -1 ENOMEM. */
int directories_ensure(struct member *member, enum engine_role role, const char *upath,
                       size_t len, mode_t mode, struct directories_wait *wait);
void directories_leave(struct directories_wait *wait);
/* The directory was published by an earlier member of this rank, and is published again.
 */
void directories_restored(struct member *member, enum engine_role role,
                          const struct store_record *record);
/* The directory was withdrawn, or published by another rank. */
void directories_forget(struct member *member, const char *upath);

#endif
