/*
 * scratch.h - a directory of its own for each test, with a DMD in it
 */
#ifndef DYAD_TEST_STORE_SCRATCH_H
#define DYAD_TEST_STORE_SCRATCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/dmd.h"

struct scratch {
    char top[64];  /* removed with all that is in it */
    char path[80]; /* top/dmd */
    struct store_dir *dir;
};

static inline int scratch_remove_one(const char *path, const struct stat *st, int type,
                                     struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static inline void scratch_remove(const char *path)
{
    nftw(path, scratch_remove_one, 32, FTW_DEPTH | FTW_PHYS);
}

static inline int scratch_setup(void **state)
{
    const char *tmp = getenv("TMPDIR");
    struct scratch *s = calloc(1, sizeof(*s));
    if (!s)
        return -1;
    snprintf(s->top, sizeof(s->top), "%.40s/dyad-store-XXXXXX",
             tmp && tmp[0] ? tmp : "/tmp");
    if (!mkdtemp(s->top))
        return -1;
    snprintf(s->path, sizeof(s->path), "%s/dmd", s->top);
    if (mkdir(s->path, 0755) < 0)
        return -1;
    s->dir = store_dir_create(s->path);
    *state = s;
    return s->dir ? 0 : -1;
}

static inline int scratch_teardown(void **state)
{
    struct scratch *s = *state;
    store_dir_destroy(s->dir);
    scratch_remove(s->top);
    free(s);
    return 0;
}

/* An absolute path below the DMD, in a static buffer. */
static inline const char *scratch_path(struct scratch *s, const char *upath)
{
    static char path[PATH_MAX + 128];
    snprintf(path, sizeof(path), "%s/%s", s->path, upath);
    return path;
}

static inline void scratch_write(struct scratch *s, const char *upath, const char *text)
{
    int fd = open(scratch_path(s, upath), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

/* The child must have ended with exit status 0. */
static inline void scratch_join(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* In a child of fork: an assertion of cmocka would run the parent's remaining tests there.
 */
#define CHILD_CHECK(condition)                                                   \
    do {                                                                         \
        if (!(condition)) {                                                      \
            fprintf(stderr, "%s:%d: child: %s (errno %d)\n", __FILE__, __LINE__, \
                    #condition, errno);                                          \
            _exit(1);                                                            \
        }                                                                        \
    } while (0)

#endif
