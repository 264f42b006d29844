/*
 * control.c - what is private to us below the DMD
 *
 * Files that all processes must agree on are written under a name of their own first and
 * then get their final name only if nobody else was quicker, so no reader ever sees half of
 * one. Their temporaries are locked like fetches, so that store_fetch_clean() tells those
 * of the living from those of the dead.
 */
#include "store/control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "store/lock.h"
#include "util/fd_close.h"

#define ID_FILE  "storage"
#define DIR_MODE 0700

int store_control_private(int parent, const char *name)
{
    struct stat st;
    int fd = -1;

    for (int tries = 0; tries < 16 && fd < 0; tries++) {
        fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0)
            break;
        if (errno == ENOENT) {
            if (mkdirat(parent, name, DIR_MODE) < 0 && errno != EEXIST)
                return -1;
        } else if (errno == EACCES) {
            /* Ours, and made under a umask that takes even the owner's rights? */
            if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                continue;
            if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() ||
                (st.st_mode & 0777) == DIR_MODE) {
                errno = EACCES;
                return -1;
            }
            if (fchmodat(parent, name, DIR_MODE, AT_SYMLINK_NOFOLLOW) < 0 &&
                errno != ENOENT)
                return -1;
        } else {
            return -1;
        }
    }
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) < 0)
        goto error_close;
    if (st.st_uid != geteuid()) { /* for root, too: what is in it is believed */
        errno = EACCES;
        goto error_close;
    }
    if ((st.st_mode & 0777) != DIR_MODE && fchmod(fd, DIR_MODE) < 0)
        goto error_close;
    return fd;

error_close:
    util_fd_close(fd);
    return -1;
}

int store_control_open(const struct store_dir *dir)
{
    int root = store_dir_fd(dir);
    int control =
        openat(root, STORE_CONTROL_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    /* Another one may have come in its place, where others can write. */
    if (control >= 0 && (fstat(control, &st) < 0 || st.st_uid != geteuid())) {
        util_fd_close(control);
        errno = EPERM;
        return -1;
    }
    if (control < 0 && (errno == ENOENT || errno == EACCES)) {
        control = store_control_private(root, STORE_CONTROL_DIR);
        if (control >= 0) {
            /* It was removed while we live: the storage keeps the name that we know it by.
             */
            uint8_t id[DYAD_STORAGE_ID_LEN];
            memcpy(id, store_dir_id(dir), sizeof(id));
            if (store_control_make_id(control, id) < 0) {
                util_fd_close(control);
                control = -1;
            }
        }
    }
    return control;
}

int store_control_subdir(const struct store_dir *dir, const char *name)
{
    int control = store_control_open(dir);
    if (control < 0)
        return -1;
    int fd = store_control_private(control, name);
    util_fd_close(control);
    return fd;
}

int store_control_write(int fd, uint64_t offset, const void *data, uint64_t len)
{
    const char *p = data;

    while (len > 0) {
        size_t part = len > 1u << 30 ? 1u << 30 : (size_t)len;
        ssize_t n = pwrite(fd, p, part, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            if (n == 0)
                errno = EIO;
            return -1;
        }
        p += n;
        offset += (uint64_t)n;
        len -= (uint64_t)n;
    }
    return 0;
}

int store_control_boot(char boot[STORE_BOOT_LEN + 1])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, boot, STORE_BOOT_LEN);
    close(fd);
    if (n != STORE_BOOT_LEN) {
        errno = EIO;
        return -1;
    }
    boot[STORE_BOOT_LEN] = '\0';
    return 0;
}

int store_control_reserve(int fd, uint64_t offset, uint64_t len)
{
    static const char zeros[65536];
    int rc;

    do
        rc = fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)len);
    while (rc < 0 && errno == EINTR);
    if (rc == 0 || (errno != EOPNOTSUPP && errno != ENOSYS))
        return rc;
    while (len > 0) {
        size_t part = len < sizeof(zeros) ? (size_t)len : sizeof(zeros);
        if (store_control_write(fd, offset, zeros, part) < 0)
            return -1;
        offset += part;
        len -= part;
    }
    return 0;
}

int store_control_temp(int tmpdir, char name[STORE_TEMP_NAME_SIZE])
{
    for (int tries = 0; tries < 16; tries++) {
        uint64_t salt;
        if (getrandom(&salt, sizeof(salt), GRND_NONBLOCK) != sizeof(salt))
            salt = (uint64_t)getpid() << 32 | (uint64_t)tries;
        snprintf(name, STORE_TEMP_NAME_SIZE, "new-%d-%016llx", (int)getpid(),
                 (unsigned long long)salt);
        int fd =
            openat(tmpdir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0) {
            if (errno == EEXIST)
                continue;
            return -1;
        }
        /* A cleaner may have been between the two: then it is gone from its name. */
        if (fchmod(fd, 0600) == 0 && store_lock_take(fd) == 0 &&
            store_lock_current(fd, tmpdir, name))
            return fd;
        unlinkat(tmpdir, name, 0);
        close(fd);
    }
    errno = EAGAIN;
    return -1;
}

int store_control_rename_new(int olddir, const char *old, int newdir, const char *name)
{
    if (renameat2(olddir, old, newdir, name, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS && errno != EPERM && errno != EOPNOTSUPP)
        return -1;
    /* NFS has no such rename; a second name does the same there. */
    if (linkat(olddir, old, newdir, name, 0) < 0)
        return -1;
    unlinkat(olddir, old, 0);
    return 0;
}

int store_control_place(int tmpdir, int control, const char *name,
                        int (*fill)(int fd, void *arg), void *arg)
{
    char temp[STORE_TEMP_NAME_SIZE];
    int fd = store_control_temp(tmpdir, temp), rc = -1;

    if (fd >= 0 && fill(fd, arg) == 0) {
        rc = store_control_rename_new(tmpdir, temp, control, name);
        if (rc < 0 && errno == EEXIST)
            rc = 1;
    }
    if (fd >= 0) {
        int saved = errno;
        unlinkat(tmpdir, temp, 0);
        errno = saved;
    }
    util_fd_close(fd);
    util_fd_close(tmpdir);
    return rc;
}

int store_control_read_id(int control, uint8_t id[DYAD_STORAGE_ID_LEN])
{
    char text[2 * DYAD_STORAGE_ID_LEN + 2];
    int fd = openat(control, ID_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (n != sizeof(text) - 1)
        goto error_format;
    text[n] = '\0';
    for (int i = 0; i < DYAD_STORAGE_ID_LEN; i++) {
        unsigned byte;
        char hex[3] = {text[2 * i], text[2 * i + 1], '\0'};
        if (strspn(hex, "0123456789abcdef") != 2 || sscanf(hex, "%2x", &byte) != 1)
            goto error_format;
        id[i] = (uint8_t)byte;
    }
    return 0;

error_format:
    errno = EUCLEAN;
    return -1;
}

#define ID_TEXT_SIZE (2 * DYAD_STORAGE_ID_LEN + 2)

/* Synced, so that a power cut cannot leave an id of nothing: once in the life of a storage.
 */
static int write_id(int fd, void *text)
{
    return store_control_write(fd, 0, text, ID_TEXT_SIZE - 1) < 0 ||
                   (fsync(fd) < 0 && errno != EINVAL && errno != EROFS)
               ? -1
               : 0;
}

int store_control_make_id(int control, uint8_t id[DYAD_STORAGE_ID_LEN])
{
    static const uint8_t none[DYAD_STORAGE_ID_LEN];
    char text[ID_TEXT_SIZE];
    uint8_t fresh[DYAD_STORAGE_ID_LEN], found[DYAD_STORAGE_ID_LEN];

    if (store_control_read_id(control, found) == 0) {
        memcpy(id, found, sizeof(found));
        return 0;
    }
    if (errno != ENOENT)
        return -1;
    memcpy(fresh, id, sizeof(fresh));
    if (dyad_storage_equal(fresh, none) &&
        getrandom(fresh, sizeof(fresh), 0) != sizeof(fresh))
        return -1;
    for (int i = 0; i < DYAD_STORAGE_ID_LEN; i++)
        snprintf(text + 2 * i, 3, "%02x", fresh[i]);
    strcpy(text + 2 * DYAD_STORAGE_ID_LEN, "\n");

    int tmpdir = store_control_private(control, "tmp");
    if (tmpdir < 0 || store_control_place(tmpdir, control, ID_FILE, write_id, text) < 0)
        return -1;
    return store_control_read_id(control, id);
}
