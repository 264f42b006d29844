/*
 * engine/core/iopool.h - disk work, away from the loop
 *
 * The loop's thread submits a job; a pool thread runs work(); the loop then runs done().
 * The thread that answers look-ups thus never waits for a disk. A small job on local
 * storage takes less time than waking another thread does, so the loop does it itself, as
 * long as the storage is quick (engine_io_near()).
 */
#ifndef DYAD_ENGINE_CORE_IOPOOL_H
#define DYAD_ENGINE_CORE_IOPOOL_H

#include "net/loop.h"

struct engine_iopool;

/* Part of the caller's object; it must live until done() has run. */
struct engine_io {
    struct engine_io *next;
    void (*work)(void *arg); /* on a pool thread, or the loop's: engine_io_near() */
    void (*done)(void *arg); /* on the loop's thread */
    void *arg;
    struct net_post post;
    struct engine_iopool *pool;
};

/* Loop thread. The loop's thread starts the threads, at most max_threads, at the first
 * jobs; they share its descriptor table; thread_enter (may be NULL) runs first in each.
 * NULL with errno. */
struct engine_iopool *engine_iopool_create(struct net_loop *loop, unsigned max_threads,
                                           void (*thread_enter)(void));
/* Let queued jobs finish and join the threads; done() is not called for jobs that finish
 * here. Threads of engine_io_spawn() are not joined: their work touches nothing but its
 * own job. */
void engine_iopool_destroy(struct engine_iopool *pool);

/* Loop thread. Run io->work, then io->done. */
void engine_io_submit(struct engine_iopool *pool, struct engine_io *io,
                      void (*work)(void *arg), void (*done)(void *arg), void *arg);

/* How quick a storage was for the loop; all zero: not tried yet. Loop thread. */
struct engine_near {
    uint64_t average;     /* ns of a job */
    uint64_t closed_till; /* on util_clock_now(); its jobs go to the pool until then */
};

/* True if the loop runs such a job itself now. */
bool engine_io_is_near(const struct engine_near *near);

/* As engine_io_submit(), but if the storage has been quick of late the loop runs `work`
 * in this call. `done` is called from a later turn of the loop in any case. */
void engine_io_near(struct engine_iopool *pool, struct engine_near *near,
                    struct engine_io *io, void (*work)(void *arg), void (*done)(void *arg),
                    void *arg);

/* As engine_io_submit() on a thread of its own, for work that may block without bound (a
 * lock of another process). After engine_iopool_destroy() `done` is not called, and `io`
 * (the start of a malloc'ed object that holds all that work uses) is freed with free(). 0
 * or -1 with errno: nothing was started. */
int engine_io_spawn(struct engine_iopool *pool, struct engine_io *io,
                    void (*work)(void *arg), void (*done)(void *arg), void *arg);

#endif
