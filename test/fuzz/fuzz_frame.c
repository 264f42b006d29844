/*
 * fuzz_frame.c - frames as UCX gives them to the worker
 *
 * The input is frames, each a byte that says how (below), the lengths of its message and payload, and these. The harness
 * makes prefix, proof and MAC, as a peer that has the keys would. What is wrong in one of these is never delivered; what is
 * delivered is of a peer that is known, and has its payload. UCX itself is not there: its calls are these below.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "net/codec.h"
#include "net/worker_impl.h"
#include "util/log.h"

enum how {
    KEY_OF_SENDER = 1,
    PROVEN = 2,
    RENDEZVOUS = 4,
    IN_DATA = 8,    /* the frame is the data, without a header */
    WRONG = 16,     /* one bit of the frame is changed after the MAC was made */
    CHANGED = 32,   /* one bit of the payload */
    ELSEWHERE = 64, /* for another rank */
    RAW = 128,      /* the message is all of the frame */
};

#define RANKS 4
#define SELF  0
#define INC   5

static struct net_worker worker;
static bool forged; /* the frame that is under way must not be delivered */
static unsigned delivered;
static const uint8_t *incoming; /* what UCX receives */

/* --- UCX, and the parts of a worker that have connections --- */

void ucp_request_free(void *request)
{
    (void)request;
    abort();
}

const char *ucs_status_string(ucs_status_t status)
{
    (void)status;
    return "";
}

ucs_status_ptr_t ucp_am_recv_data_nbx(ucp_worker_h ucp, void *desc, void *buffer,
                                      size_t count, const ucp_request_param_t *param)
{
    (void)ucp, (void)desc, (void)param;
    memcpy(buffer, incoming, count);
    return NULL;
}

void net_worker_conn_detach(struct conn *conn, int error)
{
    (void)conn, (void)error;
    abort(); /* no peer has one */
}

struct conn *net_worker_connect(struct net_worker *w, struct peer *peer, bool ask)
{
    (void)w, (void)ask;
    FUZZ_CHECK(net_worker_can_sign(peer));
    errno = EHOSTUNREACH;
    return NULL;
}

void net_worker_fail(struct net_worker *w, struct peer *peer, int error)
{
    (void)w;
    FUZZ_CHECK(peer != NULL && error != 0);
}

void net_worker_flush_queue(struct net_worker *w, struct peer *peer)
{
    (void)w;
    FUZZ_CHECK(net_worker_can_sign(peer));
}

/* --- the user of the worker --- */

static void on_receive(void *arg, const struct net_msg *msg, void *payload,
                       size_t payload_len)
{
    const struct peer *peer = net_worker_find_peer(&worker, msg->source);

    (void)arg;
    FUZZ_CHECK(!forged);
    FUZZ_CHECK(msg->type != NET_MSG_HELLO && peer && peer->info);
    FUZZ_CHECK(peer->info->incarnation == msg->source_incarnation);
    FUZZ_CHECK(payload_len == net_msg_payload(msg) &&
               (payload != NULL) == (payload_len > 0));
    FUZZ_CHECK(payload_len == 0 || memcmp(payload, incoming, payload_len) == 0);
    delivered++;
    net_worker_recycle(&worker, payload, payload_len);
}

static void on_peer(void *arg, uint32_t rank)
{
    (void)arg;
    FUZZ_CHECK(rank != SELF && net_worker_find_peer(&worker, rank));
}

static void on_peer_down(void *arg, uint32_t rank, int error)
{
    FUZZ_CHECK(error != 0);
    on_peer(arg, rank);
}

static void on_peer_up(void *arg, const struct net_peer *peer)
{
    FUZZ_CHECK(!forged && peer->address_len > 0);
    on_peer(arg, peer->rank);
}

static const struct net_worker_ops ops = {
    .receive = on_receive,
    .need_peer = on_peer,
    .peer_down = on_peer_down,
    .peer_up = on_peer_up,
    .heard = on_peer,
};

/* --- the session --- */

static void key_of(uint32_t rank, uint8_t key[NET_PEER_KEY_LEN])
{
    memset(key, (int)(0x40 | (rank & 0x3f)), NET_PEER_KEY_LEN);
}

static struct net_peer info_of(uint32_t rank)
{
    struct net_peer info = {.rank = rank,
                            .incarnation = INC,
                            .depth = 2,
                            .bins = 256,
                            .replicas = 2,
                            .integrity = true,
                            .node = "n",
                            .address = "address",
                            .address_len = 7};

    key_of(rank, info.key);
    return info;
}

/* Rank 1 is known, 2 as well and is taken for dead, 3 is not known. */
static void session_begin(void)
{
    static struct net_auth *own;
    static struct peer *peers[RANKS];

    if (!own) {
        struct net_peer self = info_of(SELF);
        util_log_setup(UTIL_LOG_ALWAYS, NULL, "fuzz");
        own = net_auth_create(self.key);
    }
    forged = false;
    memset(&worker, 0, sizeof(worker));
    memset(peers, 0, sizeof(peers));
    worker.self = info_of(SELF);
    worker.nranks = RANKS;
    worker.ops = &ops;
    worker.auth = own;
    worker.peers = peers;
    for (uint32_t rank = 1; rank < 3; rank++) {
        struct net_peer info = info_of(rank);
        FUZZ_CHECK(net_worker_set_peer(&worker, &info) == 0);
    }
    peers[2]->down = true;
}

static void session_end(void)
{
    net_worker_free_receives(&worker);
    net_worker_free_peers(&worker);
}

/* --- frames --- */

struct frame {
    uint8_t how, *payload, *bytes;
    size_t payload_len, len;
};

static struct net_auth *auth_of(uint8_t how, const uint8_t *message, size_t len)
{
    uint8_t key[NET_PEER_KEY_LEN], derived[NET_PEER_KEY_LEN];
    uint32_t source = 0, incarnation = 0;
    struct codec c = codec_reader(message, len);

    codec_take(&c, 8); /* as msg.c has its head */
    codec_u32(&c, &source);
    codec_u32(&c, &incarnation);
    key_of(how & KEY_OF_SENDER ? net_guest_rank(source) : SELF, key);
    if (!(how & KEY_OF_SENDER) || !net_is_guest(source))
        return net_auth_create(key);
    FUZZ_CHECK(net_auth_derive(key, source, incarnation, derived) == 0);
    return net_auth_create(derived);
}

/* As frame_seal() of endpoint.c. */
static void seal(struct frame *frame, const uint8_t *message, size_t message_len)
{
    bool proven = frame->how & PROVEN;
    uint8_t version = FRAME_VERSION;
    uint8_t flags = (uint8_t)((frame->how & KEY_OF_SENDER ? FRAME_KEY_OF_SENDER : 0) |
                              (proven ? FRAME_PROOF : 0));
    uint32_t len = (uint32_t)message_len, to = frame->how & ELSEWHERE ? 1 : SELF;
    uint32_t source = 0, incarnation = 0;
    uint8_t *proof, nonce[NET_AUTH_NONCE_LEN];
    uint16_t zero = 0;

    frame->len = FRAME_OVERHEAD + message_len + (proven ? FRAME_PROOF_LEN : 0);
    FUZZ_CHECK((frame->bytes = calloc(1, frame->len)));
    struct codec c = codec_writer(frame->bytes, FRAME_PREFIX_LEN);
    codec_u8(&c, &version);
    codec_u8(&c, &flags);
    codec_u16(&c, &zero);
    codec_u32(&c, &len);
    codec_u32(&c, &to);
    memcpy(frame->bytes + FRAME_PREFIX_LEN, message, message_len);
    struct net_auth *auth = auth_of(frame->how, message, message_len);
    FUZZ_CHECK(auth);
    if (proven) {
        proof = frame->bytes + FRAME_PREFIX_LEN + message_len;
        c = codec_reader(message, message_len);
        codec_take(&c, 8);
        codec_u32(&c, &source);
        codec_u32(&c, &incarnation);
        net_worker_nonce(source, incarnation, proof, nonce);
        FUZZ_CHECK(net_auth_sign_payload(auth, nonce, frame->payload, frame->payload_len,
                                         proof + 8) == 0);
    }
    size_t signed_len = frame->len - NET_AUTH_TAG_LEN;
    FUZZ_CHECK(net_auth_sign(auth, frame->bytes, signed_len, frame->bytes + signed_len) ==
               0);
    net_auth_destroy(auth);
}

static void give(struct frame *frame)
{
    const ucp_am_recv_param_t param = {
        .recv_attr = frame->how & RENDEZVOUS ? UCP_AM_RECV_ATTR_FLAG_RNDV : 0};

    if (frame->how & IN_DATA)
        net_worker_am(&worker, NULL, 0, frame->bytes, frame->len, &param);
    else
        net_worker_am(&worker, frame->bytes, frame->len, frame->payload, frame->payload_len,
                      &param);
}

static void one_frame(struct fuzz_input *in)
{
    struct frame frame = {.how = fuzz_u8(in)};
    uint16_t message_len = fuzz_u16(in), payload_len = fuzz_u16(in);

    if (message_len > in->left)
        message_len = (uint16_t)in->left;
    uint8_t *message = calloc(1, message_len + 1u);
    message[0] = NET_MSG_VERSION;
    fuzz_take(in, message + 1, message_len);
    frame.payload_len = frame.how & IN_DATA || payload_len > in->left ? 0 : payload_len;
    frame.payload = malloc(frame.payload_len + 1);
    fuzz_take(in, frame.payload, frame.payload_len);
    incoming = frame.payload;
    forged = frame.how & (WRONG | ELSEWHERE | RAW);
    if (frame.how & RAW) {
        frame.bytes = message;
        frame.len = message_len;
        message = NULL;
    } else {
        seal(&frame, message, message_len + 1u);
    }
    if (frame.how & WRONG)
        frame.bytes[payload_len % (frame.len ? frame.len : 1)] ^= (uint8_t)(frame.len > 0);
    if (frame.how & CHANGED && frame.payload_len > 0) {
        frame.payload[0] ^= 1;
        forged = true;
    }
    give(&frame);
    free(frame.bytes);
    free(frame.payload);
    free(message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_input in = {data, len};

    session_begin();
    for (int i = 0; i < 16 && in.left > 5; i++)
        one_frame(&in);
    fuzz_taken += delivered > 0;
    delivered = 0;
    session_end();
    return 0;
}

/* --- seeds --- */

static size_t put(uint8_t *to, uint8_t how, const struct net_msg *msg, const char *payload)
{
    uint16_t lens[2] = {0, (uint16_t)strlen(payload)};
    int len = net_msg_encode(msg, to + 4, 60000); /* its version is not in the input */

    FUZZ_CHECK(len > 0);
    lens[0] = (uint16_t)(len - 1);
    to[0] = how;
    memcpy(to + 1, lens, sizeof(lens));
    memcpy(to + 4 + len, payload, lens[1]);
    return 4 + (size_t)len + lens[1];
}

void fuzz_seeds(void)
{
    static uint8_t input[1 << 17];
    uint8_t blob[NET_PEER_BLOB_MAX];
    struct net_peer new = info_of(3), guest = info_of(net_guest_id(1, 2));
    struct net_msg get = {.type = NET_MSG_GET,
                          .source = 1,
                          .source_incarnation = INC,
                          .id = 9,
                          .entry = {.upath = "run/a", .state = DYAD_ENTRY_PUBLISHED},
                          .length = 4};
    struct net_msg data = {
        .type = NET_MSG_DATA, .source = 1, .source_incarnation = INC, .id = 9, .length = 4};
    struct net_msg hello = {
        .type = NET_MSG_HELLO, .source = 3, .source_incarnation = INC, .blob = blob};
    struct net_msg ping = {.type = NET_MSG_PING, .source = 3, .source_incarnation = INC};
    size_t n = put(input, 0, &get, "");

    n += put(input + n, PROVEN, &data, "data");
    n += put(input + n, PROVEN | RENDEZVOUS | KEY_OF_SENDER, &data, "more");
    fuzz_seed("data", input, n);
    n = put(input, PROVEN | CHANGED, &data, "data");
    n += put(input + n, WRONG, &get, "");
    n += put(input + n, 0, &data, "data");
    n += put(input + n, ELSEWHERE, &get, "");
    n += put(input + n, IN_DATA | KEY_OF_SENDER, &get, "");
    fuzz_seed("wrong", input, n);
    hello.blob_len = (size_t)net_peer_encode(&new, 0, blob, sizeof(blob));
    n = put(input, 0, &hello, "");
    n += put(input + n, IN_DATA, &ping, "");
    fuzz_seed("new", input, n);
    hello.source = guest.rank;
    hello.blob_len = (size_t)net_peer_encode(&guest, 0, blob, sizeof(blob));
    ping.source = guest.rank;
    n = put(input, KEY_OF_SENDER, &hello, "");
    n += put(input + n, KEY_OF_SENDER, &ping, "");
    fuzz_seed("guest", input, n);
    hello.source = guest.rank = 2;
    hello.losses = hello.asks = 1;
    hello.flags = NET_HELLO_ANSWER;
    guest.rank = 2;
    hello.blob_len = (size_t)net_peer_encode(&guest, 0, blob, sizeof(blob));
    ping.source = 2;
    n = put(input, 0, &ping, "");
    n += put(input + n, 0, &hello, "");
    hello.flags = 0;
    n += put(input + n, 0, &hello, "");
    n += put(input + n, 0, &ping, "");
    fuzz_seed("dead", input, n);
}
