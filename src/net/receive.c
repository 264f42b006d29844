/*
 * receive.c - frames that come in
 *
 * Nothing in a frame is believed before its MAC was verified, but its message is decoded
 * before that, to learn whose key to verify with; the decoder bears any input. A payload's
 * proof is verified when all of it is here; if that is wrong it is dropped, and the connection
 * with it: both ends then end what they wait for. A small payload is copied from UCX's buffer into one of malloc; a large one
 * is announced first, and is received straight into its final buffer, which is not
 * allocated before the frame was verified.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/codec.h"
#include "net/worker_impl.h"
#include "util/clock.h"
#include "util/log.h"
#include "utlist.h"

#define REJECT_LOG_INTERVAL (10 * UTIL_NSEC_PER_SEC)

/* Count a frame that is dropped; a line at most every ten seconds. */
static void reject(struct net_worker *worker, const char *why, uint32_t rank)
{
    uint64_t now = util_clock_now();

    worker->stats.rejected++;
    if (worker->rejected_logged_at &&
        now - worker->rejected_logged_at < REJECT_LOG_INTERVAL)
        return;
    char from[32] = "";
    if (rank != DYAD_RANK_NONE)
        snprintf(from, sizeof(from), " (says it is %s %u)",
                 worker->self.launch[0] ? "place" : "rank", rank);
    log_warn(
        "%llu message(s) dropped that did not prove to be of this session; the last one%s: "
        "%s",
        (unsigned long long)(worker->stats.rejected - worker->rejected_logged), from, why);
    worker->rejected_logged = worker->stats.rejected;
    worker->rejected_logged_at = now;
}

/* True if the message is from the incarnation of this rank that we know. */
static bool is_current(const struct peer *peer, const struct net_msg *msg)
{
    return peer->info && !peer->down && peer->info->incarnation == msg->source_incarnation;
}

/* What frame_open() finds. */
struct opened {
    struct net_msg msg; /* points into the frame */
    struct peer *peer;  /* NULL: a promoted guest that is not known yet */
    bool knows_ours;
    size_t message_len;
    const uint8_t *proof; /* NULL: none */
};

/* Take a frame apart and verify it. False: dropped. */
static bool frame_open(struct net_worker *worker, const uint8_t *frame, size_t len,
                       struct opened *opened)
{
    struct net_msg *msg = &opened->msg;
    struct peer **peer = &opened->peer;
    uint8_t version = 0, flags = 0;
    uint16_t zero = 0;
    uint32_t message_len = 0, destination = 0;
    struct codec c = codec_reader(frame, len);

    codec_u8(&c, &version);
    codec_u8(&c, &flags);
    codec_u16(&c, &zero);
    codec_u32(&c, &message_len);
    codec_u32(&c, &destination);
    if (!c.failed && version != FRAME_VERSION) {
        char why[64];
        snprintf(why, sizeof(why), "protocol version %u, ours is %u", version,
                 FRAME_VERSION);
        reject(worker, why, DYAD_RANK_NONE);
        return false;
    }
    size_t proof_len = flags & FRAME_PROOF ? FRAME_PROOF_LEN : 0;
    if (c.failed || flags & ~(FRAME_KEY_OF_SENDER | FRAME_PROOF) || zero ||
        len < FRAME_OVERHEAD + proof_len ||
        message_len != len - FRAME_OVERHEAD - proof_len) {
        reject(worker, "malformed frame", DYAD_RANK_NONE);
        return false;
    }
    if (net_msg_decode(msg, frame + FRAME_PREFIX_LEN, message_len) < 0) {
        reject(worker,
               errno == EPROTONOSUPPORT ? "another message version" : "malformed message",
               DYAD_RANK_NONE);
        return false;
    }
    /* Only ranks that exist get a struct peer, and promoted guests that prove to be one. */
    if (destination != worker->self.rank || net_guest_rank(msg->source) >= worker->nranks ||
        msg->source == worker->self.rank) {
        reject(worker, "wrong rank", msg->source);
        return false;
    }
    *peer = net_is_guest(msg->source) ? net_worker_find_peer(worker, msg->source)
                                      : net_worker_get_peer(worker, msg->source);
    if (!*peer && !net_is_guest(msg->source)) {
        reject(worker, "no memory", msg->source);
        return false;
    }
    bool of_sender = flags & FRAME_KEY_OF_SENDER;
    struct net_auth *own = NULL; /* of a guest that is new */
    struct net_auth *auth = !of_sender ? worker->auth : *peer ? (*peer)->auth : NULL;
    if (of_sender && net_is_guest(msg->source) && !(*peer && is_current(*peer, msg)))
        auth = own = net_worker_guest_auth(worker, msg->source, msg->source_incarnation);
    size_t signed_len = len - NET_AUTH_TAG_LEN;
    bool proved = auth && net_auth_verify(auth, frame, signed_len, frame + signed_len);
    if (!proved)
        reject(worker, auth ? "wrong key" : "unknown key", msg->source);
    net_auth_destroy(own);
    opened->knows_ours = !of_sender;
    opened->message_len = message_len;
    opened->proof = proof_len ? frame + FRAME_PREFIX_LEN + message_len : NULL;
    return proved;
}

void net_worker_nonce(uint32_t rank, uint32_t incarnation, const uint8_t number[8],
                      uint8_t nonce[NET_AUTH_NONCE_LEN])
{
    struct codec c = codec_writer(nonce, NET_AUTH_NONCE_LEN);

    codec_u32(&c, &rank);
    codec_u32(&c, &incarnation);
    memcpy(nonce + 8, number, 8);
}

/* `proof` NULL: this session makes none. */
static bool payload_is_right(struct net_worker *worker, struct peer *peer,
                             const struct net_msg *msg, bool of_sender,
                             const uint8_t *proof, const void *payload, size_t len)
{
    struct net_auth *auth = of_sender ? peer->auth : worker->auth;
    uint8_t nonce[NET_AUTH_NONCE_LEN];

    if (!proof)
        return true;
    net_worker_nonce(msg->source, msg->source_incarnation, proof, nonce);
    if (auth && net_auth_verify_payload(auth, nonce, payload, len, proof + 8))
        return true;
    reject(worker, "bytes that were changed on their way", msg->source);
    net_worker_fail(worker, peer, EBADMSG); /* both ends end what they wait for */
    return false;
}

static void receive_hello(struct net_worker *worker, const struct net_msg *msg,
                          bool knows_ours)
{
    struct net_peer *info = &worker->scratch_peer;

    if (net_peer_decode(info, msg->blob, msg->blob_len) < 0) {
        reject(worker,
               errno == EPROTONOSUPPORT ? "another version of HELLO" : "malformed HELLO",
               msg->source);
        return;
    }
    if (info->rank != msg->source || info->incarnation != msg->source_incarnation) {
        reject(worker, "HELLO of another rank", msg->source);
        return;
    }
    memset(info->key, 0,
           sizeof(info->key)); /* keys come from the launcher, never from a peer */
    if (net_worker_learn(worker, info, knows_ours) < 0) {
        worker->stats.rejected++; /* learn has said why */
        return;
    }
    struct peer *peer = net_worker_find_peer(worker, msg->source);
    if (peer && peer->info && peer->info->incarnation == msg->source_incarnation)
        net_worker_heard(worker, peer, msg);
}

/* --- payloads ---
 * A fresh large buffer costs a page fault per 4 KiB, more than to receive into it; so those
 * that are given back are used again, for payloads not smaller than half of them. */

static void *payload_alloc(struct net_worker *worker, size_t len)
{
    for (unsigned i = 0; len >= WORKER_SPARE_MIN && i < worker->nspares; i++) {
        if (worker->spares[i].len < len || worker->spares[i].len / 2 > len)
            continue;
        void *data = worker->spares[i].data;
        worker->spare_bytes -= worker->spares[i].len;
        worker->spares[i] = worker->spares[--worker->nspares];
        return data;
    }
    return malloc(len);
}

void net_worker_recycle(struct net_worker *worker, void *payload, size_t payload_len)
{
    if (!payload || payload_len < WORKER_SPARE_MIN || worker->nspares == WORKER_SPARES ||
        worker->spare_bytes + payload_len > WORKER_SPARE_MAX) {
        free(payload);
        return;
    }
    worker->spares[worker->nspares].data = payload;
    worker->spares[worker->nspares++].len = payload_len; /* may be less than it has */
    worker->spare_bytes += payload_len;
}

/* --- payload by rendezvous --- */

static void receive_free(struct receive *receive)
{
    DL_DELETE(receive->worker->receives, receive);
    free(receive->payload);
    free(receive);
}

/* All of it is here: as if the message had come now. */
static void receive_deliver(struct receive *receive)
{
    struct net_worker *worker = receive->worker;
    struct peer *peer;
    struct net_msg msg;

    if (!worker->destroying &&
        net_msg_decode(&msg, receive->message, receive->message_len) == 0 &&
        (peer = net_worker_find_peer(worker, msg.source)) && is_current(peer, &msg) &&
        payload_is_right(worker, peer, &msg, receive->of_sender,
                         receive->proven ? receive->proof : NULL, receive->payload,
                         receive->payload_len)) {
        void *payload = receive->payload;
        receive->payload = NULL;
        worker->ops->receive(worker->arg, &msg, payload, receive->payload_len);
    }
    receive_free(receive);
}

static void on_received(void *request, ucs_status_t status, size_t len, void *arg)
{
    struct receive *receive = arg;

    ucp_request_free(request);
    if (status == UCS_OK && len == receive->payload_len) {
        receive_deliver(receive);
        return;
    }
    log_debug("a payload of %zu bytes did not arrive: %s", receive->payload_len,
              ucs_status_string(status));
    receive_free(receive);
}

static ucs_status_t receive_start(struct net_worker *worker, const uint8_t *frame,
                                  const struct opened *opened, void *desc, size_t len)
{
    size_t message_len = opened->message_len;
    struct receive *receive = calloc(1, sizeof(*receive) + message_len);
    if (!receive)
        return UCS_ERR_NO_MEMORY;
    receive->worker = worker;
    receive->payload = payload_alloc(worker, len);
    receive->payload_len = len;
    receive->message_len = message_len;
    receive->of_sender = !opened->knows_ours;
    if ((receive->proven = opened->proof != NULL))
        memcpy(receive->proof, opened->proof, FRAME_PROOF_LEN);
    memcpy(receive->message, frame + FRAME_PREFIX_LEN, message_len);
    if (!receive->payload) {
        free(receive);
        return UCS_ERR_NO_MEMORY;
    }
    DL_APPEND(worker->receives, receive);

    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.recv_am = on_received,
        .user_data = receive,
    };
    void *request = ucp_am_recv_data_nbx(worker->ucp, desc, receive->payload, len, &param);
    if (request == NULL)
        receive_deliver(receive);
    else if (UCS_PTR_IS_ERR(request))
        receive_free(receive);
    /* Else it may even be complete and gone. In any case UCX owns the descriptor now. */
    return UCS_INPROGRESS;
}

/* --- the active message --- */

ucs_status_t net_worker_am(void *arg, const void *header, size_t header_len, void *data,
                           size_t len, const ucp_am_recv_param_t *param)
{
    struct net_worker *worker = arg;
    bool rendezvous = param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV;
    const uint8_t *frame = header_len > 0 ? header : data;
    size_t frame_len = header_len > 0 ? header_len : len;
    size_t payload_len = header_len > 0 ? len : 0;
    ucs_status_t refused = rendezvous ? UCS_ERR_REJECTED : UCS_OK;
    struct opened opened;
    const struct net_msg *msg = &opened.msg;

    if (worker->destroying)
        return refused;
    if (header_len == 0 &&
        rendezvous) { /* a frame without payload is always sent eagerly */
        reject(worker, "malformed frame", DYAD_RANK_NONE);
        return refused;
    }
    if (!frame_open(worker, frame, frame_len, &opened))
        return refused;
    struct peer *peer = opened.peer;
    if (payload_len != net_msg_payload(msg) || payload_len > NET_WORKER_PAYLOAD_MAX ||
        (opened.proof && !payload_len)) {
        reject(worker, "payload of another length", msg->source);
        return refused;
    }
    if (payload_len > 0 && !opened.proof && worker->self.integrity) {
        reject(worker, "bytes without a proof", msg->source);
        return refused;
    }
    if (peer)
        peer->heard_at = util_clock_now();
    worker->stats.messages_received++;
    if (msg->type == NET_MSG_HELLO) {
        receive_hello(worker, msg, opened.knows_ours);
        return UCS_OK;
    }
    if (!peer || !is_current(peer, msg)) {
        /* From a member that we take for dead, or that another has followed: not hostile.
         */
        if (!peer || !peer->info || msg->source_incarnation > peer->info->incarnation)
            reject(worker, "no HELLO before it", msg->source);
        else if (msg->source_incarnation == peer->info->incarnation)
            net_worker_heard_dead(worker, peer);
        return refused;
    }
    peer->knows_ours = peer->knows_ours || opened.knows_ours;

    if (rendezvous)
        return receive_start(worker, frame, &opened, data, len);
    void *payload = NULL;
    if (payload_len > 0) {
        if (!payload_is_right(worker, peer, msg, !opened.knows_ours, opened.proof, data,
                              payload_len))
            return UCS_OK;
        payload = payload_alloc(worker, payload_len);
        if (!payload) {
            log_warn("no memory for %zu bytes from %s %u", payload_len,
                     worker->self.launch[0] ? "place" : "rank", msg->source);
            return UCS_OK; /* the request's deadline will tell the requester */
        }
        memcpy(payload, data, payload_len);
    }
    worker->ops->receive(worker->arg, msg, payload, payload_len);
    return UCS_OK;
}

void net_worker_free_receives(struct net_worker *worker)
{
    while (worker->receives)
        receive_free(worker->receives);
    while (worker->nspares > 0)
        free(worker->spares[--worker->nspares].data);
}
