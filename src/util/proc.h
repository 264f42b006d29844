/*
 * util/proc.h - facts about a process from /proc
 */
#ifndef DYAD_UTIL_PROC_H
#define DYAD_UTIL_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The begin of a small file there, as a string: its length, or -1 with errno. Thread-safe,
 * async-signal-safe. */
ssize_t util_proc_read(const char *path, char *text, size_t size);

/* The parent of a process. 0: it has none here (it is the first of its name space, or its
 * parent is in another), is gone, or there is no /proc. Thread-safe; opens one descriptor
 * for the time of the call; errno may change. */
pid_t util_proc_parent(pid_t pid);

/* True if `pid` is this process, or an ancestor of it. Thread-safe; errno may change. */
bool util_proc_is_self_or_ancestor(pid_t pid);

/* True if `pid` runs the program that this process runs: the same executable with the
 * same arguments. False also if that cannot be found out. Thread-safe; errno may change.
 */
bool util_proc_is_same_program(pid_t pid);

/* A number of the program that `pid` runs: the path of its executable, and its arguments. The
 * same on every node. 0: it cannot be found out. Thread-safe; errno may change. */
uint64_t util_proc_program(pid_t pid);

#endif
