/*
 * engine/recovery/takeover.h - what dead ranks of this node have left
 */
#ifndef DYAD_ENGINE_RECOVERY_TAKEOVER_H
#define DYAD_ENGINE_RECOVERY_TAKEOVER_H

#include "engine/core/member.h"

/* Look whether a rank of our session on our node is dead, and take over what it has left:
 * after the join, and when one may have died. Cheap if there is nothing. */
void takeover_look(struct member *member);
/* The process is, or was, a member of our node, and has closed its connection: look when it
 * has ended. */
void takeover_watch(struct member *member, pid_t pid);
/* A copy of our journal was no holder's for some time: is it still what is published? */
void takeover_check_copy(struct member *member, enum engine_role role,
                         const struct store_record *record);
/* Is it not known yet what there is to be taken over? May upath, a copy (NULL: any), be out
 * of date, because the homes have not been heard about it? The end of either:
 * startup_validation_step(). */
bool takeover_looking(const struct member *member);
bool takeover_undecided(const struct member *member, const char *upath);
/* Somebody waits for the check of upath, if there is one. */
void takeover_hurry(struct member *member, const char *upath);

#endif
