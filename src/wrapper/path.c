/*
 * path.c - the prefix test
 *
 * Nearly all paths are elsewhere, so the order is: a comparison with each prefix; if that
 * fails and the path has neither "//" nor "/." in it, it is elsewhere. Only else is it
 * normalised.
 *
 * Relative paths need the working directory. What is kept of it is one word, (generation,
 * where it is in relation to the managed directories), so that a signal handler may read
 * it: "elsewhere" and a path without ".." is answered from it; otherwise getcwd is asked. A
 * change of directory by a wrapper we have raises the generation after the fact; who
 * computed the word from an older directory fails its compare-and-swap.
 */
#include "wrapper/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/path.h"
#include "wrapper/core.h"

struct prefix {
    size_t len;
    char text[PATH_MAX];
};

/* [side][0]: as configured, normalised; [side][1]: as the kernel names it, len 0 if that is
 * the same. */
static struct prefix prefixes[2][2];
static bool relative_to_managed;

enum { CWD_UNKNOWN = 0, CWD_ELSEWHERE = 1, CWD_NEAR = 2, CWD_MASK = 3 };
static _Atomic uint64_t cwd_word;

#define CONTROL_DIR ".dyad"

/* What comes after the prefix, or NULL. The directory itself is not below it. */
static const char *below(const struct prefix *prefix, const char *path)
{
    if (prefix->len == 0 || strncmp(path, prefix->text, prefix->len) != 0)
        return NULL;
    path += prefix->len;
    if (prefix->len == 1) /* "/" is managed: not sensible, but it is what was asked for */
        path--;
    return path[0] == '/' && path[1] ? path + 1 : NULL;
}

static bool is_control(const char *upath)
{
    size_t len = sizeof(CONTROL_DIR) - 1;

    return strncmp(upath, CONTROL_DIR, len) == 0 &&
           (upath[len] == '/' || upath[len] == '\0');
}

static bool match(const char *path, struct wrapper_path *where)
{
    for (int side = 0; side < 2; side++) {
        const char *upath = below(&prefixes[side][0], path);
        if (!upath)
            upath = below(&prefixes[side][1], path);
        where->upath[side] = upath && !is_control(upath) ? upath : NULL;
    }
    return where->upath[0] || where->upath[1];
}

/* Does an absolute path start as some managed directory does? The first filter. */
static bool starts_alike(const char *path)
{
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < 2; i++)
            if (prefixes[side][i].len &&
                strncmp(path, prefixes[side][i].text, prefixes[side][i].len) == 0)
                return true;
    return false;
}

/* Could a path that does not start alike normalise to one that does? */
static bool is_twisted(const char *path)
{
    for (const char *p = strchr(path, '/'); p; p = strchr(p + 1, '/'))
        if (p[1] == '/' || p[1] == '.')
            return true;
    return false;
}

static bool has_dotdot(const char *path)
{
    for (const char *p = strstr(path, ".."); p; p = strstr(p + 1, ".."))
        if ((p == path || p[-1] == '/') && (p[2] == '/' || p[2] == '\0'))
            return true;
    return false;
}

static bool find_absolute(const char *path, struct wrapper_path *where)
{
    bool dir;

    if (!starts_alike(path) && !is_twisted(path))
        return false;
    return util_path_normalise(path, where->text, PATH_MAX, &dir) > 0 && !dir &&
           match(where->text, where);
}

/* `path` below the directory base[len] (in where->text, absolute). */
static bool find_from(struct wrapper_path *where, size_t len, const char *path)
{
    char *joined = where->text +
                   PATH_MAX; /* util_path_normalise() never writes ahead of what it reads */
    size_t n = strlen(path);
    bool dir;

    if (len + 1 + n + 1 > PATH_MAX)
        return false;
    memcpy(joined, where->text, len);
    joined[len] = '/';
    memcpy(joined + len + 1, path, n + 1);
    return util_path_normalise(joined, where->text, PATH_MAX, &dir) > 0 && !dir &&
           match(where->text, where);
}

/* The directory is, or is inside of, or contains a managed one. */
static bool is_near(const char *dir, size_t len)
{
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < 2; i++) {
            const struct prefix *prefix = &prefixes[side][i];
            size_t least = len < prefix->len ? len : prefix->len;
            if (prefix->len && memcmp(dir, prefix->text, least) == 0)
                return true; /* errs towards near where one is a mere text prefix of the
                                other */
        }
    }
    return false;
}

static bool find_in_cwd(const char *path, struct wrapper_path *where)
{
    uint64_t word = atomic_load(&cwd_word);
    long n;

    if ((word & CWD_MASK) == CWD_ELSEWHERE && !has_dotdot(path))
        return false;
    n = syscall(SYS_getcwd, where->text, PATH_MAX);
    if (n <= 1 || where->text[0] != '/') /* "(unreachable)..." */
        return false;
    if ((word & CWD_MASK) == CWD_UNKNOWN && wrapper_mine()) {
        int place = is_near(where->text, (size_t)n - 1) ? CWD_NEAR : CWD_ELSEWHERE;
        atomic_compare_exchange_strong(&cwd_word, &word,
                                       (word & ~(uint64_t)CWD_MASK) | (unsigned)place);
    }
    return find_from(where, (size_t)n - 1, path);
}

void wrapper_path_cwd_changed(void)
{
    /* The generation is the word's upper bits; the lower ones become CWD_UNKNOWN. */
    uint64_t word = atomic_load(&cwd_word);

    while (!atomic_compare_exchange_weak(&cwd_word, &word, (word | CWD_MASK) + 1))
        ;
}

static long fd_name(int fd, char *text)
{
    char link[32];
    long n;

    snprintf(link, sizeof(link), "/proc/thread-self/fd/%d", fd);
    n = syscall(SYS_readlinkat, AT_FDCWD, link, text, PATH_MAX - 1);
    if (n <= 0 || text[0] != '/')
        return 0;
    text[n] = '\0';
    return n;
}

static bool find_managed(const char *path, struct wrapper_path *where)
{
    for (int side = 0; side < 2; side++) {
        const struct prefix *prefix = &prefixes[side][0];
        if (!prefix->len)
            continue;
        memcpy(where->text, prefix->text, prefix->len + 1);
        if (find_from(where, prefix->len, path)) {
            where->moved = true;
            return true;
        }
    }
    return false;
}

bool wrapper_path_find(int dirfd, const char *path, struct wrapper_path *where)
{
    int saved = errno;
    bool found;

    if (!path || !path[0])
        return false;
    where->moved = false;
    if (path[0] == '/') {
        found = find_absolute(path, where);
    } else if (dirfd == AT_FDCWD) {
        found = find_in_cwd(path, where);
        if (!found && relative_to_managed)
            found = find_managed(path, where);
    } else {
        long n = dirfd < 0 ? 0 : fd_name(dirfd, where->text);
        found = n > 0 && (is_near(where->text, (size_t)n) || has_dotdot(path)) &&
                find_from(where, (size_t)n, path);
    }
    errno = saved;
    return found;
}

bool wrapper_path_find_fd(int fd, struct wrapper_path *where)
{
    int saved = errno;
    bool found = fd_name(fd, where->text) > 0 && match(where->text, where);

    where->moved = false;
    errno = saved;
    return found;
}

static void set_prefix(struct prefix *configured, struct prefix *kernel, const char *path)
{
    char joined[2 * PATH_MAX];
    size_t at = 0, n = strlen(path);
    bool dir;
    int fd;

    if (path[0] != '/') {
        long cwd = syscall(SYS_getcwd, joined, PATH_MAX);
        if (cwd <= 0 || joined[0] != '/')
            return;
        at = (size_t)cwd - 1;
        joined[at++] = '/';
    }
    if (at + n >= sizeof(joined))
        return;
    memcpy(joined + at, path, n + 1);
    configured->len =
        util_path_normalise(joined, configured->text, sizeof(configured->text), &dir);
    fd = (int)syscall(SYS_openat, AT_FDCWD, joined, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    kernel->len = (size_t)fd_name(fd, kernel->text);
    syscall(SYS_close, fd);
    if (kernel->len == configured->len &&
        memcmp(kernel->text, configured->text, kernel->len) == 0)
        kernel->len = 0;
}

bool wrapper_path_configured(void)
{
    return prefixes[0][0].len || prefixes[1][0].len;
}

bool wrapper_path_setup(char *const env[])
{
    static const char *const name[2] = {"DYAD_PATH_CONSUMER", "DYAD_PATH_PRODUCER"};
    const char *both = wrapper_env_get(env, "DYAD_PATH");
    const char *flag = wrapper_env_get(env, "DYAD_PATH_RELATIVE");
    bool any = false;

    for (int side = 0; side < 2; side++) {
        const char *path = wrapper_env_get(env, name[side]);
        if (!path || !*path)
            path = both;
        if (!path || !*path)
            continue;
        set_prefix(&prefixes[side][0], &prefixes[side][1], path);
        any = any || prefixes[side][0].len;
    }
    relative_to_managed = flag && (!strcmp(flag, "1") || !strcasecmp(flag, "on") ||
                                   !strcasecmp(flag, "true") || !strcasecmp(flag, "yes"));
    return any;
}
