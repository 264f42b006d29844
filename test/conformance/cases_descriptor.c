/* cases_descriptor.c - copies of descriptors: the file is the open description */
#include "conform.h"

#include <sys/socket.h>

int __dup2(int, int);
int __close(int);
int __fcntl(int, int, ...);

static int file(const char *name)
{
    return R(open(name, O_RDWR | O_CREAT, 0644));
}

static void copies(long how, long first)
{
    int fd = file("f"), copy;

    R(write(fd, "one", 3));
    switch (how) {
    case 0:
        copy = R(dup(fd));
        break;
    case 1:
        copy = R(dup2(fd, 20));
        break;
    case 2:
        copy = R(dup3(fd, 21, O_CLOEXEC));
        break;
    case 3:
        copy = R(fcntl(fd, F_DUPFD, 30));
        break;
    case 4:
        copy = R(fcntl64(fd, F_DUPFD_CLOEXEC, 31));
        break;
    default:
        copy = R(__dup2(fd, 500));
        break;
    }
    R(fcntl(copy, F_GETFD));
    R(lseek(copy, 0, SEEK_CUR));
    R(close(first ? fd : copy));
    R(write(first ? copy : fd, "two", 3));
    show("f");
    look("f");
    R(close(first ? copy : fd));
    show("f");
    R(close(fd));
    R(close(copy));
}

static void bad(long how, long unused)
{
    int fd = file("f");

    (void)unused;
    switch (how) {
    case 0:
        R(dup(99));
        break;
    case 1:
        R(dup2(99, fd));
        R(dup2(fd, -1));
        R(dup2(fd, 1 << 30));
        break;
    case 2:
        R(dup3(fd, fd, 0));
        R(dup3(fd, 10, O_APPEND));
        R(dup3(99, 10, 0));
        break;
    case 3:
        R(fcntl(fd, F_DUPFD, -1));
        R(fcntl(fd, F_DUPFD, 1 << 30));
        R(fcntl(99, F_DUPFD, 3));
        break;
    case 4:
        R(close(99));
        R(close(-1));
        R(__close(98));
        break;
    case 5:
        R(fcntl(fd, 12345, 0));
        R(__fcntl(fd, F_GETFD));
        break;
    default:
        R(dup2(fd, fd));
        R(close_range(9, 5, 0));
        R(close_range(5, 9, 64));
        break;
    }
    R(write(fd, "still open", 10));
    R(close(fd));
    show("f");
}

/* dup2 over the only descriptor of a file that was written: its last close. */
static void replace(long how, long unused)
{
    int fd = file("f"), other = file("g"), null = R(open("/dev/null", O_WRONLY));

    (void)unused;
    R(write(fd, "written", 7));
    R(write(other, "other", 5));
    if (how == 0)
        R(dup2(other, fd));
    else if (how == 1)
        R(dup3(null, fd, 0));
    else if (how == 2)
        R(dup2(null, fd));
    else
        R(fcntl(fd, F_SETFD, FD_CLOEXEC));
    show("f");
    R(write(fd, "!", 1));
    R(close(other));
    R(close(fd));
    show("f");
    show("g");
}

/* What a shell does for `command > f`. */
static void redirect(long how, long unused)
{
    int saved, fd;

    (void)unused;
    saved = R(fcntl(1, F_DUPFD_CLOEXEC, 10));
    fd = R(open("f", O_WRONLY | O_CREAT | O_TRUNC, 0666));
    R(dup2(fd, 1));
    R(close(fd));
    if (how == 0)
        R(write(1, "builtin", 7));
    else
        exec_verb("write", "1");
    R(dup2(saved, 1));
    R(close(saved));
    show("f");
}

static void close_many(long how, long unused)
{
    int fd[6];
    char name[8];

    (void)unused;
    for (int i = 0; i < 6; i++) {
        snprintf(name, sizeof name, "f%d", i);
        fd[i] = file(name);
        R(write(fd[i], name, 2));
    }
    if (how == 0) {
        R(close_range((unsigned)fd[1], (unsigned)fd[4], 0));
    } else if (how == 1) {
        closefrom(fd[2]);
    } else if (how == 2) {
        R(close_range(3, ~0U, 0));
    } else if (how == 3) {
        R(close_range((unsigned)fd[0], ~0U, CLOSE_RANGE_CLOEXEC));
        for (int i = 0; i < 6; i++)
            R(fcntl(fd[i], F_GETFD));
    } else if (how == 4) {
        R(close_range((unsigned)fd[1], ~0U, CLOSE_RANGE_UNSHARE));
    } else if (how == 5) {
        closefrom(-1);
    } else {
        for (int i = 3; i < 1024; i++)
            close(i);
    }
    for (int i = 0; i < 6; i++)
        R(write(fd[i], "+", 1));
    /* The lowest number is free for the next. */
    R(open("g", O_WRONLY | O_CREAT, 0644));
    show("f0");
    show("f5");
}

static void numbers(long unused, long unused2)
{
    (void)unused, (void)unused2;
    int a = file("a"), b = file("b"), c = file("c");

    R(close(b));
    R(open("d", O_WRONLY | O_CREAT, 0644));
    R(close(a));
    R(open(".", O_RDONLY));
    R(close(0));
    R(open("zero", O_RDWR | O_CREAT, 0644));
    R(write(0, "on 0", 4));
    R(close(c));
    closefrom(0);
    R(open("first", O_WRONLY | O_CREAT, 0644));
    R(open("second", O_WRONLY | O_CREAT, 0644));
    R(open("third", O_WRONLY | O_CREAT, 0644));
    R(write(2, "on 2", 4));
    fclose(P(fopen("stream", "w")));
}

static void shared_offset(long unused, long unused2)
{
    int fd = file("f"), copy = R(dup(fd)), other = file("f");

    (void)unused, (void)unused2;
    R(write(fd, "abcdef", 6));
    R(lseek(copy, 2, SEEK_SET));
    R(write(fd, "X", 1));
    R(lseek(copy, 0, SEEK_CUR));
    R(lseek(other, 0, SEEK_CUR));
    R(fcntl(copy, F_SETFL, O_APPEND));
    R(fcntl(fd, F_GETFL) & O_APPEND);
    R(write(fd, "Y", 1));
    R(close(fd));
    R(close(copy));
    show_fd("other", other);
    R(close(other));
}

/* Over a socket: at the end there is a file, whoever closed it. */
static void passed(long closed_first, long unused)
{
    int pair[2], fd, got = -1;
    char room[CMSG_SPACE(sizeof(int))] = {0}, byte = 'x';
    struct iovec iov = {&byte, 1};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = room,
                         .msg_controllen = sizeof room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&msg);

    (void)unused;
    R(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    pid_t pid = spawn();
    if (pid == 0) {
        fd = file("f");
        R(write(fd, "sender", 6));
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(head), &fd, sizeof fd);
        R(sendmsg(pair[0], &msg, 0));
        if (closed_first)
            R(close(fd));
        _exit(0);
    }
    if (closed_first)
        reap(pid);
    R(recvmsg(pair[1], &msg, 0));
    memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof got);
    R(got >= 0);
    if (!closed_first)
        reap(pid);
    R(write(got, "+receiver", 9));
    show_fd("content", got);
    R(close(got));
}

static void opened_again(long how, long unused)
{
    char path[64];
    int fd = file("f"), again;

    (void)unused;
    R(write(fd, "text", 4));
    snprintf(path, sizeof path, how < 2 ? "/proc/self/fd/%d" : "/dev/fd/%d", fd);
    if (how % 2)
        R(close(R(open("f", O_RDONLY))));
    again = R(open(path, how == 1 ? O_RDWR | O_TRUNC : O_RDWR));
    R(lseek(again, 0, SEEK_CUR));
    R(write(again, "ab", 2));
    R(close(fd));
    show_fd("again", again);
    R(close(again));
    show("f");
}

void add_descriptor_cases(void)
{
    static const char *const ways[] = {
        "dup", "dup2", "dup3", "F_DUPFD", "F_DUPFD_CLOEXEC", "__dup2"};

    for (long how = 0; how < 6; how++) {
        conform_add(copies, how, 0, "descriptor.%s.copy_first", ways[how]);
        conform_add(copies, how, 1, "descriptor.%s.original_first", ways[how]);
    }
    for (long how = 0; how < 7; how++)
        conform_add(bad, how, 0, "descriptor.bad.%ld", how);
    for (long how = 0; how < 4; how++)
        conform_add(replace, how, 0, "descriptor.replace.%ld", how);
    conform_add(redirect, 0, 0, "descriptor.redirect.builtin");
    conform_add(redirect, 1, 0, "descriptor.redirect.program");
    for (long how = 0; how < 7; how++)
        conform_add(close_many, how, 0, "descriptor.close_many.%ld", how);
    ADD("descriptor", numbers);
    ADD("descriptor", shared_offset);
    conform_add(passed, 0, 0, "descriptor.scm_rights.open");
    conform_add(passed, 1, 0, "descriptor.scm_rights.closed");
    for (long how = 0; how < 4; how++)
        conform_add(opened_again, how, 0, "descriptor.proc_fd.%ld", how);
}
