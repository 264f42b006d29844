/* cases_denied.c - what an ordinary user may not do; root may do all of it, and shows the
 * same twice */
#include "conform.h"

#include <dirent.h>

/* A directory with a file and a directory in it, then its mode. */
static void make_closed(mode_t mode)
{
    mkdir("d", 0755);
    put("d/f", "content");
    mkdir("d/sub", 0755);
    put("d/sub/g", "below");
    put("out", "outside");
    R(chmod("d", mode));
}

static void make_names(void)
{
    char file[] = "d/tXXXXXX", directory[] = "d/tXXXXXX";

    R(open("d/new", O_WRONLY | O_CREAT, 0644));
    R(open("d/new2", O_RDONLY | O_CREAT, 0644));
    P(fopen("d/new3", "w"));
    R(mkdir("d/newdir", 0755));
    R(symlink("f", "d/newlink"));
    R(link("out", "d/hard"));
    R(mknod("d/node", S_IFREG | 0644, 0));
    R(mkstemp(file));
    unlink(file);
    P(mkdtemp(directory));
    rmdir(directory);
}

static void change_names(void)
{
    R(rename("out", "d/out"));
    R(rename("d/f", "moved"));
    R(rename("d/f", "d/g"));
    R(rename("d/sub", "subdir"));
    R(unlink("d/f"));
    R(remove("d/f"));
    R(rmdir("d/sub"));
    R(unlink("d/missing"));
    R(rmdir("d/missing"));
}

static void look_below(void)
{
    struct stat st;
    char text[16];
    DIR *dir;

    R(stat("d/f", &st));
    R(lstat("d/missing", &st));
    R(access("d/f", R_OK));
    R(access("d/missing", F_OK));
    R(access("d", W_OK));
    R(readlink("d/f", text, sizeof text));
    R(chdir("d/sub"));
    R(chdir("d"));
    dir = P(opendir("d"));
    if (dir)
        closedir(dir);
}

static void open_below(void)
{
    R(open("d/f", O_RDONLY));
    R(open("d/f", O_WRONLY));
    R(open("d/f", O_WRONLY | O_CREAT | O_TRUNC, 0644));
    R(open("d/missing", O_RDONLY));
    R(open("d/missing", O_RDWR));
    R(truncate("d/f", 3));
    R(chmod("d/f", 0600));
    R(utimensat(AT_FDCWD, "d/f", NULL, 0));
}

static void in_directory(long mode, long which)
{
    static void (*const part[])(void) = {make_names, change_names, look_below, open_below};

    int here = open(".", O_RDONLY | O_DIRECTORY);

    make_closed((mode_t)mode);
    part[which]();
    R(chdir("."));
    fchdir(here);
    chmod("d", 0755);
}

static void file_mode(long mode, long unused)
{
    struct stat st;
    int fd;

    (void)unused;
    put("f", "#!/bin/true\n");
    R(chmod("f", (mode_t)mode));
    R(open("f", O_RDONLY));
    R(open("f", O_WRONLY));
    R(open("f", O_RDWR));
    R(open("f", O_WRONLY | O_APPEND));
    R(open("f", O_RDONLY | O_CREAT, 0644));
    R(open("f", O_WRONLY | O_CREAT | O_EXCL, 0644));
    R(truncate("f", 1));
    P(fopen("f", "r"));
    P(fopen("f", "r+"));
    P(fopen("f", "a"));
    R(access("f", R_OK));
    R(access("f", W_OK));
    R(access("f", X_OK));
    R(stat("f", &st));
    CHILD(R(execl("./f", "f", NULL)));
    /* The name is the directory's, and the mode the owner's. */
    R(rename("f", "g"));
    R(chmod("g", 0644));
    fd = R(open("g", O_WRONLY | O_APPEND));
    R(write(fd, "more", 4));
    R(close(fd));
    show("g");
}

/* Made with a mode that does not let its maker open it again. */
static void made_closed(long mode, long unused)
{
    int fd;

    (void)unused;
    umask(0);
    fd = R(open("f", O_RDWR | O_CREAT | O_EXCL, (mode_t)mode));
    R(write(fd, "written", 7));
    R(close(fd));
    R(open("f", O_RDWR));
    R(open("f", O_RDONLY));
    R(mkdir("d", (mode_t)mode));
    R(open("d/f", O_WRONLY | O_CREAT, 0644));
    R(unlink("f"));
    R(rmdir("d"));
    chmod("d", 0755);
}

static void owners(long unused, long unused2)
{
    (void)unused, (void)unused2;
    put("f", "content");
    R(chown("f", 1, 1));
    R(lchown("f", geteuid(), getegid()));
    R(mknod("device", S_IFCHR | 0600, 0));
    R(chroot("."));
    R(mkdir("/conform-must-not-be", 0755) == 0 && rmdir("/conform-must-not-be") == 0);
    R(open("/etc/shadow", O_RDONLY) >= 0);
}

void add_denied_cases(void)
{
    static const long modes[] = {0555, 0444, 0666, 0111, 0333, 0};
    static const char *const parts[] = {"make", "change", "look", "open"};

    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        for (long which = 0; which < 4; which++)
            conform_add(in_directory, modes[i], which, "denied.directory.%03lo.%s",
                        modes[i], parts[which]);
        conform_add(file_mode, modes[i], 0, "denied.file.%03lo", modes[i]);
        conform_add(made_closed, modes[i], 0, "denied.made.%03lo", modes[i]);
    }
    ADD("denied", owners);
}
