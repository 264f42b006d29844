/*
 * store/life.h - a word in shared memory that says whether a thread lives
 *
 * A robust mutex that a thread takes and keeps, and for which no thread waits. When its
 * holder ends, in whatever way, the kernel marks it before it closes the descriptors of
 * the process. To look at it is one load, and works across pid namespaces.
 */
#ifndef DYAD_STORE_LIFE_H
#define DYAD_STORE_LIFE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* Initialise it, free, in memory that no other process sees yet. 0 or an errno value. */
int store_life_init(pthread_mutex_t *life);
/* True if a live thread holds it. From any thread of any process. */
bool store_life_is_on(const pthread_mutex_t *life);
/* Hold it until the calling thread ends or store_life_end(), which the same thread calls.
 * False: another one has it. Never waits. */
bool store_life_begin(pthread_mutex_t *life);
void store_life_end(pthread_mutex_t *life);

#endif
