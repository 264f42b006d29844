/*
 * opens.c - open for reading each name that standard input has, a line each, and say what
 * became of it: a stand-in for programs that are too big to be installed for a test. Its
 * arguments mean nothing to it; what it is called is argv[0].
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
    char name[4096];

    while (fgets(name, sizeof(name), stdin)) {
        name[strcspn(name, "\n")] = '\0';
        int fd = open(name, O_RDONLY);
        printf("%s: %s\n", name, fd < 0 ? strerror(errno) : "is there");
        fflush(stdout);
        if (fd >= 0)
            close(fd);
    }
    return 0;
}
