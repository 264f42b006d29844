/*
 * fetch.c - a locked temporary file, and its rename
 *
 * The lock: open or make the file of the name, lock it, and look whether the locked file
 * still has the name: between open and lock its holder may have renamed or removed it. Only
 * the holder of the lock renames or removes, so after that look the name is ours until we
 * let go. What a dead process left is taken over and emptied. The lock's byte is far beyond
 * any file, so a program that opens the file the moment it has its final name can lock it
 * at once.
 */
#include "store/fetch_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "store/beneath.h"
#include "store/control.h"
#include "store/lock.h"
#include "store/dmd_make.h"
#include "util/clock.h"
#include "util/fd_close.h"
#include "util/log.h"

#define COPY_BUFFER  (1u << 20)
#define SMALL        (64u << 10) /* is written in one piece or so */
#define YOUNG_SHARED 60          /* s; more than the clocks of nodes differ */

void fetch_temp_name(const char *upath, char name[FETCH_NAME_SIZE])
{
    XXH128_hash_t hash = XXH3_128bits(upath, strlen(upath));

    snprintf(name, FETCH_NAME_SIZE, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
}

/* Keeps errno. */
void fetch_report(struct store_fetch *fetch, const char *doing)
{
    if (atomic_exchange(&fetch->logged, true))
        return;
    const char *path = store_dir_path(fetch->dir);
    switch (errno) {
    case ENOSPC:
    case EDQUOT:
        log_error("cannot %s %s (%llu bytes) in %s: %m; free some space there", doing,
                  fetch->upath, (unsigned long long)fetch->entry.size, path);
        break;
    case EXDEV:
        log_error(
            "cannot %s %s in %s: its directory is on another file system than %s; a "
            "managed "
            "directory must not have mount points in it",
            doing, fetch->upath, path, path);
        break;
    default:
        log_error("cannot %s %s in %s: %m", doing, fetch->upath, path);
    }
}

/* Not what another user has put there, nor a second name: of a file elsewhere, or of the one in place (its process was
 * killed where a rename is a link and an unlink). */
static bool is_left_over(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
           st.st_nlink <= 1;
}

/* 0, -1: EBUSY. What is no left-over of ours makes room: the directory is ours, and we hold the name. */
static int hold(struct store_fetch *fetch)
{
    for (;;) {
        fetch->fd = openat(fetch->tmpdir, fetch->name,
                           O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
        if (fetch->fd < 0)
            return -1;
        if (store_lock_take(fetch->fd) < 0)
            break;
        if (store_lock_current(fetch->fd, fetch->tmpdir, fetch->name)) {
            if (is_left_over(fetch->fd))
                return 0;
            if (unlinkat(fetch->tmpdir, fetch->name, 0) < 0 && errno != ENOENT)
                break;
        }
        close(fetch->fd);
    }
    util_fd_close(fetch->fd);
    fetch->fd = -1;
    return -1;
}

/* What a wrong or hostile size would take of the disk before it fails is not asked for: what is larger than all of the file system.
 * What is free is no bound: where there are quotas, or compression, more may go in than is said. A file system that does not
 * say how large it is (0 blocks), or cannot be asked, finds out by itself. */
static bool is_room(int fd, uint64_t size)
{
    struct statvfs fs;

    if (fstatvfs(fd, &fs) < 0 || fs.f_blocks == 0 || fs.f_frsize == 0)
        return true;
    return (size - 1) / fs.f_frsize < fs.f_blocks;
}

static int reserve(int fd, uint64_t size)
{
    int rc;

    if (size == 0)
        return 0;
    if (!is_room(fd, size)) {
        errno = ENOSPC;
        return -1;
    }
    do
        rc = fallocate(fd, 0, 0, (off_t)size);
    while (rc < 0 && errno == EINTR);
    if (rc < 0 && (errno == EOPNOTSUPP || errno == ENOSYS))
        rc = ftruncate(fd, (off_t)size);
    return rc;
}

/* Empty, private, with room for the bytes. A new one is; a small one's room shows when it
 * is written, at once. */
static int make_ready(struct store_fetch *fetch)
{
    struct stat st;

    if (fstat(fetch->fd, &st) < 0 || (st.st_size > 0 && ftruncate(fetch->fd, 0) < 0) ||
        ((st.st_mode & 07777) != 0600 && fchmod(fetch->fd, 0600) < 0))
        return -1;
    return fetch->entry.size > SMALL ? reserve(fetch->fd, fetch->entry.size) : 0;
}

void fetch_free(struct store_fetch *fetch)
{
    int saved = errno;

    util_fd_close(fetch->tmpdir);
    util_fd_close(fetch->fd);
    free(fetch);
    errno = saved;
}

/* All but the file itself. */
static struct store_fetch *fetch_create(const struct store_dir *dir,
                                        const struct dyad_entry *entry)
{
    if (store_dir_check(entry->upath) < 0)
        return NULL;
    if (entry->size > DYAD_SIZE_MAX) {
        errno = EFBIG;
        return NULL;
    }
    if (!S_ISREG(entry->mode) && !S_ISLNK(entry->mode) && !S_ISDIR(entry->mode)) {
        errno = EPROTO;
        return NULL;
    }
    if (S_ISLNK(entry->mode) && (entry->size == 0 || entry->size >= PATH_MAX)) {
        errno = EPROTO;
        return NULL;
    }
    size_t len = strlen(entry->upath);
    struct store_fetch *fetch = calloc(1, sizeof(*fetch) + len + 1);
    if (!fetch)
        return NULL;
    fetch->dir = dir;
    fetch->fd = -1;
    fetch->entry = *entry;
    memcpy(fetch->upath, entry->upath, len + 1);
    fetch->entry.upath = fetch->upath;
    fetch_temp_name(fetch->upath, fetch->name);
    fetch->tmpdir = store_control_subdir(dir, "tmp");
    if (fetch->tmpdir < 0) {
        fetch_report(fetch, "fetch");
        fetch_free(fetch);
        return NULL;
    }
    return fetch;
}

struct store_fetch *store_fetch_begin(const struct store_dir *dir,
                                      const struct dyad_entry *entry)
{
    struct store_fetch *fetch = fetch_create(dir, entry);

    if (!fetch)
        return NULL;
    if (hold(fetch) < 0) {
        if (errno != EBUSY)
            fetch_report(fetch, "fetch");
        fetch_free(fetch);
        return NULL;
    }
    if (make_ready(fetch) < 0) {
        fetch_report(fetch, "fetch");
        store_fetch_abort(fetch);
        return NULL;
    }
    return fetch;
}

int store_fetch_give(struct store_fetch *fetch)
{
    int fd = fetch->fd;

    if (atomic_load(&fetch->written) < fetch->entry.size) {
        errno = EIO;
        return -1;
    }
    fetch->fd = -1;
    fetch_free(fetch);
    return fd;
}

struct store_fetch *store_fetch_adopt(const struct store_dir *dir,
                                      const struct dyad_entry *entry, int fd)
{
    struct store_fetch *fetch = fetch_create(dir, entry);
    struct stat st;

    if (!fetch) {
        util_fd_close(fd);
        return NULL;
    }
    fetch->fd = fd;
    fetch->written = entry->size;
    /* The lock belongs to the description, which we have now: to take it once more says
     * whether it is held through this one. */
    if (store_lock_current(fd, fetch->tmpdir, fetch->name) && fstat(fd, &st) == 0 &&
        S_ISREG(st.st_mode) && (uint64_t)st.st_size == entry->size &&
        store_lock_take(fd) == 0)
        return fetch;
    fetch_free(fetch);
    errno = ESTALE;
    return NULL;
}

int store_fetch_reserve(const struct store_dir *dir, const char *upath, struct stat *st)
{
    char name[FETCH_NAME_SIZE];
    int rc = -1;

    if (store_dir_check(upath) < 0)
        return -1;
    fetch_temp_name(upath, name);
    int tmpdir = store_control_subdir(dir, "tmp");
    if (tmpdir < 0)
        return -1;
    /* No lock: a process that fetches takes the file over, with its inode. */
    int fd = openat(tmpdir, name, O_RDONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                    0600);
    if (fd >= 0) {
        rc = fstat(fd, st);
        util_fd_close(fd);
    }
    util_fd_close(tmpdir);
    return rc;
}

int store_fetch_wait(const struct store_dir *dir, const char *upath)
{
    char name[FETCH_NAME_SIZE];
    int rc = -1;

    if (store_dir_check(upath) < 0)
        return -1;
    fetch_temp_name(upath, name);
    int tmpdir = store_control_subdir(dir, "tmp");
    if (tmpdir < 0)
        return -1;
    int fd = openat(tmpdir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0) {
        rc = store_lock_await(fd);
        util_fd_close(fd);
    } else if (errno == ENOENT) {
        rc = 0;
    }
    util_fd_close(tmpdir);
    return rc;
}

int store_fetch_write(struct store_fetch *fetch, uint64_t offset, const void *data,
                      uint64_t len)
{
    if (offset > fetch->entry.size || len > fetch->entry.size - offset) {
        errno = EINVAL;
        return -1;
    }
    if (store_control_write(fetch->fd, offset, data, len) < 0) {
        fetch_report(fetch, "write");
        return -1;
    }
    atomic_fetch_add(&fetch->written, len);
    return 0;
}

/* 1 done, 0 not possible between these two, -1 an error. Copies from *done on. */
static int copy_in_kernel(struct store_fetch *fetch, int src_fd, uint64_t *done)
{
    while (*done < fetch->entry.size) {
        loff_t from = (loff_t)*done, to = (loff_t)*done;
        uint64_t left = fetch->entry.size - *done;
        ssize_t n = copy_file_range(src_fd, &from, fetch->fd, &to,
                                    left > 1u << 30 ? 1u << 30 : (size_t)left, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == ENOSPC || errno == EDQUOT || errno == EIO ? -1 : 0;
        if (n == 0) /* the end, or a file system that cannot and does not say so */
            return 0;
        *done += (uint64_t)n;
    }
    return 1;
}

static int copy_by_hand(struct store_fetch *fetch, int src_fd, uint64_t done)
{
    char *buf = malloc(COPY_BUFFER);
    int rc = -1;

    if (!buf)
        return -1;
    while (done < fetch->entry.size) {
        uint64_t left = fetch->entry.size - done;
        ssize_t n = pread(src_fd, buf, left < COPY_BUFFER ? (size_t)left : COPY_BUFFER,
                          (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = ESTALE;
        if (n <= 0 || store_control_write(fetch->fd, done, buf, (uint64_t)n) < 0)
            goto out;
        done += (uint64_t)n;
    }
    rc = 0;
out:
    free(buf);
    return rc;
}

/* Not a duplicate, which would hold the lock beyond the fetch. */
int store_fetch_open(const struct store_fetch *fetch)
{
    return openat(fetch->tmpdir, fetch->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
}

int store_fetch_copy(struct store_fetch *fetch, int src_fd)
{
    struct stat st;
    uint64_t done = 0;

    if (fstat(src_fd, &st) < 0)
        return -1;
    if ((uint64_t)st.st_size != fetch->entry.size)
        goto stale;
    if (fetch->entry.size > 0 && ioctl(fetch->fd, FICLONE, src_fd) < 0) {
        int copied = copy_in_kernel(fetch, src_fd, &done);
        if (copied < 0 || (copied == 0 && copy_by_hand(fetch, src_fd, done) < 0)) {
            if (errno != ESTALE)
                fetch_report(fetch, "copy");
            return -1;
        }
    }
    if (fstat(src_fd, &st) < 0)
        return -1;
    if ((uint64_t)st.st_size != fetch->entry.size)
        goto stale;
    atomic_store(&fetch->written, fetch->entry.size);
    return 0;

stale:
    errno = ESTALE;
    return -1;
}

int fetch_set_metadata(struct store_fetch *fetch)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                {.tv_sec = fetch->entry.mtime_sec,
                                 .tv_nsec = fetch->entry.mtime_nsec < UTIL_NSEC_PER_SEC
                                                ? (long)fetch->entry.mtime_nsec
                                                : 0}};

    if (futimens(fetch->fd, times) < 0)
        return -1;
    return fchmod(fetch->fd, fetch->entry.mode & 0777);
}

/* `name` in the temporary directory gets the name of upath. */
static int rename_into_place(struct store_fetch *fetch, const char *name, bool replace)
{
    const char *base;
    int rc = -1;

    /* The directory can be removed again by somebody before the rename. */
    for (int tries = 0; tries < 8; tries++) {
        int parent = store_beneath_parent(store_dir_fd(fetch->dir), fetch->upath, &base);
        if (parent >= 0) {
            struct timespec mtime = store_dir_mtime_get(parent);
            rc = replace ? renameat(fetch->tmpdir, name, parent, base)
                         : store_control_rename_new(fetch->tmpdir, name, parent, base);
            if (rc == 0)
                store_dir_mtime_put(parent, mtime);
            util_fd_close(parent);
        }
        if (rc == 0 || errno != ENOENT ||
            store_dir_make_parents(fetch->dir, fetch->upath) < 0)
            break;
    }
    return rc;
}

/* The bytes that came are the target. The link is made beside them and gets its name by a
 * rename, so there is never none where an older one was. The lock on the temporary file
 * keeps the link's name ours. */
static int place_link(struct store_fetch *fetch, bool replace,
                      struct store_identity *identity)
{
    char target[PATH_MAX], name[FETCH_NAME_SIZE + 8];
    ssize_t n = pread(fetch->fd, target, fetch->entry.size, 0);
    int rc = -1, fd;

    if (n < 0)
        return -1;
    if ((uint64_t)n != fetch->entry.size || memchr(target, '\0', (size_t)n)) {
        errno = EPROTO;
        return -1;
    }
    target[n] = '\0';
    snprintf(name, sizeof(name), "%s.link", fetch->name);
    if (unlinkat(fetch->tmpdir, name, 0) < 0 && errno != ENOENT) /* of a dead process */
        return -1;
    if (symlinkat(target, fetch->tmpdir, name) < 0)
        return -1;
    fd = openat(fetch->tmpdir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && (!identity || store_identity_read(fd, identity) == 0))
        rc = rename_into_place(fetch, name, replace);
    if (rc < 0) {
        int saved = errno;
        unlinkat(fetch->tmpdir, name, 0);
        errno = saved;
    }
    util_fd_close(fd);
    return rc;
}

/* A read-only directory could not be filled: the user may always write. */
static int place_directory(struct store_fetch *fetch, struct store_identity *identity)
{
    return store_dir_mkdir(fetch->dir, fetch->upath, (fetch->entry.mode & 01777) | S_IRWXU,
                           identity);
}

static int commit_other(struct store_fetch *fetch, bool replace,
                        struct store_identity *identity)
{
    int rc = S_ISLNK(fetch->entry.mode) ? place_link(fetch, replace, identity)
                                        : place_directory(fetch, identity);
    if (rc < 0 && errno != EEXIST)
        fetch_report(fetch, "make");
    store_fetch_abort(fetch);
    return rc;
}

int store_fetch_commit(struct store_fetch *fetch, int replace,
                       struct store_identity *identity)
{
    int saved = errno;

    if (atomic_load(&fetch->written) < fetch->entry.size) {
        errno = EIO;
        goto error;
    }
    if (!S_ISREG(fetch->entry.mode))
        return commit_other(fetch, replace, identity);
    if (fetch_set_metadata(fetch) < 0 || rename_into_place(fetch, fetch->name, replace) < 0)
        goto error;
    int rc = identity ? store_identity_read(fetch->fd, identity) : 0;
    if (rc == 0)
        errno = saved;
    fetch_free(fetch);
    return rc;

error:
    if (errno != EEXIST)
        fetch_report(fetch, "store");
    store_fetch_abort(fetch);
    return -1;
}

int store_fetch_identity(const struct store_fetch *fetch, struct store_identity *identity)
{
    return store_identity_read(fetch->fd, identity);
}

void store_fetch_abort(struct store_fetch *fetch)
{
    int saved = errno;

    /* If .dyad was removed, and another fetch began anew, the name is not ours any more.
     */
    if (store_lock_current(fetch->fd, fetch->tmpdir, fetch->name))
        unlinkat(fetch->tmpdir, fetch->name, 0);
    errno = saved;
    fetch_free(fetch);
}

/* An empty one that is younger than that may be a reservation in use. On storage that nodes
 * share also one with bytes in it: another node's, whose lock is not seen from here where
 * the file system keeps locks to each node (Lustre with localflock, NFS with nolock). */
static bool is_young(const struct store_dir *dir, int fd, unsigned seconds)
{
    bool shared = store_dir_shared(dir);
    struct stat st;

    if (shared && seconds < YOUNG_SHARED)
        seconds = YOUNG_SHARED;
    return seconds > 0 && fstat(fd, &st) == 0 && (shared || st.st_size == 0) &&
           time(NULL) - st.st_mtim.tv_sec < (time_t)seconds;
}

int store_fetch_clean(const struct store_dir *dir, unsigned reserved_for)
{
    int tmpdir = store_control_subdir(dir, "tmp");
    if (tmpdir < 0)
        return -1;
    DIR *stream = fdopendir(tmpdir);
    if (!stream) {
        util_fd_close(tmpdir);
        return -1;
    }
    int count = 0;
    struct dirent *entry;
    while ((entry = readdir(stream))) {
        int fd =
            openat(tmpdir, entry->d_name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0)
            continue;
        if (!is_young(dir, fd, reserved_for) && store_lock_take(fd) == 0 &&
            store_lock_current(fd, tmpdir, entry->d_name) &&
            unlinkat(tmpdir, entry->d_name, 0) == 0)
            count++;
        close(fd);
    }
    closedir(stream);
    return count;
}
