/*
 * pmix_optional.c - the program's PMIx_Get in a process where a member uses PMIx as well
 *
 * While the member asks for a peer's address, a request of the program about the whole
 * job may wait for ever in PMIx 4.2.2 (is_in_our_way()). What a server knows of the whole
 * job it tells at PMIx_Init. So, in a member's process, such a request about the own job
 * is answered from that: asked with PMIX_OPTIONAL, it needs no server. Everything else
 * passes through unchanged.
 *
 * There is no state but the two addresses of the real functions, which are the same
 * whoever stores them.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <pmix.h>

#include "wrapper/core.h"
#include "wrapper/environment.h"
#include "wrapper/foreign.h"
#include "wrapper/member_thread.h"
#include "util/env.h"

typedef pmix_status_t get_fn(const pmix_proc_t *proc, const char key[],
                             const pmix_info_t info[], size_t ninfo, pmix_value_t **value);
typedef pmix_status_t get_nb_fn(const pmix_proc_t *proc, const char key[],
                                const pmix_info_t info[], size_t ninfo,
                                pmix_value_cbfunc_t fn, void *arg);

struct nonblocking { /* lives until the callback */
    pmix_value_cbfunc_t fn;
    void *arg;
    pmix_info_t *info;
};

static _Atomic(void *) real_get, real_get_nb;

static bool is_true(const pmix_info_t *info)
{
    return info->value.type == PMIX_UNDEF || info->value.data.flag;
}

/* Could the request wait for the answer to one of ours?
 *
 * A client of PMIx 4.2.2 does not ask the server for a rank while it waits for an answer
 * about the same rank: one answer is to serve both. In looking for such a request it
 * takes the wildcard rank for equal to any rank; when the answer comes it does not. So a
 * request about the whole job (the wildcard rank) that is asked while a Get of a peer's
 * address is out is neither sent nor ever answered, and as long as it waits no other is
 * sent. Open MPI asks one in MPI_Init, for the node's topology: mpirun has told it at
 * PMIx_Init, Slurm has not, and MPI_Init hangs (PMIx_Get below
 * opal_hwloc_base_get_topology). */
static bool is_in_our_way(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo)
{
    const char *job;

    if (!proc || proc->rank != PMIX_RANK_WILDCARD || !wrapper_active() ||
        wrapper_member_claim() < 0)
        return false;
    job = util_env_get(wrapper_env, "PMIX_NAMESPACE");
    if (!job || (proc->nspace[0] && strncmp(proc->nspace, job, PMIX_MAX_NSLEN) != 0))
        return false;
    for (size_t i = 0; i < ninfo; i++)
        if (strncmp(info[i].key, PMIX_OPTIONAL, PMIX_MAX_KEYLEN) == 0 && is_true(&info[i]))
            return false; /* PMIx calls itself by its public names */
    return true;
}

/* A copy of info[] that has *ninfo elements and asks no server. NULL: no memory. */
static pmix_info_t *optional(const pmix_info_t info[], size_t *ninfo)
{
    pmix_info_t *copy = calloc(*ninfo + 1, sizeof(*copy));
    size_t n = 0;

    if (!copy)
        return NULL;
    strcpy(copy[n].key, PMIX_OPTIONAL);
    copy[n].value.type = PMIX_BOOL;
    copy[n++].value.data.flag = true;
    for (size_t i = 0; i < *ninfo; i++)
        if (strncmp(info[i].key, PMIX_OPTIONAL, PMIX_MAX_KEYLEN) != 0 &&
            strncmp(info[i].key, PMIX_GET_REFRESH_CACHE, PMIX_MAX_KEYLEN) != 0)
            copy[n++] = info[i]; /* what it points to stays the caller's */
    *ninfo = n;
    return copy;
}

pmix_status_t PMIx_Get(const pmix_proc_t *proc, const char key[], const pmix_info_t info[],
                       size_t ninfo, pmix_value_t **value)
{
    get_fn *real =
        (get_fn *)wrapper_foreign(&real_get, "PMIx_Get", __builtin_return_address(0));
    pmix_info_t *local;
    pmix_status_t rc;

    if (!real)
        return PMIX_ERR_NOT_SUPPORTED;
    if (!is_in_our_way(proc, info, ninfo))
        return real(proc, key, info, ninfo, value);
    if (!(local = optional(info, &ninfo)))
        return PMIX_ERR_NOMEM;
    rc = real(proc, key, local, ninfo, value);
    free(local);
    return rc;
}

static void answered(pmix_status_t status, pmix_value_t *value, void *arg)
{
    struct nonblocking *call = arg;

    call->fn(status, value, call->arg);
    free(call->info);
    free(call);
}

pmix_status_t PMIx_Get_nb(const pmix_proc_t *proc, const char key[],
                          const pmix_info_t info[], size_t ninfo, pmix_value_cbfunc_t fn,
                          void *arg)
{
    get_nb_fn *real = (get_nb_fn *)wrapper_foreign(&real_get_nb, "PMIx_Get_nb",
                                                   __builtin_return_address(0));
    struct nonblocking *call;
    pmix_status_t rc;

    if (!real)
        return PMIX_ERR_NOT_SUPPORTED;
    if (!fn || !is_in_our_way(proc, info, ninfo))
        return real(proc, key, info, ninfo, fn, arg);
    if (!(call = malloc(sizeof(*call))))
        return PMIX_ERR_NOMEM;
    *call = (struct nonblocking){.fn = fn, .arg = arg, .info = optional(info, &ninfo)};
    rc = call->info ? real(proc, key, call->info, ninfo, answered, call) : PMIX_ERR_NOMEM;
    if (rc != PMIX_SUCCESS) {
        free(call->info);
        free(call);
    }
    return rc;
}
