/*
 * path_walk.c - what the kernel does with a path
 *
 * Component by component with readlink: no descriptor is opened (the program may have used
 * them all up), no memory is needed, and what is absent can be walked past. On the way it
 * is remembered of the directories in the text of the path where they are.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wrapper/path_impl.h"

#define LINKS_MAX 40 /* the kernel's own bound */

/* A link of /proc shows a name that the file had. */
static bool is_deleted(const char *link, const char *target, size_t len)
{
    size_t mark = sizeof(DELETED_MARK) - 1;
    struct stat st;

    return strncmp(link, "/proc/", 6) == 0 && len > mark &&
           memcmp(target + len - mark, DELETED_MARK, mark) == 0 &&
           (syscall(SYS_newfstatat, AT_FDCWD, link, &st, 0) < 0 || st.st_nlink == 0);
}

static bool follows(const struct wrapper_path *where, const struct walk *w, size_t n)
{
    if (w->follow || (where->how & WRAPPER_PATH_FOLLOW_ALL) == WRAPPER_PATH_FOLLOW_ALL)
        return true;
    return (where->how & WRAPPER_PATH_FOLLOW) &&
           wrapper_path_place(where->text, n) == PLACE_BELOW;
}

/* The rest of the path stands at the end of where->text, so that a link's target can be put
 * before it. */
int wrapper_path_walk(struct wrapper_path *where, size_t n, const char *path,
                      struct walk *w)
{
    char target[PATH_MAX], *out = where->text, *floor = out + PATH_MAX;
    char *end = out + sizeof(where->text) - 1, *p, *q;
    size_t size = strlen(path), base, consumed;
    bool plain = true; /* no link so far: what was walked is a beginning of `path` */
    unsigned links = 0;

    if (size >= PATH_MAX)
        return -1;
    for (base = size; base > 0 && path[base - 1] != '/';)
        base--;
    p = memmove(end - size, path, size + 1);
    base = size - base; /* length of the last component */
    w->absent = w->dir = false;
    for (;; p = q) {
        size_t len;
        ssize_t r;

        for (; *p == '/'; p++)
            w->dir = true;
        /* Between the directory and the last component, as the path has them. */
        if (base && (size_t)(end - p) == base) {
            if (w->keep && !w->absent && size > base)
                remember(hash(w->seed, path, size - base - 1), wrapper_path_place(out, n));
            base = 0; /* what a link at the end leads to is none of it */
        }
        if (!*p)
            break;
        q = strchrnul(p, '/');
        len = (size_t)(q - p);
        w->dir = true;
        if (len == 1 && p[0] == '.')
            continue;
        if (len == 2 && p[0] == '.' && p[1] == '.') {
            while (n > 0 && out[--n] != '/')
                ;
            plain = false;
            continue;
        }
        w->dir = false;
        if (n + 1 + len + 1 > PATH_MAX)
            return -1;
        out[n] = '/';
        memcpy(out + n + 1, p, len);
        out[n + 1 + len] = '\0';
        if (!w->absent && (*q || follows(where, w, n))) {
            r = syscall(SYS_readlinkat, AT_FDCWD, out, target, sizeof(target) - 1);
            if (r > 0) {
                if (++links > LINKS_MAX || q - r < floor ||
                    is_deleted(out, target, (size_t)r))
                    return -1;
                plain = false;
                q -= r;
                memcpy(q, target, (size_t)r);
                if (target[0] == '/')
                    n = 0;
                continue;
            }
            if (errno == ENOENT || errno == ENOTDIR)
                w->absent = true;
            else if (errno != EINVAL)
                return -1;
        }
        n += 1 + len;
        consumed = size - (size_t)(end - q);
        if (plain && w->keep && !w->absent && *q)
            remember(hash(w->seed, path, consumed), wrapper_path_place(out, n));
    }
    if (n == 0) {
        out[n++] = '/';
        w->dir = true;
    }
    out[n] = '\0';
    return 0;
}
