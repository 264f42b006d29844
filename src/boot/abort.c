/*
 * abort.c - siglongjmp in place of SIGABRT
 *
 * The jump leaves the frames of UCX, and the locks it held, as they are; they are never
 * entered again, so that is all the cleaning there is. This concerns one copy of these
 * libraries: another that is opened in a name space of its own (client/client_member.c)
 * has its own copy of this file.
 *
 * What could go wrong: UCX's async thread comes to what is half changed (abort()); UCX
 * finds libc's abort, and the process ends: with sanitizers there is no RTLD_DEEPBIND,
 * nor where the program had loaded UCX before us and cannot have it apart from us (glibc
 * before 2.34). libc's own abort (assert, a broken heap) does not come here either, and
 * should not: it is the program's heap.
 */
#include "boot/abort.h"

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DYAD_VISIBLE __attribute__((visibility("default")))

static _Thread_local sigjmp_buf *catcher;
static atomic_bool caught;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void (*libc_abort)(void);

static void find(void)
{
    *(void **)&libc_abort = dlsym(RTLD_NEXT, "abort");
}

int boot_abort_catch(void (*fn)(void *arg), void *arg)
{
    sigjmp_buf here;

    pthread_once(&once, find); /* now, not when something is wrong already */
    if (sigsetjmp(here, 0) != 0)
        return -1;
    catcher = &here;
    fn(arg);
    catcher = NULL;
    return 0;
}

/* After a catch UCX's async thread, if it has one, may look at what is half changed, or
 * find that its descriptors are closed, which it takes for a reason to abort(). Such a
 * thread is put to sleep: all signals of the program's are blocked in it, it holds
 * nothing of ours, and the process ends over it. */
__attribute__((noreturn)) DYAD_VISIBLE void abort(void)
{
    sigjmp_buf *to = catcher;

    if (to) {
        catcher = NULL;
        atomic_store(&caught, true);
        siglongjmp(*to, 1);
    }
    while (atomic_load(&caught))
        poll(NULL, 0, -1); /* a sleep to all who look whether this process can go on */
    pthread_once(&once, find);
    if (libc_abort)
        libc_abort();
    syscall(SYS_kill, getpid(), SIGKILL); /* there is a libc without abort() */
    for (;;)
        pause();
}
