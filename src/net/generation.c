/*
 * generation.c - a connection that follows another to the same peer comes from a UCX worker
 * of its own
 *
 * UCX counts a worker's endpoints to each other worker, and takes for the two ends of one
 * connection those that have the same number, in UCP and once more, by themselves, in TCP.
 * That is right as long as both ends always make as many. Ours do not: one asks five times
 * while the other is stopped, and an endpoint is made by UCX, too, where a request of the
 * peer finds none of its number. An endpoint of ours then is joined to one that the peer
 * has closed long since. Small messages go through on it; a large one, by rendezvous, is
 * addressed to that closed one, and dropped there without an error; so is the next
 * connection's, for the distance stays. In TCP it comes to use a socket that the peer has
 * half closed, or that still waits for the kernel's patience with a link that was cut.
 *
 * Nothing is counted yet for a worker that is new. So the first connection to a peer is
 * made by the main worker, whose address all know, and each later one by a worker that has
 * made none to it: of the next generation. One generation serves all peers: where a node is
 * cut off, all of its ranks are asked from the same one, and then from the next. Only we
 * send on a later generation's connections. What the peer sends comes by its own, to the
 * main worker.
 *
 * One of which no connection is left lingers before it goes. The peer's UCX may be about to
 * answer a request of it, and where it finds nobody at that address, it ends its process on
 * an assertion (ucp_request.c, "got REP message").
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "net/worker_impl.h"
#include "util/clock.h"
#include "util/log.h"
#include "utlist.h"

#define LINGER (30 * UTIL_NSEC_PER_SEC)

static bool is_first(const struct peer *peer)
{
    return peer->generation == 0 && !peer->losses && !peer->asks && !peer->their_losses &&
           !peer->their_asks;
}

/* The event is only there to wake the loop. */
static void on_event(void *arg, int fd, uint32_t events)
{
    (void)arg;
    (void)fd;
    (void)events;
}

static struct generation *generation_create(struct net_worker *worker)
{
    const ucp_worker_params_t params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SINGLE,
    };
    struct generation *generation = calloc(1, sizeof(*generation));

    if (!generation)
        return NULL;
    ucs_status_t status = ucp_worker_create(worker->context, &params, &generation->ucp);
    if (status != UCS_OK)
        goto free_generation;
    status = ucp_worker_get_efd(generation->ucp, &generation->efd);
    if (status != UCS_OK)
        goto destroy_ucp;
    generation->watch =
        net_loop_watch(worker->loop, generation->efd, EPOLLIN, on_event, worker);
    if (!generation->watch) {
        status = UCS_ERR_NO_MEMORY;
        goto destroy_ucp;
    }
    generation->number = ++worker->last_generation;
    DL_APPEND(worker->generations, generation);
    return generation;

destroy_ucp:
    ucp_worker_destroy(generation->ucp);
free_generation:
    log_warn("UCX cannot open another worker (%s)", ucs_status_string(status));
    free(generation);
    errno = net_worker_errno(status);
    return NULL;
}

int net_worker_generation(struct net_worker *worker, struct peer *peer,
                          struct generation **generation)
{
    struct generation *newest = worker->generations ? worker->generations->prev : NULL;

    *generation = NULL;
    if (is_first(peer)) {
        peer->generation = 1;
        return 0;
    }
    if (!newest || newest->number < peer->generation)
        newest = generation_create(worker);
    if (!newest)
        return -1;
    peer->generation = newest->number + 1;
    newest->conns++;
    *generation = newest;
    return 0;
}

unsigned net_worker_progress(struct net_worker *worker)
{
    unsigned n = ucp_worker_progress(worker->ucp);
    struct generation *generation;

    /* A callback may add one at the end. */
    DL_FOREACH(worker->generations, generation)
    {
        n += ucp_worker_progress(generation->ucp);
    }
    return n;
}

bool net_worker_arm(struct net_worker *worker)
{
    struct generation *generation;

    /* UCS_ERR_BUSY: something came in since. Any other failure must not make the loop spin.
     */
    if (ucp_worker_arm(worker->ucp) == UCS_ERR_BUSY)
        return false;
    DL_FOREACH(worker->generations, generation)
    {
        if (ucp_worker_arm(generation->ucp) == UCS_ERR_BUSY)
            return false;
    }
    return true;
}

void net_worker_generations_sleep(struct net_worker *worker)
{
    struct generation *generation;

    DL_FOREACH(worker->generations, generation)
    {
        net_watch_destroy(generation->watch);
        generation->watch = NULL;
    }
}

void net_worker_generation_left(struct generation *generation)
{
    if (generation && --generation->conns == 0)
        generation->left_at = util_clock_now();
}

void net_worker_generations_free(struct net_worker *worker, bool all)
{
    struct generation *generation, *next;
    uint64_t now = util_clock_now();
    struct conn *conn;

    DL_FOREACH(worker->conns, conn)
    {
        if (all)
            conn->generation = NULL;
    }
    DL_FOREACH_SAFE(worker->generations, generation, next)
    {
        if (!all && (generation->conns > 0 || now - generation->left_at < LINGER))
            continue;
        DL_DELETE(worker->generations, generation);
        if (generation->watch)
            net_watch_destroy(generation->watch);
        ucp_worker_destroy(generation->ucp);
        free(generation);
    }
}
