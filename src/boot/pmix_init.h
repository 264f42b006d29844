/*
 * boot/pmix_init.h - PMIx_Init in bounded time
 */
#ifndef DYAD_BOOT_PMIX_INIT_H
#define DYAD_BOOT_PMIX_INIT_H

#include <stdbool.h>

#include <pmix.h>

/* PMIx_Init, some times over where the server does not hear. `watched`: a connection that
 * is silent for seconds may be cut, which is wrong where the calling thread's descriptors
 * are the program's, with a PMIx connection of its own. `again`: PMIx can be initialised
 * more than once: with the default store (pmix.c) a second one connects, but does not know
 * what the launcher gave, and a rank that has another node map than others is worse than
 * one that has failed. stop(arg) true: no further try. Blocks. A PMIx status. PMIx_Finalize
 * must be called after PMIX_SUCCESS, and must not be after anything else. */
int boot_pmix_init(pmix_proc_t *self, bool watched, bool again, bool (*stop)(void *arg),
                   void *arg);

#endif
