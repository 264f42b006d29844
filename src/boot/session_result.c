/*
 * session_result.c - what the thread has found goes to the loop, by one post at a time, as
 * in pmix.c
 */
#include "boot/session_impl.h"

#include <stdlib.h>

#include <utlist.h>

#include "util/wipe.h"

void session_results_free(struct boot_session *session)
{
    struct session_result *result, *next;

    DL_FOREACH_SAFE(session->results, result, next)
    {
        util_wipe_free(result->blob, result->len);
        free(result);
    }
    session->results = NULL;
}

void session_unref_unlock(struct boot_session *session)
{
    bool last = --session->refs == 0;
    struct session_op *op, *next_op;

    pthread_mutex_unlock(&session->lock);
    if (!last)
        return;
    session_results_free(session);
    DL_FOREACH_SAFE(session->pending, op, next_op)
    {
        util_wipe_free(op, sizeof(*op) + op->len);
    }
    session_map_free(&session->map);
    free(session->job.node);
    free(session->reported);
    session_dir_destroy(session->dir);
    pthread_cond_destroy(&session->changed);
    pthread_mutex_destroy(&session->lock);
    free(session);
}

static void deliver_one(struct boot_session *session, const struct session_result *result)
{
    switch (result->kind) {
    case RESULT_READY:
        session->ops->ready(session->arg, result->error ? NULL : &session->place,
                            result->error);
        break;
    case RESULT_COMMITTED:
        session->ops->committed(session->arg, result->error);
        break;
    case RESULT_FOUND:
        session_map_set(&session->map, result->slot, result->node);
        session->ops->found(session->arg, result->slot, result->incarnation);
        break;
    case RESULT_GONE:
        session->ops->gone(session->arg, result->slot, result->incarnation);
        break;
    case RESULT_BLOB:
        session->ops->blob(session->arg, result->slot, result->blob, result->len,
                           result->error);
        break;
    }
}

static void deliver(void *arg)
{
    struct boot_session *session = arg;
    struct session_result *list, *result, *next;

    pthread_mutex_lock(&session->lock);
    session->posted = false;
    list = session->results;
    session->results = NULL;
    pthread_mutex_unlock(&session->lock);

    DL_FOREACH_SAFE(list, result, next)
    {
        /* closed is written on this thread only, so it needs no lock here */
        if (!session->closed)
            deliver_one(session, result);
        util_wipe_free(result->blob, result->len);
        free(result);
    }
    pthread_mutex_lock(&session->lock);
    session_unref_unlock(session);
}

bool session_report(struct boot_session *session, struct session_result what)
{
    struct session_result *result = malloc(sizeof(*result));

    if (!result) {
        util_wipe_free(what.blob, what.len);
        return false;
    }
    *result = what;
    pthread_mutex_lock(&session->lock);
    if (session->closed) {
        util_wipe_free(result->blob, result->len);
        free(result);
    } else {
        DL_APPEND(session->results, result);
        if (!session->posted) {
            session->posted = true;
            session->refs++;
            net_loop_post(session->loop, &session->post, deliver, session);
        }
    }
    pthread_mutex_unlock(&session->lock);
    return true;
}
