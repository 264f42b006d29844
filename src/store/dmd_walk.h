/*
 * store/dmd_walk.h - all that is below a directory of a DMD
 */
#ifndef DYAD_STORE_DMD_WALK_H
#define DYAD_STORE_DMD_WALK_H

#include "store/dmd.h"

/* Call fn for each regular file, directory and symbolic link at or below upath ("": all
 * but the DMD itself), a directory before what is in it, control directory left out, until
 * it returns non-zero. Returns that, or -1 with errno. What vanishes meanwhile or may not
 * be read below upath is passed over. fn may open, remove and make files. One descriptor at
 * a time, any depth. */
int store_dir_walk(const struct store_dir *dir, const char *upath,
                   int (*fn)(const char *upath, const struct stat *st, void *arg),
                   void *arg);

#endif
