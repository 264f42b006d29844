/*
 * client_fd_name.c - which name a file has that this process has open
 *
 * The kernel says it (/proc); what it says may be over when it is used. No lock, no malloc.
 */
#include "client/client_fd_name.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "client/client_names.h"
#include "store/control.h"

#define DELETED_MARK " (deleted)"
#define ASIDE_PAUSE  50000 /* ns */
#define ASIDE_MAX    20000 /* of them: a second */

/* The absolute path of fd as the kernel says it, or nothing. */
static bool shown_name(int fd, char *path, size_t size)
{
    char link[32];
    ssize_t n;

    snprintf(link, sizeof(link), "/proc/thread-self/fd/%d", fd);
    n = readlink(link, path, size - 1);
    if (n <= 0)
        return false;
    path[n] = '\0';
    return true;
}

/* True if the file that fd has open is the one at path. */
static bool is_file_at(const char *path, int fd)
{
    struct stat there, open;

    return fstat(fd, &open) == 0 && lstat(path, &there) == 0 &&
           there.st_dev == open.st_dev && there.st_ino == open.st_ino;
}

bool client_fd_name_is(const struct client_dmd *dmd, const char *upath, int fd)
{
    char path[PATH_MAX + DYAD_UPATH_MAX + 2];

    snprintf(path, sizeof(path), "%s/%s", dmd->path, upath);
    return is_file_at(path, fd);
}

bool client_fd_name_others(const struct client_dmd *dmd, const char *upath, int fd)
{
    char path[PATH_MAX + DYAD_UPATH_MAX + 2];
    struct stat st;

    snprintf(path, sizeof(path), "%s/%s", dmd->path, upath);
    return fstat(fd, &st) == 0 && st.st_nlink > 0 && lstat(path, &st) < 0 &&
           errno == ENOENT;
}

char *client_fd_name_now(const struct client_dmd *dmd, int fd)
{
    char path[PATH_MAX];
    const char *below;
    size_t suffix = strlen(DELETED_MARK), n;

    if (!shown_name(fd, path, sizeof(path)))
        return NULL;
    n = strlen(path);
    /* A name may end like this by itself; then the file is there. */
    if (n > suffix && strcmp(path + n - suffix, DELETED_MARK) == 0 &&
        !is_file_at(path, fd)) {
        errno = 0; /* ENOENT: there is no /proc */
        return NULL;
    }
    below = client_below(dmd->real, path);
    return below ? client_name_copy(below) : NULL;
}

/* A member of this node that is told of a newer version takes the file aside, for some us, and
 * puts it back if anybody writes it: our mark, which is still there, says so. No event tells
 * when it has done that; if it is stopped in the midst, the name at the open will do. */
char *client_fd_name(const struct client_dmd *dmd, int fd)
{
    static const char aside[] = STORE_CONTROL_DIR "/";
    const struct timespec pause = {.tv_nsec = ASIDE_PAUSE};
    char *upath;

    for (int tries = 0; (upath = client_fd_name_now(dmd, fd)); tries++) {
        if (strncmp(upath, aside, sizeof(aside) - 1) != 0)
            return upath;
        client_name_free(upath);
        if (tries == ASIDE_MAX)
            break;
        nanosleep(&pause, NULL);
    }
    return NULL;
}

char *client_fd_name_left(const struct client_dmd *dmd, int fd)
{
    char path[PATH_MAX], *name, *found = NULL;
    _Alignas(struct dirent64) char entries[4096];
    struct stat open_file;
    const char *below;
    ssize_t n;
    int dir;

    if (fstat(fd, &open_file) < 0 || open_file.st_nlink == 0 ||
        !shown_name(fd, path, sizeof(path)) || !client_below(dmd->real, path) ||
        !(name = strrchr(path, '/')))
        return NULL;
    *name++ = '\0';
    if ((dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        return NULL;
    name[-1] = '/';
    while (!found && (n = syscall(SYS_getdents64, dir, entries, sizeof(entries))) > 0) {
        for (ssize_t at = 0; at < n && !found;) {
            const struct dirent64 *entry = (const void *)(entries + at);
            size_t len = strlen(entry->d_name);
            at += entry->d_reclen;
            if (entry->d_ino != open_file.st_ino ||
                (size_t)(name - path) + len >= sizeof(path))
                continue;
            memcpy(name, entry->d_name, len + 1);
            if (is_file_at(path, fd) && (below = client_below(dmd->real, path)))
                found = client_name_copy(below);
        }
    }
    close(dir);
    return found;
}
