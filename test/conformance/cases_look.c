/* cases_look.c - the stat family, access, what is told of a file */
#include "conform.h"

#include <sys/statfs.h>
#include <sys/statvfs.h>

/* Symbols of programs that were linked before glibc 2.33. */
int __xstat(int, const char *, struct stat *);
int __xstat64(int, const char *, struct stat64 *);
int __lxstat(int, const char *, struct stat *);
int __lxstat64(int, const char *, struct stat64 *);
int __fxstatat(int, int, const char *, struct stat *, int);
int __fxstatat64(int, int, const char *, struct stat64 *, int);
int __fxstat(int, int, struct stat *);

#ifdef __x86_64__
#define STAT_VER 1
#else
#define STAT_VER 0
#endif

static void stat_state(long how, long state)
{
    const char *path = make_state("f", (enum state)state);
    struct stat st;
    int r;

    switch (how) {
    case 0:
        r = R(stat(path, &st));
        break;
    case 1:
        r = R(lstat(path, &st));
        break;
    case 2:
        r = R(stat64(path, (struct stat64 *)&st));
        break;
    case 3:
        r = R(lstat64(path, (struct stat64 *)&st));
        break;
    case 4:
        r = R(fstatat(AT_FDCWD, path, &st, 0));
        break;
    case 5:
        r = R(fstatat64(AT_FDCWD, path, (struct stat64 *)&st, AT_SYMLINK_NOFOLLOW));
        break;
    case 6:
        r = R(__xstat(STAT_VER, path, &st));
        break;
    case 7:
        r = R(__xstat64(STAT_VER, path, (struct stat64 *)&st));
        break;
    case 8:
        r = R(__lxstat(STAT_VER, path, &st));
        break;
    case 9:
        r = R(__lxstat64(STAT_VER, path, (struct stat64 *)&st));
        break;
    case 10:
        r = R(__fxstatat(STAT_VER, AT_FDCWD, path, &st, 0));
        break;
    case 11:
        r = R(__fxstatat64(STAT_VER, AT_FDCWD, path, (struct stat64 *)&st,
                           AT_SYMLINK_NOFOLLOW));
        break;
    default:
        r = R(fstatat(AT_FDCWD, path, &st, AT_NO_AUTOMOUNT));
        break;
    }
    if (r == 0)
        note_stat("stat", &st);
}

static void statx_state(long flags, long state)
{
    static const unsigned masks[] = {0, STATX_TYPE, STATX_MODE | STATX_SIZE,
                                     STATX_BASIC_STATS, STATX_ALL};
    const char *path = make_state("f", (enum state)state);
    struct statx stx;
    char text[200];

    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        memset(&stx, 0, sizeof stx);
        if (R(statx(AT_FDCWD, path, (int)flags, masks[i], &stx)) != 0)
            continue;
        if (S_ISDIR(stx.stx_mode))
            stx.stx_size = stx.stx_nlink = 0;
        snprintf(text, sizeof text, "mode %o size %llu nlink %u mask %x", stx.stx_mode,
                 (unsigned long long)stx.stx_size, stx.stx_nlink,
                 stx.stx_mask & STATX_BASIC_STATS);
        note_str("statx", text);
    }
}

static void access_state(long how, long state)
{
    static const int wanted[] = {F_OK, R_OK, W_OK, X_OK, R_OK | W_OK, 8};
    const char *path = make_state("f", (enum state)state);

    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        switch (how) {
        case 0:
            R(access(path, wanted[i]));
            break;
        case 1:
            R(faccessat(AT_FDCWD, path, wanted[i], 0));
            break;
        case 2:
            R(faccessat(AT_FDCWD, path, wanted[i], AT_EACCESS));
            break;
        case 3:
            R(faccessat(AT_FDCWD, path, wanted[i], AT_SYMLINK_NOFOLLOW));
            break;
        case 4:
            R(euidaccess(path, wanted[i]));
            break;
        default:
            R(eaccess(path, wanted[i]));
            break;
        }
}

static void by_descriptor(long unused, long unused2)
{
    struct stat st, named;
    struct statx stx;
    int fd = R(open("f", O_RDWR | O_CREAT, 0640)), dirfd = R(open(".", O_PATH));

    (void)unused, (void)unused2;
    R(write(fd, "12345", 5));
    R(fstat(fd, &st));
    note_stat("fstat", &st);
    R(stat("f", &named));
    R(st.st_ino == named.st_ino && st.st_dev == named.st_dev);
    R(__fxstat(STAT_VER, fd, &st));
    R(fstatat(fd, "", &st, AT_EMPTY_PATH));
    note_stat("fstatat", &st);
    R(fstatat(fd, "", &st, 0));
    R(fstatat(fd, "f", &st, 0));
    R(fstatat(dirfd, "f", &st, 0));
    R(fstatat(dirfd, "", &st, AT_EMPTY_PATH));
    note_stat("fstatat", &st);
    R(statx(fd, "", AT_EMPTY_PATH, STATX_SIZE, &stx));
    R((long)stx.stx_size);
    R(statx(dirfd, "f", AT_STATX_FORCE_SYNC, STATX_SIZE, &stx));
    R(statx(dirfd, "f", AT_STATX_DONT_SYNC, STATX_SIZE, &stx));
    R(statx(dirfd, "f", 0x40000000, STATX_SIZE, &stx));
    R(fstatat(dirfd, "f", &st, 0x40000000));
    R(faccessat(dirfd, "f", R_OK, 0));
    R(faccessat(88, "f", R_OK, 0));
    R(fstat(88, &st));
    R(close(fd));
}

static void versions(long unused, long unused2)
{
    struct stat st;

    (void)unused, (void)unused2;
    put("f", "x");
    R(__xstat(77, "f", &st));
    R(__lxstat(77, "f", &st));
    R(__fxstatat(77, AT_FDCWD, "f", &st, 0));
}

/* Where the same file is told twice, it is one file. */
static void same_inode(long unused, long unused2)
{
    struct stat before, during, after;
    int fd;

    (void)unused, (void)unused2;
    put("f", "x");
    R(stat("f", &before));
    fd = R(open("f", O_RDWR | O_APPEND));
    R(fstat(fd, &during));
    R(write(fd, "y", 1));
    R(close(fd));
    R(stat("f", &after));
    R(before.st_ino == during.st_ino && during.st_ino == after.st_ino);
    R(before.st_dev == after.st_dev);
    put("f", "again");
    R(stat("f", &after));
    R(before.st_ino == after.st_ino);
    R(rename("f", "g"));
    R(stat("g", &after));
    R(before.st_ino == after.st_ino);
}

static void file_systems(long unused, long unused2)
{
    struct statfs a, b;
    struct statvfs v;
    int fd;

    (void)unused, (void)unused2;
    put("f", "x");
    fd = R(open("f", O_RDONLY));
    R(statfs("f", &a));
    R(fstatfs(fd, &b));
    R(a.f_type == b.f_type);
    R(statfs("none", &a));
    R(statvfs("f", &v));
    R(fstatvfs(fd, &v));
    R(pathconf("f", _PC_NAME_MAX));
    R(pathconf("none", _PC_NAME_MAX));
}

/* The loops of scripts that wait for a file. */
static void poll_loop(long unused, long unused2)
{
    struct stat st;
    int tries = 0;

    (void)unused, (void)unused2;
    pid_t pid = spawn();
    if (pid == 0) {
        put("f.tmp", "complete");
        rename("f.tmp", "f");
        _exit(0);
    }
    while (stat("f", &st) != 0 && ++tries < 20000)
        usleep(500);
    show("f");
    reap(pid);
}

void add_look_cases(void)
{
    static const char *const stats[] = {"stat",
                                        "lstat",
                                        "stat64",
                                        "lstat64",
                                        "fstatat",
                                        "fstatat64.nofollow",
                                        "__xstat",
                                        "__xstat64",
                                        "__lxstat",
                                        "__lxstat64",
                                        "__fxstatat",
                                        "__fxstatat64.nofollow",
                                        "fstatat.no_automount"};
    static const char *const accesses[] = {
        "access",     "faccessat", "faccessat.eaccess", "faccessat.nofollow",
        "euidaccess", "eaccess"};

    for (long state = 0; state < STATES; state++) {
        for (long how = 0; how < 13; how++)
            conform_add(stat_state, how, state, "look.%s.%s", stats[how],
                        state_names[state]);
        conform_add(statx_state, 0, state, "look.statx.%s", state_names[state]);
        conform_add(statx_state, AT_SYMLINK_NOFOLLOW, state, "look.statx.nofollow.%s",
                    state_names[state]);
        for (long how = 0; how < 6; how++)
            conform_add(access_state, how, state, "look.%s.%s", accesses[how],
                        state_names[state]);
    }
    ADD("look", by_descriptor);
    ADD("look", versions);
    ADD("look", same_inode);
    ADD("look", file_systems);
    ADD("look", poll_loop);
}
