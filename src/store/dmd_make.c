/*
 * dmd_make.c - mkdirat below a parent that was opened beneath the DMD
 */
#include "store/dmd_make.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/beneath.h"
#include "store/control.h"
#include "util/fd_close.h"

struct timespec store_dir_mtime_get(int at)
{
    struct stat st;

    return fstat(at, &st) == 0 ? st.st_mtim : (struct timespec){.tv_nsec = UTIME_OMIT};
}

void store_dir_mtime_put(int at, struct timespec mtime)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, mtime};
    int saved = errno;

    (void)utimensat(at, ".", times, 0); /* not ours: then its time is as it is */
    errno = saved;
}

int store_dir_mkdir(const struct store_dir *dir, const char *upath, mode_t mode,
                    struct store_identity *identity)
{
    const char *base;
    int parent = -1, fd = -1, rc = -1;
    struct stat st;

    if (store_dir_make_parents(dir, upath) < 0)
        return -1;
    parent = store_beneath_parent(store_dir_fd(dir), upath, &base);
    if (parent < 0)
        return -1;
    struct timespec mtime = store_dir_mtime_get(parent);
    bool made = mkdirat(parent, base, mode & 01777) == 0;
    if (made)
        store_dir_mtime_put(parent, mtime);
    else if (errno != EEXIST)
        goto out;
    fd = openat(parent, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        errno = errno == ELOOP || errno == ENOTDIR ? EEXIST : errno;
        goto out;
    }
    if (made &&
        (fstat(fd, &st) < 0 || ((st.st_mode & 01777) != (mode & 01777) &&
                                fchmod(fd, (st.st_mode & S_ISGID) | (mode & 01777)))))
        goto out;
    rc = identity ? store_identity_read(fd, identity) : 0;
out:
    util_fd_close(fd);
    util_fd_close(parent);
    return rc;
}

/* Make the directory `name` in `at` if it is not there, 0755 whatever the umask. */
static int make_directory(int at, const char *name)
{
    struct timespec mtime = store_dir_mtime_get(at);
    struct stat st;

    if (mkdirat(at, name, 0755) < 0)
        return errno == EEXIST ? 0 : -1;
    store_dir_mtime_put(at, mtime);
    if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -1;
    if ((st.st_mode & 0777) == 0755)
        return 0;
    return fchmodat(at, name, 0755 | (st.st_mode & S_ISGID), AT_SYMLINK_NOFOLLOW);
}

int store_dir_make_parents(const struct store_dir *dir, const char *upath)
{
    char name[DYAD_UPATH_MAX + 1];
    const char *base;
    int root = store_dir_fd(dir);

    if (store_upath_check(upath) < 0)
        return -1;
    int at = store_beneath_parent(root, upath, &base);
    if (at >= 0) {
        close(at);
        return 0;
    }
    if (errno != ENOENT)
        return -1;
    /* Each directory is opened by its upath from the root, so it is checked as any other.
     */
    for (const char *p = upath; (p = strchr(p, '/')); p++) {
        size_t n = (size_t)(p - upath);
        memcpy(name, upath, n);
        name[n] = '\0';
        at = store_beneath_parent(root, name, &base);
        if (at < 0)
            return -1;
        int made = make_directory(at, base);
        util_fd_close(at);
        if (made < 0)
            return -1;
    }
    /* An existing file may be no directory. */
    at = store_beneath_parent(root, upath, &base);
    util_fd_close(at);
    return at < 0 ? -1 : 0;
}
