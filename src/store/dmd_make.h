/*
 * store/dmd_make.h - directories below a DMD
 *
 * Thread-safe; upaths as in store/dmd.h.
 */
#ifndef DYAD_STORE_DMD_MAKE_H
#define DYAD_STORE_DMD_MAKE_H

#include <sys/types.h>
#include <time.h>

#include "store/dmd.h"

/* Make a directory, with `mode` whatever the umask, and those above it. One that exists
 * stays as it is. *identity (may be NULL) gets its identity. 0, or -1: EEXIST it is no
 * directory. */
int store_dir_mkdir(const struct store_dir *dir, const char *upath, mode_t mode,
                    struct store_identity *identity);
/* Make the directories above upath, 0755. */
int store_dir_make_parents(const struct store_dir *dir, const char *upath);
/* Read the mtime of the directory `at` before a copy is put into it, and set it again
 * afterwards: programs that compare times (make, tar) must not see a fetch as a change of
 * the directory. A change by another process between the two gets too early a time. */
struct timespec store_dir_mtime_get(int at);
void store_dir_mtime_put(int at, struct timespec mtime);

#endif
