/*
 * net/loop.h - the one event loop of a member
 *
 * Everything that a member knows (shard, peers, operations in flight) belongs to the thread
 * that runs the loop, so it needs no lock. Other threads hand it work with net_loop_post().
 *
 * The doorbell that wakes the loop is not a descriptor: threads of the program have another
 * descriptor table than ours (a program may close ours, and a number may by then name a
 * file of the program's). It is SIGURG, blocked in the loop's thread, thread-directed with
 * tgkill and read through a signalfd that only the loop holds; its default action is to be
 * ignored, so a stray one is harmless. It is sent once per transition from empty to
 * non-empty.
 */
#ifndef DYAD_NET_LOOP_H
#define DYAD_NET_LOOP_H

#include <stdbool.h>
#include <stdint.h>

struct net_loop;
struct net_timer;
struct net_watch;

typedef void (*net_loop_fn)(void *arg);
typedef void (*net_watch_fn)(void *arg, int fd, uint32_t events);

/* Create the loop. The calling thread is the one that will run it; all signals must be
 * blocked in it. NULL with errno. */
struct net_loop *net_loop_create(void);
/* Their users destroy watches and timers before this; posts that have not run never will.
 */
void net_loop_destroy(struct net_loop *loop);

/* Do not sleep for `ns` nanoseconds after each event or message: look again and again,
 * which saves the kernel's wake-up of this thread and takes a core meanwhile. 0, as it is
 * at first: sleep at once. The loop's thread, or before the run. */
void net_loop_set_polling(struct net_loop *loop, uint64_t ns);

/* Run until net_loop_stop(). 0, or -1 with errno when the kernel refuses to wait. */
int net_loop_run(struct net_loop *loop);
/* Loop thread only; run returns after the current callback (after the current batch of
 * posts). A stop before run makes the next run return at once. */
void net_loop_stop(struct net_loop *loop);

/* Queue fn(arg) for the loop's thread. Any thread; lock-free; does not allocate: `node`
 * belongs to the caller and must live until fn runs. Order of one poster is kept. */
struct net_post {
    struct net_post *next;
    net_loop_fn fn;
    void *arg;
};
void net_loop_post(struct net_loop *loop, struct net_post *node, net_loop_fn fn, void *arg);
/* Ring once more if something posted has not been taken. A program that sets SIGURG to
 * SIG_IGN or SIG_DFL at the very moment makes the kernel drop a pending doorbell: a thread
 * that has waited for its posted operation for a second or so calls this each time it
 * wakes. Any thread. */
void net_loop_ring(struct net_loop *loop);

/* Watch fd for EPOLL* events. NULL with errno. Any watch may be destroyed in any callback;
 * it is not called afterwards, even for an event that has happened. Destroy it before
 * closing fd. */
struct net_watch *net_loop_watch(struct net_loop *loop, int fd, uint32_t events,
                                 net_watch_fn fn, void *arg);
int net_watch_modify(struct net_watch *watch, uint32_t events);
void net_watch_destroy(struct net_watch *watch);

/* One-shot timer at an absolute util_clock_now() time; start again to move it. No thread
 * wakes while no timer runs and no pulse is set. */
struct net_timer *net_timer_create(struct net_loop *loop, net_loop_fn fn, void *arg);
void net_timer_start(struct net_timer *timer, uint64_t when_ns);
void net_timer_stop(struct net_timer *timer);
void net_timer_destroy(struct net_timer *timer);

/* Call fn when this thread has not run for so long that others may have noticed: stopped,
 * held by a debugger, swapped out. For that the loop wakes every `period` (ns; 0: not any
 * more), and if it is late by more than half of that it calls fn with the delay, before
 * anything else: `ns` is up to a period too short, and a delay below one and a half
 * periods may be missed. Only one such function is kept. */
typedef void (*net_loop_still_fn)(void *arg, uint64_t ns);
void net_loop_set_pulse(struct net_loop *loop, uint64_t period, net_loop_still_fn fn,
                        void *arg);

/* `progress` is called before every sleep until it returns 0 (nothing done); then `arm`:
 * true when it is safe to sleep. Used by the UCX worker. One of each. */
void net_loop_set_progress(struct net_loop *loop, unsigned (*progress)(void *arg),
                           bool (*arm)(void *arg), void *arg);

#endif
