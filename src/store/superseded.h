/*
 * store/superseded.h - superseded files: out of date, they keep their name until the
 * newer version is here
 *
 * Such a file has a second link, `.dyad/old/SESSION.HASH-OF-UPATH`, and is superseded as
 * long as that link is of the same inode: another file that gets the name is not,
 * whichever process put it there, and nothing else of the file changes. After a stat it
 * costs nothing to know that a file is not superseded: its link count is 1. All processes
 * of the session and the node see the same, and one that is killed leaves a valid state.
 *
 * Files that are *pending* are told by such a link, too: those who wrote it here have ended,
 * and other nodes may still write it. So are those that were superseded, and are being published with what was
 * written to them since (*unsettled*). Who reads one asks the homes first. Thread-safe.
 */
#ifndef DYAD_STORE_SUPERSEDED_H
#define DYAD_STORE_SUPERSEDED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "store/dmd.h"

/* Each kind has a link of its own: who takes back what it has set does not take back what
 * another has found. Bits. */
enum store_old {
    STORE_OLD_TOLD = 1,    /* this node was told of a newer version */
    STORE_OLD_REFUSED = 2, /* its publish was refused: a newer version is there */
    STORE_PENDING = 4,
    STORE_UNSETTLED = 8,
};

#define STORE_OLD (STORE_OLD_TOLD | STORE_OLD_REFUSED)

/* True if a file of this mode and link count may be superseded or pending. */
static inline bool store_superseded_may(mode_t mode, uint64_t nlink)
{
    return S_ISREG(mode) && nlink > 1;
}

/* True if the file of inode `ino`, at upath below the managed directory at path `dmd`, is
 * marked as one of the kinds `of`. `session`: store_renames_session(). Some us;
 * async-signal-safe; keeps errno. */
bool store_superseded(const char *dmd, uint64_t session, const char *upath, unsigned of,
                      uint64_t ino);
/* The same: as how many of these kinds, each of which is a link of the file. */
unsigned store_superseded_links(const char *dmd, uint64_t session, const char *upath,
                                unsigned of, uint64_t ino);
/* Mark the file at upath, if it is that of `identity` (inode and birth time). 0, or -1 with
 * errno: ESTALE it is another, ENOENT; EPERM, EMLINK, EOPNOTSUPP, ENOSPC ... it cannot be
 * marked. */
int store_superseded_set(const struct store_dir *dir, uint64_t session, const char *upath,
                         enum store_old kind, const struct store_identity *identity);
/* The same for one that is superseded: as unsettled, and as nothing else. */
int store_superseded_unsettle(const struct store_dir *dir, uint64_t session,
                              const char *upath, const struct store_identity *identity);
/* No file of upath is marked as one of the kinds `of` any more. Keeps errno. */
void store_superseded_clear(const struct store_dir *dir, uint64_t session,
                            const char *upath, unsigned of);
/* Files that had the name, and have it no more, are not marked any more. Keeps errno. */
void store_superseded_forget(const struct store_dir *dir, uint64_t session,
                             const char *upath);
/* Give back the space of files that are gone but for such a link; with `all` also the links
 * of this session, which has ended. */
void store_superseded_clean(const struct store_dir *dir, uint64_t session, bool all);

#endif
