/*
 * dmd_walk.c - one directory after the other, each opened by its upath from the root
 */
#include "store/dmd_walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/beneath.h"
#include "store/control.h"
#include "util/log.h"

/* Directories still to be read, as one string each. */
struct pending {
    char **names;
    size_t count, room;
};

static int pending_push(struct pending *pending, const char *upath)
{
    char *path;

    if (pending->count == pending->room) {
        size_t room = pending->room ? 2 * pending->room : 64;
        char **names = realloc(pending->names, room * sizeof(*names));
        if (!names)
            return -1;
        pending->names = names;
        pending->room = room;
    }
    if (!(path = strdup(upath)))
        return -1;
    pending->names[pending->count++] = path;
    return 0;
}

/* One directory: calls fn for what is in it, adds its directories to pending. One that
 * cannot be opened is an error only if it is where the walk began. */
static int walk_directory(int root, const char *name, bool first, struct pending *pending,
                          int (*fn)(const char *upath, const struct stat *st, void *arg),
                          void *arg)
{
    char upath[DYAD_UPATH_MAX + 1];
    int flags = O_RDONLY | O_DIRECTORY;
    int fd = name[0] ? store_beneath_open(root, name, flags, 0)
                     : openat(root, ".", flags | O_CLOEXEC);
    if (fd < 0 && !first &&
        (errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ELOOP ||
         errno == ENAMETOOLONG)) {
        log_debug("directory %s passed over: %m", name);
        return 0;
    }
    if (fd < 0)
        return -1;
    DIR *stream = fdopendir(fd);
    if (!stream) {
        close(fd);
        return -1;
    }
    int rc = 0;
    while (rc == 0) {
        struct stat st;
        errno = 0;
        struct dirent *entry = readdir(stream);
        if (!entry) {
            if (errno)
                rc = -1;
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            (!name[0] && strcmp(entry->d_name, STORE_CONTROL_DIR) == 0))
            continue;
        if (fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        int n = snprintf(upath, sizeof(upath), "%s%s%s", name, name[0] ? "/" : "",
                         entry->d_name);
        if (n < 0 || (size_t)n >= sizeof(upath))
            continue;
        if (S_ISDIR(st.st_mode) || S_ISREG(st.st_mode) || S_ISLNK(st.st_mode))
            rc = fn(upath, &st, arg);
        if (rc == 0 && S_ISDIR(st.st_mode))
            rc = pending_push(pending, upath);
    }
    int saved = errno;
    closedir(stream);
    errno = saved;
    return rc;
}

int store_dir_walk(const struct store_dir *dir, const char *upath,
                   int (*fn)(const char *upath, const struct stat *st, void *arg),
                   void *arg)
{
    struct pending pending = {0};
    struct stat st;
    int rc;

    if (upath[0]) {
        if (store_dir_stat(dir, upath, &st) < 0)
            return -1;
        rc = S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || S_ISLNK(st.st_mode)
                 ? fn(upath, &st, arg)
                 : 0;
        if (rc != 0 || !S_ISDIR(st.st_mode))
            return rc;
    }
    int root = store_dir_fd(dir);
    rc = walk_directory(root, upath, true, &pending, fn, arg);
    while (rc == 0 && pending.count > 0) {
        char *name = pending.names[--pending.count];

        rc = walk_directory(root, name, false, &pending, fn, arg);
        free(name);
    }
    int saved = errno;
    while (pending.count > 0)
        free(pending.names[--pending.count]);
    free(pending.names);
    errno = saved;
    return rc;
}
