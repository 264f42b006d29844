/*
 * later_worker.c - a connection that follows another to the same peer comes from a later
 * UCX worker
 *
 * The first connection to a peer is made by the main worker, whose address all know, and
 * each one after it by a later worker, that has made none to that peer. A later worker
 * serves all peers: where a node is cut off, all of its ranks are asked from the same
 * one, and then from the next. Only we send on its connections. The peer sends on
 * connections of its own, to the main worker.
 *
 * A second connection from one worker would lose messages without an error
 * (net_worker_later()), and a worker that went too early would end the peer's process
 * (LINGER).
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "net/worker_impl.h"
#include "util/clock.h"
#include "util/log.h"
#include "utlist.h"

/* A later worker of which no connection is left lingers before it goes. The peer's UCX
 * may be about to answer a request of it, and where it finds nobody at that address, it
 * ends its process on an assertion (ucp_request.c, "got REP message"). */
#define LINGER (30 * UTIL_NSEC_PER_SEC)

static bool is_first(const struct peer *peer)
{
    return peer->later == 0 && !peer->losses && !peer->asks && !peer->their_losses &&
           !peer->their_asks;
}

/* The event is only there to wake the loop. */
static void on_event(void *arg, int fd, uint32_t events)
{
    (void)arg;
    (void)fd;
    (void)events;
}

static struct later_worker *later_create(struct net_worker *worker)
{
    const ucp_worker_params_t params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SINGLE,
    };
    struct later_worker *later = calloc(1, sizeof(*later));

    if (!later)
        return NULL;
    ucs_status_t status = ucp_worker_create(worker->context, &params, &later->ucp);
    if (status != UCS_OK)
        goto later_free;
    status = ucp_worker_get_efd(later->ucp, &later->efd);
    if (status != UCS_OK)
        goto destroy_ucp;
    later->watch = net_loop_watch(worker->loop, later->efd, EPOLLIN, on_event, worker);
    if (!later->watch) {
        status = UCS_ERR_NO_MEMORY;
        goto destroy_ucp;
    }
    later->number = ++worker->last_later;
    DL_APPEND(worker->later_workers, later);
    return later;

destroy_ucp:
    ucp_worker_destroy(later->ucp);
later_free:
    log_warn("UCX cannot open another worker (%s)", ucs_status_string(status));
    free(later);
    errno = net_worker_errno(status);
    return NULL;
}

/* Why a second connection must not come from the same worker: UCX counts a worker's
 * endpoints to each other worker, and takes for the two ends of one connection those that
 * have the same number, in UCP and once more, by themselves, in TCP. That is right as
 * long as both ends always make as many. Ours do not: one asks five times while the other
 * is stopped, and an endpoint is made by UCX, too, where a request of the peer finds none
 * of its number. An endpoint of ours then is joined to one that the peer has closed long
 * since. Small messages go through on it; a large one, by rendezvous, is addressed to
 * that closed one, and dropped there without an error; so is the next connection's, for
 * the distance stays. In TCP it comes to use a socket that the peer has half closed, or
 * that still waits for the kernel's patience with a link that was cut. Nothing is counted
 * yet for a worker that is new. */
int net_worker_later(struct net_worker *worker, struct peer *peer,
                     struct later_worker **later)
{
    struct later_worker *newest =
        worker->later_workers ? worker->later_workers->prev : NULL;

    *later = NULL;
    if (is_first(peer)) {
        peer->later = 1;
        return 0;
    }
    if (!newest || newest->number < peer->later)
        newest = later_create(worker);
    if (!newest)
        return -1;
    peer->later = newest->number + 1;
    newest->conns++;
    *later = newest;
    return 0;
}

unsigned net_worker_progress(struct net_worker *worker)
{
    unsigned n = ucp_worker_progress(worker->ucp);
    struct later_worker *later;

    /* A callback may add one at the end. */
    DL_FOREACH(worker->later_workers, later)
    {
        n += ucp_worker_progress(later->ucp);
    }
    return n;
}

bool net_worker_arm(struct net_worker *worker)
{
    struct later_worker *later;

    /* UCS_ERR_BUSY: something came in since. Any other failure must not make the loop spin.
     */
    if (ucp_worker_arm(worker->ucp) == UCS_ERR_BUSY)
        return false;
    DL_FOREACH(worker->later_workers, later)
    {
        if (ucp_worker_arm(later->ucp) == UCS_ERR_BUSY)
            return false;
    }
    return true;
}

void net_worker_later_sleep(struct net_worker *worker)
{
    struct later_worker *later;

    DL_FOREACH(worker->later_workers, later)
    {
        net_watch_destroy(later->watch);
        later->watch = NULL;
    }
}

void net_worker_later_left(struct later_worker *later)
{
    if (later && --later->conns == 0)
        later->left_at = util_clock_now();
}

void net_worker_later_free(struct net_worker *worker, bool all)
{
    struct later_worker *later, *next;
    uint64_t now = util_clock_now();
    struct conn *conn;

    DL_FOREACH(worker->conns, conn)
    {
        if (all)
            conn->later = NULL;
    }
    DL_FOREACH_SAFE(worker->later_workers, later, next)
    {
        if (!all && (later->conns > 0 || now - later->left_at < LINGER))
            continue;
        DL_DELETE(worker->later_workers, later);
        if (later->watch)
            net_watch_destroy(later->watch);
        ucp_worker_destroy(later->ucp);
        free(later);
    }
}
