/* cases_directory.c - making and reading directories, and the walks of libc */
#include "conform.h"

#include <dirent.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <wordexp.h>

static void fixture(void)
{
    mkdir("d", 0755);
    mkdir("d/sub", 0755);
    mkdir("d/empty", 0700);
    put("d/b", "b");
    put("d/a", "a");
    put("d/.hidden", "h");
    put("d/sub/c", "c");
    symlink("a", "d/link");
    symlink("nowhere", "d/dangling");
    symlink("sub", "d/dirlink");
    mkfifo("d/fifo", 0600);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* The rest of a stream, sorted, with types. */
static void list(DIR *dir)
{
    char names[64][300], all[8192] = "";
    struct dirent *entry;
    size_t count = 0;

    errno = UNTOUCHED;
    while ((entry = readdir(dir)) && count < 64)
        snprintf(names[count++], 300, "%s:%d", entry->d_name, entry->d_type);
    note_int("end of readdir", 0, errno);
    qsort(names, count, 300, by_name);
    for (size_t i = 0; i < count; i++) {
        strcat(all, names[i]);
        strcat(all, " ");
    }
    note_str("entries", all);
}

static void make_state_directory(long how, long state)
{
    const char *path = make_state("f", (enum state)state);

    if (how == 0)
        R(mkdir(path, 0751));
    else if (how == 1)
        R(mkdirat(AT_FDCWD, path, 0700));
    else
        R(mkdir(path, 0));
    look("f");
}

static void open_state(long how, long state)
{
    const char *path = make_state("f", (enum state)state);
    DIR *dir;

    if (how == 0)
        dir = P(opendir(path));
    else
        dir = P(fdopendir(R(open(path, O_RDONLY | O_NONBLOCK))));
    if (dir) {
        list(dir);
        R(closedir(dir));
    }
}

static void read_directory(long which, long unused)
{
    DIR *dir;
    struct dirent *entry, room;
    long at;
    char name[300];
    int fd;

    (void)unused;
    fixture();
    switch (which) {
    case 0:
        dir = P(opendir("d"));
        list(dir);
        rewinddir(dir);
        list(dir);
        R(closedir(dir));
        break;
    case 1: /* back to where it was */
        dir = P(opendir("d/"));
        for (int i = 0; i < 3; i++)
            P(readdir(dir));
        at = telldir(dir);
        strcpy(name, P(readdir(dir))->d_name);
        P(readdir(dir));
        seekdir(dir, at);
        R(strcmp(name, P(readdir(dir))->d_name));
        R(closedir(dir));
        break;
    case 2: /* the descriptor */
        dir = P(opendir("d"));
        fd = R(dirfd(dir));
        R(fcntl(fd, F_GETFD));
        R(faccessat(fd, "a", F_OK, 0));
        show_fd("read", fd);
        R(fchdir(fd));
        show("a");
        R(closedir(dir));
        R(fcntl(fd, F_GETFD));
        break;
    case 3: /* a file that comes while it is read: at the latest after rewinddir */
        dir = P(opendir("d"));
        P(readdir(dir));
        put("d/new", "n");
        unlink("d/b");
        rewinddir(dir);
        list(dir);
        R(closedir(dir));
        break;
    case 4:
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
        dir = P(opendir("d/empty"));
        entry = NULL;
        E(readdir_r(dir, &room, &entry));
        R(entry != NULL);
        E(readdir_r(dir, &room, &entry));
        E(readdir_r(dir, &room, &entry));
        R(entry != NULL);
        R(closedir(dir));
#pragma GCC diagnostic pop
        break;
    case 5: /* two streams */
        dir = P(opendir("d"));
        DIR *other = P(opendir("d/sub"));

        P(readdir(dir));
        list(other);
        R(closedir(other));
        P(readdir64(dir));
        R(closedir(dir));
        break;
    case 6:
        fd = R(open("d/sub", O_RDONLY | O_DIRECTORY));
        dir = P(fdopendir(R(dup(fd))));
        list(dir);
        R(closedir(dir));
        dir = P(fdopendir(R(openat(fd, "..", O_RDONLY))));
        list(dir);
        R(closedir(dir));
        R(unlinkat(fd, "c", 0));
        dir = P(fdopendir(fd));
        list(dir);
        R(closedir(dir));
        break;
    case 7: /* getdents by its libc name */ {
        _Alignas(struct dirent64) char space[4096];

        fd = R(open("d/empty", O_RDONLY));
        R(getdents64(fd, space, sizeof space) > 0);
        R(getdents64(fd, space, sizeof space));
        break;
    }
    case 8: /* emptied while it is read, as rm -r does */
        dir = P(opendir("d"));
        while ((entry = readdir(dir)))
            if (entry->d_name[0] != '.' || entry->d_name[1] == 'h')
                if (unlinkat(dirfd(dir), entry->d_name, 0) != 0) {
                    char sub[400];

                    snprintf(sub, sizeof sub, "d/%s/c", entry->d_name);
                    unlink(sub);
                    unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR);
                }
        R(closedir(dir));
        R(rmdir("d"));
        break;
    case 9: /* in the child of fork */
        dir = P(opendir("d"));
        CHILD(list(dir));
        R(closedir(dir));
        break;
    default: /* many */
        for (int i = 0; i < 300; i++) {
            snprintf(name, sizeof name, "d/sub/n%03d", i);
            fd = open(name, O_WRONLY | O_CREAT, 0644);
            close(fd);
        }
        dir = P(opendir("d/sub"));
        at = 0;
        while (readdir(dir))
            at++;
        R(at);
        R(closedir(dir));
        break;
    }
}

static int no_dot(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static void scan(long which, long unused)
{
    struct dirent **entries = NULL;
    char all[4096] = "";
    int count;

    (void)unused;
    fixture();
    if (which == 0)
        count = R(scandir("d", &entries, NULL, alphasort));
    else if (which == 1)
        count = R(scandir("d", &entries, no_dot, versionsort));
    else if (which == 2)
        count = R(scandirat(R(open("d", O_RDONLY)), "sub", &entries, NULL, alphasort));
    else if (which == 3)
        count = R(scandir("none", &entries, NULL, alphasort));
    else
        count = R(scandir64("d/a", (struct dirent64 ***)&entries, NULL, NULL));
    for (int i = 0; i < count; i++) {
        sprintf(all + strlen(all), "%s:%d ", entries[i]->d_name, entries[i]->d_type);
        free(entries[i]);
    }
    note_str("entries", all);
}

static void globs(long which, long unused)
{
    static const struct {
        const char *pattern;
        int flags;
    } table[] = {{"d/*", 0},
                 {"d/.*", 0},
                 {"*/[ab]", 0},
                 {"d/*", GLOB_MARK},
                 {"none*", 0},
                 {"none*", GLOB_NOCHECK},
                 {"d/sub/../a", 0},
                 {"d/{a,b}", GLOB_BRACE},
                 {"d/dangling", 0},
                 {"*/*/*", 0},
                 {"./d//*", GLOB_ONLYDIR},
                 {"d/dirlink/*", GLOB_PERIOD}};
    glob_t found = {0};
    char all[4096] = "";

    (void)unused;
    fixture();
    R(glob(table[which].pattern, table[which].flags, NULL, &found));
    for (size_t i = 0; i < found.gl_pathc; i++) {
        strcat(all, found.gl_pathv[i]);
        strcat(all, " ");
    }
    note_str("found", all);
    globfree(&found);
}

static char walked[8192];

static int visit(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    char one[600];

    snprintf(one, sizeof one, "%s:%d:%d:%o\n", path, type, ftw->level,
             type == FTW_NS ? 0 : st->st_mode);
    strcat(walked, one);
    return 0;
}

static int visit_plain(const char *path, const struct stat *st, int type)
{
    struct FTW none = {0};

    return visit(path, st, type, &none);
}

static int visit_stop(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)path, (void)st, (void)type, (void)ftw;
    return 42;
}

/* The order of a walk is the disk's: sort the lines. */
static void note_walked(void)
{
    char lines[64][600], *line, *rest = walked;
    size_t count = 0;

    while ((line = strsep(&rest, "\n")) && *line && count < 64)
        snprintf(lines[count++], 600, "%s", line);
    qsort(lines, count, 600, by_name);
    for (size_t i = 0; i < count; i++)
        note_str("visit", lines[i]);
}

static void walk(long which, long unused)
{
    static const int flags[] = {0, FTW_PHYS, FTW_PHYS | FTW_DEPTH, FTW_CHDIR, FTW_MOUNT};

    (void)unused;
    fixture();
    walked[0] = 0;
    if (which < 5)
        R(nftw("d", visit, 5, flags[which]));
    else if (which == 5)
        R(ftw("d", visit_plain, 5));
    else if (which == 6)
        R(nftw("d", visit_stop, 5, 0));
    else if (which == 7)
        R(nftw("none", visit, 5, 0));
    else
        R(nftw64("d/sub",
                 (int (*)(const char *, const struct stat64 *, int, struct FTW *))visit, 1,
                 FTW_PHYS));
    note_walked();
}

static int fts_order(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static void fts_walk(long options, long unused)
{
    char *paths[] = {(char *)"d", (char *)"none", NULL}, one[600];
    FTS *fts;
    FTSENT *entry;

    (void)unused;
    fixture();
    fts = P(fts_open(paths, (int)options, fts_order));
    while (fts && (entry = fts_read(fts))) {
        snprintf(one, sizeof one, "%s info %d level %d errno %d", entry->fts_path,
                 entry->fts_info, entry->fts_level, entry->fts_errno);
        note_str("fts", one);
    }
    if (fts)
        R(fts_close(fts));
}

static void expand(long unused, long unused2)
{
    wordexp_t words = {0};

    (void)unused, (void)unused2;
    fixture();
    R(wordexp("d/* $(cat d/a)", &words, 0));
    for (size_t i = 0; i < words.we_wordc; i++)
        note_str("word", words.we_wordv[i]);
}

static void made_and_removed(long which, long unused)
{
    int fd;

    (void)unused;
    switch (which) {
    case 0: /* many times */
        for (int i = 0; i < 5; i++) {
            R(mkdir("d", 0755));
            put("d/f", "x");
            R(rmdir("d"));
            R(unlink("d/f"));
            R(rmdir("d"));
            R(access("d", F_OK));
            R(open("d/f", O_WRONLY | O_CREAT, 0644));
        }
        break;
    case 1: /* a file where a directory was */
        R(mkdir("d", 0755));
        put("d/f", "x");
        R(unlink("d/f"));
        R(rmdir("d"));
        put("d", "a file now");
        show("d");
        R(mkdir("d", 0755));
        R(unlink("d"));
        R(mkdir("d", 0700));
        put("d/g", "y");
        break;
    case 2:
        R(mkdir("a/b", 0755));
        R(mkdir("a", 0755));
        R(mkdir("a/b", 0755));
        R(mkdir("a/b/", 0755));
        R(mkdir("a/c/", 0755));
        R(mkdir("a//d//", 0755));
        R(mkdir("a/.", 0755));
        R(mkdir("a/..", 0755));
        R(mkdir("", 0755));
        R(mkdir(".", 0755));
        R(mkdir("..", 0755));
        break;
    case 3:
        R(mkdir("a", 0755));
        fd = R(open("a", O_RDONLY));
        R(mkdirat(fd, "b", 0755));
        R(mkdirat(99, "b", 0755));
        R(unlinkat(fd, "b", AT_REMOVEDIR));
        R(write(fd, "x", 1));
        R(open("a", O_RDWR));
        R(open("a", O_WRONLY | O_CREAT, 0644));
        R(ftruncate(fd, 1));
        R(fsync(fd));
        break;
    default:
        mkdir("a", 0755);
        put("a/f", "f");
        symlink("f", "a/s");
        R(rmdir("a"));
        R(unlink("a"));
        R(remove("a"));
        R(unlink("a/f"));
        R(unlink("a/s"));
        R(remove("a"));
        look("a");
        break;
    }
}

/* What stands in the managed directory itself: nothing that the program did not put there.
 */
static void parent_names(long unused, long unused2)
{
    DIR *dir = P(opendir(".."));
    struct dirent *entry;

    (void)unused, (void)unused2;
    while ((entry = readdir(dir)))
        if (entry->d_name[0] == '.')
            note_str("name", entry->d_name[1] == 0 ? "one dot"
                             : entry->d_name[1] == '.' && !entry->d_name[2]
                                 ? "one dot"
                                 : entry->d_name);
    R(closedir(dir));
}

void add_directory_cases(void)
{
    for (long state = 0; state < STATES; state++) {
        conform_add(make_state_directory, 0, state, "directory.mkdir.%s",
                    state_names[state]);
        conform_add(make_state_directory, 1, state, "directory.mkdirat.%s",
                    state_names[state]);
        conform_add(open_state, 0, state, "directory.opendir.%s", state_names[state]);
        conform_add(open_state, 1, state, "directory.fdopendir.%s", state_names[state]);
    }
    conform_add(make_state_directory, 2, MISSING, "directory.mkdir.mode0");
    for (long which = 0; which < 11; which++)
        conform_add(read_directory, which, 0, "directory.read.%ld", which);
    for (long which = 0; which < 5; which++)
        conform_add(scan, which, 0, "directory.scandir.%ld", which);
    for (long which = 0; which < 12; which++)
        conform_add(globs, which, 0, "directory.glob.%ld", which);
    for (long which = 0; which < 9; which++)
        conform_add(walk, which, 0, "directory.nftw.%ld", which);
    conform_add(fts_walk, FTS_PHYSICAL, 0, "directory.fts.physical");
    conform_add(fts_walk, FTS_LOGICAL, 0, "directory.fts.logical");
    conform_add(fts_walk, FTS_PHYSICAL | FTS_NOCHDIR | FTS_SEEDOT, 0,
                "directory.fts.nochdir");
    conform_add(fts_walk, FTS_COMFOLLOW | FTS_PHYSICAL | FTS_NOSTAT, 0,
                "directory.fts.nostat");
    ADD("directory", expand);
    for (long which = 0; which < 5; which++)
        conform_add(made_and_removed, which, 0, "directory.made.%ld", which);
    ADD("directory", parent_names);
}
