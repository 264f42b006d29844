/* cases_link.c - hard links, symbolic links, special files */
#include "conform.h"

#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

static void link_states(long from, long to)
{
    char old[64];
    struct stat a, b;

    strcpy(old, make_state("from", (enum state)from));
    const char *new = make_state("to", (enum state)to);
    R(link(old, new));
    look("from");
    look("to");
    if (lstat("from", &a) == 0 && lstat("to", &b) == 0)
        note_str("same", a.st_ino == b.st_ino ? "yes" : "no");
}

static void hard(long which, long unused)
{
    int fd, dirfd;

    (void)unused;
    put("f", "content");
    symlink("f", "s");
    mkdir("d", 0755);
    switch (which) {
    case 0:
        R(link("f", "g"));
        put("g", "by g");
        show("f");
        look("f");
        R(unlink("f"));
        show("g");
        look("g");
        break;
    case 1:
        R(linkat(AT_FDCWD, "s", AT_FDCWD, "g", 0));
        R(linkat(AT_FDCWD, "s", AT_FDCWD, "h", AT_SYMLINK_FOLLOW));
        R(linkat(AT_FDCWD, "s", AT_FDCWD, "i", 0x80000));
        look("g");
        look("h");
        break;
    case 2:
        dirfd = R(open("d", O_RDONLY));
        R(linkat(AT_FDCWD, "f", dirfd, "g", 0));
        R(linkat(dirfd, "g", AT_FDCWD, "h", 0));
        R(linkat(dirfd, "none", AT_FDCWD, "i", 0));
        R(linkat(88, "g", AT_FDCWD, "i", 0));
        break;
    case 3: /* while it is written */
        fd = R(open("f", O_WRONLY | O_APPEND));
        R(link("f", "g"));
        R(write(fd, "+", 1));
        R(unlink("f"));
        R(close(fd));
        show("g");
        break;
    case 4: /* the lock file of old */
        put("lock.me", "pid");
        R(link("lock.me", "lock"));
        R(link("lock.me", "lock"));
        R(unlink("lock.me"));
        show("lock");
        break;
    default:
        R(link("", "g"));
        R(link("f", ""));
        R(link("d", "e"));
        R(link("f", "d"));
        R(link("f", "d/"));
        break;
    }
}

static void symlink_state(long state, long unused)
{
    char target[64];
    const char *path = make_state("f", (enum state)state);
    ssize_t len;

    (void)unused;
    R(symlink("goal", path));
    len = R(readlink(path, target, sizeof target));
    if (len > 0)
        note_bytes("target", target, (size_t)len);
    look("f");
}

static void soft(long which, long unused)
{
    char target[64], here[4000], deep[4200], text[4500];
    int fd;

    (void)unused;
    switch (which) {
    case 0: /* before its file */
        R(symlink("later", "s"));
        show("s");
        put("later", "now");
        show("s");
        put("s", "through");
        show("later");
        look("s");
        break;
    case 1: /* creates the file it points to */
        R(symlink("new", "s"));
        fd = R(open("s", O_WRONLY | O_CREAT, 0644));
        R(write(fd, "x", 1));
        R(close(fd));
        look("new");
        R(open("s", O_WRONLY | O_CREAT | O_EXCL, 0644));
        break;
    case 2: /* readlink's room */
        R(symlink("0123456789", "s"));
        R(readlink("s", target, 4));
        R(readlink("s", target, 0));
        R(readlinkat(AT_FDCWD, "s", target, sizeof target));
        R(readlinkat(88, "s", target, sizeof target));
        fd = R(open("s", O_PATH | O_NOFOLLOW));
        R(readlinkat(fd, "", target, sizeof target));
        break;
    case 3: /* absolute */
        if (!getcwd(here, sizeof here))
            return;
        put("f", "absolute");
        snprintf(deep, sizeof deep, "%s/f", here);
        R(symlink(deep, "s"));
        show("s");
        break;
    case 4: /* out of the directory */
        R(symlink("/dev/null", "s"));
        fd = R(open("s", O_RDWR));
        R(write(fd, "x", 1));
        R(close(fd));
        R(symlink("/etc/passwd", "p"));
        R(access("p", R_OK));
        R(symlink("../../..", "up"));
        R(access("up", R_OK));
        break;
    case 5: /* a chain */
        put("f", "end");
        R(symlink("f", "a"));
        R(symlink("a", "b"));
        R(symlink("./b", "c"));
        show("c");
        R(unlink("a"));
        show("c");
        R(symlink("loop", "loop"));
        show("loop");
        R(symlink("pong", "ping"));
        R(symlink("ping", "pong"));
        R(open("ping", O_WRONLY | O_CREAT, 0644));
        break;
    case 6: /* directories */
        mkdir("d", 0755);
        R(symlink("d", "s"));
        put("s/f", "inside");
        show("d/f");
        R(mkdir("s/sub", 0755));
        R(symlink("../d/f", "s/up"));
        show("d/up");
        R(rmdir("s"));
        R(unlink("s/"));
        R(unlink("s"));
        break;
    case 7: /* changed over */
        put("one", "1");
        put("two", "2");
        R(symlink("one", "now"));
        show("now");
        R(symlink("two", "now.new"));
        R(rename("now.new", "now"));
        show("now");
        R(symlink("x", "now"));
        break;
    case 8:
        R(symlink("", "s"));
        R(symlink("x", ""));
        R(symlinkat("x", 88, "s"));
        memset(text, 'x', sizeof text);
        text[4096] = 0;
        R(symlink(text, "long") /* too long */);
        text[4095] = 0;
        R(symlink(text, "long") /* just not */);
        R(open("long", O_RDONLY));
        break;
    default: /* attributes follow, or not */
        put("f", "content");
        R(symlink("f", "s"));
        R(chmod("s", 0600));
        look("f");
        R(utimensat(AT_FDCWD, "s", (struct timespec[]){{5, 0}, {6, 0}},
                    AT_SYMLINK_NOFOLLOW));
        look("s");
        R(lchown("s", geteuid(), getegid()));
        R(truncate("s", 2));
        show("f");
        break;
    }
}

static void special(long which, long unused)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "sock"};
    char text[16] = "";
    int fd, other;

    (void)unused;
    switch (which) {
    case 0:
        R(mkfifo("p", 0640));
        look("p");
        R(mkfifo("p", 0640));
        R(open("p", O_WRONLY | O_NONBLOCK));
        fd = R(open("p", O_RDONLY | O_NONBLOCK));
        other = R(open("p", O_WRONLY));
        R(write(other, "pipe", 4));
        R(read(fd, text, sizeof text));
        note_str("read", text);
        R(close(other));
        R(read(fd, text, sizeof text));
        break;
    case 1:
        fd = R(socket(AF_UNIX, SOCK_STREAM, 0));
        R(bind(fd, (struct sockaddr *)&address, sizeof address));
        R(listen(fd, 1));
        look("sock");
        R(open("sock", O_RDWR));
        other = R(socket(AF_UNIX, SOCK_STREAM, 0));
        R(connect(other, (struct sockaddr *)&address, sizeof address));
        R(write(other, "s", 1));
        other = R(accept(fd, NULL, NULL));
        R(read(other, text, sizeof text));
        R(unlink("sock"));
        break;
    case 2:
        R(mkfifoat(AT_FDCWD, "p", 0600));
        R(mknod("n", S_IFREG | 0600, 0));
        look("n");
        R(mknodat(AT_FDCWD, "f", S_IFIFO | 0600, 0));
        look("f");
        R(mknod("null", S_IFCHR | 0666, makedev(1, 3)));
        fd = R(open("null", O_RDWR));
        R(write(fd, "x", 1));
        R(read(fd, text, 1));
        break;
    default: { /* a FIFO between processes, both sides by streams */
        R(mkfifo("p", 0600));
        pid_t pid = spawn();

        if (pid == 0) {
            FILE *out = fopen("p", "w");

            fputs("line\n", out);
            fclose(out);
            _exit(0);
        }
        FILE *in = P(fopen("p", "r"));

        note_str("fgets", fgets(text, sizeof text, in));
        note_str("fgets", fgets(text, sizeof text, in));
        R(fclose(in));
        reap(pid);
        break;
    }
    }
}

/* The writer's end is opened while the reader's waits. */
static void fifo_waits(long unused, long unused2)
{
    (void)unused, (void)unused2;
    R(mkfifo("p", 0600));
    pid_t pid = spawn();

    if (pid == 0) {
        int end = open("p", O_WRONLY);

        _exit(write(end, "y", 1) == 1 ? 0 : 1);
    }
    char c;
    int fd = R(open("p", O_RDONLY));

    R(read(fd, &c, 1));
    R(close(fd));
    reap(pid);
}

void add_link_cases(void)
{
    static const enum state many[] = {MISSING,      A_FILE,        A_DIRECTORY,
                                      LINK_TO_FILE, DANGLING,      NO_PARENT,
                                      FILE_SLASH,   MISSING_SLASH, READ_ONLY};

    for (size_t from = 0; from < 9; from++)
        for (size_t to = 0; to < 9; to++)
            conform_add(link_states, many[from], many[to], "link.%s.%s",
                        state_names[many[from]], state_names[many[to]]);
    for (long which = 0; which < 6; which++)
        conform_add(hard, which, 0, "link.hard.%ld", which);
    for (long state = 0; state < STATES; state++)
        conform_add(symlink_state, state, 0, "symlink.%s", state_names[state]);
    for (long which = 0; which < 10; which++)
        conform_add(soft, which, 0, "symlink.use.%ld", which);
    for (long which = 0; which < 4; which++)
        conform_add(special, which, 0, "special.%ld", which);
    ADD("special", fifo_waits);
}
