/*
 * store/extents_cover.h - is all that a file has on its disk in the record of its writes?
 *
 * It says so of what was written past the record: by a raw system call, or before the record began.
 */
#ifndef DYAD_STORE_EXTENTS_COVER_H
#define DYAD_STORE_EXTENTS_COVER_H

#include "store/extents.h"

/* True if the file's end, and all that it has on its disk, is recorded, since it was that version
 * (NULL: ever), but for zeros, and for what the version had. fd is open for
 * reading. False: somebody has written past the record, the file system does not tell, or there is
 * no list. */
bool store_extents_cover(struct store_extents *extents, uint64_t ino, uint64_t btime,
                         const struct dyad_base *since, int fd);

#endif
