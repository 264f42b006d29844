/* cases_open.c - every kind of open over every state of the name */
#include "conform.h"

#include <sys/mman.h>

static const struct {
    int flags;
    const char *name;
} opens[] = {
#define O(flags)      \
    {                 \
        flags, #flags \
    }
    O(O_RDONLY),
    O(O_WRONLY),
    O(O_RDWR),
    O(O_WRONLY | O_CREAT),
    O(O_WRONLY | O_CREAT | O_TRUNC),
    O(O_WRONLY | O_CREAT | O_EXCL),
    O(O_RDWR | O_CREAT),
    O(O_RDWR | O_TRUNC),
    O(O_WRONLY | O_CREAT | O_APPEND),
    O(O_RDONLY | O_CREAT),
    O(O_RDONLY | O_TRUNC),
    O(O_RDONLY | O_CREAT | O_EXCL),
    O(O_PATH),
    O(O_PATH | O_NOFOLLOW),
    O(O_RDONLY | O_DIRECTORY),
    O(O_RDONLY | O_NOFOLLOW),
    O(O_WRONLY | O_CREAT | O_NOFOLLOW),
    O(O_RDONLY | O_CLOEXEC),
    O(O_WRONLY | O_SYNC | O_TRUNC),
    O(O_RDWR | O_NOATIME),
    O(O_RDWR | O_CREAT | O_DIRECTORY),
    O(O_ACCMODE),
#undef O
};

static void use(int fd)
{
    struct stat st;
    char text[64];
    ssize_t got;

    R(fcntl(fd, F_GETFD));
    R(fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK | O_DIRECTORY | O_PATH));
    if (R(fstat(fd, &st)) == 0)
        note_stat("fstat", &st);
    R(write(fd, "new", 3));
    R(lseek(fd, 0, SEEK_CUR));
    got = R(read(fd, text, sizeof text));
    if (got > 0)
        note_bytes("read", text, (size_t)got);
    R(close(fd));
}

static void open_state(long flags, long state)
{
    const char *path = make_state("f", (enum state)state);
    int fd;

    /* Nobody is at the other end. */
    if (state == A_FIFO)
        flags |= O_NONBLOCK;
    fd = R(open(path, (int)flags, 0640));
    if (fd >= 0)
        use(fd);
}

static void creat_state(long how, long state)
{
    const char *path = make_state("f", (enum state)state);
    int fd;

    if (how == 0)
        fd = R(creat(path, 0600));
    else if (how == 1)
        fd = R(creat64(path, 0606));
    else
        fd = R(open64(path, O_RDWR | O_CREAT | O_APPEND, 0444));
    if (fd >= 0)
        use(fd);
}

/* The symbols that fortified programs import. */
int __open_2(const char *, int);
int __open64_2(const char *, int);
int __openat_2(int, const char *, int);
int __openat64_2(int, const char *, int);
int __open(const char *, int, ...);
int __open64(const char *, int, ...);

static void fortified(long unused, long state)
{
    const char *path = make_state("f", (enum state)state);

    (void)unused;
    R(close(R(__open_2(path, O_RDONLY))));
    R(close(R(__open64_2(path, O_WRONLY))));
    R(close(R(__openat_2(AT_FDCWD, path, O_RDONLY))));
    R(close(R(__openat64_2(AT_FDCWD, path, O_RDWR))));
    R(close(R(__open(path, O_RDWR | O_CREAT, 0600))));
    R(close(R(__open64(path, O_RDONLY | O_CREAT, 0600))));
    R(close(R(openat64(AT_FDCWD, path, O_RDWR | O_APPEND))));
}

static void unnamed(long exclusive, long linked)
{
    int fd = R(open(".", O_TMPFILE | O_RDWR | (exclusive ? O_EXCL : 0), 0640));
    char path[64];

    R(write(fd, "no name", 7));
    show_fd("content", fd);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (linked == 1)
        R(linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW));
    else if (linked == 2)
        R(linkat(fd, "", AT_FDCWD, "named", AT_EMPTY_PATH));
    R(write(fd, " more", 5));
    R(close(fd));
    show("named");
    look("named");
}

static void umask_applies(long unused, long mask)
{
    (void)unused;
    R(umask((mode_t)mask));
    R(close(R(open("f", O_WRONLY | O_CREAT, 0777))));
    R(close(R(creat("g", 0666))));
    fclose(P(fopen("h", "w")));
    R(umask(0));
    look("f");
    look("g");
    look("h");
}

/* A second open of a file that this process writes is never made to wait. */
static void while_writing(long how, long unused)
{
    int fd = R(open("f", O_RDWR | O_CREAT, 0644)), other;

    (void)unused;
    R(write(fd, "half", 4));
    if (how == 0) {
        show("f");
        look("f");
    } else if (how == 1) {
        CHILD(show("f"); look("f"));
    } else if (how == 2) {
        other = R(open("f", O_WRONLY | O_APPEND));
        R(write(other, "+", 1));
        R(close(other));
        show("f");
    } else {
        other = R(open("f", O_WRONLY | O_TRUNC));
        R(write(other, "x", 1));
        R(write(fd, "rest", 4));
        R(close(fd));
        show("f");
        R(close(other));
    }
    R(write(fd, "end", 3));
    R(close(fd));
    show("f");
}

static void rewrite(long times, long unused)
{
    char text[32];

    (void)unused;
    for (long i = 0; i < times; i++) {
        snprintf(text, sizeof text, "%ld", i);
        put("f", text);
        show("f");
    }
    CHILD(put("f", "by the child"));
    show("f");
}

static void device(long unused, long which)
{
    static const char *const paths[] = {"/dev/null",  "/dev/zero",       "/dev/full",
                                        "/dev/stdin", "/proc/self/stat", "/no/such"};
    int fd = R(open(paths[which], O_RDWR));
    char c;

    (void)unused;
    if (fd >= 0) {
        R(write(fd, "x", 1));
        R(read(fd, &c, 1));
        R(close(fd));
    }
}

void add_open_cases(void)
{
    char name[64], *to;

    for (size_t i = 0; i < sizeof opens / sizeof *opens; i++) {
        to = name;
        for (const char *from = opens[i].name; *from; from++)
            if (*from == '|')
                *to++ = '+';
            else if (*from != ' ')
                *to++ = *from;
        *to = 0;
        for (long state = 0; state < STATES; state++)
            conform_add(open_state, opens[i].flags, state, "open.%s.%s", name,
                        state_names[state]);
    }
    for (long state = 0; state < A_FIFO; state++) {
        conform_add(creat_state, 0, state, "open.creat.%s", state_names[state]);
        conform_add(creat_state, 1, state, "open.creat64.%s", state_names[state]);
        conform_add(creat_state, 2, state, "open.open64.%s", state_names[state]);
        conform_add(fortified, 0, state, "open.fortified.%s", state_names[state]);
    }
    for (long linked = 0; linked < 3; linked++) {
        conform_add(unnamed, 0, linked, "open.tmpfile.%ld", linked);
        conform_add(unnamed, 1, linked, "open.tmpfile.exclusive.%ld", linked);
    }
    conform_add(umask_applies, 0, 0, "open.umask.000");
    conform_add(umask_applies, 0, 077, "open.umask.077");
    conform_add(umask_applies, 0, 0777, "open.umask.777");
    conform_add(while_writing, 0, 0, "open.while_writing.self");
    conform_add(while_writing, 1, 0, "open.while_writing.child");
    conform_add(while_writing, 2, 0, "open.while_writing.append");
    conform_add(while_writing, 3, 0, "open.while_writing.truncate");
    conform_add(rewrite, 5, 0, "open.rewrite");
    for (long which = 0; which < 6; which++)
        conform_add(device, 0, which, "open.device.%ld", which);
}
