/*
 * engine_load.c - the engine is loaded once, and not during a fork
 *
 * The engine's table pointer is published with release under load_lock. A signal handler
 * never waits for its own thread: signals are blocked while that loads.
 */
#include "wrapper/engine_load.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "boot/libs.h"
#include "util/clock.h"
#include "util/log.h"
#include "wrapper/unshare_thread.h"
#include "wrapper/call.h"
#include "wrapper/environment.h"
#include "wrapper/phase.h"

#define FORK_WAIT_NS (5 * UTIL_NSEC_PER_SEC)
#define ENGINE_FILE  "libdyad.so.1"

static _Atomic(const struct engine_ops *) engine;
static _Atomic uint32_t load_lock; /* 0 free, 1 held, 2 held and waited for */
static _Atomic int32_t gate; /* how many threads have the loader at work; -1: a fork */
static char library_dir[PATH_MAX]; /* where libdyad_wrapper.so is; empty if unknown */

static void lock(void)
{
    uint32_t seen = 0;

    if (atomic_compare_exchange_strong(&load_lock, &seen, 1))
        return;
    while (atomic_exchange(&load_lock, 2) != 0)
        syscall(SYS_futex, &load_lock, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

static void unlock(void)
{
    if (atomic_exchange(&load_lock, 0) == 2)
        syscall(SYS_futex, &load_lock, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* The directory of this library, as an absolute path: LD_PRELOAD may be relative, and the
 * program may chdir. */
void wrapper_engine_find(void)
{
    Dl_info info;
    const char *slash;
    size_t at = 0;

    if (!dladdr(library_dir, &info) || !info.dli_fname)
        return;
    slash = strrchr(info.dli_fname, '/');
    if (!slash)
        return;
    if (info.dli_fname[0] != '/') {
        long n = syscall(SYS_getcwd, library_dir, sizeof(library_dir));
        if (n <= 0 || library_dir[0] != '/') {
            library_dir[0] = '\0';
            return;
        }
        at = (size_t)n - 1;
        library_dir[at++] = '/';
        log_warn(
            "LD_PRELOAD names %s, a relative path: programs that are started in another "
            "directory "
            "run without DYAD; give an absolute path",
            info.dli_fname);
    }
    if (at + (size_t)(slash - info.dli_fname) >= sizeof(library_dir)) {
        library_dir[0] = '\0';
        return;
    }
    memcpy(library_dir + at, info.dli_fname, (size_t)(slash - info.dli_fname));
    library_dir[at + (size_t)(slash - info.dli_fname)] = '\0';
}

/* A loader waits for forks, which are short. */
static void gate_enter(void)
{
    int32_t n = atomic_load(&gate);

    for (;;) {
        if (n < 0) {
            syscall(SYS_futex, &gate, FUTEX_WAIT_PRIVATE, n, NULL, NULL, 0);
            n = atomic_load(&gate);
        } else if (atomic_compare_exchange_weak(&gate, &n, n + 1)) {
            return;
        }
    }
}

static void gate_leave(int32_t by)
{
    if (atomic_fetch_sub(&gate, by) == by)
        syscall(SYS_futex, &gate, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* A loader may itself wait for the thread that forks, which holds the dynamic loader's lock
 * in a library's constructor: then it is at rest, and the fork goes on after a while. */
bool wrapper_fork_lock(void)
{
    uint64_t now = util_clock_now(), until = now + FORK_WAIT_NS;
    int32_t n = 0;

    if (wrapper_guard > 0)
        return false;
    while (!atomic_compare_exchange_strong(&gate, &n, -1)) {
        struct timespec ts = {.tv_sec = 1};
        if (now >= until)
            return false;
        syscall(SYS_futex, &gate, FUTEX_WAIT_PRIVATE, n, &ts, NULL, 0);
        now = util_clock_now();
        n = 0;
    }
    wrapper_guard++;
    return true;
}

void wrapper_fork_unlock(void)
{
    wrapper_guard--;
    gate_leave(-1);
}

void wrapper_engine_fork_child(void)
{
    /* Only this thread exists, and it is in no load: the gate is held by it, in
     * wrapper_fork_lock(), or by others that are gone. */
    atomic_store(&load_lock, 0);
    atomic_store(&gate, wrapper_guard > 0 ? -1 : 0);
}

static void thread_enter(void)
{
    wrapper_guard++;
}

static void *open_engine(const char *path)
{
    return dlopen(path,
                  RTLD_NOW | RTLD_LOCAL | (boot_libs_own_malloc() ? 0 : RTLD_DEEPBIND));
}

/* Find the engine. Without our lock: a thread that opens a library waits for the dynamic
 * loader's lock, which a thread in a library's constructor holds, and that one may need
 * the engine, too. Two threads that do this at once find the same. */
static const struct engine_ops *load(void)
{
    static const char *const below[] = {"", "/../lib"};
    const struct engine_ops *ops;
    engine_ops_get_fn get;
    void *handle = NULL;
    char path[PATH_MAX + 32];

    for (size_t i = 0; !handle && i < sizeof(below) / sizeof(below[0]); i++) {
        snprintf(path, sizeof(path), "%s%s/%s", library_dir, below[i], ENGINE_FILE);
        if (library_dir[0] && (i == 0 || access(path, R_OK) == 0))
            handle = open_engine(path);
        if (!handle && i == 0 && access(path, R_OK) == 0)
            break; /* it is there, and its own message is the one that helps */
    }
    if (!handle) {
        const char *why = library_dir[0] ? dlerror() : NULL;
        log_error(
            "the engine, %s, cannot be loaded from %s: %s; managed directories are plain "
            "directories "
            "for this process",
            ENGINE_FILE, library_dir[0] ? library_dir : "(unknown)",
            why ? why : "no such file");
        return NULL;
    }
    get = (engine_ops_get_fn)dlsym(handle, ENGINE_OPS_SYMBOL);
    ops = get ? get(ENGINE_ABI) : NULL;
    if (!ops || ops->abi != ENGINE_ABI) {
        log_error(
            "%s is not of the version of libdyad_wrapper.so; install both from one build",
            path);
        return NULL;
    }
    return ops;
}

static void run_gated(void *fn)
{
    gate_enter();
    (*(void (**)(void))fn)();
    gate_leave(1);
}

/* engine_host.run_loader: on a thread that has left the program's descriptor table, while
 * nobody forks. */
static void run_loader(void (*fn)(void))
{
    wrapper_apart_run(run_gated, &fn);
}

static const struct engine_ops *load_once(void)
{
    struct engine_host host = {.abi = ENGINE_ABI,
                               .thread_enter = thread_enter,
                               .env = wrapper_env,
                               .waits = wrapper_call_waits,
                               .run_loader = run_loader};
    const struct engine_ops *found, *ops;

    gate_enter();
    found = load();
    lock();
    ops = atomic_load(&engine);
    if (!ops && atomic_load(&wrapper_phase) == WRAPPER_ON) {
        if (found && found->setup(&host) == 0) {
            ops = found;
            atomic_store_explicit(&engine, ops, memory_order_release);
        } else {
            atomic_store_explicit(&wrapper_phase, WRAPPER_OFF, memory_order_release);
        }
    }
    unlock();
    gate_leave(1);
    return ops;
}

static void preload(void *unused)
{
    static const char *const below[] = {"", "/../lib"};
    char path[PATH_MAX + 64];

    (void)unused;
    /* A fork in the midst of it would leave a child whose exit runs the destructors of
     * libraries that were not constructed: libucs crashes there. Forks wait for this gate.
     */
    gate_enter();
    for (size_t i = 0; library_dir[0] && i < sizeof(below) / sizeof(below[0]); i++) {
        snprintf(path, sizeof(path), "%s%s/%s", library_dir, below[i], ENGINE_FILE);
        if (open_engine(path))
            break;
    }
    /* Set up here, too: its descriptors are in this thread's table, and the program cannot
     * close them. */
    load_once();
    gate_leave(1);
}

void wrapper_engine_preload(void)
{
    if (!wrapper_engine_loaded())
        wrapper_apart_run(preload, NULL);
}

const struct engine_ops *wrapper_engine_loaded(void)
{
    return atomic_load_explicit(&engine, memory_order_acquire);
}

const struct engine_ops *wrapper_engine_load(void)
{
    const struct engine_ops *ops = wrapper_engine_loaded();
    int saved = errno;

    if (__builtin_expect(ops != NULL, 1))
        return ops;
    if (atomic_load(&wrapper_phase) != WRAPPER_ON)
        return NULL;
    ops = ENGINE_CALL(load_once());
    errno = saved;
    return ops;
}
