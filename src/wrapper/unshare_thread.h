/*
 * wrapper/unshare_thread.h - a short-lived thread with a descriptor table of its own
 *
 * Loading a library opens files, and a program that closes 0 and opens a file expects to
 * get 0. So the engine and what it needs are loaded by a thread that has left the program's
 * table.
 */
#ifndef DYAD_WRAPPER_UNSHARE_THREAD_H
#define DYAD_WRAPPER_UNSHARE_THREAD_H

/* Run fn(arg) on such a thread, and wait for its end. Does nothing if no thread can be
 * made. */
void wrapper_apart_run(void (*fn)(void *arg), void *arg);

/* After a real close, and before a test whether others hold the file: wait until no
 * thread of ours that is just leaving the program's table has copies of its descriptors.
 */
void wrapper_apart_wait(void);

#endif
