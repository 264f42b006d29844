/*
 * superseded.c - a second link that says that a file is out of date
 *
 * The link is made from a descriptor whose inode was checked before: so a process that is
 * killed between two steps has not marked another file that had just got the name.
 */
#include "store/superseded.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "store/beneath.h"
#include "store/control.h"

#define SUBDIR    "old"
#define NAME_SIZE 56

static const struct {
    enum store_old kind;
    const char *suffix;
} kinds[] = {{STORE_OLD_TOLD, ""},
             {STORE_OLD_REFUSED, "r"},
             {STORE_PENDING, "w"},
             {STORE_UNSETTLED, "u"}};

#define NKINDS (sizeof(kinds) / sizeof(kinds[0]))

/* Of the kind that is at this place in the table. */
static void link_name(size_t kind, uint64_t session, const char *upath,
                      char name[NAME_SIZE])
{
    XXH128_hash_t hash = XXH3_128bits(upath, strlen(upath));

    snprintf(name, NAME_SIZE, "%016llx.%016llx%016llx%s", (unsigned long long)session,
             (unsigned long long)hash.high64, (unsigned long long)hash.low64,
             kinds[kind].suffix);
}

unsigned store_superseded_links(const char *dmd, uint64_t session, const char *upath,
                                unsigned of, uint64_t ino)
{
    char name[NAME_SIZE], path[PATH_MAX];
    int saved = errno, n;
    unsigned links = 0;
    struct stat st;

    for (size_t k = 0; k < NKINDS; k++) {
        if (!(kinds[k].kind & of))
            continue;
        link_name(k, session, upath, name);
        n = snprintf(path, sizeof(path), "%s/" STORE_CONTROL_DIR "/" SUBDIR "/%s", dmd,
                     name);
        links += n > 0 && (size_t)n < sizeof(path) &&
                 fstatat(AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ino == ino;
    }
    errno = saved;
    return links;
}

bool store_superseded(const char *dmd, uint64_t session, const char *upath, unsigned of,
                      uint64_t ino)
{
    return store_superseded_links(dmd, session, upath, of, ino) > 0;
}

static int set(int old, const char *name, int file, const struct store_identity *identity)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/thread-self/fd/%d", file);
    for (int tries = 0; tries < 8; tries++) {
        if (linkat(AT_FDCWD, path, old, name, AT_SYMLINK_FOLLOW) == 0)
            return 0;
        if (errno != EEXIST)
            return -1;
        int there = openat(old, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        bool done = there >= 0 && store_identity_is(there, identity);
        if (there >= 0)
            close(there);
        if (done)
            return 0;
        if (unlinkat(old, name, 0) < 0 && errno != ENOENT) /* of an earlier version */
            return -1;
    }
    errno = EBUSY;
    return -1;
}

int store_superseded_set(const struct store_dir *dir, uint64_t session, const char *upath,
                         enum store_old kind, const struct store_identity *identity)
{
    char name[NAME_SIZE];
    int rc = -1, old = -1, saved;
    int file = store_dir_open(dir, upath, O_PATH | O_NOFOLLOW, 0);
    size_t k = 0;

    if (file < 0)
        return -1;
    while (kinds[k].kind != kind)
        k++;
    link_name(k, session, upath, name);
    if (!store_identity_is(file, identity))
        errno = ESTALE;
    else if ((old = store_control_subdir(dir, SUBDIR)) >= 0)
        rc = set(old, name, file, identity);
    saved = errno;
    if (old >= 0)
        close(old);
    close(file);
    errno = saved;
    return rc;
}

/* As it is if nothing was ever marked: no directory is made. */
static int open_existing(const struct store_dir *dir)
{
    return store_beneath_open(store_dir_fd(dir), STORE_CONTROL_DIR "/" SUBDIR,
                              O_RDONLY | O_DIRECTORY, 0);
}

/* `but`: not the links of this inode. */
static void unmark(const struct store_dir *dir, uint64_t session, const char *upath,
                   unsigned of, const struct stat *but)
{
    char name[NAME_SIZE];
    int saved = errno, old = open_existing(dir);
    struct stat st;

    for (size_t k = 0; k < NKINDS && old >= 0; k++) {
        if (!(kinds[k].kind & of))
            continue;
        link_name(k, session, upath, name);
        if (!but ||
            (fstatat(old, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ino != but->st_ino))
            unlinkat(old, name, 0);
    }
    if (old >= 0)
        close(old);
    errno = saved;
}

void store_superseded_clear(const struct store_dir *dir, uint64_t session,
                            const char *upath, unsigned of)
{
    unmark(dir, session, upath, of, NULL);
}

int store_superseded_unsettle(const struct store_dir *dir, uint64_t session,
                              const char *upath, const struct store_identity *identity)
{
    if (store_superseded_set(dir, session, upath, STORE_UNSETTLED, identity) < 0)
        return -1;
    store_superseded_clear(dir, session, upath, STORE_OLD | STORE_PENDING);
    return 0;
}

void store_superseded_forget(const struct store_dir *dir, uint64_t session,
                             const char *upath)
{
    int saved = errno;
    struct stat st;

    if (store_dir_stat(dir, upath, &st) < 0)
        st.st_ino = 0;
    errno = saved;
    unmark(dir, session, upath, STORE_OLD | STORE_PENDING | STORE_UNSETTLED, &st);
}

void store_superseded_clean(const struct store_dir *dir, uint64_t session, bool all)
{
    char prefix[NAME_SIZE];
    int saved = errno, old = open_existing(dir);
    DIR *stream = old >= 0 ? fdopendir(old) : NULL;
    struct dirent *entry;
    struct stat st;

    snprintf(prefix, sizeof(prefix), "%016llx.", (unsigned long long)session);
    if (old >= 0 && !stream)
        close(old);
    while (stream && (entry = readdir(stream))) {
        if (fstatat(old, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(st.st_mode) &&
            (st.st_nlink == 1 ||
             (all && strncmp(entry->d_name, prefix, strlen(prefix)) == 0)))
            unlinkat(old, entry->d_name, 0);
    }
    if (stream)
        closedir(stream);
    errno = saved;
}
