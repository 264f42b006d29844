/*
 * client/client_join.h - opens for writing of a file that another process writes
 */
#ifndef DYAD_CLIENT_CLIENT_JOIN_H
#define DYAD_CLIENT_CLIENT_JOIN_H

#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "client/client.h"
#include "store/marks.h"

/* True if an open with these flags (as for open(2)) can neither make nor empty the file.
 * Its mark is begun by store_marks_begin_joining(). */
static inline bool client_join_only(int flags)
{
    return !(flags & (O_CREAT | O_TRUNC));
}

/* True if an open with these flags of upath, which is here with status *st, must wait
 * until the process that makes the file has closed it. `own`: the open's mark, from its
 * beginning until store_marks_opened(); 0: it has none yet. Waits for opens that are
 * under way and could make the file. Keeps errno. Thread-safe; opens descriptors only if
 * another process is making the file. */
bool client_join_waits(struct client *client, enum engine_role role, const char *upath,
                       int flags, const struct stat *st, store_mark_t own);

#define CLIENT_FETCHED_AHEAD 2

struct client_found {
    struct stat st;            /* of the file; or all zero */
    bool noted;                /* the homes were told that it is made if there is none */
    struct dyad_version ahead; /* with CLIENT_FETCHED_AHEAD: of which it is */
};

/* A file that will be changed in part, or added to, should be the newest. *found: all zero. 0; 1: there is none
 * here, or only an older one; AHEAD: what is here counts for who writes it together with others, with what these
 * have written; or -1: EALREADY: there is none, and another node makes it, too; ESTALE: it was here, and is out of
 * date already. */
int client_fetch_to_write(struct client *client, enum engine_role role, const char *upath,
                          int flags, bool waits, struct client_found *found);

#endif
