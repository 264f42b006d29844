/*
 * store/lock.h - OFD locks: whether a description is held, in whatever process
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

/* Lock a file of our own (journal, temporary) for this description. 0, or -1: EBUSY
 * another holds it. On file systems without OFD locks by flock, which lasts as long. */
int store_lock_take(int fd);
/* Block until no description holds that lock; fd is readable and has no lock. 0, or -1
 * (EINTR...). */
int store_lock_await(int fd);
/* True if fd is still the file that has this name. */
bool store_lock_current(int fd, int dirfd, const char *name);

/* Write-lock one byte for fd's description. 0, or -1: EBADF not open for writing; else
 * the file system has no such locks. */
int store_lock_byte(int fd, off_t byte);
/* 1 if another description than fd's holds a write lock on the byte, 0 if not, or -1:
 * that cannot be found out. */
int store_lock_test(int fd, off_t byte);
/* 1 if fd's own description holds a write lock on the byte, 0 if not, or -1: no /proc.
 * Does not open the file: the close would end the POSIX locks that the process has on it.
 */
int store_lock_own(int fd, off_t byte);
/* Block until no other description holds it. fd must be readable. 0 or -1. */
int store_lock_wait_byte(int fd, off_t byte);
/* As store_lock_test() without any descriptor of the file, by reading /proc/locks: slow,
 * and may miss a lock if very many come and go (lock.c). */
int store_lock_search(uint64_t ino, off_t byte);

#endif
