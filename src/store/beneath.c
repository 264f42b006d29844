/*
 * beneath.c - openat2(RESOLVE_BENEATH | NO_SYMLINKS | NO_MAGICLINKS), or a walk that does
 * the same
 *
 * The walk is safe because a upath has no "..": it opens each component with O_NOFOLLOW
 * relative to the one before, so each step goes down by one real directory. What neither
 * way prevents: a directory that is moved out of the DMD while it is passed takes the rest
 * of the walk along. Only the same user could do that. ENOSYS is remembered; EPERM is
 * not, because it can be the file's own (immutable) and then the walk gives the same
 * answer.
 */
#include "store/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "store/dmd.h"
#include "util/fd_close.h"

/* openat2 refuses, where open ignores, what has no meaning with O_PATH. */
static int complete_flags(int flags)
{
    if (flags & O_PATH)
        return (flags & (O_PATH | O_DIRECTORY)) | O_CLOEXEC | O_NOFOLLOW;
    return flags | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW;
}

/* Set once; a stale false costs one system call. */
static atomic_bool no_openat2;

int store_upath_check(const char *upath)
{
    size_t len = strlen(upath);

    if (len == 0 || len > DYAD_UPATH_MAX) {
        errno = len ? ENAMETOOLONG : EINVAL;
        return -1;
    }
    if (upath[0] == '/') {
        errno = EXDEV;
        return -1;
    }
    for (const char *p = upath;;) {
        size_t n = strcspn(p, "/");
        if (n == 2 && memcmp(p, "..", 2) == 0) {
            errno = EXDEV;
            return -1;
        }
        if (n == 0 || (n == 1 && p[0] == '.')) {
            errno = EINVAL;
            return -1;
        }
        if (p == upath && n == strlen(STORE_CONTROL_DIR) &&
            memcmp(p, STORE_CONTROL_DIR, n) == 0) {
            errno = ENOENT;
            return -1;
        }
        if (p[n] == '\0')
            return 0;
        p += n + 1;
    }
}

/* With O_DIRECTORY a symbolic link is ENOTDIR: say ELOOP, as openat2 does. */
static int open_step(int at, const char *name, int flags, mode_t mode)
{
    int fd = openat(at, name, complete_flags(flags), mode);

    if (fd < 0 && errno == ENOTDIR && (flags & O_DIRECTORY)) {
        struct stat st;
        errno = fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode)
                    ? ELOOP
                    : ENOTDIR;
    }
    return fd;
}

int store_beneath_walk(int root, const char *upath, int flags, mode_t mode)
{
    char name[NAME_MAX + 1];
    int at = root, fd = -1;

    for (const char *p = upath;;) {
        size_t n = strcspn(p, "/");

        if (n > NAME_MAX) {
            errno = ENAMETOOLONG;
            break;
        }
        memcpy(name, p, n);
        name[n] = '\0';
        if (p[n] == '\0') {
            fd = open_step(at, name, flags, mode);
            break;
        }
        int next = open_step(at, name, O_PATH | O_DIRECTORY, 0);
        if (next < 0)
            break;
        if (at != root)
            close(at);
        at = next;
        p += n + 1;
    }
    if (at != root) {
        util_fd_close(at);
    }
    return fd;
}

int store_beneath_open(int root, const char *upath, int flags, mode_t mode)
{
    if (!atomic_load_explicit(&no_openat2, memory_order_relaxed)) {
        struct open_how how = {
            .flags = (unsigned)complete_flags(flags),
            .mode = flags & O_CREAT ? mode & 07777 : 0,
            .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
        };
        /* Not O_NOFOLLOW for a directory: it would be ENOTDIR before RESOLVE_NO_SYMLINKS
         * says ELOOP. */
        if (flags & O_DIRECTORY)
            how.flags &= ~(uint64_t)O_NOFOLLOW;
        /* EAGAIN: a rename somewhere raced with the resolution; a busy system may do that
         * often. */
        for (int tries = 0; tries < 16; tries++) {
            int fd = (int)syscall(SYS_openat2, root, upath, &how, sizeof(how));
            if (fd >= 0)
                return fd;
            if (errno != EAGAIN)
                break;
        }
        if (errno == ENOSYS)
            atomic_store_explicit(&no_openat2, true, memory_order_relaxed);
        else if (errno != EPERM && errno != EAGAIN)
            return -1;
    }
    return store_beneath_walk(root, upath, flags, mode);
}

int store_beneath_parent(int root, const char *upath, const char **base)
{
    const char *slash = strrchr(upath, '/');

    if (!slash) {
        *base = upath;
        return openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
    char parent[DYAD_UPATH_MAX + 1];
    size_t n = (size_t)(slash - upath);
    memcpy(parent, upath, n);
    parent[n] = '\0';
    *base = slash + 1;
    return store_beneath_open(root, parent, O_PATH | O_DIRECTORY, 0);
}
