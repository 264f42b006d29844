/*
 * boot/fdtable.h - a descriptor table of the engine's own
 *
 * The program may close any number, and counts on the lowest free one; so none of our
 * descriptors is in its table. The first engine thread unshares; threads that it creates,
 * and theirs, share the private table. Numbers 3 to floor-1 of it are guards (/dev/null),
 * so that our descriptors have numbers that a program seldom has, and a close() that a
 * library makes from the wrong table hits nothing.
 *
 * In the private table 0 is /dev/null; 1 and 2 stay the program's: a library that flushes
 * the stdio stream in one of our threads would else write the program's buffered output to
 * nowhere.
 */
#ifndef DYAD_BOOT_FDTABLE_H
#define DYAD_BOOT_FDTABLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* Give the calling thread a table with only 0-2 and the descriptors keep[n] of the
 * program's, whose new numbers (floor or above, close-on-exec) replace the old. The
 * program's table is not changed. Signals must be blocked. Before it unshares it starts the
 * thread behind boot_fdtable_host_thread(). 0, or -1 with errno: the thread's table is then
 * unusable for anything but ending the thread, unless errno is EINVAL or EAGAIN (nothing
 * was done). */
int boot_fdtable_unshare(int keep[], size_t n);

/* End the private table, except for the calling thread and fd: the calling thread gets a
 * table with only 0-2 and fd, under a new number; the descriptors of the private table
 * are closed, as by boot_fdtable_close_all(), 1 too, even if threads of a dead library
 * still use it. Returns the new number, or -1 with errno: nothing was done, or, EIO, this
 * thread's table is of no use any more. From a thread of the private table, signals
 * blocked. */
int boot_fdtable_move(int fd);

/* After boot_fdtable_move(), by this or by another copy of this library: as
 * boot_fdtable_unshare(), for a table that no other thread shares. Starts no host thread.
 */
int boot_fdtable_take(int *fd);

/* True if the calling thread's table is the private one. False before
 * boot_fdtable_unshare(). Any thread. */
bool boot_fdtable_is_private(void);

/* Create a thread that uses the program's table, with all signals blocked. 0 or an errno
 * value (ESRCH: boot_fdtable_unshare() was not called). Any thread but that of a forked
 * child. */
int boot_fdtable_host_thread(pthread_t *thread, void *(*fn)(void *arg), void *arg);

/* Close the program's standard output (1) or error (2) in the private table: /dev/null
 * takes its place. So the reader of a pipe sees the end of file although this process
 * lingers, and a file that is written through it can be closed for the last time. Log lines
 * to stderr are lost once 2 is dropped. From a thread of the private table; else without
 * effect. */
void boot_fdtable_drop(int fd);

/* Close all descriptors of the private table but 0-2, when no thread needs it any more. A
 * thread that still runs finds its descriptors gone. From a thread of the private table;
 * else without effect. */
void boot_fdtable_close_all(void);

#endif
