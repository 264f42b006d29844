/* cases_path.c - the ways to say one path, and what is done with it */
#include "conform.h"

enum form {
    PLAIN,
    DOT,
    DOUBLE_SLASH,
    DOTDOT,
    INNER_DOT,
    UP_AND_BACK,
    ABSOLUTE,
    ABSOLUTE_SLASHES,
    ABSOLUTE_DOTDOT,
    PROC_CWD,
    PROC_FD,
    DEV_FD,
    BY_SYMLINK,
    SYMLINK_DOTDOT,
    FROM_OUTSIDE,
    CHDIR,
    CHDIR_UP,
    FCHDIR,
    AT_DIRFD,
    AT_DIRFD_DOTDOT,
    AT_PATH_FD,
    AT_BAD_ABSOLUTE,
    AT_BAD,
    AT_FILE,
    AT_DEAD_DIRECTORY,
    EMPTY,
    EMPTY_AT,
    ROOT_DOTDOT,
    FORMS
};

static const char *const form_names[FORMS] = {
    "plain",      "dot",        "double_slash", "dotdot",         "inner_dot",
    "up_back",    "absolute",   "abs_slashes",  "abs_dotdot",     "proc_cwd",
    "proc_fd",    "dev_fd",     "by_symlink",   "symlink_dotdot", "from_outside",
    "chdir",      "chdir_up",   "fchdir",       "at_dirfd",       "at_dirfd_dotdot",
    "at_path_fd", "at_bad_abs", "at_bad",       "at_file",        "at_dead_directory",
    "empty",      "empty_at",   "root_dotdot",
};

static char outside[64];

/* The way to d/f; *dirfd is what a call ...at() gets. */
static const char *say(enum form form, int *dirfd)
{
    static char path[8192];
    char here[4000], *last;

    if (!getcwd(here, sizeof here))
        exit(93);
    last = strrchr(here, '/') + 1;
    *dirfd = AT_FDCWD;
    mkdir("d", 0755);
    mkdir("d/sub", 0755);
    strcpy(path, "f");
    switch (form) {
    case PLAIN:
        strcpy(path, "d/f");
        break;
    case DOT:
        strcpy(path, "./d/./f");
        break;
    case DOUBLE_SLASH:
        strcpy(path, "d//f");
        break;
    case DOTDOT:
        strcpy(path, "d/sub/../f");
        break;
    case INNER_DOT:
        strcpy(path, "././/d/.//f");
        break;
    case UP_AND_BACK:
        snprintf(path, sizeof path, "../%s/d/f", last);
        break;
    case ABSOLUTE:
        snprintf(path, sizeof path, "%s/d/f", here);
        break;
    case ABSOLUTE_SLASHES:
        snprintf(path, sizeof path, "//%s//d///f", here);
        break;
    case ABSOLUTE_DOTDOT:
        snprintf(path, sizeof path, "%s/../%s/d/f", here, last);
        break;
    case PROC_CWD:
        strcpy(path, "/proc/self/cwd/d/f");
        break;
    case PROC_FD:
    case DEV_FD:
        snprintf(path, sizeof path, form == PROC_FD ? "/proc/self/fd/%d/f" : "/dev/fd/%d/f",
                 open("d", O_RDONLY | O_DIRECTORY));
        break;
    case BY_SYMLINK:
        symlink("d", "way");
        strcpy(path, "way/f");
        break;
    case SYMLINK_DOTDOT:
        symlink("d/sub", "way");
        strcpy(path, "way/../f");
        break;
    case FROM_OUTSIDE:
        strcpy(outside, "/tmp/conform.XXXXXX");
        if (!mkdtemp(outside))
            exit(93);
        snprintf(path, sizeof path, "%s/way", outside);
        symlink(here, path);
        strcat(path, "/d/f");
        break;
    case CHDIR:
        R(chdir("d"));
        break;
    case CHDIR_UP:
        R(chdir("d/sub"));
        strcpy(path, "../f");
        break;
    case FCHDIR: {
        int fd = open("d", O_RDONLY);

        R(fchdir(fd));
        close(fd);
        break;
    }
    case AT_DIRFD:
        *dirfd = open("d", O_RDONLY | O_DIRECTORY);
        break;
    case AT_DIRFD_DOTDOT:
        *dirfd = open("d/sub", O_RDONLY | O_DIRECTORY);
        strcpy(path, "../f");
        break;
    case AT_PATH_FD:
        *dirfd = open("d", O_PATH);
        break;
    case AT_BAD_ABSOLUTE:
        *dirfd = 77;
        snprintf(path, sizeof path, "%s/d/f", here);
        break;
    case AT_BAD:
        *dirfd = 77;
        break;
    case AT_FILE:
        put("plain", "plain");
        *dirfd = open("plain", O_RDONLY);
        break;
    case AT_DEAD_DIRECTORY:
        mkdir("dead", 0755);
        *dirfd = open("dead", O_RDONLY | O_DIRECTORY);
        rmdir("dead");
        break;
    case EMPTY:
        strcpy(path, "");
        break;
    case EMPTY_AT:
        *dirfd = open("d", O_RDONLY | O_DIRECTORY);
        strcpy(path, "");
        break;
    case ROOT_DOTDOT:
        snprintf(path, sizeof path, "/../../..%s/d/f", here);
        break;
    case FORMS:
        break;
    }
    return path;
}

static void done(void)
{
    char way[128];

    if (outside[0]) {
        snprintf(way, sizeof way, "%s/way", outside);
        unlink(way);
        rmdir(outside);
    }
}

static void write_read(long form, long unused)
{
    int dirfd, fd;
    const char *path = say((enum form)form, &dirfd);

    (void)unused;
    fd = R(openat(dirfd, path, O_RDWR | O_CREAT | O_EXCL, 0644));
    if (fd >= 0) {
        R(write(fd, "text", 4));
        R(close(fd));
    }
    fd = R(openat(dirfd, path, O_RDONLY));
    if (fd >= 0) {
        show_fd("content", fd);
        R(close(fd));
    }
    done();
}

static void look_at(long form, long unused)
{
    int dirfd;
    const char *path = say((enum form)form, &dirfd);
    struct stat st;
    struct statx stx;

    (void)unused;
    R(fstatat(dirfd, path, &st, 0));
    R(faccessat(dirfd, path, F_OK, 0));
    R(close(R(openat(dirfd, path, O_WRONLY | O_CREAT, 0604))));
    if (R(fstatat(dirfd, path, &st, 0)) == 0)
        note_stat("fstatat", &st);
    R(fstatat(dirfd, path, &st, AT_SYMLINK_NOFOLLOW));
    R(faccessat(dirfd, path, W_OK, 0));
    R(statx(dirfd, path, 0, STATX_BASIC_STATS, &stx));
    if (dirfd == AT_FDCWD) {
        R(stat(path, &st));
        R(lstat(path, &st));
        R(access(path, R_OK));
    }
    done();
}

static void names(long form, long unused)
{
    int dirfd;
    const char *path = say((enum form)form, &dirfd);

    (void)unused;
    R(mkdirat(dirfd, path, 0755));
    R(unlinkat(dirfd, path, AT_REMOVEDIR));
    R(symlinkat("nowhere", dirfd, path));
    R(unlinkat(dirfd, path, 0));
    R(close(R(openat(dirfd, path, O_WRONLY | O_CREAT, 0644))));
    R(fchmodat(dirfd, path, 0600, 0));
    R(utimensat(dirfd, path, (struct timespec[]){{1000, 5}, {1000, 5}}, 0));
    R(renameat(dirfd, path, AT_FDCWD, "moved"));
    R(linkat(AT_FDCWD, "moved", dirfd, path, 0));
    R(unlinkat(dirfd, path, 0));
    R(renameat(AT_FDCWD, "moved", dirfd, path));
    done();
}

static void streams(long form, long unused)
{
    int dirfd;
    const char *path = say((enum form)form, &dirfd);
    FILE *stream;

    (void)unused;
    if (dirfd != AT_FDCWD && form != AT_BAD_ABSOLUTE)
        return;
    stream = P(fopen(path, "w"));
    if (stream) {
        R(fputs("stream", stream) >= 0);
        R(fclose(stream));
    }
    if (*path)
        show(path);
    R(truncate(path, 3));
    if (*path)
        show(path);
    R(unlink(path));
    R(access(path, F_OK));
    done();
}

static void change_directory(long unused, long unused2)
{
    char here[4096];

    (void)unused, (void)unused2;
    mkdir("d", 0755);
    symlink("d", "way");
    R(chdir("way"));
    note_str("cwd", getcwd(here, sizeof here));
    put("f", "in d");
    R(chdir(".."));
    note_str("cwd", getcwd(here, sizeof here));
    show("d/f");
    R(chdir("d/f"));
    R(chdir("none"));
    R(chdir(""));
    int fd = R(open("d", O_PATH));
    R(fchdir(fd));
    note_str("cwd", getcwd(here, sizeof here));
    show("f");
    R(fchdir(88));
    R(chdir("/"));
    put("tmp/../none/f", "x");
    R(fchdir(fd));
    R(rename("../d", "../e"));
    put("g", "in e now");
    note_str("cwd", getcwd(here, sizeof here));
    char *path = P(realpath("../way/../e/g", NULL));
    note_str("realpath", path);
    path = P(realpath("g", NULL));
    note_str("realpath", path);
    path = P(realpath("missing", NULL));
    path = P(canonicalize_file_name("."));
    note_str("canonical", path);
    path = P(get_current_dir_name());
    note_str("get_current_dir_name", path);
}

/* The working directory is gone. */
static void lost_directory(long unused, long unused2)
{
    char here[4096];

    (void)unused, (void)unused2;
    mkdir("d", 0755);
    R(chdir("d"));
    R(rmdir("../d"));
    P(getcwd(here, sizeof here));
    R(open("f", O_WRONLY | O_CREAT, 0644));
    R(open("f", O_RDONLY));
    R(mkdir("x", 0755));
    R(access(".", F_OK));
}

void add_path_cases(void)
{
    for (long form = 0; form < FORMS; form++) {
        conform_add(write_read, form, 0, "path.open.%s", form_names[form]);
        conform_add(look_at, form, 0, "path.look.%s", form_names[form]);
        conform_add(names, form, 0, "path.names.%s", form_names[form]);
        conform_add(streams, form, 0, "path.streams.%s", form_names[form]);
    }
    ADD("path", change_directory);
    ADD("path", lost_directory);
}
