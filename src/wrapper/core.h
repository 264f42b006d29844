/*
 * wrapper/core.h - what the wrapper functions share: is it on, for this process, this
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

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "wrapper/call.h"
#include "wrapper/engine_load.h"
#include "wrapper/phase.h"

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

/* The descriptor is tracked, and the caller is a program's thread in a process of its own.
 */
bool wrapper_tracks(int fd);

/* The engine's table, or NULL: this process does without. Loads the engine at the first
 * call; lets the member's thread join. Errno is kept. */
const struct engine_ops *wrapper_engine(void);

/* After a fork, in the child. */
void wrapper_fork_child(void);
/* A call of libc's is about to start a process that gets copies of our descriptors. */
void wrapper_spawn_begin(void);

#endif
