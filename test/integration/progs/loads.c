/*
 * loads.c - programs and libraries that load libraries: test_libraries.sh builds it several
 * times
 *
 * -DNAME=x -DVALUE=n: a library with a function x() that returns n, plus -DNEEDS=y what
 * y() of another returns. -DOPENS=\"file\": x() opens that library by its bare name, and
 * returns what its function y() does. Without NAME: a program, loads WAY FILE FUNCTION
 * EXPECTED, which opens FILE with dlopen or dlmopen (WAY), or calls y() of the library that
 * it was linked with (WAY "linked").
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef NEEDS
int NEEDS(void);
#endif

#ifdef NAME
int NAME(void);

int NAME(void)
{
#ifdef OPENS
    void *handle = dlopen(OPENS, RTLD_NOW | RTLD_LOCAL);
    int (*fn)(void);

    if (!handle) {
        fprintf(stderr, "%s\n", dlerror());
        return -1;
    }
    *(void **)&fn = dlsym(handle, "opened");
    return fn();
#elif defined(NEEDS)
    return VALUE + NEEDS();
#else
    return VALUE;
#endif
}
#else

static int load(int argc, char **argv)
{
    int (*fn)(void);
    void *handle;

    if (argc != 5)
        return -1;
    handle = strcmp(argv[1], "dlmopen") == 0
                 ? dlmopen(LM_ID_NEWLM, argv[2], RTLD_NOW | RTLD_LOCAL)
                 : dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        fprintf(stderr, "%s\n", dlerror());
        return -1;
    }
    *(void **)&fn = dlsym(handle, argv[3]);
    return fn ? fn() : -1;
}

int main(int argc, char **argv)
{
    int result = -1;

#ifdef NEEDS
    if (argc > 1 && strcmp(argv[1], "linked") == 0)
        return NEEDS() != VALUE;
#endif
    result = load(argc, argv);
    if (argc == 5 && result == atoi(argv[4]))
        return 0;
    fprintf(stderr, "%s: %d, not %s\n", argc > 3 ? argv[3] : "?", result,
            argc > 4 ? argv[4] : "?");
    return 1;
}
#endif
