/*
 * fetch_replace.c - what lies where a fetched file is to go, and files that are out of date
 *
 * The name may be given to another file between a look and what is done then. So the file
 * is moved aside first, and looked at there, where nobody else can name it. For a file that
 * is replaced the new one takes its place in the same step: at no moment is there no file
 * of the name.
 */
#include "store/fetch_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/beneath.h"
#include "store/control.h"
#include "store/dmd_make.h"
#include "util/fd_close.h"

#define ASIDE ".old"
#define LOOKS 2 /* for a file that is taken aside and put back again and again */

static bool is_identity(int at, const char *name, const struct store_identity *identity)
{
    int fd = openat(at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    bool same = fd >= 0 && store_identity_is(fd, identity);

    util_fd_close(fd);
    return same;
}

/* Move `base` of `parent` to a name in tmpdir that nothing has: thread numbers are unique
 * in one PID namespace only, and a killed process may have left its file. */
static int move_aside(int parent, const char *base, int tmpdir, const char *name,
                      char *aside, size_t size)
{
    for (unsigned n = 0;; n++) {
        snprintf(aside, size, "%s.%d.%x" ASIDE, name, (int)gettid(), n);
        if (store_control_rename_new(parent, base, tmpdir, aside) == 0)
            return 0;
        if (errno != EEXIST || n == UINT_MAX)
            return -1;
    }
}

/* Writers that come from now on wait (store_marks_await_name()). 0, or -1 EBUSY: one has come
 * before. Without a free mark the removal goes on: then no writer can open a file, either. */
static int begin_removal(struct store_marks *marks, const char *upath,
                         const struct store_identity *identity, store_mark_t *mark)
{
    struct store_mark_info info;

    if (!marks)
        return 0;
    *mark = store_marks_begin_removal(marks, upath);
    if (!store_marks_dirty(marks, upath, identity->ino, identity->btime, &info) ||
        info.state == STORE_MARK_ABANDONED)
        return 0;
    errno = EBUSY;
    return -1;
}

static void end_removal(struct store_marks *marks, store_mark_t mark)
{
    int saved = errno;

    if (mark)
        store_marks_abort(marks, mark);
    errno = saved;
}

/* It is looked at before, too, so that what is clearly another file, or somebody's
 * directory, is not without its name for a moment. */
int store_fetch_discard_unless(const struct store_dir *dir, struct store_marks *marks,
                               const char *upath, const struct store_identity *identity,
                               bool (*keep)(void *arg), void *arg)
{
    char name[FETCH_NAME_SIZE], aside[FETCH_NAME_SIZE + 32];
    const char *base;
    struct stat st;
    store_mark_t mark = 0;
    int tmpdir = -1, parent = -1, rc = -1, why = ESTALE;

    if (store_dir_check(upath) < 0 ||
        (parent = store_beneath_parent(store_dir_fd(dir), upath, &base)) < 0 ||
        (tmpdir = store_control_subdir(dir, "tmp")) < 0 ||
        fstatat(parent, base, &st, AT_SYMLINK_NOFOLLOW) < 0)
        goto done;
    errno = ESTALE;
    if (S_ISDIR(st.st_mode) || !is_identity(parent, base, identity))
        goto done;
    fetch_temp_name(upath, name);
    if (begin_removal(marks, upath, identity, &mark) < 0 ||
        move_aside(parent, base, tmpdir, name, aside, sizeof(aside)) < 0)
        goto done;
    if (is_identity(tmpdir, aside, identity)) {
        if (!keep || !keep(arg)) {
            rc = unlinkat(tmpdir, aside, 0);
            goto done;
        }
        why = EBUSY;
    }
    /* Another file, or one that is to be kept: back to its name, unless a still newer one
     * has that by now and so has replaced it. */
    if (store_control_rename_new(tmpdir, aside, parent, base) < 0 &&
        unlinkat(tmpdir, aside, 0) < 0)
        unlinkat(tmpdir, aside, AT_REMOVEDIR);
    errno = why;
done:
    end_removal(marks, mark);
    util_fd_close(tmpdir);
    util_fd_close(parent);
    return rc;
}

/* The file that move_aside() has taken from upath, or -1. */
static int open_aside(const struct store_dir *dir, const char *upath, int flags)
{
    char name[FETCH_NAME_SIZE];
    int tmpdir = store_control_subdir(dir, "tmp"), fd = -1;
    DIR *stream = tmpdir < 0 ? NULL : fdopendir(tmpdir);
    struct dirent *entry;
    size_t len;

    if (!stream) {
        util_fd_close(tmpdir);
        return -1;
    }
    fetch_temp_name(upath, name);
    len = strlen(name);
    while (fd < 0 && (entry = readdir(stream))) {
        const char *suffix = strrchr(entry->d_name, '.');
        if (strncmp(entry->d_name, name, len) != 0 || !suffix || strcmp(suffix, ASIDE) != 0)
            continue;
        fd = openat(tmpdir, entry->d_name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    }
    closedir(stream);
    return fd;
}

int store_fetch_open_named(const struct store_dir *dir, const char *upath, int flags)
{
    int fd = store_dir_open(dir, upath, flags, 0);

    for (int i = 0; fd < 0 && errno == ENOENT && i < LOOKS; i++) {
        fd = open_aside(dir, upath, flags);
        if (fd < 0) /* it may have been put back meanwhile */
            fd = store_dir_open(dir, upath, flags, 0);
    }
    return fd;
}

int store_fetch_discard(const struct store_dir *dir, const char *upath,
                        const struct store_identity *identity)
{
    return store_fetch_discard_unless(dir, NULL, upath, identity, NULL, NULL);
}

/* The new file is at `aside`, the old one at its name. 0, or -1 with errno: then what is at
 * `aside` has no name to go to. EINVAL: this file system cannot exchange. */
static int exchange(const struct store_fetch *fetch, const char *aside, int parent,
                    const char *base, const struct store_identity *old,
                    bool (*keep)(void *arg), void *arg)
{
    struct store_identity new;
    int tmpdir = fetch->tmpdir;

    if (store_identity_read(fetch->fd, &new) < 0)
        return -1;
    if (renameat2(tmpdir, aside, parent, base, RENAME_EXCHANGE) < 0)
        return errno == ENOENT ? store_control_rename_new(tmpdir, aside, parent, base) : -1;
    if (is_identity(tmpdir, aside, old) && !keep(arg))
        return unlinkat(tmpdir, aside, 0);
    /* If a third file was renamed to the name since, that has replaced the old one. */
    if (renameat2(tmpdir, aside, parent, base, RENAME_EXCHANGE) == 0 &&
        !is_identity(tmpdir, aside, &new))
        renameat2(tmpdir, aside, parent, base, RENAME_EXCHANGE);
    errno = EEXIST;
    return -1;
}

int store_fetch_commit_over(struct store_fetch *fetch, struct store_marks *marks,
                            const struct store_identity *old, bool (*keep)(void *arg),
                            void *arg, struct store_identity *identity)
{
    char aside[FETCH_NAME_SIZE + 16];
    store_mark_t mark = 0;
    const char *base;
    int rc = -1, saved = errno, parent = -1;

    /* The next fetch must find the name of the temporary file free, and not the old file
     * under it. */
    snprintf(aside, sizeof(aside), "%s.%d.new", fetch->name, (int)gettid());
    if (atomic_load(&fetch->written) < fetch->entry.size) {
        errno = EIO;
        goto out;
    }
    if (fetch_set_metadata(fetch) < 0 ||
        (parent = store_beneath_parent(store_dir_fd(fetch->dir), fetch->upath, &base)) <
            0 ||
        renameat(fetch->tmpdir, fetch->name, fetch->tmpdir, aside) < 0)
        goto out;
    struct timespec mtime = store_dir_mtime_get(parent);
    rc = begin_removal(marks, fetch->upath, old, &mark);
    if (rc == 0)
        rc = exchange(fetch, aside, parent, base, old, keep, arg);
    if (rc < 0 && (errno == EINVAL || errno == ENOSYS) &&
        (store_fetch_discard_unless(fetch->dir, NULL, fetch->upath, old, keep, arg) == 0 ||
         errno == ENOENT))
        rc = store_control_rename_new(fetch->tmpdir, aside, parent, base);
    if (rc < 0 && (errno == ESTALE || errno == EBUSY))
        errno = EEXIST;
    if (rc == 0) {
        store_dir_mtime_put(parent, mtime);
        if (identity)
            store_identity_read(fetch->fd, identity);
    }
out:
    end_removal(marks, mark);
    if (rc == 0)
        errno = saved;
    else if (errno != EEXIST)
        fetch_report(fetch, "store");
    saved = errno;
    if (rc < 0 && parent >= 0)
        unlinkat(fetch->tmpdir, aside, 0);
    errno = saved;
    util_fd_close(parent);
    if (rc < 0)
        store_fetch_abort(fetch);
    else
        fetch_free(fetch);
    return rc;
}
