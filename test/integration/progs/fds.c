/*
 * fds.c - a program that looks after its descriptors
 *
 *   fds list           the descriptors that this process has, one per line
 *   fds lowest PATH    opens PATH to write, so the engine starts, then opens and closes for
 *                      a while: each number must be the lowest that is free
 *   fds closefrom PATH closes all from 3 on, then writes PATH and reads PATH.other
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int list(void)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;

    if (!dir)
        return 1;
    while ((entry = readdir(dir))) {
        char path[300], target[300];
        ssize_t n;
        if (entry->d_name[0] == '.' || atoi(entry->d_name) == dirfd(dir))
            continue;
        snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
        n = readlink(path, target, sizeof(target) - 1);
        printf("%s %.*s\n", entry->d_name, n > 0 ? (int)n : 0, target);
    }
    closedir(dir);
    return 0;
}

static int lowest(const char *path)
{
    FILE *stream = fopen(path, "w");
    struct timespec begin, now;
    long long ns;
    int numbers = 0;

    if (!stream) {
        perror(path);
        return 1;
    }
    close(0);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        int fd = open("/dev/null", O_RDONLY);
        if (fd != 0) {
            fprintf(stderr, "open number %d gave descriptor %d\n", numbers, fd);
            return 1;
        }
        numbers++;
        if (close(fd) < 0) {
            perror("somebody else closed 0");
            return 1;
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
        ns = (now.tv_sec - begin.tv_sec) * 1000000000ll + now.tv_nsec - begin.tv_nsec;
    } while (ns < 200000000);
    if (fclose(stream) != 0) {
        perror(path);
        return 1;
    }
    puts("always the lowest");
    return 0;
}

static int closefrom_pair(const char *path)
{
    char other[4096], line[64] = "";
    FILE *stream;

    closefrom(3);
    int fd = open("/dev/null", O_RDONLY);
    if (fd != 3) {
        fprintf(stderr, "the first descriptor after closefrom(3) is %d\n", fd);
        return 1;
    }
    close(fd);
    if (!(stream = fopen(path, "w")) || fputs("written\n", stream) < 0 ||
        fclose(stream) != 0) {
        perror(path);
        return 1;
    }
    closefrom(3);
    snprintf(other, sizeof(other), "%s.other", path);
    if (!(stream = fopen(other, "r")) || !fgets(line, sizeof(line), stream) ||
        strcmp(line, "other\n") != 0) {
        perror(other);
        return 1;
    }
    fclose(stream);
    puts("closefrom survived");
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "list"))
        return list();
    if (argc == 3 && !strcmp(argv[1], "closefrom"))
        return closefrom_pair(argv[2]);
    if (argc == 3 && !strcmp(argv[1], "lowest"))
        return lowest(argv[2]);
    return 2;
}
