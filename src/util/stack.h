/*
 * util/stack.h - how large the stack of a thread of ours must be
 *
 * Thread-local variables lie on each thread's stack, also those of the program that we are
 * loaded into, and these may take megabytes (OpenMP, Fortran's threadprivate): a stack of a
 * fixed size is then too small, or none can be had at all.
 */
#ifndef DYAD_UTIL_STACK_H
#define DYAD_UTIL_STACK_H

#include <dlfcn.h>
#include <pthread.h>

/* Give attr a stack with `size` usable bytes. A private symbol of glibc says how much
 * more is needed; since it is private it is looked up at run time and not linked. */
static inline int util_stack_set(pthread_attr_t *attr, size_t size)
{
    size_t (*least)(const pthread_attr_t *);

    *(void **)&least = dlsym(RTLD_DEFAULT, "__pthread_get_minstack");
    return pthread_attr_setstacksize(attr, size + (least ? least(attr) : 0));
}

#endif
