/*
 * open_exec.c - programs below a managed directory: before they are executed they are made
 * present and complete, and what they need with them
 */
#include "wrapper/open_exec.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/env.h"
#include "wrapper/core.h"
#include "wrapper/library.h"
#include "wrapper/open_impl.h"
#include "wrapper/pointer.h"
#include "wrapper/real.h"

#define LINE_SIZE        256 /* of a script, that the kernel looks at */
#define INTERPRETERS_MAX 5   /* scripts that interpret scripts: as the kernel */

/* The interpreter that the first line of a script names, in line[LINE_SIZE]; NULL:
 * none. */
static const char *interpreter(int fd, char *line)
{
    ssize_t n = pread(fd, line, LINE_SIZE - 1, 0);
    char *start;

    if (n < 3 || line[0] != '#' || line[1] != '!')
        return NULL;
    line[n] = '\0';
    start = line + 2 + strspn(line + 2, " \t");
    start[strcspn(start, " \t\n")] = '\0';
    return start[0] == '/' ? start : NULL;
}

/* The program, and the interpreters and libraries below a managed directory that it needs.
 * `path` is how it was named, `libraries` the LD_LIBRARY_PATH that it will have. 0 or -1.
 * *where moves on to them, unless the caller is to take the program's path from it. */
static int prepare(const struct engine_ops *ops, struct wrapper_path *where, int flags,
                   const char *path, const char *libraries)
{
    char line[LINE_SIZE];

    for (int depth = 0; depth < INTERPRETERS_MAX; depth++) {
        const char *next;
        int fd;

        do /* nobody expects EINTR of exec */
            fd = wrapper_open_look(ops, where, flags);
        while (fd < 0 && errno == EINTR);
        if (fd < 0)
            return fd == -2 ? -1 : 0;
        next = interpreter(fd, line);
        if (!next)
            wrapper_library_needed(ops, fd, depth == 0 ? path : where->text, libraries);
        REAL(close)(fd);
        if (!next || where->moved ||
            !wrapper_path_find_as(AT_FDCWD, next, WRAPPER_PATH_FOLLOW_ALL, where))
            break;
    }
    return 0;
}

/* The child of vfork must not load the engine into its parent: a child of its own does. */
static int prepare_in_child(struct wrapper_path *where, int flags, const char *path,
                            const char *libraries)
{
    pid_t pid = REAL(fork)();
    int status;

    if (pid == 0) {
        const struct engine_ops *ops = wrapper_mine() ? wrapper_engine() : NULL;
        int error = ops && prepare(ops, where, flags, path, libraries) < 0 ? errno : 0;
        syscall(SYS_exit_group, error); /* nothing of the program's end is this process's */
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (pid < 0 || !WIFEXITED(status) || WEXITSTATUS(status) == 0)
        return 0;
    errno = WEXITSTATUS(status);
    return -1;
}

static const char *library_path(char *const env[])
{
    return wrapper_bad_pointer(env) ? NULL : util_env_get(env, "LD_LIBRARY_PATH");
}

int wrapper_open_for_exec(int dirfd, const char **path, bool follow, char *const env[],
                          struct wrapper_path *where)
{
    const char *libraries = library_path(env);
    const struct engine_ops *ops;
    const char *named;
    int saved = errno, rc, flags = WRAPPER_OPEN_LOOK | (follow ? 0 : O_NOFOLLOW);

    if (!wrapper_active() ||
        !wrapper_path_find_as(dirfd, *path, follow ? WRAPPER_PATH_FOLLOW_ALL : 0, where))
        return 0;
    if (where->moved)
        *path = where->text;
    named = dirfd == AT_FDCWD || **path == '/' ? *path : where->text;
    if (wrapper_mine()) {
        ops = wrapper_engine();
        rc = ops ? prepare(ops, where, flags, named, libraries) : 0;
    } else {
        ops = wrapper_engine_loaded();
        rc = ops ? prepare(ops, where, flags, named, libraries)
                 : prepare_in_child(where, flags, named, libraries);
    }
    if (rc == 0)
        errno = saved;
    return rc;
}

int wrapper_open_search(const char *program, char *const env[])
{
    const char *path = getenv("PATH"), *end;
    const struct engine_ops *ops;
    struct wrapper_path where;
    size_t len = strlen(program);
    char full[PATH_MAX];
    int saved = errno;

    for (; wrapper_active() && path; path = *end ? end + 1 : NULL) {
        size_t n = (size_t)((end = strchrnul(path, ':')) - path);
        if (n == 0 || n + 1 + len >= sizeof(full))
            continue;
        memcpy(full, path, n);
        full[n] = '/';
        memcpy(full + n + 1, program, len + 1);
        if (!wrapper_path_find_as(AT_FDCWD, full, WRAPPER_PATH_FOLLOW, &where)) {
            if (REAL(access)(full, X_OK) == 0)
                break;
            continue;
        }
        ops = wrapper_mine() ? wrapper_engine() : wrapper_engine_loaded();
        if (!ops)
            break;
        if (!wrapper_open_bring(ops, &where))
            continue;
        int fd = REAL(openat64)(AT_FDCWD, where.text, WRAPPER_OPEN_LOOK);
        if (fd >= 0) {
            wrapper_library_needed(ops, fd, full, library_path(env));
            REAL(close)(fd);
        }
        break;
    }
    errno = saved;
    return 0;
}
