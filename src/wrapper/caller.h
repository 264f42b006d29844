/*
 * wrapper/caller.h - the library function for which a file is opened
 */
#ifndef DYAD_WRAPPER_CALLER_H
#define DYAD_WRAPPER_CALLER_H

#include <stdbool.h>

/* True if the calling thread is in a function that opens a file which need not exist, or
 * which another process of the same program is making. Walks the stack: some 10 us, so
 * only for an open that would wait otherwise. False if the stack does not show it.
 * Thread-safe; allocates nothing; keeps errno. */
bool wrapper_caller_is_looking(void);

#endif
