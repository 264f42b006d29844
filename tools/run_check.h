/*
 * run_check.h - checks that dyad-run makes before it starts a program
 *
 * Each function returns 0, or an exit status as of env(1) with a message in err[size] that
 * says what is wrong and what to do. Not for multi-threaded use.
 */
#ifndef DYAD_TOOLS_RUN_CHECK_H
#define DYAD_TOOLS_RUN_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"

#define RUN_EXIT_FAILURE 125 /* dyad-run itself failed, or was called wrongly */
#define RUN_EXIT_CANNOT_EXEC \
    126 /* the program was found and cannot be run with the library */
#define RUN_EXIT_NOT_FOUND 127

struct run_place {
    const char *name, *path; /* the variable that says it */
};

/* Find a program as execvp() does, in path_env (NULL: the system's default) unless its name
 * has a slash. path[path_size] gets where it is. 126 or 127. */
int run_check_find(const char *program, const char *path_env, char *path, size_t path_size,
                   char *err, size_t size);

/* Check that LD_PRELOAD=wrapper takes effect in the program at `path`, or in the
 * interpreter that runs it. 126: a static binary, another architecture or C library,
 * setuid, setgid, file capabilities. A file that cannot be read passes. */
int run_check_preload(const char *path, const char *wrapper, const char *path_env,
                      char *err, size_t size);

/* Check that `path`, the value of `name`, is a directory in which this user can make
 * files; else 125. `make`: make it (0700 and its parents) if it is missing. */
int run_check_directory(const char *name, const char *path, bool make, char *err,
                        size_t size);

/* Check that `path` can be a session directory, or the first process can make it; else
 * 125. */
int run_check_session_dir(const char *name, const char *path, char *err, size_t size);

/* Check that the library appends log lines to `path`, the value of `name`, or makes it; else 125: it is no file, a FIFO,
 * another user's link. Makes nothing. */
int run_check_file(const char *name, const char *path, char *err, size_t size);

/* The managed directories: how many, 0 to 2. Strings are config's, and constants. */
unsigned run_check_managed(const struct engine_config *config, struct run_place places[2]);

#endif
