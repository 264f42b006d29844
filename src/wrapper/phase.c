/*
 * phase.c - the phase, and the page that says whose memory this is
 *
 * wrapper_phase goes NEW -> STARTING -> OFF or ON once (a compare-and-swap picks who does
 * it, core.c), and from ON to OFF when the engine declines.
 *
 * The page `owner` is wiped by the kernel in the child of every fork (MADV_WIPEONFORK), not
 * in one of vfork: so a zero there means a fork that no wrapper of ours saw (daemon,
 * forkpty, a raw clone).
 */
#include "wrapper/phase.h"

#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

_Atomic int wrapper_phase;

static _Atomic pid_t owner_fallback;
static _Atomic pid_t *owner = &owner_fallback;

void wrapper_owner_begin(void)
{
    long page = sysconf(_SC_PAGESIZE);
    void *p = mmap(NULL, (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                   -1, 0);

    if (p != MAP_FAILED) {
        if (madvise(p, (size_t)page, MADV_WIPEONFORK) == 0)
            owner = p;
        else
            munmap(p, (size_t)page); /* kernel before 4.14: forks that we see are enough */
    }
    atomic_store(owner, getpid());
}

void wrapper_owner_set(void)
{
    atomic_store(owner, getpid());
}

bool wrapper_owner_is_unseen(void)
{
    return atomic_load_explicit(owner, memory_order_relaxed) == 0;
}

bool wrapper_owner_is_self(void)
{
    pid_t pid = atomic_load_explicit(owner, memory_order_relaxed);

    return pid == 0 || pid == getpid();
}
