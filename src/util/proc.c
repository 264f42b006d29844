/*
 * proc.c - what /proc says of a process
 *
 * /proc/PID/stat: "PID (COMMAND) STATE PARENT ...". A command may have anything in it,
 * blanks and parentheses too, so what follows is looked for behind the last parenthesis:
 * all fields after it are numbers but for the state.
 */
#include "util/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

ssize_t util_proc_read(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), error;
    ssize_t n;

    if (fd < 0)
        return -1;
    n = read(fd, text, size - 1);
    error = errno;
    close(fd);
    errno = error;
    if (n >= 0)
        text[n] = '\0';
    return n;
}

pid_t util_proc_parent(pid_t pid)
{
    char path[64], text[512];
    const char *p;
    int parent = 0;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    if (util_proc_read(path, text, sizeof(text)) <= 0)
        return 0;
    if (!(p = strrchr(text, ')')) || sscanf(p + 1, " %*c %d", &parent) != 1)
        return 0;
    return parent;
}

bool util_proc_is_self_or_ancestor(pid_t pid)
{
    for (pid_t p = getpid(); p > 1; p = util_proc_parent(p)) {
        if (p == pid)
            return true;
    }
    return false;
}

static bool executable(const char *process, struct stat *st)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%s/exe", process);
    return stat(path, st) == 0;
}

static int open_arguments(const char *process)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%s/cmdline", process);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static bool same_bytes(int a, int b)
{
    char text[2][1024];
    ssize_t n[2];

    do {
        n[0] = read(a, text[0], sizeof(text[0]));
        n[1] = read(b, text[1], sizeof(text[1]));
        if (n[0] < 0 || n[0] != n[1] || memcmp(text[0], text[1], (size_t)n[0]) != 0)
            return false;
    } while (n[0] > 0);
    return true;
}

bool util_proc_is_same_program(pid_t pid)
{
    struct stat own, other;
    char process[16];
    bool same = false;
    int a, b;

    snprintf(process, sizeof(process), "%d", (int)pid);
    if (!executable("self", &own) || !executable(process, &other) ||
        own.st_dev != other.st_dev || own.st_ino != other.st_ino)
        return false;
    a = open_arguments("self");
    b = open_arguments(process);
    if (a >= 0 && b >= 0)
        same = same_bytes(a, b);
    if (a >= 0)
        close(a);
    if (b >= 0)
        close(b);
    return same;
}

uint64_t util_proc_program(pid_t pid)
{
    char path[64], text[4096], process[16];
    XXH3_state_t state;
    ssize_t n;
    int fd;

    snprintf(process, sizeof(process), "%d", (int)pid);
    snprintf(path, sizeof(path), "/proc/%s/exe", process);
    XXH3_64bits_reset(&state);
    if ((n = readlink(path, text, sizeof(text))) <= 0 || (fd = open_arguments(process)) < 0)
        return 0;
    do {
        XXH3_64bits_update(&state, text, (size_t)n);
        n = read(fd, text, sizeof(text));
    } while (n > 0);
    close(fd);
    return n < 0 ? 0 : XXH3_64bits_digest(&state);
}
