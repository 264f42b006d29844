/*
 * dmd.c - the DMD as a directory descriptor
 *
 * Every upath is checked as text (beneath.c), then opened below the descriptor. Creation is
 * always O_EXCL first: only then is it certain that the file is ours to give the mode that
 * was asked for (the program's umask cannot be read without changing it for its other
 * threads).
 */
#include "store/dmd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "store/beneath.h"
#include "store/control.h"
#include "util/clock.h"
#include "util/fd_close.h"
#include "util/log.h"
#include "util/owner.h"

struct store_dir {
    int fd;
    char *path, *real;
    uint8_t id[DYAD_STORAGE_ID_LEN];
    bool shared;
    bool local; /* is_of_one_kernel() */
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

/* Said once: by who first makes a control directory there. */
static void warn_of_others(const struct store_dir *dir)
{
    struct stat st, control;

    if (fstat(dir->fd, &st) == 0 && (st.st_mode & S_IWOTH) &&
        fstatat(dir->fd, STORE_CONTROL_DIR, &control, AT_SYMLINK_NOFOLLOW) < 0)
        log_warn(
            "other users can write in %s, and what they put there is taken for the job's "
            "own: chmod go-w it, or "
            "choose another one",
            dir->path);
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
    struct stat st;
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
    if (fstat(dir->fd, &st) == 0 && util_is_strangers(&st, dir->fd, "..")) {
        errno = EPERM;
        goto error_close;
    }
    warn_of_others(dir);
    dir->local = is_of_one_kernel(dir->fd);
    dir->shared = !dir->local;
    control = store_control_private(dir->fd, STORE_CONTROL_DIR);
    if (control < 0)
        goto error_close;
    if (store_control_make_id(control, dir->id) < 0)
        goto error_control;
    close(control);
    return dir;

error_control:
    util_fd_close(control);
error_close:
    util_fd_close(dir->fd);
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
    close(dir->fd);
    free(dir->path);
    free(dir->real);
    free(dir);
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

bool store_dir_local(const struct store_dir *dir)
{
    return dir->local;
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
    int rc = -1;
    int control =
        openat(root, STORE_CONTROL_DIR, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (control >= 0) {
        rc = store_control_read_id(control, id);
        util_fd_close(control);
    }
    util_fd_close(root);
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
                util_fd_close(fd);
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
    if (!(flags & O_PATH))
        flags |= O_NONBLOCK;
    int fd = open_or_create(dir->fd, upath, flags, mode);
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
    util_fd_close(fd);
    return rc;
}

bool store_dir_lacks(const struct store_dir *dir, const char *upath)
{
    struct stat st;

    return store_dir_stat(dir, upath, &st) < 0 && (errno == ENOENT || errno == ENOTDIR);
}

int store_dir_rmdir(const struct store_dir *dir, const char *upath)
{
    const char *base;

    if (store_upath_check(upath) < 0)
        return -1;
    int parent = store_beneath_parent(dir->fd, upath, &base);
    if (parent < 0)
        return -1;
    int rc = unlinkat(parent, base, AT_REMOVEDIR);
    util_fd_close(parent);
    return rc;
}

static void refresh_one(const struct store_dir *dir, const char *path)
{
    int fd = path ? store_dir_open(dir, path, O_RDONLY | O_DIRECTORY, 0)
                  : openat(dir->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;
    if (fd >= 0) {
        fstat(fd, &st);
        close(fd);
    }
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

ssize_t store_dir_readlink(const struct store_dir *dir, const char *upath, char *buf,
                           size_t size)
{
    int fd = store_dir_open(dir, upath, O_PATH | O_NOFOLLOW, 0);
    if (fd < 0)
        return -1;
    ssize_t n = readlinkat(fd, "", buf, size);
    util_fd_close(fd);
    if (n < 0 && errno == ENOENT) /* what it says of a file's fd */
        errno = EINVAL;
    return n;
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

bool store_identity_is(int fd, const struct store_identity *identity)
{
    struct store_identity found;

    return store_identity_read(fd, &found) == 0 && found.ino == identity->ino &&
           found.btime == identity->btime;
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
