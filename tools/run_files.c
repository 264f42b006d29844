/*
 * run_files.c - the C API from the command line
 *
 * A path is given to the library with the links of its directory resolved, since it takes a
 * path as text.
 */
#include "run_files.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "run_check.h"
#include "run_library.h"

/* The path with the links of its directories resolved as far as they are there. */
static const char *resolve(const char *file, char *out, size_t size)
{
    char dir[PATH_MAX], real[PATH_MAX];
    size_t len = strlen(file);
    const char *rest = strrchr(file, '/');

    if (!rest || len >= sizeof(dir))
        return file;
    memcpy(dir, file, len + 1);
    while (rest > file) {
        dir[rest - file] = '\0';
        if (realpath(dir, real))
            return snprintf(out, size, "%s%s", real, rest) < (int)size ? out : file;
        rest = memrchr(file, '/', (size_t)(rest - file));
        if (!rest)
            break;
    }
    return file;
}

static void complain(const char *file, const char *why)
{
    fprintf(stderr, "dyad-run: %s: %s\n", file, why);
}

int run_files(const char *wrapper, bool publish, char *const files[])
{
    char path[PATH_MAX];
    int status = 0;
    struct run_library api;
    dyad_rc_t rc;

    if (run_library_join(&api, wrapper) < 0)
        return RUN_EXIT_FAILURE;
    for (; *files; files++) {
        const char *file = resolve(*files, path, sizeof(path));
        struct stat st;
        if (publish && stat(file, &st) < 0) {
            complain(*files, strerror(errno));
            status = 1;
            continue;
        }
        rc = publish ? api.produce(file) : api.consume(file);
        if (rc != DYAD_OK) {
            complain(*files, api.strerror(rc));
            status = 1;
        }
    }
    api.finalize();
    return status;
}
