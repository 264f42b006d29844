/* opener LIBRARY FILE DONE [late]: load LIBRARY, whose constructor opens FILE (late: when
 * the member's thread waits for the loader); then make DONE. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    if (argc != 4 && argc != 5)
        return 2;
    if (!dlopen(argv[1], RTLD_NOW)) {
        fprintf(stderr, "opener: %s\n", dlerror());
        return 1;
    }
    return open(argv[3], O_CREAT | O_WRONLY, 0600) < 0;
}
