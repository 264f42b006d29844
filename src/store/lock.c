/*
 * lock.c - fcntl(F_OFD_*) and /proc/locks
 *
 * Tests ask "could a *read* lock be had?": a waiter of ours takes a read lock for an
 * instant when the writer's lock is released, and must not be taken for a writer by
 * somebody who looks then.
 *
 * The kernel shows /proc/locks a page a read, and each read counts from the front: a lock
 * that is there may be missed where others in front of it went between two reads. So the
 * reads follow one another at once, and it is looked for several times.
 */
#include "store/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/fd_close.h"

#define LOOKS 16

static struct flock one_byte(short type, off_t byte)
{
    return (struct flock){
        .l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
}

static bool unsupported(int error)
{
    return error == EINVAL || error == ENOLCK || error == ENOSYS || error == EOPNOTSUPP;
}

int store_lock_take(int fd)
{
    struct flock lock = one_byte(F_WRLCK, STORE_LOCK_OFFSET);

    if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
        return 0;
    if (unsupported(errno) && flock(fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno == EAGAIN || errno == EACCES)
        errno = EBUSY;
    return -1;
}

int store_lock_await(int fd)
{
    if (store_lock_wait_byte(fd, STORE_LOCK_OFFSET) == 0)
        return 0;
    if (!unsupported(errno) || flock(fd, LOCK_SH) < 0)
        return -1;
    return flock(fd, LOCK_UN);
}

bool store_lock_current(int fd, int dirfd, const char *name)
{
    struct stat mine, named;

    return fstat(fd, &mine) == 0 &&
           fstatat(dirfd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           mine.st_ino == named.st_ino && mine.st_dev == named.st_dev;
}

int store_lock_byte(int fd, off_t byte)
{
    struct flock lock = one_byte(F_WRLCK, byte);

    return fcntl(fd, F_OFD_SETLK, &lock);
}

int store_lock_test(int fd, off_t byte)
{
    struct flock lock = one_byte(F_RDLCK, byte);

    if (fcntl(fd, F_OFD_GETLK, &lock) < 0)
        return -1;
    /* Another lock over this byte: then there is none of ours. */
    return lock.l_type != F_UNLCK && lock.l_start == byte && lock.l_len == 1;
}

int store_lock_wait_byte(int fd, off_t byte)
{
    struct flock lock = one_byte(F_RDLCK, byte);

    if (fcntl(fd, F_OFD_SETLKW, &lock) < 0)
        return -1;
    lock = one_byte(F_UNLCK, byte);
    return fcntl(fd, F_OFD_SETLK, &lock);
}

/* All of /proc/locks, read without a pause; the caller frees it. NULL with errno. */
static char *read_locks(void)
{
    size_t size = 64 << 10, len = 0;
    char *text = malloc(size), *grown = text;
    int fd = open("/proc/locks", O_RDONLY | O_CLOEXEC);
    ssize_t n = -1;

    while (fd >= 0 && grown && (n = read(fd, text + len, size - len - 1)) > 0) {
        len += (size_t)n;
        if (size - len > 1)
            continue;
        if ((grown = realloc(text, 2 * size)))
            text = grown;
        size *= 2;
    }
    util_fd_close(fd);
    if (n != 0) {
        free(text);
        return NULL;
    }
    text[len] = '\0';
    return text;
}

static int look_for(uint64_t ino, off_t byte)
{
    char *text = read_locks(), *rest = text, *line;
    int found = 0;

    if (!text)
        return -1;
    while (!found && (line = strsep(&rest, "\n"))) {
        unsigned long long of;
        long long start;
        /* "7: OFDLCK ADVISORY  WRITE -1 08:01:131 4611686018427387905 46...": waiters have
         * "->" */
        if (sscanf(line, "%*s OFDLCK %*s WRITE %*d %*x:%*x:%llu %lld", &of, &start) == 2)
            found = of == ino && start == byte;
    }
    free(text);
    return found;
}

int store_lock_search(uint64_t ino, off_t byte)
{
    int found = 0;

    for (int i = 0; i < LOOKS && found == 0; i++)
        found = look_for(ino, byte);
    return found;
}

int store_lock_own(int fd, off_t byte)
{
    char path[40], *line = NULL;
    size_t size = 0;
    FILE *file;
    int found = 0;

    /* Not self: that is empty when the first thread has ended. */
    snprintf(path, sizeof(path), "/proc/thread-self/fdinfo/%d", fd);
    if (!(file = fopen(path, "re")))
        return -1;
    while (!found && getline(&line, &size, file) > 0) {
        long long start;
        if (sscanf(line, "lock: %*s OFDLCK %*s WRITE %*d %*x:%*x:%*u %lld", &start) == 1)
            found = start == byte;
    }
    free(line);
    fclose(file);
    return found;
}
