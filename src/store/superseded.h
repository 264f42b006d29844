/*
 * store/superseded.h - files that are out of date and keep their name until what replaced
 * them is here
 *
 * Such a file has a second link, `.dyad/old/SESSION.HASH-OF-UPATH`. So it is one as long as
 * that link is of the same inode: whatever gets the name is none, whoever put it there, and
 * nothing else of the file changes. Who has looked at a file knows for nothing that it is
 * none: its count of links is 1. Everybody of the session and the node sees the same, and
 * whoever is killed leaves what is so. Thread-safe.
 */
#ifndef DYAD_STORE_SUPERSEDED_H
#define DYAD_STORE_SUPERSEDED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "store/dmd.h"

/* May a file that looks so be one? */
static inline bool store_superseded_may(mode_t mode, uint64_t nlink)
{
    return S_ISREG(mode) && nlink > 1;
}

/* Is the file of inode `ino`, which is at upath below the managed directory at path `dmd`?
 * `session`: store_renames_session(). Some us; async-signal-safe; keeps errno. */
bool store_superseded(const char *dmd, uint64_t session, const char *upath, uint64_t ino);
/* The file at upath is from now on, if it is that of `identity` (inode and birth time). 0,
 * or -1 with errno: ESTALE it is another, ENOENT; EPERM, EMLINK, EOPNOTSUPP, ENOSPC ... it
 * cannot be marked. */
int store_superseded_set(const struct store_dir *dir, uint64_t session, const char *upath,
                         const struct store_identity *identity);
/* No file of upath is marked any more. Keeps errno. */
void store_superseded_clear(const struct store_dir *dir, uint64_t session,
                            const char *upath);
/* Give back the space of files that are gone but for this link; with `all` also the links
 * of this session, which has ended. */
void store_superseded_clean(const struct store_dir *dir, uint64_t session, bool all);

#endif
