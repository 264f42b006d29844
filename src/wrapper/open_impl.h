/*
 * wrapper/open_impl.h - private to open*.c
 */
#ifndef DYAD_WRAPPER_OPEN_IMPL_H
#define DYAD_WRAPPER_OPEN_IMPL_H

#include "wrapper/open.h"

#define WRAPPER_OPEN_LINKS_MAX 40
/* How often a file may vanish right after the engine has said that it is here. */
#define WRAPPER_OPEN_VANISHED 4

/* --- open_common.c --- */

/* The upath that the open may have to wait for; NULL: only the real open is to be made.
 */
const char *wrapper_open_awaited(const struct wrapper_path *where);
/* Make the real open; a directory before a ".." may have come while the open waited. */
int wrapper_open_real(const struct wrapper_opener *opener);
bool wrapper_open_is_regular(int fd);
/* Make the directories and links above *where here that are published and not here; after
 * that *where may mean another file, or one outside. 0, or the errno value with which one
 * that may be published could not be made: then ENOENT is not known to be true. */
int wrapper_open_bring_parents(const struct engine_ops *ops, struct wrapper_path *where);
/* Make the file that *where means present and complete. 0: it is. 1: *where means another
 * file by now. Then the real open may be tried again. -1 with errno. */
int wrapper_open_consume(const struct engine_ops *ops, struct wrapper_path *where,
                         enum engine_consume how);

/* --- open_read_wait.c --- */

/* Make an open for reading. */
int wrapper_open_read(const struct engine_ops *ops, const struct wrapper_opener *opener);
/* Make an open with O_RDONLY and O_CREAT, as for lock files: fetches the file if it is
 * published, and waits for nothing. With O_TRUNC: the file is another one afterwards. */
int wrapper_open_read_or_make(const struct engine_ops *ops,
                              const struct wrapper_opener *opener);
/* O_NONBLOCK: to look at a FIFO must not wait for its writer. */
#define WRAPPER_OPEN_LOOK (O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
/* A descriptor of the complete file; -1: make the real call; -2 with errno: the file will
 * not come, or the wait for it was interrupted. */
int wrapper_open_look(const struct engine_ops *ops, struct wrapper_path *where, int flags);

/* --- open_write.c --- */

/* Make an open for writing that may make the file, or does not wait for it. */
int wrapper_open_write(const struct engine_ops *ops, const struct wrapper_opener *opener);
/* Make an open for writing that can only open an existing file. */
int wrapper_open_there(const struct engine_ops *ops, const struct wrapper_opener *opener);

#endif
