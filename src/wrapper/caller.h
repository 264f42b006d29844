/*
 * wrapper/caller.h - for which function of a library a file is opened
 */
#ifndef DYAD_WRAPPER_CALLER_H
#define DYAD_WRAPPER_CALLER_H

#include <stdbool.h>

/* Is the calling thread in a function that opens a file which need not be there, or which
 * another process of the same program is making? By the stack: takes some 10 us, so only
 * for an open that would wait otherwise. False if the stack does not tell. Thread-safe;
 * allocates nothing; keeps errno. */
bool wrapper_caller_is_looking(void);

#endif
