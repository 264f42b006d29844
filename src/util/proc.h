/*
 * util/proc.h - what /proc says of a process
 */
#ifndef DYAD_UTIL_PROC_H
#define DYAD_UTIL_PROC_H

#include <sys/types.h>

/* The parent of a process. 0: it has none here (it is the first of its name space, or its
 * parent is in another), is gone, or there is no /proc. Thread-safe; opens one descriptor
 * for the time of the call; errno may change. */
pid_t util_proc_parent(pid_t pid);

#endif
