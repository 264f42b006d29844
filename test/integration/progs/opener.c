/* opener LIBRARY FILE DONE [late]: load LIBRARY, whose constructor opens FILE (late: when
 * the member's thread waits for the loader; in another image of this program if it has not
 * had to); then make DONE. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const bool *late;
    void *library;

    if (argc != 4 && argc != 5)
        return 2;
    library = dlopen(argv[1], RTLD_NOW);
    if (!library) {
        fprintf(stderr, "opener: %s\n", dlerror());
        return 1;
    }
    late = dlsym(library, "opener_is_too_late");
    if (late && *late) {
        execv("/proc/self/exe", argv);
        perror("opener: exec");
        return 1;
    }
    return open(argv[3], O_CREAT | O_WRONLY, 0600) < 0;
}
