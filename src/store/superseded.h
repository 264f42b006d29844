/*
 * store/superseded.h - superseded files: out of date, they keep their name until the
 * newer version is here
 *
 * Such a file has a second link, `.dyad/old/SESSION.HASH-OF-UPATH`, and is superseded as
 * long as that link is of the same inode: another file that gets the name is not,
 * whichever process put it there, and nothing else of the file changes. After a stat it
 * costs nothing to know that a file is not superseded: its link count is 1. All processes
 * of the session and the node see the same, and one that is killed leaves a valid state.
 * Thread-safe.
 */
#ifndef DYAD_STORE_SUPERSEDED_H
#define DYAD_STORE_SUPERSEDED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "store/dmd.h"

/* True if a file of this mode and link count may be superseded or pending. */
static inline bool store_superseded_may(mode_t mode, uint64_t nlink)
{
    return S_ISREG(mode) && nlink > 1;
}

/* True if the file of inode `ino`, at upath below the managed directory at path `dmd`, is
 * superseded. `session`: store_renames_session(). Some us; async-signal-safe; keeps
 * errno. */
bool store_superseded(const char *dmd, uint64_t session, const char *upath, uint64_t ino);
/* Mark the file at upath as superseded, if it is that of `identity` (inode and birth
 * time). 0, or -1 with errno: ESTALE it is another, ENOENT; EPERM, EMLINK, EOPNOTSUPP,
 * ENOSPC ... it cannot be marked. */
int store_superseded_set(const struct store_dir *dir, uint64_t session, const char *upath,
                         const struct store_identity *identity);
/* No file of upath is marked any more, nor pending. Keeps errno. */
void store_superseded_clear(const struct store_dir *dir, uint64_t session,
                            const char *upath);
/* The same for files that are *pending*: those who wrote it here have ended, and other nodes
 * may still write it. Who reads one asks the homes first. Another link, `...w`. What is
 * superseded is not pending any more. */
bool store_pending(const char *dmd, uint64_t session, const char *upath, uint64_t ino);
int store_pending_set(const struct store_dir *dir, uint64_t session, const char *upath,
                      const struct store_identity *identity);
void store_pending_clear(const struct store_dir *dir, uint64_t session, const char *upath);
/* Give back the space of files that are gone but for such a link; with `all` also the links
 * of this session, which has ended. */
void store_superseded_clean(const struct store_dir *dir, uint64_t session, bool all);

#endif
