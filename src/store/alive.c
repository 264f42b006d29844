/*
 * alive.c - /proc/PID/stat
 *
 * The identity of this process is read once and kept in two atomics; getpid() at each use
 * shows that a fork has made it stale. A vfork child writes its own identity into the
 * parent's memory, and the parent then reads its own anew: right in any order, because the
 * pid is part of the value compared.
 */
#include "store/alive.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static _Atomic uint64_t self_proc;
static _Atomic uint32_t self_ns;

/* 1: living, start time in *start; 0: dead or a zombie; -1: cannot tell. */
static int read_stat(pid_t pid, uint32_t *start)
{
    char path[32], text[1024];

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, text, sizeof(text) - 1);
    int error = errno;
    close(fd);
    if (n <= 0)
        return n < 0 && error == ESRCH ? 0 : -1;
    text[n] = '\0';

    /* The command's name may hold anything, ')' too: the fields begin after the last one.
     */
    const char *p = strrchr(text, ')');
    char state;
    long threads;
    unsigned long long ticks;
    if (!p || sscanf(p + 1,
                     " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
                     "%ld %*d %llu",
                     &state, &threads, &ticks) != 3)
        return -1;
    /* A leader that has called pthread_exit() is a zombie too, but its other threads run.
     */
    if ((state == 'Z' && threads <= 1) || state == 'X')
        return 0;
    *start = (uint32_t)ticks;
    return 1;
}

store_proc_t store_proc_self(uint32_t *ns)
{
    pid_t pid = getpid();
    uint64_t proc = atomic_load_explicit(&self_proc, memory_order_acquire);

    if (store_proc_pid(proc) != pid) {
        int saved = errno;
        struct stat st;
        uint32_t start = 0;

        if (read_stat(pid, &start) != 1)
            start = 0;
        proc = (uint64_t)pid << 32 | start;
        atomic_store_explicit(&self_ns,
                              stat("/proc/self/ns/pid", &st) == 0 ? (uint32_t)st.st_ino : 0,
                              memory_order_relaxed);
        atomic_store_explicit(&self_proc, proc, memory_order_release);
        errno = saved;
    }
    if (ns)
        *ns = atomic_load_explicit(&self_ns, memory_order_relaxed);
    return proc;
}

bool store_proc_alive(store_proc_t proc, uint32_t ns, int32_t age)
{
    pid_t pid = store_proc_pid(proc);
    uint32_t own_ns, start = 0;

    if (pid <= 0)
        return false;
    if (store_proc_self(&own_ns) == proc)
        return true;
    if (ns && own_ns && ns != own_ns)
        return age < STORE_PROC_FOREIGN_MAX;

    int saved = errno;
    int state = read_stat(pid, &start);
    bool alive;
    if (state < 0) /* no /proc, or hidden from us */
        alive = kill(pid, 0) == 0 || errno != ESRCH;
    else
        alive = state == 1 && ((uint32_t)proc == 0 || (uint32_t)proc == start);
    errno = saved;
    return alive;
}
