/*
 * wrapper/gate.h - no fork while the table of descriptors is behind the kernel's
 *
 * A thread that opens, duplicates or closes a tracked descriptor does so in steps; a fork
 * by another thread between them would give the child a descriptor that its table does
 * not have. The child would then end without reporting it, and a file that it was the
 * last to hold would not be published. So such steps are made inside the gate, and fork
 * waits until no thread is inside.
 *
 * Thread-safe, also for signal handlers: a handler that enters the gate, or forks, while
 * its own thread is inside does not wait for that thread.
 */
#ifndef DYAD_WRAPPER_GATE_H
#define DYAD_WRAPPER_GATE_H

/* Call these around the steps; they nest. A fork waits for the steps, so these must not
 * wait for what the program does next, as the open of a FIFO does. They may be slow: on a
 * busy node a thread gets no processor for longer than any step takes. */
void wrapper_gate_enter(void);
void wrapper_gate_leave(void);
/* The same for pthread_cleanup_push(): a thread may be cancelled in an open or a close.
 */
void wrapper_gate_leave_cleanup(void *unused);

/* Around a fork, in the parent: wait until no thread is inside, and let none in. Waits 5
 * s at most, for a file system that does not answer; after that the child may lack a
 * descriptor in its table. */
void wrapper_gate_shut(void);
void wrapper_gate_open(void);
/* In the child, which has no other thread: reset the gate. */
void wrapper_gate_fork_child(void);

#endif
