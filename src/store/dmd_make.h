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

/* Make a directory, with `mode` whatever the umask, and those above it. One that is there
 * stays as it is. *identity (may be NULL) gets what it is. 0, or -1: EEXIST it is something
 * else. */
int store_dir_mkdir(const struct store_dir *dir, const char *upath, mode_t mode,
                    struct store_identity *identity);
/* Make the directories above upath, 0755. */
int store_dir_make_parents(const struct store_dir *dir, const char *upath);
/* The mtime of the directory `at`, read before a copy is put into it and given back
 * afterwards: to bring here what is published is no change of a directory. (Who compares
 * times would take it for one, as make and tar do.) A change by somebody else between the
 * two is then dated too early. */
struct timespec store_dir_mtime_get(int at);
void store_dir_mtime_put(int at, struct timespec mtime);

#endif
