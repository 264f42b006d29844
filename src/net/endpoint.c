/*
 * endpoint.c - connections to peers, and what is sent to them
 *
 * A peer's connection is made by the first send, whose way HELLO goes ahead of. What is
 * sent to one that is not known yet waits in its queue (known_peers.c).
 *
 * A connection that fails leaves its peer at once and is closed by tidy, outside of UCX's
 * callbacks. UCX then gives back every send with an error; only then are the payloads free,
 * the connection's memory released and peer_down reported. So a new connection (to a higher
 * incarnation) may exist while an old one is still being taken down.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "net/codec.h"
#include "net/worker_impl.h"
#include "util/log.h"
#include "utlist.h"

static void todo(struct net_worker *worker, struct peer *peer)
{
    if (peer->todo_listed)
        return;
    peer->todo_listed = true;
    LL_APPEND2(worker->todo, peer, todo_next);
}

/* --- completion --- */

/* The send is in no list any more. run_done calls its fn. */
static void complete(struct net_worker *worker, struct send *send, int status)
{
    if (!send->fn) {
        free(send);
        return;
    }
    send->status = status;
    DL_APPEND(worker->done, send);
}

unsigned net_worker_run_done(struct net_worker *worker)
{
    struct send *batch = worker->done; /* what these add is for the next time */
    unsigned n = 0;

    worker->done = NULL;
    while (batch) {
        struct send *send = batch;
        DL_DELETE(batch, send);
        send->fn(send->arg, send->status);
        free(send);
        n++;
    }
    return n;
}

static void cancel_queue(struct net_worker *worker, struct peer *peer, int error)
{
    while (peer->queue) {
        struct send *send = peer->queue;
        DL_DELETE(peer->queue, send);
        complete(worker, send, error);
    }
    peer->queued = 0;
}

void net_worker_cancel_queued(struct net_worker *worker, int error)
{
    for (uint32_t rank = 0; rank < worker->nranks; rank++) {
        if (worker->peers[rank])
            cancel_queue(worker, worker->peers[rank], error);
    }
    for (struct peer *guest = worker->guests; guest; guest = guest->hh.next)
        cancel_queue(worker, guest, error);
}

/* --- connections --- */

void net_worker_conn_detach(struct conn *conn, int error)
{
    if (conn->failed)
        return;
    conn->failed = true;
    conn->error = error;
    conn->peer->conn = NULL;
    conn->peer->closing++;
    conn->worker->failed_conns++;
}

void net_worker_fail(struct net_worker *worker, struct peer *peer, int error)
{
    if (peer->down)
        return;
    peer->down = true;
    peer->losses++;
    peer->wanted = peer->todo_need = false;
    peer->todo_down = true;
    peer->down_error = error;
    todo(worker, peer);
    if (peer->conn)
        net_worker_conn_detach(peer->conn, error);
    cancel_queue(worker, peer, EHOSTUNREACH);
}

/* The connection broke; pending sends will be completed, then peer_down is reported. */
static void conn_failed(struct conn *conn, int error)
{
    if (conn->failed)
        return;
    if (conn->peer->down) { /* it was asked whether it is there after all */
        net_worker_conn_detach(conn, error);
        conn->peer->todo_unanswered = true;
        todo(conn->worker, conn->peer);
        return;
    }
    net_worker_fail(conn->worker, conn->peer, error);
}

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct conn *conn = arg;

    (void)ep;
    if (conn->worker->destroying)
        return;
    log_debug("connection to rank %u broke: %s", conn->peer->rank,
              ucs_status_string(status));
    conn_failed(conn, net_worker_errno(status));
}

static void conn_close(struct conn *conn)
{
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
        .flags = UCP_EP_CLOSE_FLAG_FORCE,
    };

    if (conn->closed)
        return;
    conn->closed = true;
    conn->worker->stats.endpoints--;
    void *request = ucp_ep_close_nbx(conn->ep, &param);
    if (UCS_PTR_IS_PTR(request))
        ucp_request_free(request); /* UCX keeps it until it is complete */
}

void net_worker_close_all(struct net_worker *worker)
{
    struct conn *conn;

    DL_FOREACH(worker->conns, conn)
    {
        net_worker_conn_detach(conn, ECANCELED);
        conn_close(conn);
    }
}

/* A failed one, and only when UCX has given back its sends. */
static void conn_free(struct conn *conn)
{
    DL_DELETE(conn->worker->conns, conn);
    conn->peer->closing--;
    conn->worker->failed_conns--;
    net_worker_later_left(conn->later);
    free(conn);
}

/* --- sending --- */

static size_t proof_len(const struct net_worker *worker, size_t payload_len)
{
    return payload_len > 0 && worker->self.integrity ? FRAME_PROOF_LEN : 0;
}

/* Complete a frame whose message has been put behind its prefix. The key is chosen as
 * late as this: the receiver's if we know it, else ours if it is known to the receiver. */
static int frame_seal(struct net_worker *worker, struct peer *peer, struct send *send)
{
    size_t proven = proof_len(worker, send->payload_len);
    uint8_t version = FRAME_VERSION,
            flags = (uint8_t)((peer->auth ? 0 : FRAME_KEY_OF_SENDER) |
                              (proven ? FRAME_PROOF : 0));
    uint32_t len = (uint32_t)(send->frame_len - FRAME_OVERHEAD - proven);
    size_t signed_len = send->frame_len - NET_AUTH_TAG_LEN;
    struct net_auth *auth = peer->auth ? peer->auth : worker->auth;
    uint8_t *proof = send->frame + FRAME_PREFIX_LEN + len, nonce[NET_AUTH_NONCE_LEN];
    uint16_t zero = 0;
    struct codec c = codec_writer(send->frame, FRAME_PREFIX_LEN);

    codec_u8(&c, &version);
    codec_u8(&c, &flags);
    codec_u16(&c, &zero);
    codec_u32(&c, &len);
    codec_u32(&c, &peer->rank);
    if (proven) {
        c = codec_writer(proof, 8);
        codec_u64(&c, &worker->proofs);
        worker->proofs++;
        net_worker_nonce(worker->self.rank, worker->self.incarnation, proof, nonce);
        if (net_auth_sign_payload(auth, nonce, send->payload, send->payload_len,
                                  proof + 8) < 0)
            return -1;
    }
    return net_auth_sign(auth, send->frame, signed_len, send->frame + signed_len);
}

static void on_sent(void *request, ucs_status_t status, void *arg)
{
    struct send *send = arg;
    struct conn *conn = send->conn;
    int error = net_worker_errno(status);

    ucp_request_free(request);
    if (error && conn->failed)
        error = conn->error; /* not merely cancelled: it says why */
    DL_DELETE(conn->inflight, send);
    complete(conn->worker, send, error);
}

/* Hand a send to UCX. Small frames travel as the active message's header, with the payload
 * as its data (large ones by rendezvous, without a copy); frames that do not fit there,
 * which have no payload, as the data, eagerly, so that they stay in order. */
static void transmit(struct net_worker *worker, struct conn *conn, struct send *send)
{
    bool in_header = send->frame_len <= worker->header_max;
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_FLAGS,
        .flags = in_header ? 0 : UCP_AM_SEND_FLAG_EAGER,
        .cb.send = on_sent,
        .user_data = send,
    };

    if (frame_seal(worker, conn->peer, send) < 0) {
        complete(worker, send, errno);
        return;
    }
    send->conn = conn;
    DL_APPEND(conn->inflight, send);
    void *request =
        in_header ? ucp_am_send_nbx(conn->ep, WORKER_AM_ID, send->frame, send->frame_len,
                                    send->payload, send->payload_len, &param)
                  : ucp_am_send_nbx(conn->ep, WORKER_AM_ID, NULL, 0, send->frame,
                                    send->frame_len, &param);
    if (UCS_PTR_IS_PTR(request))
        return;

    ucs_status_t status = UCS_PTR_STATUS(request);
    DL_DELETE(conn->inflight, send);
    complete(worker, send, net_worker_errno(status));
    if (status != UCS_OK && status != UCS_ERR_NO_MEMORY)
        conn_failed(conn, net_worker_errno(status));
}

/* Encode a message into a new send. */
static struct send *send_create(struct net_worker *worker, struct net_msg *msg,
                                const void *payload, size_t payload_len)
{
    msg->source = worker->self.rank;
    msg->source_incarnation = worker->self.incarnation;
    int len = net_msg_encode(msg, worker->scratch, FRAME_MESSAGE_MAX);
    if (len < 0)
        return NULL;

    size_t frame_len = FRAME_OVERHEAD + (size_t)len + proof_len(worker, payload_len);
    struct send *send = malloc(sizeof(*send) + frame_len);
    if (!send)
        return NULL;
    *send = (struct send){
        .payload = payload,
        .payload_len = payload_len,
        .frame_len = frame_len,
    };
    memcpy(send->frame + FRAME_PREFIX_LEN, worker->scratch, (size_t)len);
    return send;
}

/* HELLO, with our blob but not our key. */
static struct send *hello_create(struct net_worker *worker, const struct peer *peer,
                                 bool ask)
{
    uint8_t blob[NET_PEER_BLOB_MAX];
    int len = net_peer_encode(&worker->self, 0, blob, sizeof(blob));
    struct net_msg msg = {.type = NET_MSG_HELLO,
                          .flags = ask ? NET_HELLO_ANSWER : 0,
                          .losses = peer->losses,
                          .asks = peer->asks,
                          .blob = blob,
                          .blob_len = (size_t)len};

    return len < 0 ? NULL : send_create(worker, &msg, NULL, 0);
}

struct conn *net_worker_connect(struct net_worker *worker, struct peer *peer, bool ask)
{
    if (peer->conn)
        return peer->conn;

    struct send *hello = NULL;
    struct conn *conn = calloc(1, sizeof(*conn));
    if (!conn)
        return NULL;
    conn->worker = worker;
    conn->peer = peer;
    hello = hello_create(worker, peer, ask);
    if (!hello || net_worker_later(worker, peer, &conn->later) < 0)
        goto free_hello;

    const ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = (const ucp_address_t *)peer->info->address,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = on_error, .arg = conn},
    };
    net_door_expect(worker->door, peer->rank);
    ucs_status_t status =
        ucp_ep_create(conn->later ? conn->later->ucp : worker->ucp, &params, &conn->ep);
    net_door_expect(worker->door, DYAD_RANK_NONE);
    if (status != UCS_OK) {
        char name[NET_WORKER_NAME_LEN];
        log_warn(
            "cannot connect to %s on %s (%s): it has ended, or UCX_TLS or "
            "DYAD_NET_DEVICES differ between the nodes",
            net_worker_name_of(peer->info, name), peer->info->node,
            ucs_status_string(status));
        net_worker_later_left(conn->later);
        errno = status == UCS_ERR_NO_MEMORY ? ENOMEM : EHOSTUNREACH;
        goto free_hello;
    }
    worker->stats.endpoints++;
    peer->conn = conn;
    DL_APPEND(worker->conns, conn);
    transmit(worker, conn, hello);
    if (conn->failed) {
        errno = EHOSTUNREACH;
        return NULL;
    }
    return conn;

free_hello:
    free(hello); /* keeps errno */
    free(conn);
    return NULL;
}

void net_worker_flush_queue(struct net_worker *worker, struct peer *peer)
{
    while (peer->queue && !peer->down) {
        struct conn *conn = net_worker_connect(worker, peer, false);
        if (!conn) {
            net_worker_fail(worker, peer, errno);
            return;
        }
        struct send *send = peer->queue;
        DL_DELETE(peer->queue, send);
        peer->queued--;
        transmit(worker, conn, send);
    }
}

int net_worker_send(struct net_worker *worker, uint32_t rank, struct net_msg *msg,
                    const void *payload, size_t payload_len, net_send_fn fn, void *arg)
{
    /* The receiver checks the same: what a message says is what it brings. */
    size_t right_len = net_msg_payload(msg);
    if (payload_len > NET_WORKER_PAYLOAD_MAX) {
        errno = EMSGSIZE;
        return -1;
    }
    if (payload_len != right_len || (payload_len > 0 && !payload)) {
        errno = EINVAL;
        return -1;
    }
    struct peer *peer = net_worker_get_peer(worker, rank);
    if (!peer)
        return -1;
    if (peer->down || worker->destroying) {
        errno = EHOSTUNREACH;
        return -1;
    }
    if (!net_worker_can_sign(peer) && peer->queued >= WORKER_QUEUED) {
        errno = ENOBUFS;
        return -1;
    }

    struct send *send = send_create(worker, msg, payload, payload_len);
    if (!send)
        return -1;
    if (payload_len > 0 && send->frame_len > worker->header_max) {
        free(send);
        errno = EMSGSIZE;
        return -1;
    }
    send->fn = fn;
    send->arg = arg;
    if (!net_worker_can_sign(peer)) {
        DL_APPEND(peer->queue, send);
        peer->queued++;
        if (!peer->wanted) {
            peer->wanted = peer->todo_need = true;
            todo(worker, peer);
        }
        return 0;
    }

    struct conn *conn = net_worker_connect(worker, peer, false);
    if (!conn) {
        int saved = errno;
        if (saved != ENOMEM)
            net_worker_fail(worker, peer, saved);
        free(send);
        errno = saved;
        return -1;
    }
    transmit(worker, conn, send);
    return 0;
}

void net_worker_peer_down(struct net_worker *worker, uint32_t rank, int error)
{
    struct peer *peer = net_worker_get_peer(worker, rank);

    if (peer)
        net_worker_fail(worker, peer, error);
}

/* --- after progress --- */

static unsigned close_failed(struct net_worker *worker)
{
    struct conn *conn, *next;
    unsigned n = 0;

    DL_FOREACH_SAFE(worker->conns, conn, next)
    {
        if (!conn->failed)
            continue;
        if (!conn->closed) {
            conn_close(conn);
            n++;
        }
        if (!conn->inflight) {
            conn_free(conn);
            n++;
        }
    }
    return n;
}

/* Tell the user what is due; what must wait for a connection's end stays. */
static unsigned run_todo(struct net_worker *worker)
{
    struct peer *batch = worker->todo;
    unsigned n = 0;

    worker->todo = NULL;
    while (batch) {
        struct peer *peer = batch;
        LL_DELETE2(batch, peer, todo_next);
        peer->todo_listed = false;
        if (peer->todo_need) {
            peer->todo_need = false;
            n++;
            worker->ops->need_peer(worker->arg, peer->rank);
        }
        if (!peer->todo_down) {
            if (peer->todo_unanswered && worker->ops->unanswered) {
                n++;
                worker->ops->unanswered(worker->arg, peer->rank);
            }
            peer->todo_unanswered = false;
            continue;
        }
        if (peer->closing > 0 || worker->done) {
            todo(worker, peer);
            n += worker->done ? 1 : 0;
            continue;
        }
        peer->todo_down = false;
        n++;
        worker->ops->peer_down(worker->arg, peer->rank, peer->down_error);
    }
    return n;
}

unsigned net_worker_tidy(struct net_worker *worker)
{
    unsigned n = 0;

    if (worker->failed_conns)
        n += close_failed(worker);
    if (worker->later_workers)
        net_worker_later_free(worker, false);
    if (worker->done)
        n += net_worker_run_done(worker);
    if (worker->todo)
        n += run_todo(worker);
    return n;
}

void net_worker_free_conns(struct net_worker *worker)
{
    struct conn *conn, *next;

    DL_FOREACH_SAFE(worker->conns, conn, next)
    {
        while (conn->inflight) {
            struct send *send = conn->inflight;
            DL_DELETE(conn->inflight, send);
            complete(worker, send, ECANCELED);
        }
        conn_free(conn);
    }
    net_worker_run_done(worker);
}
