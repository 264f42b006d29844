/*
 * proc.c - /proc/PID/stat: "PID (COMMAND) STATE PARENT ..."
 *
 * A command may have anything in it, blanks and parentheses too, so what follows is looked
 * for behind the last parenthesis: all fields after it are numbers but for the state.
 */
#include "util/proc.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

pid_t util_proc_parent(pid_t pid)
{
    char path[64], text[512];
    const char *p;
    int fd, parent = 0;
    ssize_t n;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    if ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        return 0;
    n = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    if (!(p = strrchr(text, ')')) || sscanf(p + 1, " %*c %d", &parent) != 1)
        return 0;
    return parent;
}
