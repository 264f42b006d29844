/*
 * wrapper/environment.h - the environment at the start, and entries that exec adds again
 */
#ifndef DYAD_WRAPPER_ENVIRONMENT_H
#define DYAD_WRAPPER_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

/* A copy of the environment at the start of the process, if wrapper_phase is ON. */
extern char **wrapper_env;

/* Make this copy. Before main, once. False: no memory. */
bool wrapper_env_take(char **env);
/* Give main this environment, which has the same strings, and some of ours. */
void wrapper_env_give(char **env);
/* A copy of env with one more entry, which stays the caller's; env if there is no memory.
 */
char **wrapper_env_extend(char **env, char *entry);

/* The number of entries that this library needs, that env lacks and that the program has
 * not removed; out (may be NULL) gets them. Also in the child of vfork. */
size_t wrapper_env_lacking(char *const env[], char **out);

#endif
