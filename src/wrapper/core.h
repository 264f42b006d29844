/*
 * wrapper/core.h - what the modules of the wrapper share: is it on, for this process, this
 * thread; the engine
 *
 * A wrapper function asks, in this order, at growing cost:
 * - wrapper_active(): a managed directory is configured, and this thread is the program's;
 * - wrapper_path_find(): the path is below it;
 * - wrapper_mine(): this process owns the memory we run in (not the child of vfork);
 * - wrapper_engine(): the engine, loaded at the first need;
 *
 * and passes the call through unchanged as soon as one says no.
 */
#ifndef DYAD_WRAPPER_CORE_H
#define DYAD_WRAPPER_CORE_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/client_ops.h"

enum wrapper_phase {
    WRAPPER_NEW = 0, /* nothing was read yet */
    WRAPPER_STARTING,
    WRAPPER_OFF, /* no managed directory, or the engine will not work: everything passes
                    through */
    WRAPPER_ON,
};

extern _Atomic int wrapper_phase;

/* > 0: calls of this thread pass through: it is in the engine or of the engine. */
extern __thread int wrapper_guard __attribute__((tls_model("initial-exec")));

/* Read the configuration from environ if nobody has yet. Any thread, before constructors
 * too. True: on. */
bool wrapper_start_early(void);

static inline bool wrapper_active(void)
{
    int phase = atomic_load_explicit(&wrapper_phase, memory_order_acquire);

    if (__builtin_expect(phase == WRAPPER_OFF, 1))
        return false;
    if (wrapper_guard > 0)
        return false;
    return phase == WRAPPER_ON || wrapper_start_early();
}

/* False in the child of vfork (or of a raw clone that shares memory): it runs in its
 * parent's memory, with descriptors of its own. A child of a fork that did not go through
 * our fork() is taken in here. */
bool wrapper_mine(void);

/* The engine's table, or NULL: this process does without. Loads the engine at the first
 * call; lets the member's thread join. Errno is kept. */
const struct engine_ops *wrapper_engine(void);
/* Have the loader map the engine, and set it up. From a thread with a
 * descriptor table of its own. */
void wrapper_engine_preload(void);
/* Run fn while nobody forks. */
void wrapper_engine_locked(void (*fn)(void));
/* The table if the engine is loaded, else NULL. */
const struct engine_ops *wrapper_engine_loaded(void);

/* Call into the engine: ENGINE_CALL(r, ops->consume(...)). Signals are blocked and the
 * thread is not cancelled, but while the engine waits (call.c). */
struct wrapper_call {
    uint64_t mask; /* the program's */
    int cancel, guard;
    struct wrapper_call *outer;
};
void wrapper_call_begin(struct wrapper_call *call);
void wrapper_call_end(struct wrapper_call *call);
/* engine_host.waits */
void wrapper_call_waits(bool begins, bool may_cancel);
/* Block the signals that can wait; *mask: what was blocked before. Keeps errno. */
void wrapper_signals_block(uint64_t *mask);
void wrapper_signals_restore(const uint64_t *mask);

#define ENGINE_CALL(expr)                  \
    ({                                     \
        struct wrapper_call call_;         \
        wrapper_call_begin(&call_);        \
        __typeof__(expr) result_ = (expr); \
        wrapper_call_end(&call_);          \
        result_;                           \
    })
#define ENGINE_CALL_VOID(expr)      \
    do {                            \
        struct wrapper_call call_;  \
        wrapper_call_begin(&call_); \
        expr;                       \
        wrapper_call_end(&call_);   \
    } while (0)

/* After a fork, in the child; `unseen`: not through our fork(). */
void wrapper_fork_child(void);
/* A call of libc's is about to start a process that gets copies of our descriptors. */
void wrapper_spawn_begin(void);
/* Around the real fork: no fork while another thread is half way through loading the
 * engine. False: this thread is itself in the engine (a signal handler forks), and nothing
 * was locked. */
bool wrapper_fork_lock(void);
void wrapper_fork_unlock(void);

#endif
