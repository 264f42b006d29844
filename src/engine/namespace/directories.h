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
    struct known_dir *dir; /* NULL: fn was called, or directories_leave() */
};
/* See that the directory upath[len], which is here, is published. mode 0: whatever it says
 * of permissions; else also with these. 1: it is; 0: wait->fn will come (may be at once);
 * -1 ENOMEM. */
int directories_ensure(struct member *member, enum engine_role role, const char *upath,
                       size_t len, mode_t mode, struct directories_wait *wait);
void directories_leave(struct directories_wait *wait);
/* An earlier member of this rank had published it, and it is published again. */
void directories_restored(struct member *member, enum engine_role role,
                          const struct store_record *record);
/* It was withdrawn, or published by somebody else. */
void directories_forget(struct member *member, const char *upath);

#endif
