/*
 * name.c - rename, unlink, remove, rmdir; chdir, chroot
 *
 * Before a rename, a link or a removal the engine is told what is about to happen, so
 * that it is known if this process is killed between the two. Then comes the real call,
 * and the engine hears what happened. If it cannot tell the others the caller gets its
 * error, as for close: the local part has been done.
 *
 * What a name means that is published and not here stands below.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/crash.h"
#include "util/log.h"
#include "wrapper/core.h"
#include "wrapper/name.h"
#include "wrapper/path_find.h"
#include "wrapper/real.h"
#include "wrapper/resolve.h"

#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE (1 << 1)
#endif
#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE (1 << 0)
#endif
#ifndef RENAME_WHITEOUT
#define RENAME_WHITEOUT (1 << 2)
#endif
#define RENAME_KNOWN ((unsigned)(RENAME_EXCHANGE | RENAME_NOREPLACE | RENAME_WHITEOUT))

/* --- names that are published and not here -------------------------------------------- */

/* - As a source (rename, link) such a name is brought here first.
 * - As something to remove it is withdrawn, if it is of the right kind.
 * - Where it must not exist (mkdir, symlink, link, RENAME_NOREPLACE) it makes the call
 *   fail with EEXIST. Between two nodes that is looking before leaping, not atomic.
 * - As a directory above a new name it is made here, and the call made again.
 * - Below a directory that is to be removed, or to be replaced by another, it makes the
 *   call fail with ENOTEMPTY. */

/* False: the whole call is none of ours. The managed directory itself is not renamed,
 * removed or made by us. */
bool wrapper_name_find(struct wrapper_name *name, int dirfd, const char *path)
{
    name->dirfd = dirfd;
    name->path = path;
    name->managed = wrapper_path_find_as(dirfd, path, WRAPPER_PATH_DIR, &name->where) &&
                    *wrapper_path_upath(&name->where);
    if (name->managed && name->where.moved)
        name->path = name->where.text;
    return name->managed;
}

const struct engine_ops *wrapper_name_engine(void)
{
    return wrapper_mine() ? wrapper_engine() : NULL;
}

static bool is_here(const struct wrapper_name *name, struct stat *st)
{
    int saved = errno;
    bool here = REAL(fstatat)(name->dirfd, name->path, st, AT_SYMLINK_NOFOLLOW) == 0 ||
                errno != ENOENT;

    errno = saved;
    return here;
}

static int look_up(const struct engine_ops *ops, const struct wrapper_name *name,
                   struct stat *st)
{
    return ENGINE_CALL(
        ops->lookup(wrapper_path_role(&name->where), wrapper_path_upath(&name->where), st));
}

/* Published, and not here: what must not exist does. -1 EEXIST, or 0. */
int wrapper_name_check_free(const struct wrapper_name *name)
{
    const struct engine_ops *ops;
    int saved = errno, rc = 0;
    struct stat st;

    if (name->managed && !is_here(name, &st) && (ops = wrapper_name_engine()) &&
        look_up(ops, name, &st) == 0)
        rc = -1;
    errno = rc < 0 ? EEXIST : saved;
    return rc;
}

static int stop_at_first(void *arg, const char *name, unsigned char type)
{
    (void)arg;
    (void)name;
    (void)type;
    return 1;
}

/* 0 if names may be removed from the directory of *name, or that is not here; else -1
 * EACCES. */
static int check_parent(struct wrapper_name *name)
{
    char *text = name->where.text, *slash = strrchr(text, '/');
    int saved = errno;
    bool denied;

    if (!slash || slash == text)
        return 0;
    *slash = '\0';
    denied =
        REAL(faccessat)(AT_FDCWD, text, W_OK | X_OK, AT_EACCESS) < 0 && errno == EACCES;
    *slash = '/';
    errno = denied ? EACCES : saved;
    return denied ? -1 : 0;
}

/* -1 ENOTEMPTY if a name is published below the directory (EACCES: the call would be denied
 * anyway); 0: none is, or that is not known. */
static int check_empty(const struct engine_ops *ops, struct wrapper_name *name)
{
    int saved = errno;
    int rc = ENGINE_CALL(ops->list(wrapper_path_role(&name->where),
                                   wrapper_path_upath(&name->where), stop_at_first, NULL));

    errno = saved;
    if (rc <= 0)
        return 0;
    if (check_parent(name) == 0)
        errno = ENOTEMPTY;
    return -1;
}

static bool is_directory(const struct engine_ops *ops, const struct wrapper_name *name)
{
    struct stat st = {0};
    int saved = errno;
    bool known = name->managed && (is_here(name, &st) || look_up(ops, name, &st) == 0);

    errno = saved;
    return known && S_ISDIR(st.st_mode);
}

/* The last part is "." or "..": the kernel has its own answers. */
static bool ends_in_dots(const char *path)
{
    const char *last = path + strlen(path);

    while (last > path && last[-1] == '/')
        last--;
    if (last == path || last[-1] != '.')
        return false;
    last--;
    if (last > path && last[-1] == '.')
        last--;
    return last == path || last[-1] == '/';
}

/* --- rename --------------------------------------------------------------------------- */

/* One role at a time: with two directories a name may move from one to the other. */
int wrapper_name_tell(const struct engine_ops *ops, const struct wrapper_name *from,
                      const struct wrapper_name *to, struct engine_renaming *renaming)
{
    const char *from_upath =
        from && from->managed ? wrapper_path_upath(&from->where) : NULL;
    const char *to_upath = to->managed ? wrapper_path_upath(&to->where) : NULL;
    enum engine_role from_role =
        from_upath ? wrapper_path_role(&from->where) : ENGINE_PRODUCER;
    enum engine_role to_role = to_upath ? wrapper_path_role(&to->where) : ENGINE_PRODUCER;
    int saved = errno, rc = 0;

    if (from_upath && to_upath && from_role == to_role) {
        rc = ENGINE_CALL(ops->renamed(from_role, from_upath, to_upath, renaming));
    } else {
        if (to_upath)
            rc = ENGINE_CALL(ops->renamed(to_role, NULL, to_upath, renaming));
        if (from_upath &&
            ENGINE_CALL(ops->renamed(from_role, from_upath, NULL, renaming)) < 0)
            rc = -1;
    }
    if (rc == 0)
        errno = saved;
    return rc;
}

/* As wrapper_name_tell(): one role at a time. */
void wrapper_name_intend(struct engine_renaming *renaming, const struct wrapper_name *from,
                         const struct wrapper_name *to, const struct wrapper_name *source,
                         bool follow)
{
    const char *from_upath =
        from && from->managed ? wrapper_path_upath(&from->where) : NULL;
    const char *to_upath = to && to->managed ? wrapper_path_upath(&to->where) : NULL;
    const struct engine_ops *ops;
    struct stat st;
    int saved = errno;

    if (!(ops = wrapper_name_engine()) ||
        REAL(fstatat)(source->dirfd, source->path, &st, follow ? 0 : AT_SYMLINK_NOFOLLOW) <
            0)
        goto out;
    if (from_upath && to_upath &&
        wrapper_path_role(&from->where) == wrapper_path_role(&to->where)) {
        ENGINE_CALL_VOID(ops->renaming(wrapper_path_role(&to->where), from_upath, to_upath,
                                       st.st_ino, renaming));
        goto out;
    }
    if (to_upath)
        ENGINE_CALL_VOID(ops->renaming(wrapper_path_role(&to->where), NULL, to_upath,
                                       st.st_ino, renaming));
    if (from_upath)
        ENGINE_CALL_VOID(ops->renaming(wrapper_path_role(&from->where), from_upath, NULL,
                                       st.st_ino, renaming));
out:
    errno = saved;
}

int wrapper_name_over(struct engine_renaming *renaming, int rc)
{
    const struct engine_ops *ops;
    int saved = errno;

    if ((renaming->place[0] || renaming->place[1] || renaming->connection >= 0) &&
        (ops = wrapper_name_engine()))
        ENGINE_CALL_VOID(ops->renaming_over(renaming));
    errno = saved;
    return rc;
}

/* Two names of one file: rename leaves both. */
static bool both_left(const struct wrapper_name *from, const struct wrapper_name *to)
{
    int saved = errno;
    struct stat a, b;
    bool both = REAL(fstatat)(from->dirfd, from->path, &a, AT_SYMLINK_NOFOLLOW) == 0 &&
                REAL(fstatat)(to->dirfd, to->path, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
                a.st_ino == b.st_ino && a.st_dev == b.st_dev;

    errno = saved;
    return both;
}

/* A directory or a link may stand where another did. */
int wrapper_name_moved(int rc)
{
    if (rc == 0)
        wrapper_path_changed();
    return rc;
}

static int after_rename(int rc, const struct wrapper_name *from,
                        const struct wrapper_name *to, unsigned flags,
                        struct engine_renaming *renaming)
{
    const struct engine_ops *ops;

    wrapper_name_moved(rc);
    if (rc == 0)
        DYAD_CRASH_POINT("rename-moved");
    if (rc < 0 || !(ops = wrapper_name_engine()))
        return rc;
    if (flags & RENAME_EXCHANGE) {
        bool trees = from->managed && to->managed &&
                     (is_directory(ops, from) || is_directory(ops, to));
        /* Of directories the names below that only one of them has are withdrawn where they
         * were. What both have is withdrawn with them, and so published once more. */
        if (trees && (wrapper_name_tell(ops, from, to, renaming) < 0 ||
                      wrapper_name_tell(ops, to, from, renaming) < 0))
            return -1;
        /* Both names are other files than before. */
        if (to->managed)
            rc = wrapper_name_tell(ops, NULL, to, renaming);
        if (!trees && from->managed && wrapper_name_tell(ops, NULL, from, renaming) < 0)
            rc = -1;
        return rc;
    }
    if (both_left(from, to))
        return rc;
    return wrapper_name_tell(ops, from, to, renaming);
}

/* The real call says that something is not there: the source, or a directory above the
 * target. Either may be published: bring it here, without waiting for one that is not.
 * True: the call is worth another try. */
bool wrapper_name_bring(const struct wrapper_name *from, const struct wrapper_name *to,
                        bool follow)
{
    struct wrapper_path where;

    if (from && from->managed && !wrapper_bring(from->dirfd, from->path, follow, &where))
        return false;
    if (to && to->managed && !wrapper_bring_parents(to->dirfd, to->path))
        return false;
    return true;
}

/* Everything that is published below it goes with a directory, or stays behind. -1 with
 * errno: it cannot be brought. */
static int bring_tree(const struct engine_ops *ops, const struct wrapper_name *name)
{
    int saved = errno;

    if (!name->managed || !name->where.upath[ENGINE_CONSUMER])
        return 0;
    if (ENGINE_CALL(ops->bring_tree(ENGINE_CONSUMER, name->where.upath[ENGINE_CONSUMER])) <
            0 &&
        errno != ENOENT && errno != ENOTSUP)
        return -1;
    errno = saved;
    return 0;
}

/* Prepare the real call. -1 with errno: it is not to be made. */
static int before_rename(const struct wrapper_name *from, struct wrapper_name *to,
                         unsigned flags)
{
    const struct engine_ops *ops = wrapper_name_engine();
    struct wrapper_path where;

    /* Calls that the kernel refuses before it looks at the names. */
    if (!ops || (flags & ~RENAME_KNOWN) || ends_in_dots(from->path) ||
        ends_in_dots(to->path) ||
        ((flags & RENAME_EXCHANGE) && (flags & (RENAME_NOREPLACE | RENAME_WHITEOUT))))
        return 0;
    if ((flags & RENAME_NOREPLACE) && wrapper_name_check_free(to) < 0)
        return -1;
    if (flags & RENAME_EXCHANGE) {
        if (is_directory(ops, to) && bring_tree(ops, to) < 0)
            return -1;
        if (to->managed && !wrapper_bring(to->dirfd, to->path, false, &where))
            return -1;
    }
    if (from->managed && wrapper_bring_newest(from->dirfd, from->path, false) < 0)
        return -1;
    if (!is_directory(ops, from))
        return 0;
    if (!(flags & RENAME_EXCHANGE) && to->managed &&
        strcmp(to->where.text, from->where.text) != 0 && check_empty(ops, to) < 0)
        return -1;
    return bring_tree(ops, from);
}

#define RENAME(flags, call)                                                               \
    do {                                                                                  \
        struct engine_renaming renaming = ENGINE_RENAMING_NONE;                           \
        int rc;                                                                           \
        if (before_rename(&from, &to, flags) < 0)                                         \
            return -1;                                                                    \
        rc = WITH_BOTH(&from, &to, false,                                                 \
                       (wrapper_name_intend(&renaming, &from, &to, &from, false), call)); \
        rc = after_rename(rc, &from, &to, flags, &renaming);                              \
        return wrapper_name_over(&renaming, rc);                                          \
    } while (0)

int wrapped_rename(const char *from_path, const char *to_path)
{
    struct wrapper_name from, to;

    if (!CONCERNS(&from, AT_FDCWD, from_path, &to, AT_FDCWD, to_path))
        return wrapper_name_moved(REAL(rename)(from_path, to_path));
    RENAME(0, REAL(rename)(from.path, to.path));
}

int wrapped_renameat(int fromfd, const char *from_path, int tofd, const char *to_path)
{
    struct wrapper_name from, to;

    if (!CONCERNS(&from, fromfd, from_path, &to, tofd, to_path))
        return wrapper_name_moved(REAL(renameat)(fromfd, from_path, tofd, to_path));
    RENAME(0, REAL(renameat)(fromfd, from.path, tofd, to.path));
}

int wrapped_renameat2(int fromfd, const char *from_path, int tofd, const char *to_path,
                      unsigned flags)
{
    struct wrapper_name from, to;

    if (!CONCERNS(&from, fromfd, from_path, &to, tofd, to_path))
        return wrapper_name_moved(REAL(renameat2)(fromfd, from_path, tofd, to_path, flags));
    RENAME(flags, REAL(renameat2)(fromfd, from.path, tofd, to.path, flags));
}

/* --- unlink, rmdir -------------------------------------------------------------------- */

static void intend_removal(struct engine_renaming *renaming,
                           const struct wrapper_name *name)
{
    wrapper_name_intend(renaming, name, NULL, name, false);
}

static int tell_unlinked(const struct engine_ops *ops, const struct wrapper_name *name,
                         int rc, struct engine_renaming *renaming)
{
    int saved = errno, told;

    if (rc == 0)
        DYAD_CRASH_POINT("unlink-done");
    told = ENGINE_CALL(ops->unlinked(wrapper_path_role(&name->where),
                                     wrapper_path_upath(&name->where), rc == 0, renaming));

    if (rc == 0 && told < 0 && errno == ENOENT)
        told = 0; /* it was here only */
    if (told == 0)
        errno = saved;
    return told;
}

/* A file that is only published can be removed too. */
static int after_unlink(int rc, int error, struct wrapper_name *name,
                        struct engine_renaming *renaming)
{
    const struct engine_ops *ops;
    struct stat st;

    if ((rc < 0 && errno != ENOENT) || !(ops = wrapper_name_engine()))
        return rc;
    if (rc < 0) {
        if (look_up(ops, name, &st) < 0)
            return -1;
        if (S_ISDIR(st.st_mode) || wrapper_path_ends_in_directory(name->path)) {
            errno = S_ISDIR(st.st_mode) ? EISDIR : ENOTDIR;
            return -1;
        }
        if (check_parent(name) < 0)
            return -1;
        errno = error;
    }
    return tell_unlinked(ops, name, rc, renaming);
}

typedef int remover(const struct wrapper_name *name);

static int remove_directory(struct wrapper_name *name, remover *real)
{
    const struct engine_ops *ops = wrapper_name_engine();
    struct engine_renaming renaming = ENGINE_RENAMING_NONE;
    int saved = errno, rc;
    struct stat st;

    if (!ops || ends_in_dots(name->path))
        return real(name);
    if (is_here(name, &st)) {
        if (S_ISDIR(st.st_mode) && check_empty(ops, name) < 0)
            return -1;
        intend_removal(&renaming, name);
        rc = real(name);
        return wrapper_name_over(&renaming,
                                 rc < 0 ? rc : tell_unlinked(ops, name, rc, &renaming));
    }
    if (look_up(ops, name, &st) < 0)
        return -1;
    if (!S_ISDIR(st.st_mode)) {
        errno = ENOTDIR;
        return -1;
    }
    if (check_empty(ops, name) < 0 || check_parent(name) < 0)
        return -1;
    errno = saved;
    return tell_unlinked(ops, name, -1, NULL);
}

static int real_rmdir(const struct wrapper_name *name)
{
    return REAL(unlinkat)(name->dirfd, name->path, AT_REMOVEDIR);
}

int wrapped_rmdir(const char *path)
{
    struct wrapper_name name;

    if (!wrapper_active() || !wrapper_name_find(&name, AT_FDCWD, path))
        return REAL(rmdir)(path);
    return remove_directory(&name, real_rmdir);
}

int wrapped_unlink(const char *path)
{
    struct engine_renaming renaming = ENGINE_RENAMING_NONE;
    struct wrapper_name name;
    int saved = errno;

    if (!wrapper_active() || !wrapper_name_find(&name, AT_FDCWD, path))
        return REAL(unlink)(path);
    intend_removal(&renaming, &name);
    return wrapper_name_over(
        &renaming, after_unlink(REAL(unlink)(name.path), saved, &name, &renaming));
}

int wrapped_unlinkat(int dirfd, const char *path, int flags)
{
    struct engine_renaming renaming = ENGINE_RENAMING_NONE;
    struct wrapper_name name;
    int saved = errno;

    if (!wrapper_active() || !wrapper_name_find(&name, dirfd, path))
        return REAL(unlinkat)(dirfd, path, flags);
    if (flags == AT_REMOVEDIR)
        return remove_directory(&name, real_rmdir);
    intend_removal(&renaming, &name);
    return wrapper_name_over(
        &renaming,
        after_unlink(REAL(unlinkat)(dirfd, name.path, flags), saved, &name, &renaming));
}

static int real_remove(const struct wrapper_name *name)
{
    return REAL(remove)(name->path);
}

int wrapped_remove(const char *path)
{
    struct engine_renaming renaming = ENGINE_RENAMING_NONE;
    const struct engine_ops *ops;
    struct wrapper_name name;
    int saved = errno;
    struct stat st;

    if (!wrapper_active() || !wrapper_name_find(&name, AT_FDCWD, path) ||
        !(ops = wrapper_name_engine()))
        return REAL(remove)(path);
    if (is_directory(ops, &name))
        return remove_directory(&name, is_here(&name, &st) ? real_remove : real_rmdir);
    intend_removal(&renaming, &name);
    return wrapper_name_over(
        &renaming, after_unlink(REAL(remove)(name.path), saved, &name, &renaming));
}

/* --- chdir ---------------------------------------------------------------------------- */

int wrapped_chdir(const char *path)
{
    int saved = errno, rc = REAL(chdir)(path);
    struct wrapper_path where;

    if (rc < 0 && errno == ENOENT && wrapper_bring_dir(AT_FDCWD, path, &where)) {
        rc = REAL(chdir)(where.moved ? where.text : path);
        if (rc == 0)
            errno = saved;
    }
    if (rc == 0)
        wrapper_path_cwd_changed();
    return rc;
}

int wrapped_fchdir(int fd)
{
    int rc = REAL(fchdir)(fd);

    if (rc == 0)
        wrapper_path_cwd_changed();
    return rc;
}

/* The managed directory's name means another directory from here on, or none. What is open
 * goes on as what it is. */
int wrapped_chroot(const char *path)
{
    int rc = REAL(chroot)(path), saved = errno;

    if (rc < 0 || !wrapper_active() || !wrapper_mine())
        return rc;
    if (wrapper_path_forget()) {
        wrapper_guard++;
        log_warn(
            "chroot to %s: from here on this process's files are plain local files, "
            "but for those that it has open",
            path);
        wrapper_guard--;
    }
    errno = saved;
    return rc;
}
