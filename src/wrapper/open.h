/*
 * wrapper/open.h - the way of an open below a managed directory, whatever function was
 * called
 */
#ifndef DYAD_WRAPPER_OPEN_H
#define DYAD_WRAPPER_OPEN_H

#include <stdbool.h>

#include "wrapper/path.h"

struct wrapper_opener {
    /* The real open. Returns a descriptor, or -1 with errno. May be called several times.
     */
    int (*open)(void *arg);
    /* Undo an open that returned fd. */
    void (*undo)(void *arg, int fd);
    void *arg;
    const struct wrapper_path *where;
    int flags; /* as for open(2) */
};

/* What open(2) would return. A descriptor open for writing is in the table when this
 * returns. */
int wrapper_open(const struct wrapper_opener *opener);
/* The engine has to be asked about an open with these flags. */
bool wrapper_open_concerns(int flags);
/* They open for writing, or make the file. */
bool wrapper_open_writes(int flags);
/* Before an open that cannot be repeated: what wrapper_open() does before and between its
 * real opens. 0, or -1 with errno. For reading it opens the file itself to look at it. */
int wrapper_open_prepare(const struct wrapper_path *where, int flags);
/* fd is a file that exists only since this call made it under a new name: as write_begin
 * and write_opened. */
void wrapper_open_created(int fd, const struct wrapper_path *where, int flags);

#endif
