/*
 * store/beneath.h - open a upath below a directory descriptor, and nowhere else
 *
 * Private to the room. Nothing is followed: a symbolic link anywhere in the upath is ELOOP,
 * wherever it points. Thread-safe.
 */
#ifndef DYAD_STORE_BENEATH_H
#define DYAD_STORE_BENEATH_H

#include <sys/types.h>

/* 0 if upath is normalised and outside the control directory, or -1: EXDEV absolute or
 * with "..", ENOENT the control directory, ENAMETOOLONG, EINVAL empty or with an empty or
 * "." component. */
int store_upath_check(const char *upath);

/* open(2) of a checked upath below root; O_CLOEXEC, O_NOCTTY and O_NOFOLLOW are added. With
 * O_PATH a symbolic link as the last component is opened itself. */
int store_beneath_open(int root, const char *upath, int flags, mode_t mode);

/* store_beneath_open() for kernels without openat2: walks component by component. */
int store_beneath_walk(int root, const char *upath, int flags, mode_t mode);

/* Open the directory above upath (O_PATH); *base: the last component, within upath. */
int store_beneath_parent(int root, const char *upath, const char **base);

#endif
