/*
 * resolve.c - follows a path part by part, as the kernel would if all that is published
 * were here
 *
 * The kernel cannot be asked: it stops at the first part that is not here. So each part of
 * the upath is read as a link; one that is a link is replaced by its target, and the walk
 * begins again with the new path, at most MAX_LINKS times as in the kernel. Where the path
 * ends because a part is not here, the engine is asked for the whole name; only if that is
 * not published may a part before it be a link that is.
 *
 * What another process makes or removes meanwhile ends the walk a step earlier or later,
 * as it would in the kernel.
 */
#include "wrapper/resolve.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wrapper/core.h"

#define MAX_LINKS 40

enum step {
    STEP_ALL,       /* every part is here */
    STEP_NO_LAST,   /* all but the last */
    STEP_NO_PARENT, /* a part before the last is not here */
    STEP_LEFT,      /* a link leads out of the managed directory */
    STEP_LOOP,
};

static long read_link(const char *path, char *target)
{
    long n = syscall(SYS_readlinkat, AT_FDCWD, path, target, PATH_MAX - 1);

    if (n >= 0)
        target[n] = '\0';
    return n;
}

/* *where, whose part [part, end) is a link to `target`: follow it. */
static bool follow_link(struct wrapper_path *where, const char *part, const char *end,
                        const char *target)
{
    char path[2 * PATH_MAX];
    bool moved = where->moved, slash = where->slash;
    size_t before = target[0] == '/' ? 0 : (size_t)(part - where->text);
    size_t n = strlen(target), rest = strlen(end);

    if (before + n + rest >= sizeof(path))
        return false;
    memcpy(path, where->text, before);
    memcpy(path + before, target, n);
    memcpy(path + before + n, end, rest + 1);
    if (!wrapper_path_find_dir(AT_FDCWD, path, where))
        return false;
    where->moved = moved;
    where->slash = where->slash || slash;
    return true;
}

/* Follow the links that are here; the last part only if `last`. */
static enum step walk(struct wrapper_path *where, bool last)
{
    char target[PATH_MAX];
    int links = 0;

again:
    for (char *part = where->text + (wrapper_path_upath(where) - where->text); *part;) {
        char *end = strchrnul(part, '/'), kept = *end;
        long n;

        *end = '\0';
        n = read_link(where->text, target);
        *end = kept;
        if (n < 0 && errno == ENOENT)
            return kept ? STEP_NO_PARENT : STEP_NO_LAST;
        if (n >= 0 && (kept || last)) {
            if (++links > MAX_LINKS)
                return STEP_LOOP;
            if (!follow_link(where, part, end, target))
                return STEP_LEFT;
            goto again;
        }
        part = kept ? end + 1 : end;
    }
    return STEP_ALL;
}

bool wrapper_resolve_links(struct wrapper_path *where, bool last)
{
    int saved = errno;
    bool inside = true;

    if (last || strchr(wrapper_path_upath(where), '/'))
        inside = walk(where, last) != STEP_LEFT;
    errno = saved;
    return inside;
}

static enum wrapper_resolved nowhere(int error)
{
    errno = error;
    return WRAPPER_NOWHERE;
}

enum wrapper_resolved wrapper_resolve(int dirfd, const char *path, bool follow,
                                      struct wrapper_path *where, struct stat *st)
{
    const struct engine_ops *ops;
    int saved = errno;
    struct stat found;

    if (!wrapper_active() || !wrapper_path_find_dir(dirfd, path, where) ||
        !wrapper_mine() || !(ops = wrapper_engine()))
        return nowhere(ENOENT);
    follow = follow || where->slash;
    for (int made = 0; made < MAX_LINKS; made++) {
        enum step step = walk(where, follow);
        const char *upath = where->upath[ENGINE_CONSUMER];

        if (step == STEP_LOOP)
            return nowhere(ELOOP);
        if (step == STEP_LEFT || step == STEP_ALL) {
            errno = saved;
            return WRAPPER_HERE;
        }
        if (!upath)
            return nowhere(ENOENT);
        memset(&found, 0, sizeof(found));
        if (ENGINE_CALL(ops->lookup(ENGINE_CONSUMER, upath, &found)) == 0) {
            if (!(follow && S_ISLNK(found.st_mode))) {
                if (where->slash && !S_ISDIR(found.st_mode))
                    return nowhere(ENOTDIR);
                if (st)
                    *st = found;
                errno = saved;
                return WRAPPER_ELSEWHERE;
            }
            if (ENGINE_CALL(ops->consume(ENGINE_CONSUMER, upath, false)) == 0)
                continue;
        } else if (step == STEP_NO_LAST ||
                   ENGINE_CALL(ops->bring_parents(ENGINE_CONSUMER, upath)) == 0) {
            return nowhere(ENOENT);
        }
        if (errno != ESTALE) /* else a part of the path is a link now */
            return nowhere(ENOENT);
    }
    return nowhere(ELOOP);
}

static bool bring(int dirfd, const char *path, bool follow, bool directory,
                  struct wrapper_path *where)
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
        if (ENGINE_CALL(ops->consume(ENGINE_CONSUMER, where->upath[ENGINE_CONSUMER],
                                     false)) == 0) {
            errno = saved;
            return true;
        }
        if (errno != ESTALE)
            return false;
    }
    errno = ELOOP;
    return false;
}

bool wrapper_bring(int dirfd, const char *path, bool follow, struct wrapper_path *where)
{
    return bring(dirfd, path, follow, false, where);
}

bool wrapper_bring_dir(int dirfd, const char *path, struct wrapper_path *where)
{
    return bring(dirfd, path, true, true, where);
}

bool wrapper_bring_parents(int dirfd, const char *path)
{
    const struct engine_ops *ops;
    struct wrapper_path where;
    int saved = errno;

    if (!wrapper_active() || !wrapper_path_find_dir(dirfd, path, &where) ||
        !wrapper_mine() || !(ops = wrapper_engine())) {
        errno = ENOENT;
        return false;
    }
    for (int made = 0; made < MAX_LINKS; made++) {
        enum step step = walk(&where, false);
        const char *upath = where.upath[ENGINE_CONSUMER];

        if (step == STEP_LOOP)
            break;
        if (step != STEP_NO_PARENT) {
            errno = saved;
            return true;
        }
        errno = ENOENT;
        if (!upath)
            return false;
        if (ENGINE_CALL(ops->bring_parents(ENGINE_CONSUMER, upath)) == 0) {
            errno = saved;
            return true;
        }
        if (errno != ESTALE)
            return false;
    }
    errno = ELOOP;
    return false;
}
