/*
 * store/fetch.h - bring a file into the DMD: all of it, or nothing
 *
 * The bytes go to `.dyad/tmp/<hash of upath>`, which is renamed to the final name when
 * they are complete, so a partial file never has its final name, whichever process dies.
 * An OFD lock, which ends with its process, holds the temporary file: so only one process
 * of a node fetches a file, and an abandoned temporary is distinguished from a live one.
 * Two threads of one process exclude each other in the same way. Thread-safe for distinct
 * fetches; write may be called by several threads on one fetch. Disk errors are logged
 * once per fetch.
 */
#ifndef DYAD_STORE_FETCH_H
#define DYAD_STORE_FETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "store/dmd.h"
#include "store/marks.h"
#include "util/entry.h"

struct store_fetch;

/* Begin to fetch entry (upath, size, mode, mtime copied; of mode the type and the
 * permission bits only, never setuid or setgid). The bytes of a symbolic link are its
 * target, any text, which is not followed; a directory has none, and commit succeeds if
 * it exists already. `dir` must outlive the fetch. NULL: EBUSY another process
 * of this node is fetching it (store_fetch_wait), ENOSPC / EDQUOT (space for more than 64
 * KiB is reserved at once where the file system can), EFBIG, EIO, ... */
struct store_fetch *store_fetch_begin(const struct store_dir *dir,
                                      const struct dyad_entry *entry);
/* Block until the other process that was fetching upath has finished or died. 0 or -1
 * (EINTR, ...). */
int store_fetch_wait(const struct store_dir *dir, const char *upath);
/* Write len bytes at offset; 0 or -1 with errno (short writes are continued; EINVAL: beyond
 * the size). */
int store_fetch_write(struct store_fetch *fetch, uint64_t offset, const void *data,
                      uint64_t len);
/* A descriptor to read what was written until now; the caller's. It stays valid after the
 * fetch. -1 with errno. */
int store_fetch_open(const struct store_fetch *fetch);
/* Copy all bytes from src_fd with reflink, copy_file_range or read/write, whichever works
 * first. 0, or -1: ESTALE the source has another size. */
int store_fetch_copy(struct store_fetch *fetch, int src_fd);
/* Set mode and mtime, make missing directories, rename into place. `replace`: an older copy
 * may be there and is replaced; otherwise an existing file makes it fail with EEXIST.
 * `identity` (may be NULL) gets the new file's. Frees fetch in every case. 0 or -1 with
 * errno (nothing left behind; EIO: bytes are missing, EXDEV: the name is on another file
 * system than the DMD). */
int store_fetch_commit(struct store_fetch *fetch, int replace,
                       struct store_identity *identity);
/* The same for a regular file, in the place of `old` (inode and birth time), which is
 * replaced in one step. When `old` has no name any more keep(arg) is called: if true
 * `old` gets its name back, and this fails with EEXIST, as it does if another file has
 * the name. `marks` (may be NULL) as for store_fetch_discard_unless(). */
int store_fetch_commit_over(struct store_fetch *fetch, struct store_marks *marks,
                            const struct store_identity *old, bool (*keep)(void *arg),
                            void *arg, struct store_identity *identity);
/* The identity, but for ctime, that the file will have after the commit. Regular files
 * only. 0 or -1. */
int store_fetch_identity(const struct store_fetch *fetch, struct store_identity *identity);
/* Remove the temporary file; frees fetch. Keeps errno. */
void store_fetch_abort(struct store_fetch *fetch);
/* Give a complete fetch to another process of this node: returns its descriptor, which
 * carries the lock wherever it is sent, and frees fetch. -1 with errno: bytes are missing
 * (EIO), and fetch is unchanged. */
int store_fetch_give(struct store_fetch *fetch);
/* Take a fetch over that another process gave: takes fd; commit or abort the result.
 * NULL: fd is not the temporary file of entry, with all its bytes, or its giver did not
 * hold it (ESTALE); fd is closed then. */
struct store_fetch *store_fetch_adopt(const struct store_dir *dir,
                                      const struct dyad_entry *entry, int fd);
/* The inode that a file will have once it is fetched: makes the empty temporary file that
 * store_fetch_begin() will take over. For programs that compare a stat before their open
 * with one after (cp). *st gets its st_dev and st_ino. 0 or -1. */
int store_fetch_reserve(const struct store_dir *dir, const char *upath, struct stat *st);
/* Remove upath if it is the file of `identity` (inode and birth time), and no other file
 * that may take its name at this moment. 0, or -1: ESTALE it is another, ENOENT. */
int store_fetch_discard(const struct store_dir *dir, const char *upath,
                        const struct store_identity *identity);
/* The same, but when the file has no name any more keep(arg) is called: if true it gets
 * its name back, and errno is EBUSY. A file that is being written, which is marked before it is
 * opened, keeps its name (EBUSY); with `marks` (NULL: none) a writer that comes meanwhile waits
 * (store_marks_begin_removal()), so keep() is not to count marks that are OPENING. */
int store_fetch_discard_unless(const struct store_dir *dir, struct store_marks *marks,
                               const char *upath, const struct store_identity *identity,
                               bool (*keep)(void *arg), void *arg);
/* Open upath with `flags` (no O_CREAT), as store_dir_open() does; also while another process
 * looks whether it has to be discarded, when it has no name for some us. A file that is
 * discarded at that moment may be opened still. A descriptor, the caller's, or -1: ENOENT, ... */
int store_fetch_open_named(const struct store_dir *dir, const char *upath, int flags);
/* Remove temporaries of dead processes, except reservations younger than `reserved_for`
 * seconds and, on storage that nodes share, all files younger than a minute. Returns how
 * many, or -1. */
int store_fetch_clean(const struct store_dir *dir, unsigned reserved_for);

#endif
