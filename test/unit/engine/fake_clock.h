/*
 * fake_clock.h - time and timers that pass when the test says so
 *
 * In place of libc's clock_gettime(), whatever the clock, and of the timers of net/loop.c.
 * The loop is never looked into: NULL will do. A timer is due in the order of its time, of
 * two with the same in the order in which they were made.
 */
#ifndef DYAD_UNIT_FAKE_CLOCK_H
#define DYAD_UNIT_FAKE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "util/clock.h"

/* util_clock_now(), to be set as it pleases: what has become due by that is late. */
extern uint64_t fake_now;

/* That time, and no timer: what an earlier test that failed has left is forgotten. */
void fake_clock_begin(uint64_t now);
/* Nobody has left a timer. */
void fake_clock_end(void);

/* When the next timer is due; 0: none is set. */
uint64_t fake_clock_next(void);
/* It is `end`, or when the next timer is due, if that is sooner; then that is called.
 * False: none was. */
bool fake_clock_step(uint64_t end);
/* The time passes, and what becomes due in it is done. */
void fake_clock_pass(uint64_t ns);

#endif
