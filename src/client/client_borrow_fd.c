/*
 * client_borrow_fd.c - borrow a descriptor number without taking it from the program
 *
 * A task is cloned that shares all with the calling thread but the table of descriptors. It
 * is one of this process's threads for the kernel (the same pid, nothing to wait for), and
 * has no thread of libc's: it runs with the caller's thread pointer, which is safe because
 * CLONE_VFORK keeps the caller from running until it has ended. What it closes in its copy
 * is closed nowhere else, and POSIX locks, which belong to a table, stay.
 */
#include "client/client_borrow_fd.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define STACK_SIZE ((size_t)256 * 1024)

struct apart {
    int (*fn)(void *arg);
    void *arg;
    int rc, error;
};

static bool free_a_number(void)
{
    struct rlimit limit;
    int end = INT_MAX;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < INT_MAX)
        end = (int)limit.rlim_cur;
    /* Only numbers below the limit are given out. */
    for (int fd = STDERR_FILENO + 1; fd < end; fd++)
        if (close(fd) == 0)
            return true;
    return end > 0 && close(STDIN_FILENO) == 0;
}

static int apart_main(void *arg)
{
    struct apart *a = arg;

    if (free_a_number()) {
        a->rc = a->fn(a->arg);
        a->error = errno;
    }
    return 0;
}

int client_borrow_fd(int (*fn)(void *arg), void *arg)
{
    struct apart a = {.fn = fn, .arg = arg, .rc = -1, .error = EMFILE};
    char *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    int saved = errno;

    if (stack == MAP_FAILED)
        return -1;
    if (clone(apart_main, stack + STACK_SIZE,
              CLONE_VM | CLONE_FS | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                  CLONE_VFORK,
              &a) < 0)
        a.error = errno;
    munmap(stack, STACK_SIZE);
    errno = a.rc < 0 ? a.error : saved;
    return a.rc;
}
