/*
 * mapped.c - files that are written through mappings after their close, or by truncate
 *
 *   mapped DIR: DIR/again (published, then rewritten through a mapping: the kernel may not
 *   change its times), DIR/unmap, DIR/to_end, and DIR/cut (truncated by name), each "new"
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char *map(const char *name, int flags)
{
    int fd = open(name, O_RDWR | flags, 0644);
    char *p;

    if (fd < 0 || ftruncate(fd, 3) < 0)
        return NULL;
    p = mmap(NULL, 3, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return close(fd) < 0 || p == MAP_FAILED ? NULL : p;
}

static int write_new(const char *name, const char *text)
{
    FILE *f = fopen(name, "w");

    return f && fputs(text, f) >= 0 && fclose(f) == 0 ? 0 : -1;
}

int main(int argc, char **argv)
{
    char *p;

    if (argc != 2 || chdir(argv[1]) < 0 || write_new("again", "old") < 0)
        return 2;
    usleep(100000); /* the next open finds a file that was written long ago */
    if (!(p = map("again", 0)))
        return 1;
    memcpy(p, "new", 3);
    munmap(p, 3);
    if (!(p = map("unmap", O_CREAT)))
        return 1;
    usleep(100000); /* who opens it now waits for the end of the mapping */
    memcpy(p, "new", 3);
    munmap(p, 3);
    if (write_new("cut", "new and more") < 0 || truncate("cut", 3) < 0)
        return 1;
    if (!(p = map("to_end", O_CREAT)))
        return 1;
    memcpy(p, "new", 3);
    return 0;
}
