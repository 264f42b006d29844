/*
 * dmd.c - the DMD as a directory descriptor
 *
 * Every upath is checked as text (beneath.c), then opened below the descriptor. Creation is
 * always O_EXCL first: only then is it certain that the file is ours to give the mode that
 * was asked for (the program's umask cannot be read without changing it for its other
 * threads).
 */
#include "store/dmd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "store/beneath.h"
#include "store/control.h"
#include "util/clock.h"
#include "util/log.h"

struct store_dir {
    int fd; /* -1: detached */
    char *path, *real;
    uint8_t id[DYAD_STORAGE_ID_LEN];
    bool shared;
};

/* File systems that belong to one kernel. One that is not among them is taken for shared:
 * that costs messages, the contrary half-written files. FUSE may be either. */
static bool is_of_one_kernel(int fd)
{
    static const uint32_t local[] = {
        0x0000ef53, /* ext2, ext3, ext4 */
        0x58465342, /* xfs */
        0x9123683e, /* btrfs */
        0x01021994, /* tmpfs */
        0x858458f6, /* ramfs */
        0x958458f6, /* hugetlbfs */
        0x794c7630, /* overlayfs: what is written is in a local layer */
        0xf2f52010, /* f2fs */
        0x2fc12fc1, /* zfs */
        0xca451a4e, /* bcachefs */
        0x3153464a, /* jfs */
        0x52654973, /* reiserfs */
        0x00004d44, /* vfat */
        0x2011bab0, /* exfat */
        0x0000f15f, /* ecryptfs */
    };
    struct statfs fs;

    if (fstatfs(fd, &fs) < 0)
        return false;
    for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++)
        if ((uint32_t)fs.f_type == local[i])
            return true;
    return false;
}

static int open_root(const char *path)
{
    return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

int store_dir_root_get(const struct store_dir *dir)
{
    return dir->fd >= 0 ? dir->fd : open_root(dir->path);
}

void store_dir_root_put(const struct store_dir *dir, int root)
{
    if (dir->fd < 0) {
        int saved = errno;
        close(root);
        errno = saved;
    }
}

static const char *advice(int error)
{
    switch (error) {
    case ENOENT:
        return "make the directory on every node";
    case ENOTDIR:
        return "it must be a directory (and its .dyad too)";
    case ELOOP:
        return "its .dyad must not be a symbolic link";
    case EACCES:
    case EPERM:
        return "it and its .dyad must be the user's own and writable";
    case EROFS:
        return "choose a directory on a writable file system";
    case ENOSPC:
    case EDQUOT:
        return "free some space there";
    case EUCLEAN:
        return "its .dyad/storage is damaged: remove it";
    default:
        return "check the path";
    }
}

struct store_dir *store_dir_create(const char *path)
{
    struct store_dir *dir = NULL;
    int control, saved;

    if (path[0] != '/') {
        errno = EINVAL;
        goto error_log;
    }
    dir = calloc(1, sizeof(*dir));
    if (!dir)
        goto error_log;
    dir->fd = open_root(path);
    if (dir->fd < 0)
        goto error_free;
    dir->path = strdup(path);
    dir->real = realpath(path, NULL);
    if (!dir->path || !dir->real)
        goto error_close;
    dir->shared = !is_of_one_kernel(dir->fd);
    control = store_control_private(dir->fd, STORE_CONTROL_DIR);
    if (control < 0)
        goto error_close;
    if (store_control_make_id(control, dir->id) < 0)
        goto error_control;
    close(control);
    return dir;

error_control:
    saved = errno;
    close(control);
    errno = saved;
error_close:
    saved = errno;
    close(dir->fd);
    errno = saved;
error_free:
    saved = errno;
    free(dir->path);
    free(dir->real);
    free(dir);
    errno = saved;
error_log:
    log_error("cannot use the managed directory %s: %m; %s", path, advice(errno));
    return NULL;
}

void store_dir_destroy(struct store_dir *dir)
{
    if (!dir)
        return;
    store_dir_detach(dir);
    free(dir->path);
    free(dir->real);
    free(dir);
}

void store_dir_detach(struct store_dir *dir)
{
    if (dir->fd >= 0)
        close(dir->fd);
    dir->fd = -1;
}

const char *store_dir_path(const struct store_dir *dir)
{
    return dir->path;
}

const char *store_dir_real_path(const struct store_dir *dir)
{
    return dir->real;
}

const uint8_t *store_dir_id(const struct store_dir *dir)
{
    return dir->id;
}

int store_dir_fd(const struct store_dir *dir)
{
    return dir->fd;
}

bool store_dir_shared(const struct store_dir *dir)
{
    return dir->shared;
}

void store_dir_set_shared(struct store_dir *dir, bool shared)
{
    dir->shared = shared;
}

int store_dir_read_id(const char *path, uint8_t id[DYAD_STORAGE_ID_LEN])
{
    int root = open_root(path);
    if (root < 0)
        return -1;
    int rc = -1, saved;
    int control =
        openat(root, STORE_CONTROL_DIR, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (control >= 0) {
        rc = store_control_read_id(control, id);
        saved = errno;
        close(control);
        errno = saved;
    }
    saved = errno;
    close(root);
    errno = saved;
    return rc;
}

int store_dir_check(const char *upath)
{
    return store_upath_check(upath);
}

/* Exactly `mode` for a file that is made, an existing one as it is. */
static int open_or_create(int root, const char *upath, int flags, mode_t mode)
{
    if (!(flags & O_CREAT))
        return store_beneath_open(root, upath, flags, 0);

    /* Somebody may remove the file between the two opens, and make it again between the
     * others. */
    for (int tries = 0; tries < 16; tries++) {
        int fd = store_beneath_open(root, upath, flags | O_EXCL, mode);
        if (fd >= 0) {
            struct stat st;
            if (fstat(fd, &st) == 0 && (st.st_mode & 07777) != (mode & 07777) &&
                fchmod(fd, mode & 07777) < 0) {
                int saved = errno;
                close(fd);
                errno = saved;
                return -1;
            }
            return fd;
        }
        if (errno != EEXIST || (flags & O_EXCL))
            return -1;
        fd = store_beneath_open(root, upath, flags & ~O_CREAT, 0);
        if (fd >= 0 || errno != ENOENT)
            return fd;
    }
    return -1;
}

int store_dir_open(const struct store_dir *dir, const char *upath, int flags, mode_t mode)
{
    if (store_upath_check(upath) < 0)
        return -1;
    int root = store_dir_root_get(dir);
    if (root < 0)
        return -1;
    if (!(flags & O_PATH))
        flags |= O_NONBLOCK;
    int fd = open_or_create(root, upath, flags, mode);
    store_dir_root_put(dir, root);
    if (fd < 0 || (flags & O_PATH))
        return fd;

    struct stat st;
    int error = fstat(fd, &st) < 0 ? errno : 0;
    if (!error && !S_ISREG(st.st_mode)) {
        if (!S_ISDIR(st.st_mode))
            error = EINVAL;
        else if (!(flags & O_DIRECTORY))
            error = EISDIR;
    }
    if (error) {
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

int store_dir_stat(const struct store_dir *dir, const char *upath, struct stat *st)
{
    int fd = store_dir_open(dir, upath, O_PATH, 0);
    if (fd < 0)
        return -1;
    int rc = fstat(fd, st);
    int saved = errno;
    close(fd);
    errno = saved;
    return rc;
}

bool store_dir_lacks(const struct store_dir *dir, const char *upath)
{
    struct stat st;

    return store_dir_stat(dir, upath, &st) < 0 && (errno == ENOENT || errno == ENOTDIR);
}

static int unlink_below(const struct store_dir *dir, const char *upath, int flags)
{
    const char *base;

    if (store_upath_check(upath) < 0)
        return -1;
    int root = store_dir_root_get(dir);
    if (root < 0)
        return -1;
    int parent = store_beneath_parent(root, upath, &base);
    store_dir_root_put(dir, root);
    if (parent < 0)
        return -1;
    int rc = unlinkat(parent, base, flags);
    int saved = errno;
    close(parent);
    errno = saved;
    return rc;
}

int store_dir_unlink(const struct store_dir *dir, const char *upath)
{
    return unlink_below(dir, upath, 0);
}

int store_dir_rmdir(const struct store_dir *dir, const char *upath)
{
    return unlink_below(dir, upath, AT_REMOVEDIR);
}

static void refresh_one(const struct store_dir *dir, const char *path)
{
    int root = store_dir_root_get(dir);
    if (root < 0)
        return;
    int fd = path ? store_dir_open(dir, path, O_RDONLY | O_DIRECTORY, 0)
                  : openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;
    if (fd >= 0) {
        fstat(fd, &st);
        close(fd);
    }
    store_dir_root_put(dir, root);
}

void store_dir_refresh(const struct store_dir *dir, const char *upath)
{
    char above[DYAD_UPATH_MAX + 1];
    int saved = errno;

    refresh_one(dir, NULL);
    for (size_t i = 0; upath[i] && i < DYAD_UPATH_MAX; i++) {
        if (upath[i] == '/') {
            above[i] = '\0';
            refresh_one(dir, above);
        }
        above[i] = upath[i];
    }
    errno = saved;
}

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
    int root = store_dir_root_get(dir);
    if (root < 0)
        return -1;
    parent = store_beneath_parent(root, upath, &base);
    store_dir_root_put(dir, root);
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
out:;
    int saved = errno;
    if (fd >= 0)
        close(fd);
    close(parent);
    errno = saved;
    return rc;
}

ssize_t store_dir_readlink(const struct store_dir *dir, const char *upath, char *buf,
                           size_t size)
{
    int fd = store_dir_open(dir, upath, O_PATH | O_NOFOLLOW, 0);
    if (fd < 0)
        return -1;
    ssize_t n = readlinkat(fd, "", buf, size);
    int saved = errno;
    close(fd);
    errno = n < 0 && saved == ENOENT ? EINVAL : saved; /* what it says of a file's fd */
    return n;
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
    int rc = -1;

    if (store_upath_check(upath) < 0)
        return -1;
    int root = store_dir_root_get(dir);
    if (root < 0)
        return -1;
    int at = store_beneath_parent(root, upath, &base);
    if (at >= 0) {
        close(at);
        rc = 0;
        goto out;
    }
    if (errno != ENOENT)
        goto out;
    /* Each directory is opened by its upath from the root, so it is checked as any other.
     */
    for (const char *p = upath; (p = strchr(p, '/')); p++) {
        size_t n = (size_t)(p - upath);
        memcpy(name, upath, n);
        name[n] = '\0';
        at = store_beneath_parent(root, name, &base);
        if (at < 0)
            goto out;
        int made = make_directory(at, base);
        int saved = errno;
        close(at);
        errno = saved;
        if (made < 0)
            goto out;
    }
    /* What was there already may be no directory. */
    at = store_beneath_parent(root, upath, &base);
    if (at >= 0) {
        close(at);
        rc = 0;
    }
out:
    store_dir_root_put(dir, root);
    return rc;
}

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
    int root = store_dir_root_get(dir);
    if (root < 0)
        return -1;
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
    store_dir_root_put(dir, root);
    errno = saved;
    return rc;
}

static uint64_t nanoseconds(const struct statx_timestamp *time)
{
    return (uint64_t)time->tv_sec * UTIL_NSEC_PER_SEC + time->tv_nsec;
}

int store_identity_read(int fd, struct store_identity *identity)
{
    struct statx stx;

    if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_SIZE | STATX_CTIME | STATX_BTIME,
              &stx) < 0)
        return -1;
    *identity = (struct store_identity){
        .dev = makedev(stx.stx_dev_major, stx.stx_dev_minor),
        .ino = stx.stx_ino,
        .btime = stx.stx_mask & STATX_BTIME ? nanoseconds(&stx.stx_btime) : 0,
        .ctime = nanoseconds(&stx.stx_ctime),
        .size = stx.stx_size,
    };
    return 0;
}

bool store_identity_equal(const struct store_identity *a, const struct store_identity *b)
{
    return a->dev == b->dev && a->ino == b->ino && a->btime == b->btime &&
           a->ctime == b->ctime && a->size == b->size;
}

void store_dir_describe(const struct store_dir *dir, const struct stat *st,
                        struct dyad_entry *entry)
{
    entry->size = S_ISDIR(st->st_mode) ? 0 : (uint64_t)st->st_size;
    entry->mode = st->st_mode;
    entry->mtime_sec = st->st_mtim.tv_sec;
    entry->mtime_nsec = (uint32_t)st->st_mtim.tv_nsec;
    memcpy(entry->storage, dir->id, DYAD_STORAGE_ID_LEN);
}
