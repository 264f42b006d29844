/*
 * client_join.c - who opens a file for writing that another process writes
 *
 * An open that cannot make the file and may read it (O_RDWR, without O_CREAT, O_TRUNC and
 * O_APPEND) is a reader's as well as that of one of several writers that share a file.
 * What the other process has done decides:
 *
 * began with a whole file  the open joins: both have the file as POSIX says
 * makes the file anew      it waits for the close, as a reader would, unless the other is
 *                          of the same process or an ancestor, or of the same program
 *                          (executable and arguments): ranks of one MPI program, forked
 *                          workers
 * was killed over it       it waits, as a reader would, until somebody has written it
 *
 * All other opens for writing join whoever there is. What could go wrong: the file is
 * made or emptied between the look and the open, so the file is looked at twice
 * (client_join_waits()).
 */
#include "client/client_join.h"

#include <errno.h>
#include <string.h>

#include "util/proc.h"

/* Files of the producer's directory alone are not for reading. */
static bool is_consumers(const struct client *client, enum engine_role role)
{
    return role == ENGINE_CONSUMER || strcmp(client->dmd[ENGINE_PRODUCER].real,
                                             client->dmd[ENGINE_CONSUMER].real) == 0;
}

/* The function is called twice: before the open, so that an open which will wait leaves
 * no trace, and, as the file may have been made or emptied since, for the file that was
 * opened. */
bool client_join_waits(struct client *client, enum engine_role role, const char *upath,
                       int flags, const struct stat *st, store_mark_t own)
{
    struct store_marks *marks = client->dmd[role].marks;
    struct store_mark_info info;
    int saved = errno;
    bool waits;

    if ((flags & O_ACCMODE) != O_RDWR || (flags & (O_CREAT | O_TRUNC | O_APPEND)) ||
        !S_ISREG(st->st_mode) || !is_consumers(client, role))
        return false;
    store_marks_await_makers(marks, upath, own); /* then it is known who makes the file */
    waits =
        store_marks_unfinished(marks, upath, st->st_ino, 0, own, &info) &&
        (info.state == STORE_MARK_ABANDONED || (!util_proc_is_self_or_ancestor(info.pid) &&
                                                !util_proc_is_same_program(info.pid))) &&
        client_waits_for(client, upath);
    errno = saved;
    return waits;
}

int client_fetch_to_write(struct client *client, enum engine_role role, const char *upath,
                          int flags, bool waits, struct client_found *found)
{
    const struct client_dmd *dmd = &client->dmd[role];
    struct stat *st = &found->st;
    struct stat link; /* dangling */
    bool ahead;

    if (!client_is_here(client, dmd, upath, flags, st)) {
        found->noted = (flags & O_CREAT) && (flags & O_ACCMODE) != O_RDONLY;
        ahead = client_consume_to_write(
                    client, upath, found->noted,
                    dmd->extents && !(flags & O_APPEND) ? &found->ahead : NULL) < 0;
        if (ahead && errno != EUCLEAN)
            return -1;
        if (client_is_here(client, dmd, upath, flags, st))
            return 0;
        if (ahead)
            return CLIENT_FETCHED_AHEAD;
        if (!(flags & O_APPEND) ||
            client_is_here(client, dmd, upath, flags | O_NOFOLLOW, &link))
            return 1;
        errno = ESTALE;
        return -1;
    }
    if (waits && client_join_waits(client, role, upath, flags, st, 0)) {
        errno = EINPROGRESS;
        return -1;
    }
    /* Copies lie in the consumer's directory, which may be the producer's, too. */
    if (client_may_be_old(client) && !client_shared(client, role) &&
        strcmp(dmd->real, client->dmd[ENGINE_CONSUMER].real) == 0)
        return client_look_to_write(client, upath);
    return 0;
}
