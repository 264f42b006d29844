/*
 * wrapper/limit.h - the limit of open descriptors in a process that runs its rank's member
 *
 * The member has a descriptor table of its own, but the limit is the process's, and UCX
 * aborts the program when it gets no descriptor. So while the member is here, a limit
 * that is too low for it is only shown to the program, and not in force: it applies to
 * the processes that the program starts and to the image that it execs.
 */
#ifndef DYAD_WRAPPER_LIMIT_H
#define DYAD_WRAPPER_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

/* A limit in the kernel's layout, whatever libc's struct is. */
struct wrapper_limit {
    uint64_t soft, hard;
};

/* The member is about to start: raise a limit that is too low for it, and show the old
 * one. */
void wrapper_limit_hold(void);
/* No member is here (any more): put the limit that is shown into force. In the child of a
 * fork or of vfork, and before exec. */
void wrapper_limit_apply(void);
/* The program's setrlimit and getrlimit; `set` or `get` may be NULL. 1: done, -1: failed,
 * 0: make the real call. */
int wrapper_limit_emulate(const struct wrapper_limit *set, struct wrapper_limit *get,
                          bool member_here);

#endif
