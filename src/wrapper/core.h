/*
 * wrapper/core.h - tests that each wrapper function makes, and the engine
 *
 * A wrapper function asks, in this order, at growing cost:
 * - wrapper_active(): a managed directory is configured, and this thread is the program's;
 * - wrapper_path_find(): the path is below it;
 * - wrapper_mine(): this process owns the memory we run in (not the child of vfork);
 * - wrapper_engine(): the engine, loaded at the first need;
 *
 * and passes the call through unchanged as soon as one fails.
 */
#ifndef DYAD_WRAPPER_CORE_H
#define DYAD_WRAPPER_CORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "wrapper/call.h"
#include "wrapper/engine_load.h"
#include "wrapper/fd.h"
#include "wrapper/phase.h"

/* Read the configuration from environ, if that was not done yet. Any thread, before
 * constructors too. True: the wrapper is on. */
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
 * parent's memory, with descriptors of its own. In a child of a fork that did not go
 * through our fork() this does what wrapper_fork_child() does. */
bool wrapper_mine(void);

/* True if the descriptor is tracked, and the caller is a program's thread in a process
 * that owns its memory. */
bool wrapper_tracks(int fd);
/* True if what this thread writes to the descriptor is recorded (write.c). Also in the child of a vfork, whose descriptors may be
 * others than its table says: then the record has too much. */
static inline bool wrapper_is_recorded(int fd)
{
    return __builtin_expect(wrapper_fd_marked(fd), 0) && wrapper_fd_recorded(fd) &&
           wrapper_active();
}

/* fd, which is marked, is about to be read, or its length to be asked for: if other nodes write the
 * file, too, bring what they have written. 0, or -1 with EIO. */
int wrapper_show(int fd);

/* The engine's table, or NULL: this process does not use it. Loads the engine at the
 * first call; lets the member's thread join. Keeps errno. */
const struct engine_ops *wrapper_engine(void);

/* Call it in the child of a fork. */
void wrapper_fork_child(void);
/* A function of libc is about to start a process that gets copies of our descriptors. */
void wrapper_spawn_begin(void);

#endif
