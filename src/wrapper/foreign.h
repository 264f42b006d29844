/*
 * wrapper/foreign.h - the real definition of a function that the wrapper exports, and that is not
 * libc's
 */
#ifndef DYAD_WRAPPER_FOREIGN_H
#define DYAD_WRAPPER_FOREIGN_H

#include <stdatomic.h>

/* Where `caller`, an address in the calling object, would have found it; else in any object that is
 * loaded. *cache: a static of the caller, NULL at first; it is the same whoever stores
 * it. NULL: there is none. Keeps errno. */
void *wrapper_foreign(_Atomic(void *) *cache, const char *name, const void *caller);

#endif
