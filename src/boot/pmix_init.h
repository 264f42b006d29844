/*
 * boot/pmix_init.h - PMIx_Init in bounded time
 */
#ifndef DYAD_BOOT_PMIX_INIT_H
#define DYAD_BOOT_PMIX_INIT_H

#include <stdbool.h>

#include <pmix.h>

/* Call PMIx_Init, repeatedly if the server does not answer. `watched`: a connection that
 * is silent for seconds may be cut, which is wrong if the calling thread has the
 * program's descriptors, with a PMIx connection of its own. `again`: PMIx can be
 * initialised more than once: with the default store (pmix.c) a second one connects, but
 * does not have the launcher's data, and a rank with another node map than others is
 * worse than one that has failed. stop(arg) true: no further try. Blocks. Returns a PMIx
 * status. PMIx_Finalize must be called after PMIX_SUCCESS, and only then. */
int boot_pmix_init(pmix_proc_t *self, bool watched, bool again, bool (*stop)(void *arg),
                   void *arg);

#endif
