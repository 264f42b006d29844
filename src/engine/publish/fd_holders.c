/*
 * fd_holders.c - which processes have a file open for writing: a walk over /proc
 *
 * A process that has the file open is ours, foreign, or a child before its exec
 * (kind_of()). A link's text is looked at before the file behind it is: a stat of a file
 * on a dead network file system would hang. The pidfd is opened before the process is
 * looked at, so what it stands for is what was seen, or dead.
 *
 * What could go wrong: a process is in the midst of its exec, or ends, while it is looked
 * at (kind_of_image(), kind_of()). A process whose /proc/PID/fd may not be read (another
 * user's, one that is not dumpable, one in the midst of its exec) is not found.
 */
#include "engine/publish/fd_holders.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/proc.h"

#define WRAPPER    "/libdyad_wrapper.so"
#define KCMP_VM    1 /* linux/kcmp.h is not everywhere */
#define PF_EXITING 4 /* linux/sched.h has it for the kernel only */
/* At an image that is being made, a millisecond each. */
#define IMAGE_LOOKS 1000

static bool opens_for_writing(int dir, const char *number)
{
    char path[300], text[256];
    const char *flags;
    ssize_t n = -1;

    snprintf(path, sizeof(path), "../fdinfo/%s", number);
    int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = read(fd, text, sizeof(text) - 1);
        close(fd);
    }
    if (n <= 0)
        return false;
    text[n] = '\0';
    flags = strstr(text, "flags:");
    return flags && (strtol(flags + 6, NULL, 8) & O_ACCMODE) != O_RDONLY;
}

static bool has_open(pid_t pid, const struct stat *st, const char *below)
{
    char path[PATH_MAX];
    size_t len = strlen(below);
    struct dirent *entry;
    bool found = false;
    DIR *stream;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    if (!(stream = opendir(path)))
        return false;
    while (!found && (entry = readdir(stream))) {
        struct stat seen;
        ssize_t n = readlinkat(dirfd(stream), entry->d_name, path, sizeof(path) - 1);
        found = n > (ssize_t)len && strncmp(path, below, len) == 0 &&
                fstatat(dirfd(stream), entry->d_name, &seen, 0) == 0 &&
                seen.st_ino == st->st_ino && seen.st_dev == st->st_dev &&
                opens_for_writing(dirfd(stream), entry->d_name);
    }
    closedir(stream);
    return found;
}

static bool is_in_environment(const char *entry)
{
    return strncmp(entry, "LD_PRELOAD=", 11) == 0 && strstr(entry, WRAPPER);
}

static bool is_mapping(const char *line)
{
    return strstr(line, WRAPPER) != NULL;
}

/* True if the file /proc/PID/`name` of the process has such an entry, or cannot be read.
 */
static bool has(pid_t pid, const char *name, int end, bool (*is)(const char *entry))
{
    char path[64], *entry = NULL;
    size_t size = 0;
    bool found = false;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    if (!(file = fopen(path, "re")))
        return true;
    while (!found && getdelim(&entry, &size, end, file) > 0)
        found = is(entry);
    free(entry);
    fclose(file);
    return found;
}

static bool has_wrapper(pid_t pid)
{
    return has(pid, "environ", '\0', is_in_environment) ||
           has(pid, "maps", '\n', is_mapping);
}

/* True if the dynamic loader, and so a preloaded library, runs in its program. */
static bool has_loader(pid_t pid)
{
    ElfW(Ehdr) head;
    ElfW(Phdr) part;
    char path[64];
    bool found = false;

    snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return true;
    if (pread(fd, &head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
        memcmp(head.e_ident, ELFMAG, SELFMAG) == 0)
        for (unsigned i = 0; !found && i < head.e_phnum; i++)
            found =
                pread(fd, &part, sizeof(part), (off_t)(head.e_phoff + i * sizeof(part))) ==
                    (ssize_t)sizeof(part) &&
                part.p_type == PT_INTERP;
    close(fd);
    return found;
}

static bool is_before_exec(pid_t pid)
{
    pid_t parent = util_proc_parent(pid);

    return parent > 0 && syscall(SYS_kcmp, pid, parent, KCMP_VM, 0, 0) == 0;
}

/* Field `number`, from 4 on, of /proc/PID/stat. */
static unsigned long stat_field(const char *text, int number)
{
    const char *at = strrchr(text, ')'); /* behind the name, which may hold anything */

    for (int field = 2; at && field < number; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoul(at + 1, NULL, 10) : 0;
}

struct image {
    /* The end of its environment: tells the image from those before and after it, where
     * addresses are random. 0: exec has not made it all, or it has ended. */
    unsigned long id;
    bool exits;    /* it has let go of its memory, and of its files a moment later */
    bool signaled; /* ... by a signal */
};

static struct image image_of(pid_t pid)
{
    char path[64], text[1024];
    struct image image = {0};

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    if (util_proc_read(path, text, sizeof(text)) > 0) {
        image.id = stat_field(text, 51);
        image.exits = image.id == 0 && (stat_field(text, 9) & PF_EXITING);
        image.signaled = (stat_field(text, 52) & 0x7f) != 0; /* as of wait() */
    }
    return image;
}

/* Find out whether the process's image settles its descriptors. A process counts as ours
 * by what its image was started with, until its main, which may overwrite that
 * (setproctitle); by then the library is mapped. Exec shows neither for the moment in
 * which it makes the image: that is waited for. Who dies in it counts as ours, which says
 * that the file may be half of it. If the process is exiting, an image with the wrapper
 * would have settled its descriptors before, unless it was killed. */
static enum holder_kind kind_of_image(pid_t pid, int pidfd)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};

    for (int i = 0; i < IMAGE_LOOKS; i++) {
        struct image image = image_of(pid);
        bool ours = image.id && has_wrapper(pid) && has_loader(pid);
        if (image.id && image_of(pid).id == image.id)
            return ours ? HOLDER_OURS : HOLDER_FOREIGN;
        if (image.exits)
            return image.signaled ? HOLDER_OURS : HOLDER_FOREIGN;
        if (poll(&p, 1, image.id ? 0 : 1) > 0)
            break;
    }
    return HOLDER_OURS;
}

/* The process has just been seen to have the file open. A child before its exec may
 * execute, or end, while it is looked at. kcmp() says of it that it shares no memory any
 * more only when its exec has closed what it was to close (it waits for that). So who was
 * such a child before its descriptors were looked at, and does not have the file
 * afterwards, held it as a child only, however it goes on. */
static enum holder_kind kind_of(pid_t pid, int pidfd, bool was_before_exec,
                                const struct stat *st, const char *below)
{
    if (was_before_exec && (is_before_exec(pid) || !has_open(pid, st, below)))
        return HOLDER_TRANSIENT;
    return kind_of_image(pid, pidfd);
}

size_t holders_find(const struct stat *st, const char *below, struct holder *holders,
                    size_t max)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    size_t n = 0;

    while (proc && n < max && (entry = readdir(proc))) {
        pid_t pid = (pid_t)atoi(entry->d_name);
        int pidfd;
        if (pid <= 0 || (pidfd = (int)syscall(SYS_pidfd_open, pid, 0)) < 0)
            continue;
        bool before_exec = is_before_exec(pid);
        if (has_open(pid, st, below))
            holders[n++] =
                (struct holder){.pid = pid,
                                .pidfd = pidfd,
                                .kind = kind_of(pid, pidfd, before_exec, st, below)};
        else
            close(pidfd);
    }
    if (proc)
        closedir(proc);
    return n;
}

bool holder_is_dead(const struct holder *holder)
{
    struct pollfd p = {.fd = holder->pidfd, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

void holders_close(struct holder *holders, size_t n)
{
    for (size_t i = 0; i < n; i++)
        close(holders[i].pidfd);
}
