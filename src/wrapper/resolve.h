/*
 * wrapper/resolve.h - from a path that the real call did not find to what is published of
 * it, and here with it
 *
 * For calls on names that wait for nothing: look-ups, attributes, directories, links. What
 * is here and out of date (client_ops.h: superseded) counts as not here.
 */
#ifndef DYAD_WRAPPER_RESOLVE_H
#define DYAD_WRAPPER_RESOLVE_H

#include <stdbool.h>
#include <sys/stat.h>

#include "wrapper/path_find.h"

enum wrapper_resolved {
    WRAPPER_NOWHERE,   /* errno says why: ENOENT, ENOTDIR, ELOOP; EIO: nobody can say */
    WRAPPER_HERE,      /* the real call finds something now, or another kind of error */
    WRAPPER_ELSEWHERE, /* published, and not here */
};

/* What (dirfd, path) names, which the real call has answered with ENOENT. Symbolic links on
 * the way are made here and followed, the last one only if `follow` (or if a slash is
 * behind it). *where is what it means in the end (not if NOWHERE), *st, which may be NULL,
 * what is published of it (if ELSEWHERE). No waiting, and no file is fetched. Asks the
 * engine once where nothing is published, and not at all outside of the managed directory.
 * Keeps errno unless NOWHERE. */
enum wrapper_resolved wrapper_resolve(int dirfd, const char *path, bool follow,
                                      struct wrapper_path *where, struct stat *st);

/* Make the directories be here that have a ".." behind them in path: the kernel goes
 * through them. Costs a search for "/.." in a path that has none. Keeps errno. */
void wrapper_bring_before_dots(int dirfd, const char *path);

/* This thread has just heard of *path, from wrapper_resolve(), that it is elsewhere, and
 * asks about nothing else in between: ls does, of each file, first by stat and then for
 * extended attributes. Outside of the managed directory it is false. */
bool wrapper_resolved_before(int dirfd, const char *path, bool follow);

/* Make (dirfd, path) be here, if it is published: a file with its bytes. True: the real
 * call is worth another try. False with errno: ENOENT, or why it could not be brought.
 * *where as above. */
bool wrapper_bring(int dirfd, const char *path, bool follow, struct wrapper_path *where);

/* The same for a directory. One that is published as something else is not fetched:
 * ENOTDIR. */
bool wrapper_bring_dir(int dirfd, const char *path, struct wrapper_path *where);

/* Before a call that goes by what is here: if that is a file which is out of date, bring
 * the newest. 0, or -1 with errno: that cannot be done, and the call must not be made. */
int wrapper_bring_newest(int dirfd, const char *path, bool follow);

/* Make the directory be here in which path is, or is to be made. True: it is. False with
 * errno. */
bool wrapper_bring_parents(int dirfd, const char *path);

#endif
