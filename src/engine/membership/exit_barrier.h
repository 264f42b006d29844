/*
 * engine/membership/exit_barrier.h - when a rank whose program has ended may leave
 */
#ifndef DYAD_ENGINE_MEMBERSHIP_EXIT_BARRIER_H
#define DYAD_ENGINE_MEMBERSHIP_EXIT_BARRIER_H

#include "engine/core/member.h"

/* A publish, wait or exit began or ended: raise the activity counter and tell the other
 * ranks. */
void exit_barrier_activity(struct member *member);
/* The verdict is that nobody is left who could end this rank's waits. */
void exit_barrier_nobody_left(struct member *member);
/* The state that is reported to the barrier may have changed: compute it again soon. */
void exit_barrier_look_soon(struct member *member);
/* True if the program is at its exit and no process below it is left. */
bool exit_barrier_may_leave(const struct member *member);

#endif
