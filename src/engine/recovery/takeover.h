/*
 * engine/recovery/takeover.h - taking over the files of dead ranks of this node
 */
#ifndef DYAD_ENGINE_RECOVERY_TAKEOVER_H
#define DYAD_ENGINE_RECOVERY_TAKEOVER_H

#include "engine/core/member.h"

/* Look whether a rank of our session on our node is dead, and take its files over. Called
 * after the join, and when a rank may have died. Cheap if there is nothing. */
void takeover_look(struct member *member);
/* The process is, or was, a member of our node, and has closed its connection: look when
 * it has ended. */
void takeover_watch(struct member *member, pid_t pid);
/* For some time no home knew this copy of our journal: compare it with the homes. */
void takeover_check_copy(struct member *member, enum engine_role role,
                         const struct store_record *record);
/* Where the close of what a record says has not ended, the homes may have refused it for another node's version: make it the
 * record of a copy, with which takeover_check_copy() publishes it if nothing is lost by that. True: it is one. */
bool takeover_is_to_ask(struct store_record *record);
/* looking: true until it is known what is to be taken over. undecided: true while the
 * copy upath (NULL: any) may be out of date, because its homes have not answered about
 * it. The end of either calls startup_validation_step(). */
bool takeover_looking(const struct member *member);
bool takeover_undecided(const struct member *member, const char *upath);
/* A process waits for the check of upath, if one is under way: do it next. */
void takeover_hurry(struct member *member, const char *upath);

#endif
