/* What opener loads. The first thing its process does with a managed file it does under the
 * dynamic loader's lock. "late": not before the member's thread waits for that lock. */
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The member's thread and the one that loads the engine for it
 * (src/wrapper/member_thread.c) are there: the latter waits for us, at once or in a moment.
 */
static int are_there(void)
{
    DIR *dir = opendir("/proc/self/task");
    int n = -2; /* . and .. */

    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n >= 3;
}

/* The loader is ours, so this does not change. */
static bool is_engine_loaded(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096 + 128];
    bool loaded = false;

    while (maps && !loaded && fgets(line, sizeof(line), maps))
        loaded = strstr(line, "/libdyad_member.so") != NULL;
    if (maps)
        fclose(maps);
    return loaded;
}

/* The member's thread was quicker than we: it does not wait for the loader. */
__attribute__((visibility("default"))) bool opener_is_too_late;

__attribute__((constructor)) static void open_file(int argc, char **argv)
{
    int fd;

    if (argc == 5 && is_engine_loaded()) {
        opener_is_too_late = true;
        return;
    }
    for (int i = 0; argc == 5 && !are_there(); i++) {
        if (i == 2000) {
            fprintf(stderr, "opener: the member's thread does not begin\n");
            _exit(2);
        }
        usleep(5000);
    }
    fd = argc >= 4 ? open(argv[2], O_RDONLY) : -1;
    if (fd < 0) {
        perror("opener: open");
        exit(1);
    }
    close(fd);
}
