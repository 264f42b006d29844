/*
 * engine/publish/fd_holders.h - which processes of this user have a file open for writing
 *
 * Reads /proc/PID/fd of every process, which takes some milliseconds for hundreds of
 * them: not for the loop's thread. Linux only.
 */
#ifndef DYAD_ENGINE_PUBLISH_FD_HOLDERS_H
#define DYAD_ENGINE_PUBLISH_FD_HOLDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

enum holder_kind {
    HOLDER_OURS,      /* has the wrapper: it settles what it closes, unless it is killed */
    HOLDER_TRANSIENT, /* shares its parent's memory: a child of vfork or posix_spawn before
                         its exec */
    HOLDER_FOREIGN,   /* a program without the wrapper */
};

struct holder {
    pid_t pid;
    int pidfd; /* close-on-exec */
    enum holder_kind kind;
};

/* Processes that have the file of `st` open for writing under a path that begins with
 * `below`. Fills at most max; returns how many it filled. */
size_t holders_find(const struct stat *st, const char *below, struct holder *holders,
                    size_t max);
/* True if the process has ended; a zombie has. */
bool holder_is_dead(const struct holder *holder);
void holders_close(struct holder *holders, size_t n);

#endif
