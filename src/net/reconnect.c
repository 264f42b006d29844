/*
 * reconnect.c - peers that were taken for dead and are not
 *
 * A connection breaks when a process dies, and also when a link is cut for longer than
 * the kernel is patient. Which of the two it was nobody can know, so one that is down is
 * asked, now and then (the user decides when: net_worker_probe()): HELLO on a connection
 * of its own, with NET_HELLO_ANSWER. What lives answers with HELLO, on a new connection
 * too.
 *
 * The two ends need not agree that there was a cut, and both may ask at once;
 * net_worker_heard() says how each learns what the other has forgotten.
 */
#include <errno.h>

#include "net/worker_impl.h"
#include "util/log.h"

/* On a new connection: those from before a cut may be good for nothing, and the kernel
 * tries them again only after a time that doubles for as long as they are stuck. */
int net_worker_probe(struct net_worker *worker, uint32_t rank)
{
    struct peer *peer = net_worker_find_peer(worker, rank);

    if (!peer || !peer->down || worker->destroying || !net_worker_can_sign(peer)) {
        errno = EINVAL;
        return -1;
    }
    if (peer->conn)
        net_worker_conn_detach(peer->conn, ETIMEDOUT);
    peer->todo_unanswered = false;
    peer->asks++;
    return net_worker_connect(worker, peer, true) ? 0 : -1;
}

/* A message that is not HELLO proves that its sender lived when it sent it, which may
 * have been just before its death: that is a reason to ask, no more. */
void net_worker_heard_dead(struct net_worker *worker, struct peer *peer)
{
    if (!peer->conn && worker->ops->heard)
        worker->ops->heard(worker->arg, peer->rank);
}

uint64_t net_worker_heard_at(struct net_worker *worker, uint32_t rank)
{
    const struct peer *peer = net_worker_find_peer(worker, rank);

    return peer ? peer->heard_at : 0;
}

/* It lives: as if it had come now. */
static void revive(struct net_worker *worker, struct peer *peer)
{
    bool tell_down = peer->todo_down;

    log_debug("rank %u was taken for dead and is there", peer->rank);
    peer->down = peer->todo_down = peer->todo_unanswered = false;
    if (tell_down)
        worker->ops->peer_down(worker->arg, peer->rank, peer->down_error);
    worker->ops->peer_up(worker->arg, peer->info);
}

/* Whoever counts a peer as dead forgets what it had of it (waiters, copies, requests),
 * and the peer must know that. So HELLO says how often the sender has taken the receiver
 * for dead; if that has grown, the receiver's user is told peer_down and peer_up, as if
 * it had noticed by itself.
 *
 * Both may ask at once: an answer has no NET_HELLO_ANSWER, so it ends there. Requests are
 * numbered, for connections keep no order between them: one that is older than what was
 * heard since must not take the new connection away again, and what was sent on it. */
void net_worker_heard(struct net_worker *worker, struct peer *peer,
                      const struct net_msg *hello)
{
    bool lost_us = hello->losses > peer->their_losses && peer->conn && !peer->down;
    bool answer = hello->flags & NET_HELLO_ANSWER && hello->asks > peer->their_asks;

    if (hello->losses > peer->their_losses)
        peer->their_losses = hello->losses;
    if (hello->asks > peer->their_asks)
        peer->their_asks = hello->asks;
    if ((answer || lost_us) && peer->conn)
        net_worker_conn_detach(peer->conn, ECONNRESET);
    /* No memory, or it is gone again: it asks again, or we do. */
    if (answer && net_worker_can_sign(peer) && !net_worker_connect(worker, peer, false))
        return;
    if (peer->down) {
        revive(worker, peer);
    } else if (lost_us) {
        worker->ops->peer_down(worker->arg, peer->rank, ECONNRESET);
        worker->ops->peer_up(worker->arg, peer->info);
    }
}
