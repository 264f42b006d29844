/*
 * wrapper/phase.h - whether the wrapper is on, and this process owns the memory it runs
 * in
 *
 * For the modules below core.h. They are called by wrapper functions that have called
 * wrapper_active() and wrapper_mine(): so they need not start the wrapper, or handle a
 * new child of a fork.
 */
#ifndef DYAD_WRAPPER_PHASE_H
#define DYAD_WRAPPER_PHASE_H

#include <stdatomic.h>
#include <stdbool.h>

enum wrapper_phase {
    WRAPPER_NEW = 0, /* nothing was read yet */
    WRAPPER_STARTING,
    WRAPPER_OFF, /* no managed directory, or the engine will not work: everything passes
                    through */
    WRAPPER_ON,
};

extern _Atomic int wrapper_phase;

/* This process owns the memory from now on: begin at the start, set in a fork's child. */
void wrapper_owner_begin(void);
void wrapper_owner_set(void);
/* True in the child of a fork that no wrapper of ours saw, until wrapper_owner_set(). */
bool wrapper_owner_is_unseen(void);
/* False in the child of vfork (or of a raw clone that shares memory). */
bool wrapper_owner_is_self(void);

#endif
