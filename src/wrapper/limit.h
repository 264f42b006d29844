/*
 * wrapper/limit.h - the limit of open descriptors in a process that runs its rank's member
 *
 * The member has a descriptor table of its own, but the limit is the process's, and UCX
 * aborts the program when it gets no descriptor. So while the member is here, a limit below
 * what it needs is shown to the program and not in force: it is for the processes that it
 * starts and for the image that it execs.
 */
#ifndef DYAD_WRAPPER_LIMIT_H
#define DYAD_WRAPPER_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

/* As the kernel has it, whatever libc's struct is. */
struct wrapper_limit {
    uint64_t soft, hard;
};

/* The member is about to start: what limit there is must do for it. */
void wrapper_limit_hold(void);
/* No member here (any more): the limit that is shown comes into force. In the child of a
 * fork or of vfork, and before exec. */
void wrapper_limit_apply(void);
/* The program's setrlimit and getrlimit, either of which may be NULL. 1: done, -1: failed,
 * 0: the kernel's business. */
int wrapper_limit_emulate(const struct wrapper_limit *set, struct wrapper_limit *get,
                          bool member_here);

#endif
