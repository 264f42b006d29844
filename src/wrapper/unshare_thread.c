/*
 * unshare_thread.c - close_range with CLOSE_RANGE_UNSHARE
 *
 * On Linux before 6.13 the thread's new table begins with copies of the program's lowest
 * descriptors; in the microseconds until they are gone (`unsharing`) a close of the
 * program's is not the last, so the settling of a description waits.
 */
#include "wrapper/unshare_thread.h"

#include <linux/close_range.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wrapper/call.h"

#define OLD_KERNEL_FDS 65536

static _Atomic uint32_t unsharing;

struct job {
    void (*fn)(void *arg);
    void *arg;
};

static void *apart_main(void *arg)
{
    const struct job *job = arg;

    wrapper_guard++;
    atomic_store(&unsharing, 1);
    if (syscall(SYS_close_range, 0, ~0U, CLOSE_RANGE_UNSHARE) < 0 &&
        unshare(CLONE_FILES) == 0)
        for (int fd = 0; fd < OLD_KERNEL_FDS; fd++) /* before 5.9 */
            syscall(SYS_close, fd);
    atomic_store(&unsharing, 0);
    syscall(SYS_futex, &unsharing, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
    job->fn(job->arg);
    return NULL;
}

void wrapper_apart_run(void (*fn)(void *arg), void *arg)
{
    struct job job = {fn, arg};
    pthread_t thread;

    if (pthread_create(&thread, NULL, apart_main, &job) == 0)
        pthread_join(thread, NULL);
}

void wrapper_apart_wait(void)
{
    while (atomic_load(&unsharing))
        syscall(SYS_futex, &unsharing, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
}
