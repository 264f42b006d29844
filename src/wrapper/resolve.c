/*
 * resolve.c - follows a path as the kernel would if all that is published were here
 *
 * wrapper_path_find_as() has followed the links that are here. What it came to is looked up
 * under its whole name first; only if that is not published may a directory before it be
 * a link that is. The member has tried that (ESTALE), but for a name that was withdrawn.
 * Each link that is made here makes the path mean something else, so it is resolved again,
 * as often as the kernel would.
 */
#include "util/clock.h"
#include "wrapper/resolve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "wrapper/core.h"
#include "wrapper/pointer.h"
#include "wrapper/real.h"

#define MAX_LINKS 40

#define FRESH_NS (50 * UTIL_NSEC_PER_MSEC)

/* The last path that this thread has found to lead elsewhere, and when; 0: the last one did
 * not. */
static __thread struct {
    uint64_t hash;
    uint64_t when;
} heard __attribute__((tls_model("initial-exec")));

static uint64_t hash_of(int dirfd, const char *path, bool follow)
{
    uint64_t hash =
        UINT64_C(0xcbf29ce484222325) ^ ((uint64_t)(unsigned)dirfd << 1 | follow);

    for (; *path; path++)
        hash = (hash ^ (unsigned char)*path) * UINT64_C(0x100000001b3);
    return hash;
}

bool wrapper_resolved_before(int dirfd, const char *path, bool follow)
{
    return !wrapper_bad_pointer(path) && heard.when != 0 &&
           util_clock_coarse() - heard.when < FRESH_NS &&
           heard.hash == hash_of(dirfd, path, follow);
}

static enum wrapper_resolved nowhere(int error)
{
    errno = error;
    return WRAPPER_NOWHERE;
}

/* text is an absolute path without links, but for the last part. */
static bool is_here(const char *text)
{
    struct stat st;

    return syscall(SYS_newfstatat, AT_FDCWD, text, &st, AT_SYMLINK_NOFOLLOW) == 0 ||
           errno != ENOENT;
}

/* And not out of date. */
static bool is_valid_here(const struct engine_ops *ops, const char *text, const char *upath)
{
    struct stat st;

    if (syscall(SYS_newfstatat, AT_FDCWD, text, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno != ENOENT;
    return !S_ISREG(st.st_mode) || st.st_nlink == 1 ||
           !ENGINE_CALL(ops->superseded(ENGINE_CONSUMER, upath, st.st_ino));
}

bool wrapper_parent_is_here(struct wrapper_path *where, const char *upath)
{
    char *slash = strrchr(where->text, '/');
    bool here;

    if (!strchr(upath, '/'))
        return true;
    *slash = '\0';
    here = is_here(where->text);
    *slash = '/';
    return here;
}

static enum wrapper_resolved resolve(int dirfd, const char *path, bool follow,
                                     struct wrapper_path *where, struct stat *st)
{
    const struct engine_ops *ops;
    int saved = errno;
    bool directory;
    struct stat found;

    if (wrapper_bad_pointer(path) || !*path || !wrapper_active())
        return nowhere(ENOENT);
    directory = wrapper_path_ends_in_directory(path);
    follow = follow || directory;
    if (!wrapper_path_find_as(dirfd, path,
                              WRAPPER_PATH_DIR | (follow ? WRAPPER_PATH_FOLLOW_ALL : 0),
                              where) ||
        !wrapper_mine() || !(ops = wrapper_engine()))
        return nowhere(ENOENT);
    for (int made = 0; made < MAX_LINKS; made++) {
        enum wrapper_path_again again = WRAPPER_PATH_SAME;
        const char *upath = where->upath[ENGINE_CONSUMER];

        if (!upath)
            return nowhere(ENOENT);
        if (!*upath || is_valid_here(ops, where->text, upath)) {
            errno = saved;
            return WRAPPER_HERE;
        }
        memset(&found, 0, sizeof(found));
        if (ENGINE_CALL(ops->lookup(ENGINE_CONSUMER, upath, &found)) == 0) {
            if (!follow || !S_ISLNK(found.st_mode)) {
                if (directory && !S_ISDIR(found.st_mode))
                    return nowhere(ENOTDIR);
                if (st)
                    *st = found;
                errno = saved;
                return WRAPPER_ELSEWHERE;
            }
            if (ENGINE_CALL(ops->consume(ENGINE_CONSUMER, upath, ENGINE_CONSUME_NOW)) ==
                    0 ||
                errno == ESTALE)
                again = wrapper_path_again(where);
        } else if (errno == EIO || errno == ENOTDIR) { /* EIO: ENOENT could be false */
            return nowhere(errno);
        } else if (errno == ESTALE) {
            again = wrapper_path_again(where);
        } else if (!wrapper_parent_is_here(where, upath)) {
            bool unpublished = errno == ENOENT; /* else there is nobody to ask */
            if (ENGINE_CALL(ops->bring_parents(ENGINE_CONSUMER, upath)) == 0)
                return nowhere(ENOENT);
            if (errno == ESTALE)
                again = wrapper_path_again(where);
            else if (unpublished && errno != ENOENT)
                return nowhere(errno == ENOTDIR ? ENOTDIR : EIO);
        }
        if (again == WRAPPER_PATH_SAME)
            return nowhere(ENOENT);
        if (again == WRAPPER_PATH_GONE) { /* a link that leads elsewhere */
            errno = saved;
            return WRAPPER_HERE;
        }
    }
    return nowhere(ELOOP);
}

/* ".." goes up from where a link leads, if it is here; so the directories that have a ".."
 * behind them are made here first. */
static __attribute__((noinline)) void bring_before_dots(int dirfd, const char *path)
{
    struct wrapper_path where;
    char before[PATH_MAX];
    struct stat st;

    for (const char *p = strstr(path, "/.."); p; p = strstr(p + 1, "/..")) {
        size_t n = (size_t)(p - path);
        if (n == 0 || n >= sizeof(before) || (p[3] != '/' && p[3] != '\0'))
            continue;
        memcpy(before, path, n);
        before[n] = '\0';
        if (resolve(dirfd, before, true, &where, &st) == WRAPPER_ELSEWHERE &&
            S_ISDIR(st.st_mode))
            (void)ENGINE_CALL(wrapper_engine()->consume(
                ENGINE_CONSUMER, where.upath[ENGINE_CONSUMER], ENGINE_CONSUME_NOW));
    }
}

void wrapper_bring_before_dots(int dirfd, const char *path)
{
    int saved = errno;

    if (!wrapper_bad_pointer(path) && wrapper_active() && strstr(path, "/.."))
        bring_before_dots(dirfd, path);
    errno = saved;
}

enum wrapper_resolved wrapper_resolve(int dirfd, const char *path, bool follow,
                                      struct wrapper_path *where, struct stat *st)
{
    enum wrapper_resolved what;

    wrapper_bring_before_dots(dirfd, path);
    what = resolve(dirfd, path, follow, where, st);
    heard.when = what == WRAPPER_ELSEWHERE ? util_clock_coarse() : 0;
    heard.hash = heard.when ? hash_of(dirfd, path, follow) : 0;
    return what;
}

/* The file at the name is out of date, and keeps it, because somebody writes it. */
static bool is_old_here(const struct engine_ops *ops, const struct wrapper_path *where)
{
    return is_here(where->text) &&
           !is_valid_here(ops, where->text, where->upath[ENGINE_CONSUMER]);
}

static bool bring(int dirfd, const char *path, bool follow, bool directory,
                  enum engine_consume how, struct wrapper_path *where)
{
    const struct engine_ops *ops;
    int saved = errno;
    struct stat st;

    for (int made = 0; made < MAX_LINKS; made++) {
        enum wrapper_resolved what = wrapper_resolve(dirfd, path, follow, where, &st);
        if (what != WRAPPER_ELSEWHERE)
            return what == WRAPPER_HERE;
        if (directory && !S_ISDIR(st.st_mode)) {
            errno = ENOTDIR;
            return false;
        }
        ops = wrapper_engine();
        if (ENGINE_CALL(
                ops->consume(ENGINE_CONSUMER, where->upath[ENGINE_CONSUMER], how)) == 0) {
            bool old = how == ENGINE_CONSUME_NAME && is_old_here(ops, where);
            errno = old ? EBUSY : saved;
            return !old;
        }
        if (errno != ESTALE)
            return false;
    }
    errno = ELOOP;
    return false;
}

bool wrapper_bring(int dirfd, const char *path, bool follow, struct wrapper_path *where)
{
    return bring(dirfd, path, follow, false, ENGINE_CONSUME_NOW, where);
}

int wrapper_bring_newest(int dirfd, const char *path, bool follow)
{
    struct wrapper_path where;
    int saved = errno;
    struct stat st;

    if (REAL(fstatat)(dirfd, path, &st, follow ? 0 : AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(st.st_mode) && st.st_nlink > 1 &&
        !bring(dirfd, path, follow, false, ENGINE_CONSUME_NAME, &where) && errno != ENOENT)
        return -1;
    errno = saved;
    return 0;
}

bool wrapper_bring_dir(int dirfd, const char *path, struct wrapper_path *where)
{
    return bring(dirfd, path, true, true, ENGINE_CONSUME_NOW, where);
}

bool wrapper_bring_parents(int dirfd, const char *path)
{
    const struct engine_ops *ops;
    struct wrapper_path where;
    int saved = errno;

    if (!wrapper_active() || !wrapper_path_find_as(dirfd, path, WRAPPER_PATH_DIR, &where) ||
        !wrapper_mine() || !(ops = wrapper_engine())) {
        errno = ENOENT;
        return false;
    }
    for (int made = 0; made < MAX_LINKS; made++) {
        const char *upath = where.upath[ENGINE_CONSUMER];

        errno = ENOENT;
        if (!upath)
            return false;
        if (wrapper_parent_is_here(&where, upath) ||
            ENGINE_CALL(ops->bring_parents(ENGINE_CONSUMER, upath)) == 0) {
            errno = saved;
            return true;
        }
        if (errno != ESTALE)
            return false;
        if (wrapper_path_again(&where) == WRAPPER_PATH_GONE) {
            errno = saved;
            return true;
        }
    }
    errno = ELOOP;
    return false;
}
