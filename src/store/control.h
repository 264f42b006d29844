/*
 * store/control.h - the control directory of a DMD and the files in it
 *
 * Private to src/store. Everything in the directory is private to the user (directories
 * 0700, files 0600), whatever the program's umask, and made again if it was removed.
 * Thread-safe and safe between processes.
 */
#ifndef DYAD_STORE_CONTROL_H
#define DYAD_STORE_CONTROL_H

#include <stdint.h>

#include "store/dmd.h"

#define STORE_TEMP_NAME_SIZE 48
#define STORE_BOOT_LEN       36 /* of /proc/sys/kernel/random/boot_id */

/* Open the private directory `name` in the directory `parent`; make it if it is missing.
 * A descriptor, or -1: EACCES it is another user's. */
int store_control_private(int parent, const char *name);
/* Open dir's control directory, or a subdirectory of it: a descriptor or -1. */
int store_control_open(const struct store_dir *dir);
int store_control_subdir(const struct store_dir *dir, const char *name);

/* Read the storage id in a control directory. 0, or -1: ENOENT, EUCLEAN. */
int store_control_read_id(int control, uint8_t id[DYAD_STORAGE_ID_LEN]);
/* The same; if there is none write `id` or, if that is all zero, a random one. */
int store_control_make_id(int control, uint8_t id[DYAD_STORAGE_ID_LEN]);

/* Make a file, mode 0600, in a directory and lock it (store/lock.h). Returns a
 * descriptor and its name. */
int store_control_temp(int tmpdir, char name[STORE_TEMP_NAME_SIZE]);
/* Write a new file with fill(), in tmpdir, and give it its name in `control` if no other
 * process was quicker: so no reader ever sees half of one. 0, or 1: there is one already,
 * which stays, or -1 with errno. tmpdir is closed. */
int store_control_place(int tmpdir, int control, const char *name,
                        int (*fill)(int fd, void *arg), void *arg);
/* Rename, but fail with EEXIST if the new name is taken. */
int store_control_rename_new(int olddir, const char *old, int newdir, const char *name);
/* Write all of `data`. 0 or -1. */
int store_control_write(int fd, uint64_t offset, const void *data, uint64_t len);
/* Give disk blocks to a part of a file that will be mapped: a page without one is a SIGBUS
 * when the disk is full. 0 or -1 (ENOSPC...). */
int store_control_reserve(int fd, uint64_t offset, uint64_t len);

/* Read the id of this boot of the machine. 0 or -1. */
int store_control_boot(char boot[STORE_BOOT_LEN + 1]);

#endif
