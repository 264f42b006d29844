/*
 * wrapper/phase.h - is the wrapper on, and does this process own the memory it runs in
 *
 * What the modules below core.h need to know. They are called by wrapper functions that
 * have asked wrapper_active() and wrapper_mine(): so they start nothing, and take in no
 * fork.
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

/* This process owns the memory from now on: at the start, and in the child of a fork. */
void wrapper_owner_begin(void);
void wrapper_owner_set(void);
/* This is the child of a fork that no wrapper of ours saw, and nothing was set since. */
bool wrapper_owner_is_unseen(void);
/* False in the child of vfork (or of a raw clone that shares memory). */
bool wrapper_owner_is_self(void);

#endif
