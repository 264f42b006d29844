/*
 * wrapper/open_exec.h - a program or library below a managed directory, before it is
 * executed or loaded
 */
#ifndef DYAD_WRAPPER_OPEN_EXEC_H
#define DYAD_WRAPPER_OPEN_EXEC_H

#include <stdbool.h>

#include "wrapper/path_find.h"

/* Before *path, below dirfd, is executed with the environment env, or loaded: make it
 * present and complete here, as for a read, and the libraries that it needs
 * (wrapper/library.h). May change *path to one that is in *where. Also in the child of
 * vfork, where it changes nothing of this process: it can ask a member if the engine is
 * loaded already. 0, or -1 with errno. */
int wrapper_open_for_exec(int dirfd, const char **path, bool follow, char *const env[],
                          struct wrapper_path *where);
/* The same before a program without a slash in its name is looked for along PATH: where
 * PATH names a managed directory, or one below, before it comes to the program, the program
 * is brought there if it is published. Never waits. 0. */
int wrapper_open_search(const char *program, char *const env[]);

#endif
