/*
 * wrapper/environment.h - the environment as it was, and what exec puts back of it
 */
#ifndef DYAD_WRAPPER_ENVIRONMENT_H
#define DYAD_WRAPPER_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

/* A copy of the environment at the start of the process, where wrapper_phase is ON. */
extern char **wrapper_env;

/* Make it. Before main, once. False: no memory. */
bool wrapper_env_take(char **env);
/* main gets this environment instead; it has the same strings, and some of ours. */
void wrapper_env_give(char **env);
/* A copy of env with one more entry, which stays the caller's; env if there is no memory.
 */
char **wrapper_env_extend(char **env, char *entry);

/* How many entries env lacks that this library needs and that the program has not taken
 * away; out (may be NULL) gets them. In the child of vfork, too. */
size_t wrapper_env_lacking(char *const env[], char **out);

#endif
