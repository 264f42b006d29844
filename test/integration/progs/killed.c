/*
 * killed.c - ends of processes that have a file open for writing
 *
 *   killed HOW PATH: writes PATH, leaves it open, and ends by HOW: abort, kill, _exit,
 *   quick_exit, exit, raw (exit_group past every library). With stdio HOW may be followed
 *   by -stream: what stdio has not flushed is then lost or not as POSIX says.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const char *how = argc == 3 ? argv[1] : "";
    int fd = argc == 3 ? open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, 0644) : -1;
    FILE *stream;

    if (fd < 0 || write(fd, "begin\n", 6) != 6 || !(stream = fdopen(fd, "w")) ||
        fputs("end\n", stream) < 0)
        return 2;
    signal(SIGABRT, SIG_DFL);
    if (!strcmp(how, "abort"))
        abort();
    if (!strcmp(how, "kill"))
        raise(SIGKILL);
    if (!strcmp(how, "raw"))
        syscall(SYS_exit_group, 0);
    if (!strcmp(how, "_exit"))
        _exit(0);
    if (!strcmp(how, "quick_exit"))
        quick_exit(0);
    exit(0);
}
