/*
 * actor_dirs.c - a program that lists, walks, makes and changes below the managed directory
 *
 * As actor.c. Published elsewhere, and not here when it starts: r, and the tree
 *   tree/f  tree/sub/deep  tree/link -> sub/deep  tree/dlink -> sub  tree/dangling ->
 * nowhere
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "actor.h"

#define NAMES_MAX 64

struct names {
    char text[NAMES_MAX * 256];
    int count;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* name[count], sorted, as one string. */
static void join(struct names *names, char **name, int count)
{
    char *end = names->text;

    qsort(name, (size_t)count, sizeof(*name), by_name);
    names->text[0] = '\0';
    for (int i = 0; i < count; i++)
        end += sprintf(end, "%s%s", i ? " " : "", name[i]);
    names->count = count;
}

static int is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* What the rest of a stream shows, but "." and "..". */
static const char *rest_of(DIR *dir)
{
    static struct names names;
    char *name[NAMES_MAX];
    struct dirent *entry;
    int n = 0;

    errno = 77;
    while ((entry = readdir(dir))) {
        CHECK(errno == 77 && entry->d_ino != 0);
        if (!is_dots(entry->d_name))
            CHECK((name[n++] = strdup(entry->d_name)));
    }
    CHECK(errno == 77);
    join(&names, name, n);
    while (n > 0)
        free(name[--n]);
    return names.text;
}

static const char *listed(const char *path)
{
    DIR *dir = opendir(path);
    const char *names;

    CHECK(dir);
    names = rest_of(dir);
    CHECK(closedir(dir) == 0);
    return names;
}

/* Without any wrapper. */
static int is_here(const char *path)
{
    struct stat st;

    return syscall(SYS_newfstatat, AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void make(const char *name)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);

    CHECK(fd >= 0 && close(fd) == 0);
}

static int act_listing(void)
{
    struct dirent copy, *entry;
    long at[NAMES_MAX];
    char *name[NAMES_MAX];
    int n = 0;
    DIR *dir;

    CHECK(mkdir(".dyad", 0700) == 0);
    make("here");
    make("r2");
    dir = opendir(".");
    CHECK(dir && strcmp(rest_of(dir), "dirty here r r2 tree") == 0);
    make("later");
    rewinddir(dir);
    CHECK(strcmp(rest_of(dir), "dirty here later r r2 tree") == 0);
    /* Every position, in reverse. */
    rewinddir(dir);
    for (;;) {
        at[n] = telldir(dir);
        if (!(entry = readdir(dir)))
            break;
        CHECK((name[n++] = strdup(entry->d_name)));
    }
    CHECK(n == 8);
    while (n-- > 0) {
        seekdir(dir, at[n]);
        CHECK((entry = readdir(dir)) && strcmp(entry->d_name, name[n]) == 0);
        CHECK(telldir(dir) == at[n + 1] || n + 1 == 8 || telldir(dir) < 0 || at[n + 1] > 0);
    }
    rewinddir(dir);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    for (n = 0; readdir_r(dir, &copy, &entry) == 0 && entry; n++)
        CHECK(entry == &copy && copy.d_name[0]);
#pragma GCC diagnostic pop
    CHECK(n == 8 && closedir(dir) == 0);
    /* A directory that was only published is here since it was listed, its files are not.
     */
    CHECK(is_here("tree") && !is_here("tree/f") && !is_here("r"));
    CHECK(!opendir("none") && errno == ENOENT && !opendir("r") && errno == ENOTDIR);
    CHECK(strcmp(listed(".."), "") != 0);
    return 0;
}

static int act_listing_published(void)
{
    int fd = open("tree", O_RDONLY | O_DIRECTORY), deep;
    struct dirent *entry;
    DIR *dir;

    CHECK(fd >= 0 && (dir = fdopendir(fd)));
    while ((entry = readdir(dir)))
        CHECK(entry->d_type ==
              (strchr("fd", entry->d_name[0]) && !entry->d_name[1] ? DT_REG
               : strstr(entry->d_name, "link") || strcmp(entry->d_name, "dangling") == 0
                   ? DT_LNK
                   : DT_DIR));
    rewinddir(dir);
    CHECK(strcmp(rest_of(dir), "dangling dlink f link sub") == 0);
    CHECK((deep = openat(dirfd(dir), "sub", O_RDONLY | O_DIRECTORY)) >= 0);
    CHECK(closedir(dir) == 0 && (dir = fdopendir(deep)));
    CHECK(strcmp(rest_of(dir), "deep") == 0 && closedir(dir) == 0);
    CHECK(strcmp(listed("tree/dlink/"), "deep") == 0);
    CHECK(chdir("tree/dlink/..") == 0 &&
          strcmp(listed("."), "dangling dlink f link sub") == 0);
    CHECK(!is_here("f") && !is_here("sub/deep"));
    return 0;
}

static int act_listing_off(void)
{
    CHECK(mkdir(".dyad", 0700) == 0);
    make("here");
    CHECK(strcmp(listed("."), "dirty here") == 0 && strcmp(listed("tree"), "") == 0);
    return 0;
}

static int starts_with_d(const struct dirent *entry)
{
    errno = EDOM;
    return entry->d_name[0] == 'd';
}

static int act_scandir(void)
{
    struct dirent **list;
    int dir = open("tree", O_RDONLY | O_DIRECTORY);

    errno = 77;
    CHECK(scandir("tree", &list, starts_with_d, alphasort) == 2 && errno == 77);
    CHECK(strcmp(list[0]->d_name, "dangling") == 0 &&
          strcmp(list[1]->d_name, "dlink") == 0);
    free(list[0]);
    free(list[1]);
    free(list);
    CHECK(scandirat(dir, "sub", (struct dirent ***)&list, NULL, alphasort) == 3);
    CHECK(strcmp(list[2]->d_name, "deep") == 0);
    CHECK(scandir("none", &list, NULL, NULL) == -1 && errno == ENOENT);
    return 0;
}

static int act_glob(void)
{
    glob_t g = {0};

    CHECK(glob("tree/*", 0, NULL, &g) == 0 && g.gl_pathc == 5);
    CHECK(strcmp(g.gl_pathv[0], "tree/dangling") == 0 && !(g.gl_flags & GLOB_ALTDIRFUNC));
    CHECK(glob("tree/*/de?p", GLOB_APPEND, NULL, &g) == 0 && g.gl_pathc == 7);
    CHECK(strcmp(g.gl_pathv[5], "tree/dlink/deep") == 0);
    globfree(&g);
    CHECK(glob("tree/f", 0, NULL, &g) == 0 && g.gl_pathc == 1);
    globfree(&g);
    CHECK(glob("tree/none*", 0, NULL, &g) == GLOB_NOMATCH);
    return 0;
}

static int visited;

static int visit(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    CHECK(!strstr(path, ".dyad"));
    visited++;
    return 0;
}

static int visit_plain(const char *path, const struct stat *st, int type)
{
    return visit(path, st, type, NULL);
}

static int act_walk(void)
{
    char *roots[] = {".", NULL}, cwd[PATH_MAX];
    int n = 0, fd;
    FTSENT *entry;
    FTS *fts;

    CHECK(mkdir(".dyad", 0700) == 0 && getcwd(cwd, sizeof(cwd)));
    make(".dyad/hidden");
    CHECK(nftw("tree", visit, 8, FTW_PHYS) == 0 && visited == 7 &&
          is_here("tree/sub/deep"));
    visited = 0;
    CHECK(ftw(cwd, visit_plain, 8) == 0);
    CHECK(visited == 9); /* a directory is visited once, by whichever of two names */
    visited = 0;
    CHECK(nftw(cwd, visit, 8, FTW_PHYS | FTW_CHDIR) == 0 && visited == 10);
    CHECK((fts = fts_open(roots, FTS_PHYSICAL, NULL)));
    while ((entry = fts_read(fts))) {
        CHECK(strcmp(entry->fts_name, ".dyad") != 0 &&
              strcmp(entry->fts_name, "hidden") != 0);
        n += entry->fts_info != FTS_DP;
        if (strcmp(entry->fts_name, "deep") == 0) /* fts has changed the directory */
            CHECK((fd = open(entry->fts_accpath, O_WRONLY | O_APPEND)) >= 0 &&
                  write(fd, "x", 1) == 1 && close(fd) == 0);
    }
    CHECK(n == 10 && fts_close(fts) == 0);
    return 0;
}

static int act_realpath(void)
{
    char cwd[PATH_MAX - 64], expected[PATH_MAX], buf[PATH_MAX], *real;

    CHECK(getcwd(cwd, sizeof(cwd)));
    snprintf(expected, sizeof(expected), "%s/tree/sub/deep", cwd);
    CHECK((real = realpath("tree/link", NULL)) && strcmp(real, expected) == 0);
    CHECK(realpath("tree/dlink/../link", buf) == buf && strcmp(buf, expected) == 0);
    CHECK((real = canonicalize_file_name("tree/dlink/deep")) &&
          strcmp(real, expected) == 0);
    *strrchr(expected, '/') = '\0';
    CHECK((real = realpath("tree/dlink/", NULL)) && strcmp(real, expected) == 0);
    CHECK(!realpath("tree/dangling", NULL) && errno == ENOENT);
    CHECK(!realpath("tree/f/", NULL) && errno == ENOTDIR);
    CHECK(!realpath("none", NULL) && errno == ENOENT);
    CHECK(!is_here("tree/sub/deep"));
    return 0;
}

static int act_links(void)
{
    char buf[64];
    struct stat st;

    CHECK(lstat("tree/link", &st) == 0 && S_ISLNK(st.st_mode) && !is_here("tree/link"));
    CHECK(readlink("tree/link", buf, sizeof(buf)) == 8 && memcmp(buf, "sub/deep", 8) == 0);
    CHECK(readlink("tree/f", buf, sizeof(buf)) == -1 && errno == EINVAL &&
          !is_here("tree/f"));
    CHECK(readlink("none", buf, sizeof(buf)) == -1 && errno == ENOENT);
    CHECK(stat("tree/link", &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 5);
    CHECK(stat("tree/dlink", &st) == 0 && S_ISDIR(st.st_mode));
    CHECK(stat("tree/dlink/deep", &st) == 0 && access("tree/dlink/deep", R_OK) == 0);
    CHECK(stat("tree/dangling", &st) == -1 && errno == ENOENT);
    CHECK(lstat("tree/dangling", &st) == 0 && access("tree/dangling", F_OK) == -1);
    CHECK(stat("tree/sub/", &st) == 0 && S_ISDIR(st.st_mode) &&
          access("tree/sub", X_OK) == 0);
    CHECK(stat("tree/f/", &st) == -1 && errno == ENOTDIR);
    CHECK(stat("tree/./sub/../f", &st) == 0 && !is_here("tree/sub/deep") &&
          !is_here("tree/f"));
    return 0;
}

static int act_make(void)
{
    struct stat st;

    CHECK(mkdir("tree", 0700) == -1 && errno == EEXIST);
    CHECK(symlink("x", "r") == -1 && errno == EEXIST && mkfifo("r", 0600) == -1);
    make("a");
    CHECK(link("a", "r") == -1 && errno == EEXIST);
    CHECK(renameat2(AT_FDCWD, "a", AT_FDCWD, "r", 1 /* RENAME_NOREPLACE */) == -1 &&
          errno == EEXIST);
    errno = 77;
    CHECK(mkdir("tree/sub/new/", 0700) == 0 && errno == 77);
    CHECK(mkdir("none/new", 0700) == -1 && errno == ENOENT);
    CHECK(symlink("../f", "tree/sub/l") == 0 && mkfifo("tree/sub/fifo", 0600) == 0);
    CHECK(mknod("node", S_IFREG | 0600, 0) == 0 && rename("a", "tree/sub/a") == 0);
    CHECK(stat("tree/sub/l", &st) == 0 && S_ISREG(st.st_mode));
    return 0;
}

static int act_remove(void)
{
    CHECK(rmdir("tree/sub") == -1 && errno == ENOTEMPTY);
    CHECK(mkdir("tree/sub/mine", 0700) == 0 && rmdir("tree/sub/mine") == 0);
    CHECK(rmdir("tree/sub") == -1 && errno == ENOTEMPTY); /* here, and empty here */
    CHECK(unlink("tree/sub") == -1 && errno == EISDIR);
    CHECK(rmdir("r") == -1 && errno == ENOTDIR && rmdir("none") == -1 && errno == ENOENT);
    CHECK(rmdir(".") == -1 && errno == EINVAL);
    errno = 77;
    CHECK(unlink("tree/sub/deep") == 0 && rmdir("tree/sub/") == 0 && errno == 77);
    CHECK(remove("tree/f") == 0 && unlink("tree/link") == 0 && unlink("tree/dlink") == 0);
    CHECK(remove("tree") == -1 && errno == ENOTEMPTY && unlink("tree/dangling") == 0);
    CHECK(remove("tree") == 0 && !is_here("tree") && access("tree", F_OK) == -1);
    return 0;
}

static int act_move(void)
{
    CHECK(rename("tree", "moved") == 0 && is_here("moved/sub/deep"));
    CHECK(mkdir("empty", 0700) == 0);
    CHECK(renameat2(AT_FDCWD, "empty", AT_FDCWD, "moved", 2 /* RENAME_EXCHANGE */) == 0);
    CHECK(is_here("empty/sub/deep"));
    return 0;
}

/* A file gets its name while it is still open for writing. */
static int act_unnamed(void)
{
    char proc[64];
    int fd = open(".", O_TMPFILE | O_RDWR, 0600);

    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR))
        return 0;
    CHECK(fd >= 0 && write(fd, "one", 3) == 3);
    snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
    CHECK(linkat(AT_FDCWD, proc, AT_FDCWD, "named", AT_SYMLINK_FOLLOW) == 0);
    CHECK(write(fd, "two", 3) == 3 && close(fd) == 0);
    return 0;
}

static int act_attributes(void)
{
    struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 2000}};
    struct timeval old[2] = {{.tv_sec = 1000}, {.tv_sec = 3000}};
    char value[16];
    struct stat st;
    int fd;

    CHECK(getxattr("r", "user.x", value, sizeof(value)) == -1 && errno == ENODATA);
    CHECK(lgetxattr("tree/link", "user.x", value, sizeof(value)) == -1 && errno == ENODATA);
    CHECK(listxattr("tree/f", value, sizeof(value)) == 0 && !is_here("tree") &&
          !is_here("r"));
    CHECK(getxattr("none", "user.x", value, sizeof(value)) == -1 && errno == ENOENT);
    errno = 77;
    CHECK(chmod("r", 0444) == 0 && errno == 77 && is_here("r"));
    CHECK(stat("r", &st) == 0 && (st.st_mode & 07777) == 0444);
    CHECK(chmod("none", 0444) == -1 && errno == ENOENT);
    CHECK(utimensat(AT_FDCWD, "tree/link", times, 0) == 0 && is_here("tree/sub/deep"));
    CHECK(stat("tree/sub/deep", &st) == 0 && st.st_mtim.tv_sec == 2000);
    CHECK(utimes("tree/f", old) == 0 && utime("tree/f", NULL) == 0 &&
          lutimes("tree/f", old) == 0);
    CHECK(chown("tree/f", geteuid(), getegid()) == 0);
    CHECK((fd = open("tree/f", O_RDONLY)) >= 0 && fchmod(fd, 0600) == 0 && close(fd) == 0);
    CHECK((fd = open("own", O_WRONLY | O_CREAT, 0600)) >= 0 && fchmod(fd, 0400) == 0 &&
          futimens(fd, times) == 0 && close(fd) == 0);
    return 0;
}

/* Streams of many threads in one table, and one of them elsewhere at each address in turn.
 */
static void *list_often(void *arg)
{
    for (int i = 0; i < 50; i++) {
        struct dirent *entry;
        DIR *elsewhere = opendir("/"), *dir;
        int n = 0;
        CHECK(elsewhere && readdir(elsewhere) && closedir(elsewhere) == 0);
        CHECK((dir = opendir("tree")));
        while ((entry = readdir(dir)))
            n++;
        CHECK(n == 7);
        rewinddir(dir);
        CHECK(readdir(dir) && closedir(dir) == 0);
    }
    return arg;
}

static int act_threads(void)
{
    pthread_t thread[8];

    for (int i = 0; i < 8; i++)
        CHECK(pthread_create(&thread[i], NULL, list_often, NULL) == 0);
    for (int i = 0; i < 8; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    return 0;
}

static const struct act acts[] = {
    ACT(listing), ACT(listing_published), ACT(listing_off), ACT(scandir), ACT(glob),
    ACT(walk),    ACT(realpath),          ACT(links),       ACT(make),    ACT(remove),
    ACT(move),    ACT(unnamed),           ACT(attributes),  ACT(threads),
};

int main(int argc, char **argv)
{
    return act(acts, sizeof(acts) / sizeof(acts[0]), argc, argv);
}
