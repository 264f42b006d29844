/*
 * proc.c - /proc/PID/stat: "PID (COMMAND) STATE PARENT ..."
 *
 * A command may have anything in it, blanks and parentheses too, so what follows is looked
 * for behind the last parenthesis: all fields after it are numbers but for the state.
 */
#include "util/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
