/*
 * wrapper/resolve.h - paths that the real call did not find: look them up, bring them
 * here
 *
 * For calls on names, which wait for nothing: look-ups, attributes, directories, links. A
 * superseded file (client_ops.h) counts as not here.
 */
#ifndef DYAD_WRAPPER_RESOLVE_H
#define DYAD_WRAPPER_RESOLVE_H

#include <stdbool.h>
#include <sys/stat.h>

#include "wrapper/path_find.h"

enum wrapper_resolved {
    WRAPPER_NOWHERE,   /* errno says why: ENOENT, ENOTDIR, ELOOP; EIO: not known */
    WRAPPER_HERE,      /* the real call finds something now, or another kind of error */
    WRAPPER_ELSEWHERE, /* published, and not here */
};

/* Resolve (dirfd, path), which the real call has answered with ENOENT. Symbolic links on
 * the way are made here and followed, the last one only if `follow` (or if a slash
 * follows it). *where gets the resolved path (not if NOWHERE), *st, which may be NULL,
 * the published status (if ELSEWHERE). Does not wait, and fetches no file. Asks the
 * engine once if nothing is published, and not at all outside of the managed directory.
 * Keeps errno unless NOWHERE. */
enum wrapper_resolved wrapper_resolve(int dirfd, const char *path, bool follow,
                                      struct wrapper_path *where, struct stat *st);

/* Make the directories here that have a ".." after them in path: the kernel goes through
 * them. Costs a search for "/.." in a path that has none. Keeps errno. */
void wrapper_bring_before_dots(int dirfd, const char *path);

/* True if the last result of wrapper_resolve() in this thread was that `path` is
 * elsewhere, a moment ago: ls asks twice about each file, by stat and then for extended
 * attributes. False outside of the managed directory. */
bool wrapper_resolved_before(int dirfd, const char *path, bool follow);

/* Bring (dirfd, path) here, if it is published: a file with its bytes. True: the real
 * call is worth another try. False with errno: ENOENT, or why it could not be brought.
 * *where as above. */
bool wrapper_bring(int dirfd, const char *path, bool follow, struct wrapper_path *where);

/* The same for a directory. If it is published, but not as a directory: ENOTDIR. */
bool wrapper_bring_dir(int dirfd, const char *path, struct wrapper_path *where);

/* Before a call that uses the local file: if that is superseded, bring the newest
 * version. 0, or -1 with errno: that cannot be done, and the call must not be made; EBUSY:
 * a process of this node has it open for writing, perhaps the caller, so nobody waits. */
int wrapper_bring_newest(int dirfd, const char *path, bool follow);

/* Bring the directory here in which path is, or is to be made. True: it is here. False
 * with errno. */
bool wrapper_bring_parents(int dirfd, const char *path);
/* True if the directory of *where, which means upath, is here; so are all above it. */
bool wrapper_parent_is_here(struct wrapper_path *where, const char *upath);

#endif
