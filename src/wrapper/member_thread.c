/*
 * member_thread.c - claim, member's thread, exit and exec
 *
 * A process that gets its rank's claim starts a thread, which gives the program a moment
 * to exec and then enters member_run(). At exit and before exec the process has the
 * thread leave; after an exec that failed it starts another. One futex word holds the
 * state: the enum below.
 *
 * What could go wrong: exec and the thread's start at once (the compare-and-swap out of
 * WAITING decides), an exit in the instant before the thread has entered member_run()
 * (leave()), and files that the thread opens in the program's descriptor table
 * (member_main()).
 */
#include "wrapper/member_thread.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "boot/member_claim.h"
#include "boot/identity.h"
#include "boot/launcher.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/loader.h"
#include "util/log.h"
#include "util/stack.h"
#include "wrapper/call.h"
#include "wrapper/engine_load.h"
#include "wrapper/environment.h"
#include "wrapper/limit.h"
#include "wrapper/phase.h"
#include "wrapper/real.h"

#define START_DELAY_NS (5 * UTIL_NSEC_PER_MSEC)
#define LEAVE_AGAIN_NS (20 * UTIL_NSEC_PER_MSEC)
#define STACK_SIZE     (1024 * 1024)

/* `word` is (generation << 2 | state) and a futex. WAITING: the thread has started and
 * gives the program START_DELAY to exec; RUNNING: it is in, or about to enter,
 * member_run(); NONE: no thread, or one that will find another generation and end. The
 * compare-and-swap out of WAITING decides between the thread (or who hurries it) and
 * exec. */
enum { NONE = 0, WAITING, RUNNING, STATE_MASK = 3 };

static _Atomic uint32_t word;
/* The claim is in the program's table only for the engine to take a copy, and to be
 * handed over by exec. */
static _Atomic int claim = -1;
static atomic_bool failed; /* to join: the claim is shut, and of no use to the next image */

static void wake(void)
{
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

static void sleep_while(uint32_t value, uint64_t ns)
{
    struct timespec ts = {.tv_sec = (time_t)(ns / UTIL_NSEC_PER_SEC),
                          .tv_nsec = (long)(ns % UTIL_NSEC_PER_SEC)};

    syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, &ts, NULL, 0);
}

static bool move(uint32_t from, uint32_t state)
{
    uint32_t to =
        state == NONE ? (from | STATE_MASK) + 1 : (from & ~(uint32_t)STATE_MASK) | state;

    if (!atomic_compare_exchange_strong(&word, &from, to))
        return false;
    wake();
    return true;
}

/* Until the engine unshares it, the thread has the program's descriptor table. So the
 * libraries, whose loading opens files, are loaded before by a short-lived thread that
 * has left that table (wrapper_engine_preload(), unshare_thread.h); dlopen() of what is
 * loaded opens nothing. */
static void *member_main(void *arg)
{
    uint32_t waiting = (uint32_t)(uintptr_t)arg;
    uint64_t until = util_clock_now() + START_DELAY_NS, now;
    const struct engine_ops *ops;

    wrapper_guard++;
    while (atomic_load(&word) == waiting && (now = util_clock_now()) < until)
        sleep_while(waiting, until - now);
    if (!move(waiting, RUNNING) &&
        atomic_load(&word) != ((waiting & ~(uint32_t)STATE_MASK) | RUNNING))
        return NULL;
    wrapper_engine_preload();
    ops = wrapper_engine_load();
    if (ops && ops->member_run(atomic_load(&claim)) < 0)
        atomic_store(&failed, true);
    move((waiting & ~(uint32_t)STATE_MASK) | RUNNING, NONE);
    return NULL;
}

/* A thread for the claim that we hold. Signals stay the program's: all are blocked in it
 * from its start. */
static void start_thread(void)
{
    uint32_t old = atomic_load(&word), waiting = (old & ~(uint32_t)STATE_MASK) | WAITING;
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, before;
    int error;

    wrapper_limit_hold();
    atomic_store(&word, waiting);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    util_stack_set(&attr, STACK_SIZE);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, &attr, member_main, (void *)(uintptr_t)waiting);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    if (error) {
        log_error("no thread for the member of this rank: %s; its files are not shared",
                  strerror(error));
        move(waiting, NONE);
        syscall(SYS_close, atomic_exchange(&claim, -1));
    }
}

/* The variable that makes descendants guests of this rank, also if the program has
 * removed the variables from its environment; "": of no rank. */
static char guest_of[BOOT_GUEST_OF_MAX];
static struct boot_identity self;

const char *wrapper_member_guest_of(bool *is_solo)
{
    *is_solo = self.solo;
    return guest_of[0] ? guest_of : NULL;
}

/* The first process of a launch without a launcher: what the environment does not say is
 * added to our copy of it, for the engine. */
static void note_identity(const struct boot_identity *identity, char *const env[])
{
    if (!guest_of[0])
        boot_identity_put_guest_of(identity, guest_of);
    self = *identity;
    if (self.solo && !util_env_get(env, BOOT_GUEST_OF))
        wrapper_env = wrapper_env_extend(wrapper_env, guest_of);
}

/* True for a launcher that no launcher has started: it is no rank, unless a rank executed
 * it. It starts its ranks, with variables of their own, and processes of no rank, which
 * pass on the name of the outer launch. */
static bool stays_apart(const struct boot_identity *identity, char *const env[])
{
    static char nobodys[] = BOOT_GUEST_OF "=" BOOT_GUEST_OF_NOBODY;
    enum boot_launcher kind = identity->solo ? boot_launcher_self() : BOOT_LAUNCHER_NONE;
    const char *there = util_env_get(env, BOOT_GUEST_OF);

    if (kind == BOOT_LAUNCHER_STARTS) {
        strcpy(guest_of, nobodys);
        if (there)
            strcat(guest_of, there); /* BOOT_GUEST_OF_MAX has room for it */
        self.solo = true;
    }
    if (kind == BOOT_LAUNCHER_NONE || there)
        return false;
    wrapper_env = wrapper_env_extend(wrapper_env, nobodys); /* for the engine */
    return true;
}

/* The claim: a new one, or that of the image before. A descriptor, or -1: EADDRINUSE it is
 * another process's. Where a new one can be bound that of the image before is of no use: it
 * is in another network namespace (`unshare -n` executes the program), where nobody of this
 * process's children looks for it. */
static int claim_take(const struct sockaddr_un *address, socklen_t len)
{
    int before = boot_member_claim_inherited(address, len),
        fd = boot_member_claim_bind_first(address, len);

    if (before < 0)
        return fd;
    if (fd >= 0) {
        syscall(SYS_close, before);
        return fd;
    }
    syscall(SYS_fcntl, before, F_SETFD, FD_CLOEXEC);
    return before;
}

static bool start_once(char *const env[])
{
    struct boot_identity identity;
    struct sockaddr_un address;
    socklen_t len;
    const char *bad = NULL;
    int saved = errno, fd;
    bool launched = false;

    wrapper_guard++;
    if (boot_identity_read(&identity, env, &bad) < 0) {
        log_error("%s is malformed; this process shares no files", bad ? bad : "PMIX_RANK");
    } else if (identity.guest_only) {
        launched = true;
        note_identity(&identity, env);
    } else if (stays_apart(&identity, env)) {
        launched = false;
    } else if (identity.launched) {
        launched = true;
        note_identity(&identity, env);
        len = boot_member_claim_address(&identity, util_env_get(env, "DYAD_KVS_NAMESPACE"),
                                        &address);
        fd = claim_take(&address, len);
        if (fd >= 0) {
            atomic_store(&claim, fd);
            wrapper_real_resolve_all();
            start_thread();
        } else if (errno != EADDRINUSE) {
            log_warn("this rank's socket cannot be bound: %s", strerror(errno));
        }
    }
    wrapper_guard--;
    errno = saved;
    return launched;
}

/* At the start of main, or when a constructor needs the engine: after exec the claim is
 * there already, and a constructor that asked the member would wait for itself. Before main
 * there is one thread. */
enum { NOT_STARTED, NOT_LAUNCHED, LAUNCHED };
/* Of the starting thread; the thread that it starts sees NOT_LAUNCHED, or LAUNCHED. */
static _Atomic int started;

bool wrapper_member_start(char *const env[])
{
    if (atomic_load_explicit(&started, memory_order_relaxed) == NOT_STARTED) {
        atomic_store_explicit(&started, NOT_LAUNCHED, memory_order_relaxed);
        if (start_once(env))
            atomic_store_explicit(&started, LAUNCHED, memory_order_relaxed);
    }
    return atomic_load_explicit(&started, memory_order_relaxed) == LAUNCHED;
}

void wrapper_member_hurry(void)
{
    uint32_t seen;

    if (__builtin_expect(
            atomic_load_explicit(&started, memory_order_relaxed) == NOT_STARTED, 0) &&
        wrapper_owner_is_self())
        wrapper_member_start(wrapper_env);
    seen = atomic_load_explicit(&word, memory_order_relaxed);
    if (__builtin_expect((seen & STATE_MASK) == WAITING, 0))
        move(seen, RUNNING);
}

/* Until member_run() has returned, or cannot: the thread waits for the dynamic loader, in
 * wrapper_engine_preload() or in member_run(), and we hold its lock (a constructor of a
 * library ends the program). ops->leave() may be called in the instant before
 * member_run() is entered, where it has nothing to leave yet; so it is repeated until the
 * thread says that member_run() has returned. */
static void leave(enum engine_leave how)
{
    const struct engine_ops *ops;
    uint32_t seen;

    while (((seen = atomic_load(&word)) & STATE_MASK) == RUNNING) {
        ops = wrapper_engine_load();
        if (ops) { /* lingers, for hours perhaps: with the program's signals */
            bool stuck;
            wrapper_guard++;
            ops->leave(how);
            stuck = util_loader_awaited();
            wrapper_guard--;
            if (stuck)
                return;
        }
        sleep_while(seen, LEAVE_AGAIN_NS);
    }
}

bool wrapper_member_here(void)
{
    uint32_t state = atomic_load(&word) & STATE_MASK;

    return state == WAITING || state == RUNNING;
}

/* A guest may have been promoted. */
static void leave_guest(void)
{
    const struct engine_ops *ops = wrapper_engine_loaded();

    if (ops && !wrapper_member_here())
        ENGINE_CALL_VOID(ops->leave(ENGINE_LEAVE_GUEST));
}

/* The program has ended, and its process may serve for hours yet: SIGTERM ends it, also
 * where the program had ignored it or would handle it. (What else it ignores is not its
 * own choice only: nohup, a shell's background jobs.) */
static void default_sigterm(void)
{
    static const struct sigaction by_default = {.sa_handler = SIG_DFL};
    sigset_t set;

    sigaction(SIGTERM, &by_default, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

void wrapper_member_exit(int status)
{
    int saved = errno;

    leave_guest();
    wrapper_member_hurry();
    if ((atomic_load(&word) & STATE_MASK) == RUNNING)
        default_sigterm();
    /* As the parent sees it. */
    leave((status & 0xff) == 0 ? ENGINE_LEAVE_EXIT : ENGINE_LEAVE_FAILED);
    errno = saved;
}

/* True if the new image will belong to this rank. */
static bool is_same_rank(char *const env[])
{
    struct boot_identity then;
    const char *bad;

    return boot_identity_read(&then, env, &bad) == 0 && boot_identity_same(&self, &then);
}

bool wrapper_member_retire(void)
{
    uint32_t seen = atomic_load(&word);
    int saved = errno;

    leave_guest();
    if (atomic_load(&claim) < 0 || (seen & STATE_MASK) == NONE)
        return false; /* a guest, or joining failed */
    while ((seen & STATE_MASK) == WAITING && !move(seen, NONE))
        seen = atomic_load(&word);
    leave(ENGINE_LEAVE_EXEC);
    errno = saved;
    return !atomic_load(&failed); /* it may have done so just now */
}

/* If it is none, the new image tries with a claim of its own. */
bool wrapper_member_exec(char *const env[])
{
    int fd = atomic_load(&claim), saved = errno;

    if (!wrapper_member_retire())
        return false;
    if (is_same_rank(env))
        syscall(SYS_fcntl, fd, F_SETFD, 0);
    errno = saved;
    return true;
}

void wrapper_member_exec_failed(void)
{
    int fd = atomic_load(&claim), saved = errno;

    if (fd >= 0) {
        syscall(SYS_fcntl, fd, F_SETFD, FD_CLOEXEC);
        if ((atomic_load(&word) & STATE_MASK) != RUNNING) /* leave() gave it up */
            start_thread();
    }
    errno = saved;
}

void wrapper_member_fork_child(void)
{
    int fd = atomic_exchange(&claim, -1);

    atomic_store(&word, (atomic_load(&word) | STATE_MASK) + 1);
    if (fd >= 0)
        syscall(SYS_close,
                fd); /* else this child would hold the name after the member's death */
}

int wrapper_member_claim(void)
{
    return atomic_load_explicit(&claim, memory_order_relaxed);
}

bool wrapper_member_is_claim(int fd)
{
    return fd >= 0 && fd == wrapper_member_claim() && wrapper_guard == 0;
}

void wrapper_member_claim_yield(int fd)
{
    int saved = errno, elsewhere;

    elsewhere = fd < 0 ? -1 : (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 256);
    if (fd >= 0 && elsewhere < 0)
        elsewhere = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 10);
    atomic_store(&claim, elsewhere);
    errno = saved;
}
