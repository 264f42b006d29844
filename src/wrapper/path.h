/*
 * wrapper/path.h - is this path below a managed directory?
 *
 * Lexical: "." and ".." and "//" are resolved as text, and a path is compared with each
 * managed directory as configured and as the kernel names it (a configured path may go
 * through symbolic links).
 */
#ifndef DYAD_WRAPPER_PATH_H
#define DYAD_WRAPPER_PATH_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "engine/engine_ops.h"

struct wrapper_path {
    /* Path below the directory of each side, or NULL: not below that one. One is not NULL.
     */
    const char *upath[2];
    /* What to give the real call in place of (dirfd, path); set only if `moved`: with
     * DYAD_PATH_RELATIVE a relative path is one below the managed directory, not below the
     * working directory. */
    bool moved;
    /* Of wrapper_path_find_dir(): the path ends in a slash or a dot, so that it can only
     * name a directory. */
    bool slash;
    bool directories; /* path.c's own */
    char text[2 * PATH_MAX];
};

/* Read DYAD_PATH, DYAD_PATH_PRODUCER, DYAD_PATH_CONSUMER, DYAD_PATH_RELATIVE. False:
 * nothing is managed. */
bool wrapper_path_setup(char *const env[]);
/* What it returned. */
bool wrapper_path_configured(void);

/* Fill *where and return true if (dirfd, path) is below a managed directory: not the
 * directory itself, not its control directory (.dyad), not with a trailing slash. NULL is
 * below nothing. Keeps errno. */
bool wrapper_path_find(int dirfd, const char *path, struct wrapper_path *where);
/* The same for the file that fd has open, by the name that the kernel shows. */
bool wrapper_path_find_fd(int fd, struct wrapper_path *where);
/* The same for calls that directories are given to: the managed directory itself is found,
 * with the upath "", and so is a path with a trailing slash. */
bool wrapper_path_find_dir(int dirfd, const char *path, struct wrapper_path *where);
bool wrapper_path_find_fd_dir(int fd, struct wrapper_path *where);
/* Is this the name that the control directory has in a managed one? */
bool wrapper_path_is_control(const char *name);

/* chdir or fchdir was called. */
void wrapper_path_cwd_changed(void);

/* The side on which a file is written, renamed or removed. */
static inline enum engine_side wrapper_path_side(const struct wrapper_path *where)
{
    return where->upath[ENGINE_PRODUCER] ? ENGINE_PRODUCER : ENGINE_CONSUMER;
}
static inline const char *wrapper_path_upath(const struct wrapper_path *where)
{
    return where->upath[wrapper_path_side(where)];
}

#endif
