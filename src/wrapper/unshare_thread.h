/*
 * wrapper/unshare_thread.h - a short-lived thread with a descriptor table of its own
 *
 * Loading a library opens files, and a program that closes 0 and opens a file expects to
 * get 0. So the engine and what it needs are loaded by a thread that has left the program's
 * table.
 */
#ifndef DYAD_WRAPPER_UNSHARE_THREAD_H
#define DYAD_WRAPPER_UNSHARE_THREAD_H

/* Run fn(arg) on such a thread, and wait for its end. Nothing happens if there is no thread
 * to be had. */
void wrapper_apart_run(void (*fn)(void *arg), void *arg);

/* Between a real close and asking who else holds the file: returns when no thread of ours
 * has a copy of a descriptor of the program's because it is just leaving its table. */
void wrapper_apart_wait(void);

#endif
