/*
 * engine/membership/exit_barrier.h - when a rank whose program has ended may leave
 */
#ifndef DYAD_ENGINE_MEMBERSHIP_EXIT_BARRIER_H
#define DYAD_ENGINE_MEMBERSHIP_EXIT_BARRIER_H

#include "engine/core/member.h"

/* Something began or ended (publish, wait, exit): raises the activity counter, tells the
 * others. */
void exit_barrier_activity(struct member *member);
/* What the barrier is told may have changed. */
void exit_barrier_look_soon(struct member *member);
/* The program is at its exit and no process below it is left. */
bool exit_barrier_may_leave(const struct member *member);

#endif
