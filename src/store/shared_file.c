/*
 * shared_file.c - open, make, map
 */
#include "store/shared_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/control.h"
#include "util/fd_close.h"

static void *map(const struct store_shared_kind *kind, int fd, const char *boot,
                 int protection)
{
    struct stat st;
    void *p;

    if (fstat(fd, &st) < 0)
        return NULL;
    if ((uint64_t)st.st_size != kind->size) {
        errno = EUCLEAN;
        return NULL;
    }
    p = mmap(NULL, kind->size, protection, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return NULL;
    if (!kind->is_whole(p, boot)) {
        munmap(p, kind->size);
        errno = EUCLEAN;
        return NULL;
    }
    return p;
}

struct making {
    const struct store_shared_kind *kind;
    struct store_shared_new file;
};

static int fill(int fd, void *arg)
{
    struct making *making = arg;
    const struct store_shared_kind *kind = making->kind;
    void *p;

    if (ftruncate(fd, (off_t)kind->size) < 0 || kind->reserve(fd) < 0)
        return -1;
    p = mmap(NULL, kind->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return -1;
    making->file.fd = fd;
    making->file.map = p;
    return kind->fill(&making->file);
}

/* 0, or -1 with errno; by whatever process. */
static int make(const struct store_shared_kind *kind, const struct store_dir *dir,
                int control, const char *name, const char *boot)
{
    struct making making = {kind, {.control = control, .name = name, .boot = boot}};
    int tmpdir = store_control_subdir(dir, "tmp");
    int rc, saved;

    if (tmpdir < 0)
        return -1;
    rc = store_control_place(tmpdir, control, name, fill, &making);
    if (rc == 0)
        kind->made(&making.file);
    saved = errno;
    if (making.file.map)
        munmap(making.file.map, kind->size);
    errno = saved;
    return rc < 0 ? -1 : 0;
}

static int open_made(const struct store_shared_kind *kind, const struct store_dir *dir,
                     int control, const char *name, const char *boot)
{
    int fd;

    /* It may be removed as often as it is made, but not for ever. */
    for (int tries = 0; tries < 8; tries++) {
        fd = openat(control, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd >= 0 || errno != ENOENT || make(kind, dir, control, name, boot) < 0)
            return fd;
        errno = ENOENT;
    }
    return -1;
}

void *store_shared_map(const struct store_dir *dir, const struct store_shared_kind *kind,
                       const char *name, const char *boot)
{
    int control = store_control_open(dir), fd;
    void *p = NULL;

    if (control < 0)
        return NULL;
    fd = open_made(kind, dir, control, name, boot);
    if (fd >= 0)
        p = map(kind, fd, boot, PROT_READ | PROT_WRITE);
    util_fd_close(fd);
    util_fd_close(control);
    return p;
}

int store_shared_each_other(
    int control, const struct store_shared_kind *kind, const char *prefix, const char *name,
    int (*fn)(int control, const char *name, const void *map, void *arg), void *arg)
{
    int fd = openat(control, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0, saved;
    DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;

    if (!stream) {
        util_fd_close(fd);
        return -1;
    }
    while (rc == 0 && (entry = readdir(stream))) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0 ||
            strcmp(entry->d_name, name) == 0)
            continue;
        int file =
            openat(fd, entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (file < 0)
            continue;
        void *other = map(kind, file, NULL, PROT_READ);
        close(file);
        if (!other)
            continue;
        rc = fn(fd, entry->d_name, other, arg);
        saved = errno;
        munmap(other, kind->size);
        errno = saved;
    }
    saved = errno;
    closedir(stream);
    errno = saved;
    return rc;
}
