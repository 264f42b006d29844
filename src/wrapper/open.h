/*
 * wrapper/open.h - opening a file below a managed directory, for all functions that open
 */
#ifndef DYAD_WRAPPER_OPEN_H
#define DYAD_WRAPPER_OPEN_H

#include <stdbool.h>

#include "wrapper/path_find.h"

struct wrapper_opener {
    /* The real open. Returns a descriptor, or -1 with errno. May be called several times.
     */
    int (*open)(void *arg);
    /* Undo an open that returned fd. */
    void (*undo)(void *arg, int fd);
    void *arg;
    /* Found as wrapper_open_how() says; links that come here while the open waits may
     * change it. */
    struct wrapper_path *where;
    int flags; /* as for open(2) */
    /* The real open is called once, and an open for writing does not wait for the file.
     */
    bool once;
    /* The program's arguments; path may be NULL. */
    const char *path;
    int dirfd;
};

/* Open the file. Returns as open(2). A descriptor open for writing is in the table then.
 */
int wrapper_open(const struct wrapper_opener *opener);
/* wrapper_path_find_as() for an open: if directories before a ".." in the path are
 * published and not here, they are made here, and the result is what the kernel finds
 * then. */
bool wrapper_open_find(int dirfd, const char *path, unsigned how,
                       struct wrapper_path *where);
/* The wrapper_path_how of the path of an open with these flags. */
unsigned wrapper_open_how(int flags);
/* True if the flags open for writing, or make the file. */
bool wrapper_open_writes(int flags);
/* After a real open of a path outside failed: true if it may be a link to a managed file
 * that is not here: try wrapper_path_find_as() with WRAPPER_PATH_FOLLOW_ALL. Keeps errno
 * if false. */
bool wrapper_open_dangling(int dirfd, const char *path, int flags);
/* Before an open that cannot be repeated: do what wrapper_open() does before and between
 * its real opens. 0, or -1 with errno. For reading it opens the file itself to look at
 * it. An open for writing is then made with `once`. */
int wrapper_open_prepare(struct wrapper_path *where, int flags);
/* Bring *where here, as it was found with WRAPPER_PATH_FOLLOW, if it is published. Never
 * waits. False: it is not here. errno is lost. */
bool wrapper_open_bring(const struct engine_ops *ops, struct wrapper_path *where);
/* Make the directories above *where here that are published and not here. 0: some may
 * have come; or the errno value of a call that did not find them. errno is lost. */
int wrapper_open_parents(struct wrapper_path *where);
/* fd is a file that this call has just made under a new name: as write_begin() and
 * write_opened(). */
void wrapper_open_created(int fd, const struct wrapper_path *where, int flags);

#endif
