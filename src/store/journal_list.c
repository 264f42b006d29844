/*
 * journal_list.c - which journals there are
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "store/control.h"
#include "store/journal_impl.h"
#include "store/journal_index.h"
#include "util/fd_close.h"

bool journal_name_ok(const char *name)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t len = strlen(name);

    return len > 0 && len <= JOURNAL_NAME_MAX && strspn(name, allowed) == len &&
           strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

int store_journal_list(const struct store_dir *dir, const char *prefix,
                       int (*fn)(const char *name, void *arg), void *arg)
{
    int owner = store_control_subdir(dir, "owner");
    DIR *list = owner >= 0 ? fdopendir(owner) : NULL;
    struct dirent *entry;
    int rc = 0;

    if (!list) {
        util_fd_close(owner);
        return -1;
    }
    while (rc == 0 && (entry = readdir(list)))
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 &&
            journal_name_ok(entry->d_name))
            rc = fn(entry->d_name, arg);
    closedir(list);
    return rc;
}

/* All but counts and the label are records; so is all that cannot be read. */
static int has_records(const char *name, void *arg)
{
    int fd = openat(*(int *)arg, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    _Alignas(8) char buf[RECORD_MAX];
    ssize_t n = fd < 0 ? 0 : pread(fd, buf, sizeof(buf), MAGIC_LEN);
    size_t at = 0;

    if (fd >= 0)
        close(fd);
    while (n > 0 && at + sizeof(struct disk_record) <= (size_t)n) {
        struct disk_record disk;
        memcpy(&disk, buf + at, sizeof(disk));
        if ((disk.kind != COUNT_KIND && disk.kind != LABEL_KIND) || disk.len < sizeof(disk))
            return 1;
        at += disk.len;
    }
    return n > 0 && at < (size_t)n;
}

bool store_journal_any(const struct store_dir *dir, const char *prefix)
{
    int saved = errno, owner = store_control_subdir(dir, "owner"), rc;

    rc = owner < 0 ? 0 : store_journal_list(dir, prefix, has_records, &owner);
    if (owner >= 0)
        close(owner);
    errno = saved;
    return rc != 0;
}
