/*
 * path_find.c - from a path to a upath
 *
 * path_walk.c does what the kernel does, and the result is compared with the managed
 * directories (path_managed.c). Nearly all paths are elsewhere, and a walk costs half a
 * microsecond a component. So it is remembered of directories, by the hash of their text,
 * that they are elsewhere (path_known.c). A path whose directory is known costs a hash;
 * one whose parent directory is known costs one readlink.
 *
 * What is remembered may be out of date, since another process may put a link in the
 * place of a directory that we know; the section below says for how long.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/path.h"
#include "wrapper/path_impl.h"
#include "wrapper/phase.h"
#include "wrapper/pointer.h"

/* --- directories that are known --- */

/* wrapper_path_places are single words, in which a signal handler may read and write what
 * a thread is about to. Remembered places are void after one to two seconds, or as soon
 * as this process makes a link or renames something.
 *
 * FAR: neither below a managed directory nor above one, so a plain directory in it is FAR
 * too. ABOVE: elsewhere, but a managed directory is somewhere in it. Nothing is
 * remembered of what is below. */

/* The place of directory path[len] (absolute, or relative to the directory that `seed`
 * stands for, whose place is `start`): remembered, or found by one readlink. Uses
 * where->text. */
static enum place place_near(int dirfd, uint64_t seed, enum place start, const char *path,
                             size_t len, struct wrapper_path *where)
{
    size_t known = len;
    enum place place = PLACE_UNKNOWN;
    char target;

    /* Up, to a directory that is known ... */
    for (;;) {
        if (known == 0)
            place = start;
        else
            place = recall(hash(seed, path, known));
        if (place != PLACE_UNKNOWN || known == 0)
            break;
        while (known > 0 && path[known - 1] != '/')
            known--;
        while (known > 0 && path[known - 1] == '/')
            known--;
    }
    if (known == len)
        return place;
    if (place != PLACE_FAR || len >= PATH_MAX)
        return PLACE_UNKNOWN;
    /* ... and down again. */
    memcpy(where->text, path, len);
    while (known < len) {
        size_t from = known + (path[known] == '/');
        while (from < len && path[from] == '/')
            from++;
        for (known = from; known < len && path[known] != '/';)
            known++;
        if (known == from ||
            (path[from] == '.' &&
             (known == from + 1 || (known == from + 2 && path[from + 1] == '.'))))
            return PLACE_UNKNOWN;
        where->text[known] = '\0';
        if (syscall(SYS_readlinkat, dirfd, where->text, &target, 1) >= 0)
            return PLACE_UNKNOWN;
        if (errno != EINVAL)
            return PLACE_FAR; /* absent, and what is not there leads nowhere */
        if (known < len)
            where->text[known] = '/';
        remember(hash(seed, path, known), PLACE_FAR);
    }
    return PLACE_FAR;
}

/* A path's length, and that of its directory: what is before the last slash. In line, as
 * all of the way of paths that are known: after a system call the processor has forgotten
 * where indirect jumps lead, and a call into libc is one, at 10 to 20 ns. */
struct lengths {
    size_t all, dir;
};
static inline struct lengths measure(const char *path)
{
    struct lengths len = {0, 0};

    for (; path[len.all]; len.all++)
        len.dir = path[len.all] == '/' ? len.all : len.dir;
    return len;
}

/* Where the path as a whole leads is asked for, not only its directory. */
static bool is_whole(unsigned how)
{
    return (how & WRAPPER_PATH_FOLLOW_ALL) == WRAPPER_PATH_FOLLOW_ALL;
}

/* The last component is "", "." or "..". */
static bool ends_in_directory(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *last = slash ? slash + 1 : path;

    return last[0] == '\0' || !strcmp(last, ".") || !strcmp(last, "..");
}

/* A name of an open descriptor: where it leads may change at any time. Only calls that
 * follow it have to do with the file. */
static bool is_magic(const char *path)
{
    if ((path[1] != 'p' && path[1] != 'd') || path[0] != '/')
        return false;
    if (strncmp(path, "/proc/", 6) == 0)
        return strstr(path, "/fd/") || strstr(path, "/cwd") || strstr(path, "/root");
    return strncmp(path, "/dev/fd/", 8) == 0 || strncmp(path, "/dev/std", 8) == 0;
}

static bool is_below(const struct wrapper_path *where)
{
    return where->upath[0] || where->upath[1];
}

/* The walk along `path` from where->text[n], and what comes of it. */
static bool find_walking(struct wrapper_path *where, size_t n, const char *path,
                         struct walk *w)
{
    where->upath[0] = where->upath[1] = NULL;
    if (wrapper_path_walk(where, n, path, w) < 0)
        return false;
    if (wrapper_path_match(where) && (!w->dir || (where->how & WRAPPER_PATH_DIR)))
        return true;
    if (w->keep && !w->absent && !is_below(where) && is_whole(where->how) &&
        wrapper_path_place(where->text, strlen(where->text)) != PLACE_BELOW)
        remember(hash(w->seed, path, strlen(path)), PLACE_ABOVE);
    return false;
}

/* `place` is that of the directory of path, or of all of it (is_whole()). */
static inline bool is_place_elsewhere(enum place place, const char *path, unsigned how)
{
    if (place == PLACE_ABOVE) /* the managed directory itself may be meant */
        return is_whole(how) || !(how & WRAPPER_PATH_DIR);
    return place == PLACE_FAR &&
           (is_whole(how) || !(how & WRAPPER_PATH_DIR) || !ends_in_directory(path));
}

/* True if the path, relative to a directory elsewhere whose place is `start`, is known to
 * be elsewhere, too. */
static inline bool is_known(uint64_t seed, enum place start, const char *path,
                            struct lengths lengths, unsigned how)
{
    size_t len = is_whole(how) ? lengths.all : lengths.dir;

    return is_place_elsewhere(len == 0 ? start : recall(hash(seed, path, len)), path, how);
}

/* The same, remembered or found cheaply. */
static bool is_elsewhere(int dirfd, uint64_t seed, enum place start, const char *path,
                         struct wrapper_path *where)
{
    struct lengths lengths = measure(path);
    size_t len = is_whole(where->how) ? lengths.all : lengths.dir;

    return is_place_elsewhere(
        len == 0 ? start : place_near(dirfd, seed, start, path, len, where), path,
        where->how);
}

static bool find_absolute(const char *path, struct wrapper_path *where)
{
    struct walk w = {.keep = true};
    const char *rest;
    int role;

    if (is_magic(path)) {
        w.keep = false;
        w.follow = (where->how & WRAPPER_PATH_FOLLOW) != 0;
    } else if ((rest = below_as_text(path, strlen(path), &role))) {
        /* The prefix need not be walked. */
        w.keep = false;
        memcpy(where->text, wrapper_path_managed[role].text,
               wrapper_path_managed[role].len + 1);
        return find_walking(
            where, wrapper_path_managed[role].len == 1 ? 0 : wrapper_path_managed[role].len,
            rest, &w);
    } else if (is_elsewhere(AT_FDCWD, 0, PLACE_ABOVE, path, where)) {
        return false;
    }
    return find_walking(where, 0, path, &w);
}

/* --- relative paths --- */

static uint64_t cwd_seed(uint64_t word)
{
    return mix(word >> 2, 0x5851f42d4c957f2dull) | 1;
}

static bool find_in_cwd(const char *path, struct wrapper_path *where)
{
    uint64_t word = atomic_load(&wrapper_path_cwd);
    enum place place = (enum place)(word & PLACE_MASK);
    struct walk w = {0};
    long n;

    if ((place == PLACE_FAR || place == PLACE_ABOVE) &&
        is_elsewhere(AT_FDCWD, cwd_seed(word), place, path, where))
        return false;
    n = syscall(SYS_getcwd, where->text, PATH_MAX);
    if (n <= 1 || where->text[0] != '/') /* "(unreachable)..." */
        return false;
    n = n == 2 ? 0 : n - 1; /* the root is "" */
    if (place == PLACE_UNKNOWN && wrapper_owner_is_self()) {
        uint64_t known =
            (word & ~(uint64_t)PLACE_MASK) | wrapper_path_place(where->text, (size_t)n);
        if (atomic_compare_exchange_strong(&wrapper_path_cwd, &word, known))
            word = known;
        place = (enum place)(word & PLACE_MASK);
    }
    w.keep = place == PLACE_FAR || place == PLACE_ABOVE;
    w.seed = cwd_seed(word);
    return find_walking(where, (size_t)n, path, &w);
}

static uint64_t fd_seed(uint64_t word)
{
    return mix(word >> TAG_SHIFT, 0xda942042e4dd58b5ull) & ~1ull;
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

/* One that is not removed. */
static bool is_directory(int fd)
{
    struct stat st;

    /* Not fstat(), which is ours. */
    return syscall(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH) == 0 &&
           S_ISDIR(st.st_mode) && st.st_nlink > 0;
}

static bool find_in_fd(int dirfd, const char *path, struct wrapper_path *where)
{
    uint64_t word = wrapper_path_fd_recall(dirfd), begun;
    struct walk w = {0};
    enum place place;
    long n;

    if (word &&
        is_elsewhere(dirfd, fd_seed(word), (enum place)(word & PLACE_MASK), path, where))
        return false;
    begun = word ? 0 : wrapper_path_fd_learn(dirfd);
    if (!is_directory(dirfd))
        return false;
    n = fd_name(dirfd, where->text);
    if (n <= 0)
        return false;
    n = n == 1 ? 0 : n;
    place = wrapper_path_place(where->text, (size_t)n);
    if (!word)
        word = wrapper_path_fd_learnt(dirfd, begun, place);
    w.keep = word && (place == PLACE_FAR || place == PLACE_ABOVE);
    w.seed = fd_seed(word);
    return find_walking(where, (size_t)n, path, &w);
}

/* DYAD_PATH_RELATIVE, as DYAD has it: a relative path that names nothing in the working
 * directory is one below the managed directory. */
static bool find_managed(const char *path, struct wrapper_path *where)
{
    struct stat st;

    if (syscall(SYS_newfstatat, AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return false;
    for (int role = 0; role < 2; role++) {
        struct walk w = {0};
        if (!wrapper_path_managed[role].len)
            continue;
        memcpy(where->text, wrapper_path_managed[role].text,
               wrapper_path_managed[role].len + 1);
        if (find_walking(
                where,
                wrapper_path_managed[role].len == 1 ? 0 : wrapper_path_managed[role].len,
                path, &w)) {
            where->moved = true;
            return true;
        }
    }
    return false;
}

/* --- what the others call --- */

bool wrapper_path_elsewhere(int dirfd, const char *path, unsigned how)
{
    struct lengths len;
    uint64_t word, seed;
    int role;

    if (wrapper_bad_pointer(path) || !path[0])
        return true;
    len = measure(path);
    if (path[0] == '/')
        return !below_as_text(path, len.all, &role) && !is_magic(path) &&
               is_known(0, PLACE_ABOVE, path, len, how);
    if (dirfd == AT_FDCWD) {
        word = wrapper_path_relative ? 0 : atomic_load(&wrapper_path_cwd);
        seed = cwd_seed(word);
    } else {
        word = wrapper_path_fd_recall(dirfd);
        seed = fd_seed(word);
    }
    /* UNKNOWN and BELOW are no answer. */
    return (word & PLACE_MASK) != PLACE_UNKNOWN &&
           is_known(seed, (enum place)(word & PLACE_MASK), path, len, how);
}

bool wrapper_path_find_as(int dirfd, const char *path, unsigned how,
                          struct wrapper_path *where)
{
    int saved = errno;
    bool found;

    if (wrapper_bad_pointer(path) || !path[0] ||
        atomic_load_explicit(&wrapper_path_forgotten, memory_order_relaxed))
        return false;
    where->moved = false;
    where->how = how;
    if (path[0] == '/') {
        found = find_absolute(path, where);
    } else if (dirfd == AT_FDCWD) {
        found = find_in_cwd(path, where);
        if (!found && wrapper_path_relative)
            found = find_managed(path, where);
    } else {
        found = dirfd >= 0 && find_in_fd(dirfd, path, where);
    }
    errno = saved;
    return found;
}

bool wrapper_path_find_fd_as(int fd, unsigned how, struct wrapper_path *where)
{
    int saved = errno;
    struct stat st;
    long n = fd_name(fd, where->text);
    size_t mark = sizeof(DELETED_MARK) - 1;
    bool found;

    where->moved = false;
    where->how = how;
    found = n > 0 && !atomic_load_explicit(&wrapper_path_forgotten, memory_order_relaxed) &&
            wrapper_path_match(where);
    if (found && (size_t)n > mark && strcmp(where->text + n - mark, DELETED_MARK) == 0)
        found = syscall(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH) == 0 && st.st_nlink > 0;
    errno = saved;
    return found;
}

bool wrapper_path_is_control(const char *name)
{
    return strcmp(name, UTIL_PATH_CONTROL_DIR) == 0;
}

bool wrapper_path_ends_in_directory(const char *path)
{
    return ends_in_directory(path);
}

enum wrapper_path_again wrapper_path_again(struct wrapper_path *where)
{
    enum engine_role role = wrapper_path_role(where);
    size_t len = strlen(where->text);
    uint64_t before = hash(0, where->text, len);
    struct walk w = {0};
    int saved = errno;
    bool found;

    found = find_walking(
        where, wrapper_path_managed[role].len == 1 ? 0 : wrapper_path_managed[role].len,
        where->upath[role], &w);
    errno = saved;
    if (!found)
        return WRAPPER_PATH_GONE;
    return strlen(where->text) == len && hash(0, where->text, len) == before
               ? WRAPPER_PATH_SAME
               : WRAPPER_PATH_OTHER;
}
