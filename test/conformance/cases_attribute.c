/* cases_attribute.c - size, mode, owner, times, extended attributes */
#include "conform.h"

#include <sys/time.h>
#include <sys/xattr.h>
#include <utime.h>

static void truncate_state(long size, long state)
{
    const char *path = make_state("f", (enum state)state);

    R(truncate(path, size));
    R(truncate64(path, size));
    look("f");
    show("f");
}

static void ftruncate_size(long size, long flags)
{
    int fd;

    put("f", "old content");
    fd = R(open("f", (int)flags));
    R(ftruncate(fd, size));
    R(ftruncate64(fd, size));
    R(lseek(fd, 0, SEEK_CUR));
    R(write(fd, "new", 3));
    R(close(fd));
    look("f");
    show("f");
}

static void mode_state(long how, long state)
{
    const char *path = make_state("f", (enum state)state);
    int fd;

    switch (how) {
    case 0:
        R(chmod(path, 0751));
        break;
    case 1:
        R(fchmodat(AT_FDCWD, path, 0640, 0));
        break;
    case 2:
        R(fchmodat(AT_FDCWD, path, 0604, AT_SYMLINK_NOFOLLOW));
        break;
    default:
        fd = R(open(path, O_RDONLY | O_NONBLOCK));
        R(fchmod(fd, 0700));
        break;
    }
    look("f");
    look("target");
}

static void owner_state(long how, long state)
{
    const char *path = make_state("f", (enum state)state);
    int fd;

    switch (how) {
    case 0:
        R(chown(path, geteuid(), getegid()));
        break;
    case 1:
        R(lchown(path, (uid_t)-1, getegid()));
        break;
    case 2:
        R(fchownat(AT_FDCWD, path, (uid_t)-1, (gid_t)-1, AT_SYMLINK_NOFOLLOW));
        break;
    default:
        fd = R(open(path, O_RDONLY | O_NONBLOCK));
        R(fchown(fd, geteuid(), (gid_t)-1));
        break;
    }
    look("f");
}

static void times_state(long how, long state)
{
    static const struct timespec spec[2] = {{1000000000, 1}, {1000000001, 123456789}};
    static const struct timeval val[2] = {{1000000002, 0}, {1000000003, 5}};
    const char *path = make_state("f", (enum state)state);
    int fd;

    switch (how) {
    case 0:
        R(utimensat(AT_FDCWD, path, spec, 0));
        break;
    case 1:
        R(utimensat(AT_FDCWD, path, spec, AT_SYMLINK_NOFOLLOW));
        break;
    case 2:
        R(utimes(path, val));
        break;
    case 3:
        R(lutimes(path, val));
        break;
    case 4:
        R(utime(path, &(struct utimbuf){5, 6}));
        break;
    case 5:
        R(futimesat(AT_FDCWD, path, val));
        break;
    case 6:
        fd = R(open(path, O_RDONLY | O_NONBLOCK));
        R(futimens(fd, spec));
        break;
    case 7:
        fd = R(open(path, O_RDONLY | O_NONBLOCK));
        R(futimes(fd, val));
        break;
    default:
        R(utimensat(AT_FDCWD, path, (struct timespec[]){{0, UTIME_OMIT}, {9, 0}}, 0));
        R(utimensat(AT_FDCWD, path, NULL, 0x4000000));
        break;
    }
    look("f");
    look("target");
}

/* After the close: the attribute must reach the others, too (see the two-node run). */
static void after_publish(long which, long unused)
{
    int fd;

    (void)unused;
    put("f", "published");
    switch (which) {
    case 0:
        R(chmod("f", 0600));
        break;
    case 1:
        R(truncate("f", 4));
        break;
    case 2:
        R(utimensat(AT_FDCWD, "f", (struct timespec[]){{7, 0}, {8, 0}}, 0));
        break;
    case 3: /* read only, written again */
        R(chmod("f", 0444));
        R(chmod("f", 0644));
        put("f", "second");
        R(chmod("f", 0444));
        break;
    case 4: /* while it is open for writing */
        fd = R(open("f", O_WRONLY));
        R(fchmod(fd, 0400));
        R(write(fd, "x", 1));
        R(futimens(fd, (struct timespec[]){{7, 0}, {8, 0}}));
        R(close(fd));
        break;
    case 5: /* what cp -p and tar do */
        fd = R(open("g", O_WRONLY | O_CREAT | O_EXCL, 0600));
        R(write(fd, "copy", 4));
        R(fchmod(fd, 0751));
        R(futimens(fd, (struct timespec[]){{7, 0}, {8, 500}}));
        R(close(fd));
        R(utimensat(AT_FDCWD, "g", (struct timespec[]){{9, 0}, {10, 0}}, 0));
        break;
    case 6:
        mkdir("d", 0700);
        R(chmod("d", 0755));
        R(utimensat(AT_FDCWD, "d", (struct timespec[]){{7, 0}, {8, 0}}, 0));
        break;
    case 7:
        R(chmod("f", 07755));
        R(chmod("f", 0));
        R(chmod("f", 0444));
        R(rename("f", "g"));
        put("f", "new under the old name");
        break;
    case 8: /* the directory's mode at its making */
        R(mkdir("d", 0711));
        R(mkdir("e", 01777));
        umask(0);
        R(mkdir("g", 01777));
        break;
    default:
        fd = R(open("f", O_RDONLY));
        R(fchmod(fd, 0640));
        R(close(fd));
        break;
    }
    look("f");
    look("g");
    look("d");
    show("f");
}

static void extended(long unused, long unused2)
{
    char value[32];
    int fd, can;

    (void)unused, (void)unused2;
    put("f", "x");
    /* Whether the file system has them is not ours to say, but the same on both. */
    can = R(setxattr("f", "user.colour", "red", 3, 0));
    if (R(getxattr("f", "user.colour", value, sizeof value)) > 0)
        note_bytes("value", value, 3);
    R(getxattr("f", "user.none", value, sizeof value));
    R(getxattr("none", "user.none", value, sizeof value));
    R(listxattr("none", value, sizeof value));
    fd = R(open("f", O_RDWR));
    R(fgetxattr(fd, "user.colour", value, sizeof value));
    if (can == 0)
        R(removexattr("f", "user.colour"));
    R(lgetxattr("f", "user.colour", value, sizeof value));
}

static void mtime_moves(long unused, long unused2)
{
    struct stat a, b;

    (void)unused, (void)unused2;
    put("f", "x");
    R(utimensat(AT_FDCWD, "f", (struct timespec[]){{7, 0}, {8, 0}}, 0));
    R(stat("f", &a));
    show("f");
    R(close(R(open("f", O_RDWR))));
    R(stat("f", &b));
    R(a.st_mtim.tv_sec == b.st_mtim.tv_sec);
    put("f", "y");
    R(stat("f", &b));
    R(b.st_mtim.tv_sec > 1000000000);
}

void add_attribute_cases(void)
{
    static const long sizes[] = {0, 3, 20, -1};
    static const char *const modes[] = {"chmod", "fchmodat", "fchmodat.nofollow", "fchmod"};
    static const char *const owners[] = {"chown", "lchown", "fchownat", "fchown"};
    static const char *const times[] = {
        "utimensat", "utimensat.nofollow", "utimes",  "lutimes", "utime",
        "futimesat", "futimens",           "futimes", "omit"};

    for (long state = 0; state < STATES; state++) {
        for (size_t i = 0; i < 4; i++)
            conform_add(truncate_state, sizes[i], state, "truncate.%ld.%s", sizes[i],
                        state_names[state]);
        for (long how = 0; how < 4; how++) {
            conform_add(mode_state, how, state, "attribute.%s.%s", modes[how],
                        state_names[state]);
            conform_add(owner_state, how, state, "attribute.%s.%s", owners[how],
                        state_names[state]);
        }
        for (long how = 0; how < 9; how++)
            conform_add(times_state, how, state, "attribute.%s.%s", times[how],
                        state_names[state]);
    }
    for (size_t i = 0; i < 4; i++) {
        conform_add(ftruncate_size, sizes[i], O_RDWR, "truncate.ftruncate.%ld.RDWR",
                    sizes[i]);
        conform_add(ftruncate_size, sizes[i], O_RDONLY, "truncate.ftruncate.%ld.RDONLY",
                    sizes[i]);
        conform_add(ftruncate_size, sizes[i], O_WRONLY | O_APPEND,
                    "truncate.ftruncate.%ld.APPEND", sizes[i]);
    }
    for (long which = 0; which < 10; which++)
        conform_add(after_publish, which, 0, "attribute.after.%ld", which);
    ADD("attribute", extended);
    ADD("attribute", mtime_moves);
}
