/*
 * boot/session_trust.h - whether the session directory, and what is in it, is the user's alone
 *
 * Any thread.
 */
#ifndef DYAD_BOOT_SESSION_TRUST_H
#define DYAD_BOOT_SESSION_TRUST_H

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

/* Make the directory if it is not there. 0; or -1 with errno, logged: EPERM it is another user's, or open to others. */
int session_trust_make(const char *path);
/* A descriptor of the directory `path` in `top`, the caller's; or -1 with errno: EPERM one of the two is a link, another
 * user's, or open to others (logged once in a process). */
int session_trust_enter(const char *top, const char *path);
/* True if an entry that was opened is a regular file of the user's, closed to others, and has one name. */
bool session_trust_is_ours(int fd);
/* True if others can write in a directory above `path`, which is absolute, and no sticky bit keeps them from moving there what
 * is not theirs (sshd's StrictModes): where[] gets its name, *st what it is. */
bool session_trust_find_above(const char *path, char where[PATH_MAX], struct stat *st);
/* Warn of that. */
void session_trust_look_above(const char *path);

#endif
