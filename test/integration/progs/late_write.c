/*
 * late_write.c - late_write FILE: writes it when main has long ended, as tools do that
 * write their report in the destructor of a library
 */
#include <stdio.h>
#include <stdlib.h>

static const char *path;

__attribute__((destructor)) static void report(void)
{
    FILE *f = path ? fopen(path, "w") : NULL;

    if (f) {
        fputs("report\n", f);
        fclose(f);
    }
    if (path)
        fprintf(stderr, "late_write is over\n");
}

int main(int argc, char *argv[])
{
    path = argc == 2 ? argv[1] : NULL;
    return path ? 0 : 2;
}
