/*
 * store/dmd.h - the node-local disk below one DMD
 *
 * All access by upath goes through a directory descriptor with openat2(RESOLVE_BENEATH |
 * RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS) and cannot leave the DMD; where the kernel
 * has no openat2 (ENOSYS, or a seccomp filter's EPERM), a walk component by component with
 * O_NOFOLLOW does the same. Thread-safe: a struct store_dir is immutable after creation
 * (and store_dir_set_shared). No result depends on the umask, and umask()
 * is never called.
 *
 * The control directory `.dyad/` (0700) holds: storage (the storage id), marks
 * (store/marks.h), answers (store/cache_table.h), extents (store/extents.h), owner/ (store/journal.h), tmp/ (files
 * being fetched). It is made again if it was removed.
 */
#ifndef DYAD_STORE_DMD_H
#define DYAD_STORE_DMD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#include "util/entry.h"
#include "util/path.h"

#define STORE_CONTROL_DIR UTIL_PATH_CONTROL_DIR

struct store_dir;

/* The state of a file when it was looked at; if two are equal the file was not replaced
 * or rewritten in between (ctime is part of it). */
struct store_identity {
    uint64_t dev, ino;
    uint64_t btime; /* ns; 0 where the file system has none */
    uint64_t ctime; /* ns */
    uint64_t size;
};

/* Open the DMD at an absolute path and make its control directory. NULL: ENOENT, ENOTDIR,
 * EACCES, EROFS..., each with a log line that names the path and what to do. */
struct store_dir *store_dir_create(const char *path);
void store_dir_destroy(struct store_dir *dir);

const char *store_dir_path(const struct store_dir *dir);      /* as given */
const char *store_dir_real_path(const struct store_dir *dir); /* symlinks resolved */
const uint8_t *store_dir_id(const struct store_dir *dir); /* DYAD_STORAGE_ID_LEN bytes */
int store_dir_fd(const struct store_dir *dir); /* O_PATH descriptor, the dir's own */

/* True if programs of other kernels may see the same files: then no lock and no memory
 * below it is common with them. True on every file system but those that one kernel alone
 * has mounted (ext4, xfs, btrfs, tmpfs, ...), and as store_dir_set_shared() says. */
bool store_dir_shared(const struct store_dir *dir);
/* Set what the user has configured, before other threads use dir, and before its marks
 * are made. */
void store_dir_set_shared(struct store_dir *dir, bool shared);
/* Its file system is one kernel's own, whatever store_dir_set_shared() says: no server must
 * be waited for. */
bool store_dir_local(const struct store_dir *dir);

/* The storage id at another path (another DMD seen from this node), without creating
 * anything. 0, or -1 with errno (ENOENT: no DMD there). */
int store_dir_read_id(const char *path, uint8_t id[DYAD_STORAGE_ID_LEN]);

/* 0 if upath is normalised and below the DMD, else -1: EXDEV (absolute, ".."), ENOENT (in
 * the control directory), EINVAL (empty, "." or empty component), ENAMETOOLONG. All
 * functions below check so. */
int store_dir_check(const char *upath);

/* open(2) below the DMD; flags | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW. Returns a descriptor or
 * -1 with errno (EXDEV or ELOOP: it would leave the DMD, or passes a symbolic link, even
 * one that points inside). Gives regular files only, or a directory if O_DIRECTORY is asked
 * for, or anything with O_PATH; else EISDIR, or EINVAL for a FIFO, socket or device (opened
 * with O_NONBLOCK, so it cannot block, and closed again). A file that it creates gets
 * exactly `mode`, whatever the umask. */
int store_dir_open(const struct store_dir *dir, const char *upath, int flags, mode_t mode);
int store_dir_stat(const struct store_dir *dir, const char *upath,
                   struct stat *st); /* no follow */
/* True if it is certain that the name does not exist; false if it cannot be looked at. */
bool store_dir_lacks(const struct store_dir *dir, const char *upath);
int store_dir_rmdir(const struct store_dir *dir, const char *upath);
/* readlink(2) below the DMD: the number of bytes, or -1: EINVAL no symbolic link. */
ssize_t store_dir_readlink(const struct store_dir *dir, const char *upath, char *buf,
                           size_t size);
/* Have the kernel ask a network file system anew for the names in the directory of upath
 * and in those above it: opening a directory does that, while looking up a name may
 * return a cached ENOENT. */
void store_dir_refresh(const struct store_dir *dir, const char *upath);
int store_identity_read(int fd, struct store_identity *identity); /* fd may be O_PATH */
bool store_identity_is(int fd, const struct store_identity *identity); /* inode and birth */
bool store_identity_equal(const struct store_identity *a, const struct store_identity *b);

/* Fill size, mode, mtime, storage of an entry from a stat. A directory's size is 0. */
void store_dir_describe(const struct store_dir *dir, const struct stat *st,
                        struct dyad_entry *entry);

#endif
