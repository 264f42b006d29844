/*
 * wrapper/open.h - the way of an open below a managed directory, whatever function was
 * called
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
    /* Found as wrapper_open_how() says; what comes here while the open waits may move it.
     */
    struct wrapper_path *where;
    int flags; /* as for open(2) */
    /* The real open is called once, and for writing what is not there is not waited for. */
    bool once;
    /* What the program named; path may be NULL. */
    const char *path;
    int dirfd;
};

/* What open(2) would return. A descriptor open for writing is in the table when this
 * returns. */
int wrapper_open(const struct wrapper_opener *opener);
/* wrapper_path_find_as() for an open: where directories that have a ".." behind them are
 * only published, it finds what the kernel would, were they here, and makes them be so. */
bool wrapper_open_find(int dirfd, const char *path, unsigned how,
                       struct wrapper_path *where);
/* How the path of an open with these flags is meant: wrapper_path_how. */
unsigned wrapper_open_how(int flags);
/* They open for writing, or make the file. */
bool wrapper_open_writes(int flags);
/* After a real open of a path elsewhere failed: it may be a link to a file of ours that is
 * not here, and is worth wrapper_path_find_as() with WRAPPER_PATH_FOLLOW_ALL. Keeps errno
 * if not. */
bool wrapper_open_dangling(int dirfd, const char *path, int flags);
/* Before an open that cannot be repeated: what wrapper_open() does before and between its
 * real opens. 0, or -1 with errno. For reading it opens the file itself to look at it. One
 * for writing is then made with `once`. */
int wrapper_open_prepare(struct wrapper_path *where, int flags);
/* Make *where be here, as it was found with WRAPPER_PATH_FOLLOW, if it is published. Never
 * waits. False: it is not here. errno is lost. */
bool wrapper_open_bring(const struct engine_ops *ops, struct wrapper_path *where);
/* Make the directories above *where here that are published only. 0: something may have
 * come; or the errno value of a call that did not find them. errno is lost. */
int wrapper_open_parents(struct wrapper_path *where);
/* fd is a file that exists only since this call made it under a new name: as write_begin
 * and write_opened. */
void wrapper_open_created(int fd, const struct wrapper_path *where, int flags);

#endif
