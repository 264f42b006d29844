/*
 * wrapper/open_impl.h - between the open*.c, for nobody else
 */
#ifndef DYAD_WRAPPER_OPEN_IMPL_H
#define DYAD_WRAPPER_OPEN_IMPL_H

#include "wrapper/open.h"

#define WRAPPER_OPEN_LINKS_MAX 40
/* How often a file may vanish at once that was said to be here. */
#define WRAPPER_OPEN_VANISHED 4

/* --- open_common.c --- */

/* The upath that the open may have to wait for; NULL: it is the real open's affair. */
const char *wrapper_open_awaited(const struct wrapper_path *where);
/* A directory with a ".." behind it may have come while the open waited. */
int wrapper_open_real(const struct wrapper_opener *opener);
bool wrapper_open_is_regular(int fd);
/* Make the directories and links above *where that are published only; then it may mean
 * another file, or none of ours. 0, or why one could not be made here, if it may be
 * published: then "no such directory" is not known to be true. */
int wrapper_open_bring_parents(const struct engine_ops *ops, struct wrapper_path *where);
/* Make the file that *where means present and complete. 0: it is. 1: *where means another
 * file by now. Then the real open may be tried again. -1 with errno. */
int wrapper_open_consume(const struct engine_ops *ops, struct wrapper_path *where,
                         enum engine_consume how);

/* --- open_read_wait.c --- */

/* The way of an open for reading. */
int wrapper_open_read(const struct engine_ops *ops, const struct wrapper_opener *opener);
/* O_RDONLY with O_CREAT, as lock files are opened: what is published is fetched, and
 * nothing is waited for that is not there. With O_TRUNC: what is there is another file
 * afterwards. */
int wrapper_open_read_or_make(const struct engine_ops *ops,
                              const struct wrapper_opener *opener);
/* O_NONBLOCK: to look at a FIFO must not wait for its writer. */
#define WRAPPER_OPEN_LOOK (O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
/* A descriptor of the complete file; -1: the real call knows better; -2: with errno, it
 * will not come, or the wait for it was interrupted. */
int wrapper_open_look(const struct engine_ops *ops, struct wrapper_path *where, int flags);

/* --- open_write.c --- */

/* An open for writing that may make the file, or has none to wait for. */
int wrapper_open_write(const struct engine_ops *ops, const struct wrapper_opener *opener);
/* One that can only open what is there. */
int wrapper_open_there(const struct engine_ops *ops, const struct wrapper_opener *opener);

#endif
