/*
 * session_trust.c - the session directory is the user's alone, and stays so
 *
 * Keys lie in it, and what is in it is believed. Who can write in a directory above it can move it away and put another one
 * in its place, at any time: so each descriptor is looked at, and each file that is read.
 */
#include "boot/session_trust.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/fd_close.h"
#include "util/log.h"
#include "util/owner.h"

int session_trust_make(const char *path)
{
    struct stat st;
    int fd;

    if (mkdir(path, 0700) == 0) {
        /* An odd umask must not keep ourselves out. */
        if (stat(path, &st) == 0 && (st.st_mode & 0777) != 0700)
            (void)!chmod(path, 0700);
    } else if (errno != EEXIST) {
        int error = errno;
        if (stat(path, &st) < 0) { /* EROFS and the like of what is there do not matter */
            errno = error;
            log_error("session directory %s cannot be made: %m%s", path,
                      error == ENOENT
                          ? "; make its parent directory, on a file system that "
                            "all nodes see (DYAD_SESSION_DIR)"
                          : " (DYAD_SESSION_DIR)");
            errno = error;
            return -1;
        }
    }
    if ((fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 || fstat(fd, &st) < 0) {
        int error = errno;
        if (error == ENOTDIR)
            log_error(
                "%s is not a directory: set DYAD_SESSION_DIR to one, or to a name that "
                "does not exist yet",
                path);
        else
            log_error("session directory %s cannot be opened: %m", path);
        if (fd >= 0)
            close(fd);
        errno = error;
        return -1;
    }
    close(fd);
    if (st.st_uid != geteuid()) {
        log_error(
            "session directory %s belongs to user %u, and this process to user %u: set "
            "DYAD_SESSION_DIR to a directory of your own",
            path, (unsigned)st.st_uid, (unsigned)geteuid());
        errno = EPERM;
        return -1;
    }
    if (st.st_mode & 077) {
        log_error(
            "session directory %s is open to other users (mode %04o), and what is in "
            "it lets one read your files: close it with chmod 700 %s",
            path, (unsigned)st.st_mode & 07777, path);
        errno = EPERM;
        return -1;
    }
    return 0;
}

/* Said once in a process: it is tried again and again. Any thread. */
static void say_replaced(const char *path, const struct stat *st)
{
    static atomic_bool said;

    if (atomic_exchange(&said, true))
        return;
    log_error(
        "session directory %s is not yours alone any more (user %u, mode %04o), or another "
        "one is in its place: nothing is put there, and what is there is not believed; "
        "put it back, or begin the session anew in a directory that others cannot change",
        path, (unsigned)st->st_uid, (unsigned)st->st_mode & 07777);
}

/* A link where there was a directory was put there by another. */
static int enter(int at, const char *name, const char *path)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (fd < 0) {
        int error = errno;
        if (error == ENOTDIR && fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
            say_replaced(path, &st);
            error = EPERM;
        }
        errno = error;
        return -1;
    }
    if (fstat(fd, &st) < 0) {
        util_fd_close(fd);
        return -1;
    }
    if (st.st_uid == geteuid() && !(st.st_mode & 077))
        return fd;
    say_replaced(path, &st);
    util_fd_close(fd);
    errno = EPERM;
    return -1;
}

int session_trust_enter(const char *top, const char *path)
{
    int above = enter(AT_FDCWD, top, path), fd;

    if (above < 0)
        return -1;
    fd = enter(above, path + strlen(top) + 1, path);
    util_fd_close(above);
    return fd;
}

bool session_trust_is_ours(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
           !(st.st_mode & 077) && st.st_nlink <= 1;
}

/* The first directory of the path's in which others can move what is not theirs. `real` is cut off. */
static bool find_above(char *real, struct stat *st)
{
    for (char *slash = strrchr(real, '/'); slash;
         slash = slash == real ? NULL : strrchr(real, '/')) {
        slash[slash == real] = '\0';
        if (stat(real, st) == 0 && (util_is_another(st->st_uid) ||
                                    ((st->st_mode & 022) && !(st->st_mode & S_ISVTX))))
            return true;
    }
    return false;
}

bool session_trust_find_above(const char *path, char where[PATH_MAX], struct stat *st)
{
    if (realpath(path, where) && find_above(where, st))
        return true;
    /* Links on the way can be moved, too. */
    return snprintf(where, PATH_MAX, "%s", path) < PATH_MAX && find_above(where, st);
}

/* A group is often the user's own, or a project's. */
void session_trust_look_above(const char *path)
{
    char where[PATH_MAX];
    struct stat st;

    if (!session_trust_find_above(path, where, &st))
        return;
    util_log(st.st_mode & 002 || util_is_another(st.st_uid) ? UTIL_LOG_WARN : UTIL_LOG_INFO,
             "other users can move the session directory %s away, so that ranks do not "
             "find each other: %s is of user %u, mode %04o",
             path, where, (unsigned)st.st_uid, (unsigned)st.st_mode & 07777);
}
