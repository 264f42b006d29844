/*
 * wrapper/gate.h - no fork while a descriptor and what is known of it differ
 *
 * A thread that opens, duplicates or closes a tracked descriptor does so in steps; a fork
 * of another thread between them would give the child a descriptor that its table does not
 * have. The child then ends without a word of it, and what it was the last to hold is not
 * published. So such steps are made inside of the gate, and fork waits until nobody is.
 *
 * Thread-safe; for signal handlers, too: what a handler does inside of the gate, or a fork
 * there, does not wait for its own thread.
 */
#ifndef DYAD_WRAPPER_GATE_H
#define DYAD_WRAPPER_GATE_H

/* Around the steps; they may be nested. A fork waits for them, so they must not be ones
 * that may wait for what the program does next, as the open of a FIFO does. They may be
 * slow: on a busy node a thread gets no processor for longer than any step takes. */
void wrapper_gate_enter(void);
void wrapper_gate_leave(void);
/* The same for pthread_cleanup_push(): an open or a close may be where a thread is
 * cancelled. */
void wrapper_gate_leave_cleanup(void *unused);

/* Around a fork, in the parent: wait until nobody is inside, and let nobody in. Waits 5 s
 * at most, for a file system that does not answer; after that the child may lack a
 * descriptor in its table. */
void wrapper_gate_shut(void);
void wrapper_gate_open(void);
/* In the child, where nobody else is. */
void wrapper_gate_fork_child(void);

#endif
