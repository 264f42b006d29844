/*
 * store/lock.h - OFD locks: who holds a description, whatever process it lives in
 *
 * Private to the room. A lock sits on one byte at or beyond STORE_LOCK_OFFSET, far beyond
 * any file. All functions are thread-safe, none blocks unless it says so.
 */
#ifndef DYAD_STORE_LOCK_H
#define DYAD_STORE_LOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define STORE_LOCK_OFFSET ((off_t)1 << 62)

/* Claim a file of our own (journal, temporary) for this description. 0, or -1: EBUSY held
 * elsewhere. Where there are no OFD locks, flock, which lasts as long. */
int store_lock_take(int fd);
/* Block until nobody holds that claim; fd is readable and has no claim. 0, or -1
 * (EINTR...). */
int store_lock_await(int fd);
/* Is fd still the file that has this name? */
bool store_lock_current(int fd, int dirfd, const char *name);

/* Write-lock one byte for fd's description. 0 or -1: EBADF not open for writing; else no
 * such locks here. */
int store_lock_byte(int fd, off_t byte);
/* Does another description than fd's hold a write lock on the byte? 1, 0, or -1: cannot
 * tell. */
int store_lock_test(int fd, off_t byte);
/* Does fd's own description hold a write lock on the byte? 1, 0, or -1: no /proc. The file
 * is not opened: the close would end the POSIX locks that the process has on it. */
int store_lock_own(int fd, off_t byte);
/* Block until no other description holds it. fd must be readable. 0 or -1. */
int store_lock_wait_byte(int fd, off_t byte);
/* As store_lock_test() without any descriptor of the file, out of /proc/locks: slow, and a
 * lock may be missed where very many come and go (lock.c). */
int store_lock_search(uint64_t ino, off_t byte);

#endif
