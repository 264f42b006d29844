/*
 * pmix_result.c - answers go to the loop, by one post at a time, which holds a reference
 */
#include "boot/pmix_impl.h"

#include <errno.h>
#include <stdlib.h>

#include <utlist.h>

#include "util/wipe.h"

void boot_pmix_results_free(struct boot_pmix *pmix)
{
    struct pmix_result *result, *next;

    DL_FOREACH_SAFE(pmix->results, result, next)
    {
        util_wipe_free(result->blob, result->len);
        free(result);
    }
    pmix->results = NULL;
}

void boot_pmix_unref_unlock(struct boot_pmix *pmix)
{
    bool last = --pmix->refs == 0;
    struct pmix_ask *ask, *next;

    pthread_mutex_unlock(&pmix->lock);
    if (!last)
        return;
    HASH_ITER(hh, pmix->asks, ask, next)
    {
        HASH_DEL(pmix->asks, ask);
        util_wipe_free(ask->kept, ask->kept_len);
        free(ask);
    }
    boot_pmix_results_free(pmix);
    util_wipe_free(pmix->blob, pmix->blob_len);
    free(pmix->job.node);
    free(pmix->heard_at);
    pthread_cond_destroy(&pmix->changed);
    pthread_mutex_destroy(&pmix->lock);
    free(pmix);
}

static void deliver(void *arg)
{
    struct boot_pmix *pmix = arg;
    struct pmix_result *list, *result, *next;
    bool closed;

    pthread_mutex_lock(&pmix->lock);
    pmix->posted = false;
    closed = pmix->closed;
    list = pmix->results;
    pmix->results = NULL;
    pthread_mutex_unlock(&pmix->lock);

    DL_FOREACH_SAFE(list, result, next)
    {
        /* closed is written on this thread only, so between callbacks it needs no lock */
        if (closed || pmix->closed)
            ;
        else if (result->kind == RESULT_READY)
            pmix->ops->ready(pmix->arg, result->error ? NULL : &pmix->job, result->error);
        else if (result->kind == RESULT_COMMITTED)
            pmix->ops->committed(pmix->arg, result->error);
        else
            pmix->ops->blob(pmix->arg, result->rank, result->blob, result->len,
                            result->kind == RESULT_KEPT, result->error);
        util_wipe_free(result->blob, result->len);
        free(result);
    }
    pthread_mutex_lock(&pmix->lock);
    boot_pmix_unref_unlock(pmix);
}

void boot_pmix_result_put(struct boot_pmix *pmix, enum pmix_result_kind kind, uint32_t rank,
                          int error, void *blob, size_t len)
{
    struct pmix_result *result = pmix->closed ? NULL : malloc(sizeof(*result));

    if (!result) {
        util_wipe_free(blob, len);
        return;
    }
    *result = (struct pmix_result){
        .kind = kind, .rank = rank, .error = error, .blob = blob, .len = len};
    DL_APPEND(pmix->results, result);
    if (!pmix->posted) {
        pmix->posted = true;
        pmix->refs++;
        net_loop_post(pmix->loop, &pmix->post, deliver, pmix);
    }
}

int boot_pmix_error_of(pmix_status_t status)
{
    switch (status) {
    case PMIX_SUCCESS:
    case PMIX_OPERATION_SUCCEEDED:
        return 0;
    case PMIX_ERR_NOMEM:
    case PMIX_ERR_OUT_OF_RESOURCE:
        return ENOMEM;
    case PMIX_ERR_UNREACH:
    case PMIX_ERR_LOST_CONNECTION:
    case PMIX_ERR_COMM_FAILURE:
        return ENOTCONN;
    case PMIX_ERR_NO_PERMISSIONS:
        return EACCES;
    case PMIX_ERR_NOT_FOUND:
        return EHOSTUNREACH;
    case PMIX_ERR_NOT_SUPPORTED:
        return ENOTSUP;
    default:
        return EPROTO;
    }
}
