/*
 * wrapper/caller.h - the library function for which a file is opened
 */
#ifndef DYAD_WRAPPER_CALLER_H
#define DYAD_WRAPPER_CALLER_H

#include <stdbool.h>

/* The knowledge that the function which the calling thread is in has of a file that it opens: nothing
 * (it may be awaited); it may have to make it; another process of the same program has it open.
 * Walks the stack: some 10 us, so
 * only for an open that would wait otherwise. NOTHING if the stack does not show it.
 * Thread-safe; allocates nothing; keeps errno. */
enum wrapper_caller { WRAPPER_CALLER_NOTHING, WRAPPER_CALLER_MAKES, WRAPPER_CALLER_JOINS };
enum wrapper_caller wrapper_caller_knows(void);

#endif
