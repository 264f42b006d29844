/*
 * life.c - the word of a robust mutex
 *
 * glibc has no call that only looks at a mutex, and a trylock would hold it for a moment,
 * which somebody else would take for life. So the look is at the word that the kernel knows
 * as well (futex(2)): the holder's thread id, and the mark that it has died. The load is in
 * one order with the users' own, who look at what else is in the entry before and after.
 */
#include "store/life.h"

#include <errno.h>
#include <linux/futex.h>

int store_life_init(pthread_mutex_t *life)
{
    pthread_mutexattr_t attr;
    int rc = pthread_mutexattr_init(&attr);

    if (rc == 0)
        rc = pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    if (rc == 0)
        rc = pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    return rc ? rc : pthread_mutex_init(life, &attr);
}

bool store_life_is_on(const pthread_mutex_t *life)
{
    unsigned word = (unsigned)__atomic_load_n(&life->__data.__lock, __ATOMIC_SEQ_CST);

    return (word & FUTEX_TID_MASK) != 0 && (word & FUTEX_OWNER_DIED) == 0;
}

bool store_life_begin(pthread_mutex_t *life)
{
    int rc = pthread_mutex_trylock(life);

    if (rc == EOWNERDEAD)
        rc = pthread_mutex_consistent(life);
    return rc == 0;
}

void store_life_end(pthread_mutex_t *life)
{
    pthread_mutex_unlock(life);
}
