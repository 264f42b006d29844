/*
 * boot/pmix_job.h - size and node map of the job, from the launcher
 */
#ifndef DYAD_BOOT_PMIX_JOB_H
#define DYAD_BOOT_PMIX_JOB_H

#include <stdbool.h>

#include "boot/pmix.h"

/* Fill *out for the job `nspace`; out->node becomes the caller's (free). PMIx must be
 * initialised; asks its local memory only and never blocks. stop(arg) is asked now and
 * then: true ends it. 0 or an errno value: ENODATA the launcher gives no size, ENOMEM,
 * ECANCELED. */
int boot_pmix_job_read(const char *nspace, struct boot_pmix_job *out,
                       bool (*stop)(void *arg), void *arg);

#endif
