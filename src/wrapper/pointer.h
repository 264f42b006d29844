/*
 * wrapper/pointer.h - pointers of the program that must not be dereferenced
 *
 * The kernel answers a bad address with EFAULT; a wrapper that reads it before the call
 * would crash. The lowest page is never mapped: NULL, and the small numbers and members
 * of NULL that broken programs pass. Other bad addresses cannot be found without a system
 * call.
 */
#ifndef DYAD_WRAPPER_POINTER_H
#define DYAD_WRAPPER_POINTER_H

#include <stdbool.h>
#include <stdint.h>

#define WRAPPER_LOWEST_PAGE 4096u

static inline bool wrapper_bad_pointer(const void *p)
{
    return (uintptr_t)p < WRAPPER_LOWEST_PAGE;
}

#endif
