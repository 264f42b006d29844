/*
 * wrapper/pointer.h - pointers of the program's that must not be followed
 *
 * The kernel answers a bad address with EFAULT; who reads it before the call is killed.
 * What lies in the lowest page is never mapped: NULL, and the small numbers and members of
 * NULL that broken programs pass. Other bad addresses cannot be told without a system call.
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
