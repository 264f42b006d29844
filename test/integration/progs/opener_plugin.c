/* What opener loads. The first thing its process does with a managed file it does under the
 * dynamic loader's lock. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void open_file(int argc, char **argv)
{
    int fd = argc == 4 ? open(argv[2], O_RDONLY) : -1;

    if (fd < 0) {
        perror("opener: open");
        exit(1);
    }
    close(fd);
}
