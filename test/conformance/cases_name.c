/* cases_name.c - rename in all forms, and removal */
#include "conform.h"

#include <sys/syscall.h>

#ifndef RENAME_WHITEOUT
#define RENAME_WHITEOUT (1 << 2)
#endif

static void rename_states(long from, long to)
{
    char old[64];

    strcpy(old, make_state("from", (enum state)from));
    const char *new = make_state("to", (enum state)to);
    R(rename(old, new));
    look("from");
    look("to");
    show("to");
}

static void flags_states(long flags, long to)
{
    put("from", "content of from");
    const char *new = make_state("to", (enum state)to);
    R(renameat2(AT_FDCWD, "from", AT_FDCWD, new, (unsigned)flags));
    look("from");
    look("to");
    show("from");
    show("to");
}

static void odd_renames(long which, long unused)
{
    int fd, dirfd;
    char outside[] = "/tmp/conform.XXXXXX", moved[64];

    (void)unused;
    put("f", "content");
    mkdir("d", 0755);
    put("d/g", "in d");
    switch (which) {
    case 0: /* onto itself */
        R(rename("f", "f"));
        R(rename("f", "./f"));
        R(rename("f", "d/../f"));
        break;
    case 1: /* into itself */
        R(rename("d", "d/sub"));
        R(rename("d", "d/."));
        R(rename("d/.", "e"));
        break;
    case 2: /* two names of one file */
        R(link("f", "h"));
        R(rename("f", "h"));
        show("f");
        show("h");
        break;
    case 3: /* while open for writing */
        fd = R(open("f", O_WRONLY));
        R(write(fd, "CON", 3));
        R(rename("f", "d/f"));
        show("d/f");
        R(write(fd, "T", 1));
        R(close(fd));
        show("d/f");
        break;
    case 4: /* onto a file that is open for writing */
        fd = R(open("d/g", O_WRONLY));
        R(write(fd, "lost", 4));
        R(rename("f", "d/g"));
        R(write(fd, "too", 3));
        R(close(fd));
        show("d/g");
        break;
    case 5: /* onto a file that is open for reading */
        fd = R(open("d/g", O_RDONLY));
        R(rename("f", "d/g"));
        show_fd("held", fd);
        show("d/g");
        R(close(fd));
        break;
    case 6:
        dirfd = R(open("d", O_RDONLY));
        R(renameat(dirfd, "g", AT_FDCWD, "moved"));
        R(renameat(AT_FDCWD, "f", dirfd, "f"));
        R(renameat(99, "f", dirfd, "g"));
        R(renameat(dirfd, "none", dirfd, "g"));
        R(rename("d", "e"));
        R(renameat(dirfd, "f", dirfd, "g"));
        show("e/g");
        break;
    case 7: /* a directory with what it holds */
        mkdir("d/sub", 0711);
        put("d/sub/h", "deep");
        symlink("sub/h", "d/link");
        R(rename("d", "e"));
        show("e/g");
        show("e/sub/h");
        show("e/link");
        show("d/g");
        R(access("d", F_OK));
        put("e/new", "after");
        R(rename("e", "d"));
        show("d/new");
        break;
    case 8: /* a file of a directory that is renamed while it is written */
        fd = R(open("d/g", O_WRONLY | O_APPEND));
        R(write(fd, "+", 1));
        R(rename("d", "e"));
        R(write(fd, "-", 1));
        R(close(fd));
        show("e/g");
        break;
    case 9: /* out of the directory and back, by a name that no other run has */
        P(mkdtemp(outside));
        snprintf(moved, sizeof moved, "%s/moved", outside);
        R(rename("f", moved));
        R(access("f", F_OK));
        R(rename(moved, "f"));
        rmdir(outside);
        show("f");
        break;
    case 10:
        symlink("d", "way");
        R(rename("way", "other"));
        R(rename("other/g", "g"));
        R(rename("f", "other/f"));
        R(rename("d", "other"));
        break;
    case 11: /* a chain */
        R(rename("f", "a"));
        R(rename("a", "b"));
        R(rename("b", "f"));
        put("a", "again");
        R(rename("a", "f"));
        show("f");
        break;
    case 12:
        R(renameat2(AT_FDCWD, "f", AT_FDCWD, "d", RENAME_EXCHANGE));
        show("f/g");
        show("d");
        break;
    case 13:
        R(renameat2(AT_FDCWD, "f", AT_FDCWD, "g", RENAME_NOREPLACE | RENAME_EXCHANGE));
        R(renameat2(AT_FDCWD, "f", AT_FDCWD, "g", 128));
        R(renameat2(AT_FDCWD, "f", AT_FDCWD, "f", RENAME_NOREPLACE));
        break;
    case 14:
        R(rename("", "g"));
        R(rename("f", ""));
        R(rename("f", "g/"));
        R(rename("d/", "e/"));
        R(rename("f/", "g"));
        R(rename("e", "."));
        R(rename("..", "x"));
        R(rename("/", "x"));
        break;
    default: /* removed, made again under a name that was */
        R(unlink("f"));
        put("f", "second");
        R(rename("f", "g"));
        put("f", "third");
        R(rename("g", "f"));
        show("f");
        break;
    }
}

static void remove_state(long how, long state)
{
    const char *path = make_state("f", (enum state)state);

    switch (how) {
    case 0:
        R(unlink(path));
        break;
    case 1:
        R(unlinkat(AT_FDCWD, path, 0));
        break;
    case 2:
        R(unlinkat(AT_FDCWD, path, AT_REMOVEDIR));
        break;
    case 3:
        R(rmdir(path));
        break;
    default:
        R(remove(path));
        break;
    }
    look("f");
    R(access(path, F_OK));
}

static void remove_held(long how, long unused)
{
    int fd, other;

    (void)unused;
    put("f", "content");
    fd = R(open("f", how == 0 ? O_RDONLY : O_RDWR));
    R(unlink("f"));
    R(access("f", F_OK));
    show_fd("held", fd);
    if (how == 1) {
        R(write(fd, "gone", 4));
        R(close(fd));
        R(access("f", F_OK));
    } else if (how == 2) {
        put("f", "a new one");
        R(write(fd, "gone", 4));
        R(close(fd));
        show("f");
    } else if (how == 3) {
        char path[64];

        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        R(linkat(AT_FDCWD, path, AT_FDCWD, "back", AT_SYMLINK_FOLLOW));
        other = R(open("f", O_WRONLY | O_CREAT | O_EXCL, 0600));
        R(close(other));
        show("f");
    }
    R(unlinkat(AT_FDCWD, "f", 0x40000000));
    R(unlink(""));
    R(remove("."));
    R(rmdir("."));
    R(rmdir(".."));
}

void add_name_cases(void)
{
    static const enum state many[] = {
        MISSING,           A_FILE,    A_DIRECTORY, FULL_DIRECTORY, LINK_TO_FILE,
        LINK_TO_DIRECTORY, NO_PARENT, BELOW_FILE,  FILE_SLASH,     DIRECTORY_SLASH,
        MISSING_SLASH,     DANGLING,  READ_ONLY};
    static const struct {
        long flags;
        const char *name;
    } flags[] = {
        {0, "none"}, {RENAME_NOREPLACE, "noreplace"}, {RENAME_EXCHANGE, "exchange"}};
    static const char *const removers[] = {"unlink", "unlinkat", "unlinkat_dir", "rmdir",
                                           "remove"};
    size_t count = sizeof many / sizeof *many;

    for (size_t from = 0; from < count; from++)
        for (size_t to = 0; to < count; to++)
            conform_add(rename_states, many[from], many[to], "rename.%s.%s",
                        state_names[many[from]], state_names[many[to]]);
    for (size_t i = 0; i < 3; i++)
        for (size_t to = 0; to < count; to++)
            conform_add(flags_states, flags[i].flags, many[to], "rename.flags.%s.%s",
                        flags[i].name, state_names[many[to]]);
    for (long which = 0; which < 16; which++)
        conform_add(odd_renames, which, 0, "rename.odd.%ld", which);
    for (long how = 0; how < 5; how++)
        for (long state = 0; state < STATES; state++)
            conform_add(remove_state, how, state, "remove.%s.%s", removers[how],
                        state_names[state]);
    for (long how = 0; how < 4; how++)
        conform_add(remove_held, how, 0, "remove.held.%ld", how);
}
