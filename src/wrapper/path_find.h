/*
 * wrapper/path_find.h - whether a path is below a managed directory
 *
 * Paths are resolved as by the kernel: symbolic links on the way are followed wherever
 * they are, ".." goes up from where a link led, and the result is the one upath of the
 * file. Components that do not exist (yet) are taken as they are written.
 *
 * Thread-safe and async-signal-safe; no descriptor is opened, nothing allocated; errno is
 * kept.
 */
#ifndef DYAD_WRAPPER_PATH_H
#define DYAD_WRAPPER_PATH_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/client_ops.h"

/* How a path is resolved. */
enum wrapper_path_how {
    /* A link as the last component, that is below a managed directory, is followed. So are
     * those of /proc/self/fd. */
    WRAPPER_PATH_FOLLOW = 1 << 0,
    /* One elsewhere, too. (Costs a look at the disk now and then: for calls that are not
     * cheap.) */
    WRAPPER_PATH_FOLLOW_ALL = 1 << 1 | WRAPPER_PATH_FOLLOW,
    /* A directory is meant: a trailing slash, "." and ".." may be its last component, and
     * the managed directory itself is found, with the upath "". */
    WRAPPER_PATH_DIR = 1 << 2,
};

struct wrapper_path {
    /* Path below the directory of each role; NULL: not below it. At least one is set. */
    const char *upath[2];
    /* Arguments for the real call in place of (dirfd, path), only if `moved`: with
     * DYAD_PATH_RELATIVE a relative path is one below the managed directory, not below
     * the working directory. */
    bool moved;
    unsigned how;
    char text[2 * PATH_MAX]; /* the absolute path, all links resolved; then scratch space */
};

/* Read DYAD_PATH, DYAD_PATH_PRODUCER, DYAD_PATH_CONSUMER, DYAD_PATH_RELATIVE. False:
 * nothing is managed. */
bool wrapper_path_setup(char *const env[]);
/* The result of wrapper_path_setup(). */
bool wrapper_path_configured(void);
/* From now on no path is below a managed directory, whose name has lost its meaning
 * (chroot). False: none was before. */
bool wrapper_path_forget(void);

/* Fill *where and return true if (dirfd, path) is below a managed directory: not the
 * directory itself, not its control directory (.dyad), not with a trailing slash. NULL is
 * below nothing. `how`: 0 or wrapper_path_how. */
bool wrapper_path_find_as(int dirfd, const char *path, unsigned how,
                          struct wrapper_path *where);
/* The same for the name itself, even if it is a link. */
static inline bool wrapper_path_find(int dirfd, const char *path,
                                     struct wrapper_path *where)
{
    return wrapper_path_find_as(dirfd, path, 0, where);
}
/* True if wrapper_path_find_as() would return false, as far as that is cheap to find out.
 */
bool wrapper_path_elsewhere(int dirfd, const char *path, unsigned how);
/* The same for the file that fd has open, by the name that the kernel shows. */
bool wrapper_path_find_fd_as(int fd, unsigned how, struct wrapper_path *where);
static inline bool wrapper_path_find_fd(int fd, struct wrapper_path *where)
{
    return wrapper_path_find_fd_as(fd, 0, where);
}
/* False: no file of that file system is below a managed directory. Costs nothing. */
bool wrapper_path_on_device(dev_t dev);
/* True if `name` is the name of the control directory in a managed one. */
bool wrapper_path_is_control(const char *name);
/* True if by its form the path can only name a directory: a slash or a dot ends it. */
bool wrapper_path_ends_in_directory(const char *path);

/* Resolve *where again: links or directories may have come into the path since. */
enum wrapper_path_again {
    WRAPPER_PATH_GONE, /* it leads out of the managed directories, or to their root */
    WRAPPER_PATH_SAME,
    WRAPPER_PATH_OTHER, /* it is another file's upath */
};
enum wrapper_path_again wrapper_path_again(struct wrapper_path *where);

/* chdir or fchdir was called. */
void wrapper_path_cwd_changed(void);
/* fd is closed, or is now another file: forget the directory that it had open. One load
 * for nearly every descriptor. */
#define WRAPPER_PATH_FDS 65536u
extern _Atomic uint64_t wrapper_path_fds[WRAPPER_PATH_FDS];
static inline void wrapper_path_fd_changed(int fd)
{
    if ((unsigned)fd < WRAPPER_PATH_FDS &&
        atomic_load_explicit(&wrapper_path_fds[fd], memory_order_relaxed) != 0)
        atomic_store(&wrapper_path_fds[fd], 0);
}
/* The same for all descriptors, whatever the range was that changed. */
void wrapper_path_fds_changed(void);
/* A symbolic link was made, or a name changed, anywhere: forget all remembered
 * directories. */
void wrapper_path_changed(void);

/* The role on which a file is written, renamed or removed. */
static inline enum engine_role wrapper_path_role(const struct wrapper_path *where)
{
    return where->upath[ENGINE_PRODUCER] ? ENGINE_PRODUCER : ENGINE_CONSUMER;
}
static inline const char *wrapper_path_upath(const struct wrapper_path *where)
{
    return where->upath[wrapper_path_role(where)];
}

#endif
