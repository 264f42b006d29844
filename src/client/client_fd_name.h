/*
 * client/client_fd_name.h - which name a file has that this process has open
 *
 * Names are relative to the managed directory, and the caller's: client_name_free(). Thread-safe,
 * async-signal-safe.
 */
#ifndef DYAD_CLIENT_CLIENT_FD_NAME_H
#define DYAD_CLIENT_CLIENT_FD_NAME_H

#include "client/client.h"

/* The name that fd's file has now; NULL: none there; or ENOMEM; or ENOENT: there is no /proc. */
char *client_fd_name_now(const struct client_dmd *dmd, int fd);
/* The same, when no member has the file aside any more. NULL: none there. */
char *client_fd_name(const struct client_dmd *dmd, int fd);
/* The name under which the file lay that fd has open was removed, and another one left: in
 * the same directory, where what makes such names (a link, then an unlink) nearly always
 * puts them. NULL: none there. */
char *client_fd_name_left(const struct client_dmd *dmd, int fd);
/* A file that was made without a name and got one later is shown by the kernel as deleted:
 * is it upath? */
bool client_fd_name_is(const struct client_dmd *dmd, const char *upath, int fd);
/* True if the file behind fd has names other than upath, which is another file or gone:
 * the member knows them, and the end of the mark is reported under such a name. */
bool client_fd_name_others(const struct client_dmd *dmd, const char *upath, int fd);

#endif
