/*
 * libc_walk.c - libc's own ways through directories: scandir, glob, nftw, fts, realpath
 *
 * Their calls inside of libc pass no wrapper. So below a managed directory
 * - scandir is made of our opendir and readdir;
 * - glob is given ours through GLOB_ALTDIRFUNC, unless the program has brought its own;
 * - what is published below the root of an nftw, ftw or fts is brought here before it
 *   begins, files with their bytes: these walk with descriptors, fchdir and link counts of
 *   their own. Our control directory is left out of what they report;
 * - realpath is asked again when what the path needs has been made here; the last part, if
 *   it is a file, is not fetched.
 * A walk that begins above a managed directory sees local names only.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wrapper/core.h"
#include "wrapper/dirstream.h"
#include "wrapper/path_find.h"
#include "wrapper/real.h"
#include "wrapper/resolve.h"

static bool is_below(int dirfd, const char *path)
{
    struct wrapper_path where;

    return wrapper_active() &&
           wrapper_path_find_as(dirfd, path, WRAPPER_PATH_DIR | WRAPPER_PATH_FOLLOW,
                                &where);
}

/* --- scandir -------------------------------------------------------------------------- */

typedef int chooser(const struct dirent *entry);
typedef int comparer(const struct dirent **a, const struct dirent **b);

struct found {
    struct dirent **entries;
    size_t count, size;
};

static bool keep(struct found *found, const struct dirent *entry)
{
    struct dirent *copy;

    if (found->count == found->size) {
        size_t size = found->size ? 2 * found->size : 16;
        struct dirent **bigger = realloc(found->entries, size * sizeof(*bigger));
        if (!bigger)
            return false;
        found->entries = bigger;
        found->size = size;
    }
    copy = malloc(entry->d_reclen);
    if (!copy)
        return false;
    memcpy(copy, entry, entry->d_reclen);
    found->entries[found->count++] = copy;
    return true;
}

static bool read_all(DIR *dir, struct found *found, chooser *choose)
{
    struct dirent *entry;

    errno = 0;
    while ((entry = wrapper_readdir(dir))) {
        if (choose) {
            int chosen = choose(entry);
            errno = 0; /* what the program's function did to it is no failure */
            if (!chosen)
                continue;
        }
        if (!keep(found, entry))
            return false;
        errno = 0;
    }
    return errno == 0;
}

static int scan(int dirfd, const char *path, struct dirent ***list, chooser *choose,
                comparer *compare)
{
    struct found found = {0};
    int saved = errno, error;
    DIR *dir = wrapper_opendir(dirfd, path);

    if (!dir)
        return -1;
    if (!read_all(dir, &found, choose) || found.count > INT_MAX) {
        error = errno ? errno : EOVERFLOW;
        while (found.count > 0)
            free(found.entries[--found.count]);
        free(found.entries);
        wrapper_closedir(dir);
        errno = error;
        return -1;
    }
    wrapper_closedir(dir);
    if (compare && found.count > 1)
        qsort(found.entries, found.count, sizeof(*found.entries),
              (int (*)(const void *, const void *))compare);
    *list = found.entries;
    errno = saved;
    return (int)found.count;
}

/* struct dirent64 is struct dirent: dirstream.c checks. */
#define AS_DIRENT(list, choose, compare)                                    \
    (struct dirent ***)(void *)(list), (chooser *)(void (*)(void))(choose), \
        (comparer *)(void (*)(void))(compare)

int wrapped_scandir(const char *path, struct dirent ***list,
                    int (*choose)(const struct dirent *),
                    int (*compare)(const struct dirent **, const struct dirent **))
{
    return is_below(AT_FDCWD, path) ? scan(AT_FDCWD, path, list, choose, compare)
                                    : REAL(scandir)(path, list, choose, compare);
}

int wrapped_scandir64(const char *path, struct dirent64 ***list,
                      int (*choose)(const struct dirent64 *),
                      int (*compare)(const struct dirent64 **, const struct dirent64 **))
{
    return is_below(AT_FDCWD, path) ? scan(AT_FDCWD, path, AS_DIRENT(list, choose, compare))
                                    : REAL(scandir64)(path, list, choose, compare);
}

int wrapped_scandirat(int dirfd, const char *path, struct dirent ***list,
                      int (*choose)(const struct dirent *),
                      int (*compare)(const struct dirent **, const struct dirent **))
{
    return is_below(dirfd, path) ? scan(dirfd, path, list, choose, compare)
                                 : REAL(scandirat)(dirfd, path, list, choose, compare);
}

int wrapped_scandirat64(int dirfd, const char *path, struct dirent64 ***list,
                        int (*choose)(const struct dirent64 *),
                        int (*compare)(const struct dirent64 **, const struct dirent64 **))
{
    return is_below(dirfd, path) ? scan(dirfd, path, AS_DIRENT(list, choose, compare))
                                 : REAL(scandirat64)(dirfd, path, list, choose, compare);
}

/* --- glob ----------------------------------------------------------------------------- */

static void *glob_open(const char *path)
{
    return wrapper_opendir(AT_FDCWD, path);
}

static void *glob_read(void *dir)
{
    return wrapper_readdir(dir);
}

static void glob_close(void *dir)
{
    wrapper_closedir(dir);
}

/* The functions are the program's again afterwards, and so are the flags: glob keeps them
 * in the structure. */
#define DEFINE_GLOB(name, type, dirent_type, stat_type, stat_name, lstat_name)  \
    int wrapped_##name(const char *pattern, int flags,                          \
                       int (*failed)(const char *path, int error), type *g)     \
    {                                                                           \
        type kept;                                                              \
        int rc;                                                                 \
        if ((flags & GLOB_ALTDIRFUNC) || !g || !wrapper_active())               \
            return REAL(name)(pattern, flags, failed, g);                       \
        kept = *g;                                                              \
        g->gl_opendir = glob_open;                                              \
        g->gl_readdir = (dirent_type * (*)(void *)) glob_read;                  \
        g->gl_closedir = glob_close;                                            \
        g->gl_stat = (int (*)(const char *, stat_type *))wrapped_##stat_name;   \
        g->gl_lstat = (int (*)(const char *, stat_type *))wrapped_##lstat_name; \
        rc = REAL(name)(pattern, flags | GLOB_ALTDIRFUNC, failed, g);           \
        g->gl_opendir = kept.gl_opendir;                                        \
        g->gl_readdir = kept.gl_readdir;                                        \
        g->gl_closedir = kept.gl_closedir;                                      \
        g->gl_stat = kept.gl_stat;                                              \
        g->gl_lstat = kept.gl_lstat;                                            \
        g->gl_flags &= ~GLOB_ALTDIRFUNC;                                        \
        return rc;                                                              \
    }
DEFINE_GLOB(glob, glob_t, struct dirent, struct stat, stat, lstat)
DEFINE_GLOB(glob64, glob64_t, struct dirent64, struct stat64, stat64, lstat64)

/* --- nftw, ftw ------------------------------------------------------------------------ */

/* Have everything here that is published at or below the path. What cannot be brought is
 * missing from the walk; the engine has said why. */
static void bring_tree(const char *path)
{
    const struct engine_ops *ops;
    struct wrapper_path where;
    int saved = errno;

    if (wrapper_active() &&
        wrapper_path_find_as(AT_FDCWD, path, WRAPPER_PATH_DIR | WRAPPER_PATH_FOLLOW,
                             &where) &&
        wrapper_mine() && (ops = wrapper_engine()) &&
        wrapper_resolve(AT_FDCWD, path, true, &where, NULL) != WRAPPER_NOWHERE &&
        where.upath[ENGINE_CONSUMER])
        (void)ENGINE_CALL(ops->bring_tree(ENGINE_CONSUMER, where.upath[ENGINE_CONSUMER]));
    errno = saved;
}

/* True if path, whose last part begins at `base`, is our control directory. */
static bool is_control(const char *path, size_t base)
{
    struct wrapper_path where;
    char parent[PATH_MAX];

    if (!wrapper_path_is_control(path + base) || base + 2 > sizeof(parent))
        return false;
    memcpy(parent, path, base);
    memcpy(parent + base, ".", 2);
    return wrapper_path_find_as(AT_FDCWD, parent, WRAPPER_PATH_DIR, &where) &&
           !*wrapper_path_upath(&where);
}

/* True if a part of path is our control directory. */
static bool is_in_control(const char *path)
{
    char upto[PATH_MAX];

    for (const char *p = strstr(path, "/.dyad"); p; p = strstr(p + 1, "/.dyad")) {
        size_t base = (size_t)(p - path) + 1, len = base + strcspn(p + 1, "/");
        if (len >= sizeof(upto))
            continue;
        memcpy(upto, path, len);
        upto[len] = '\0';
        if (is_control(upto, base))
            return true;
    }
    return false;
}

/* nftw's and ftw's functions have no argument of the caller's. A walk inside of a walk's
 * function keeps the outer one's in its own frame. */
struct visit {
    __nftw_func_t tree;
    __ftw_func_t plain;
    bool chdir;   /* libc changes the directory, which no wrapper sees */
    bool unnamed; /* the path is relative to another directory than the present one */
};
static __thread struct visit visit __attribute__((tls_model("initial-exec")));

static int visit_tree(const char *path, const struct stat *st, int type, struct FTW *at)
{
    if (visit.chdir)
        wrapper_path_cwd_changed();
    return !visit.unnamed && is_in_control(path) ? 0 : visit.tree(path, st, type, at);
}

static int visit_plain(const char *path, const struct stat *st, int type)
{
    return is_in_control(path) ? 0 : visit.plain(path, st, type);
}

int wrapped_nftw(const char *path, __nftw_func_t fn, int fds, int flags)
{
    struct visit outer = visit;
    int rc;

    if (!path || !wrapper_active() || (!(flags & FTW_CHDIR) && !is_below(AT_FDCWD, path)))
        return REAL(nftw)(path, fn, fds, flags);
    bring_tree(path);
    visit = (struct visit){.tree = fn,
                           .chdir = flags & FTW_CHDIR,
                           .unnamed = (flags & FTW_CHDIR) && path[0] != '/'};
    rc = REAL(nftw)(path, visit_tree, fds, flags);
    visit = outer;
    if (flags & FTW_CHDIR)
        wrapper_path_cwd_changed();
    return rc;
}

int wrapped_nftw64(const char *path, __nftw64_func_t fn, int fds, int flags)
{
    return wrapped_nftw(path, (__nftw_func_t)(void (*)(void))fn, fds, flags);
}

int wrapped_ftw(const char *path, __ftw_func_t fn, int fds)
{
    struct visit outer = visit;
    int rc;

    if (!is_below(AT_FDCWD, path))
        return REAL(ftw)(path, fn, fds);
    bring_tree(path);
    visit = (struct visit){.plain = fn};
    rc = REAL(ftw)(path, visit_plain, fds);
    visit = outer;
    return rc;
}

int wrapped_ftw64(const char *path, __ftw64_func_t fn, int fds)
{
    return wrapped_ftw(path, (__ftw_func_t)(void (*)(void))fn, fds);
}

/* --- fts ------------------------------------------------------------------------------ */

static void bring_trees(char *const *paths)
{
    for (; wrapper_active() && paths && *paths; paths++)
        bring_tree(*paths);
}

/* The control directory's own entry, on the way down. fts_accpath is relative to the
 * directory in which fts then is. */
#define IS_CONTROL(entry)                                               \
    ((entry) && (entry)->fts_info == FTS_D && (entry)->fts_level > 0 && \
     wrapper_path_is_control((entry)->fts_name) &&                      \
     strlen((entry)->fts_accpath) >= (entry)->fts_namelen &&            \
     is_control((entry)->fts_accpath,                                   \
                strlen((entry)->fts_accpath) - (entry)->fts_namelen))

/* fts changes the directory, too. Skipped entries come again on the way up. */
#define DEFINE_FTS(fts_name_, type, entry_type)                   \
    type *wrapped_##fts_name_##_open(                             \
        char *const *paths, int options,                          \
        int (*compare)(const entry_type **, const entry_type **)) \
    {                                                             \
        bring_trees(paths);                                       \
        return REAL(fts_name_##_open)(paths, options, compare);   \
    }                                                             \
    entry_type *wrapped_##fts_name_##_read(type *fts)             \
    {                                                             \
        entry_type *entry = REAL(fts_name_##_read)(fts), *hidden; \
        if (!wrapper_active())                                    \
            return entry;                                         \
        wrapper_path_cwd_changed();                               \
        while (IS_CONTROL(entry)) {                               \
            hidden = entry;                                       \
            fts_name_##_set(fts, entry, FTS_SKIP);                \
            entry = REAL(fts_name_##_read)(fts);                  \
            if (entry == hidden)                                  \
                entry = REAL(fts_name_##_read)(fts);              \
            wrapper_path_cwd_changed();                           \
        }                                                         \
        return entry;                                             \
    }                                                             \
    int wrapped_##fts_name_##_close(type *fts)                    \
    {                                                             \
        int rc = REAL(fts_name_##_close)(fts);                    \
        if (wrapper_active())                                     \
            wrapper_path_cwd_changed();                           \
        return rc;                                                \
    }
DEFINE_FTS(fts, FTS, FTSENT)
DEFINE_FTS(fts64, FTS64, FTSENT64)

/* --- realpath ------------------------------------------------------------------------- */

/* `path` is published and no directory. Its directory's real name, and its own. */
static char *name_in_real_directory(char *path, char *out)
{
    char *slash = strrchr(path, '/'), *real;
    size_t n, len = strlen(slash + 1);

    *slash = '\0';
    real = REAL(realpath)(slash == path ? "/" : path, NULL);
    *slash = '/';
    if (!real)
        return NULL;
    n = strlen(real);
    if (n + 1 + len >= PATH_MAX) {
        free(real);
        errno = ENAMETOOLONG;
        return NULL;
    }
    if (!out) {
        char *bigger = realloc(real, n + len + 2);
        if (!bigger) {
            free(real);
            return NULL;
        }
        real = out = bigger;
    } else {
        memcpy(out, real, n);
        free(real);
    }
    if (n == 1)
        n = 0; /* "/" */
    out[n] = '/';
    memcpy(out + n + 1, slash + 1, len + 1);
    return out;
}

static char *real_path(const char *path, char *out)
{
    int saved = errno;
    char *real = REAL(realpath)(path, out);
    struct wrapper_path where;
    struct stat st;

    if (real || errno != ENOENT)
        return real;
    switch (wrapper_resolve(AT_FDCWD, path, true, &where, &st)) {
    case WRAPPER_HERE:
        real = REAL(realpath)(where.moved ? where.text : path, out);
        break;
    case WRAPPER_ELSEWHERE:
        if (!S_ISDIR(st.st_mode) && wrapper_bring_parents(AT_FDCWD, where.text))
            real = name_in_real_directory(where.text, out);
        else if (S_ISDIR(st.st_mode) && wrapper_bring_dir(AT_FDCWD, where.text, &where))
            real = REAL(realpath)(where.text, out);
        break;
    case WRAPPER_NOWHERE:
        break;
    }
    if (real)
        errno = saved;
    return real;
}

char *wrapped_realpath(const char *path, char *out)
{
    return real_path(path, out);
}

char *wrapped___realpath_chk(const char *path, char *out, size_t size)
{
    return size < PATH_MAX ? REAL(__realpath_chk)(path, out, size) : real_path(path, out);
}

char *wrapped_canonicalize_file_name(const char *path)
{
    return real_path(path, NULL);
}
