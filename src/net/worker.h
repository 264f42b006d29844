/*
 * net/worker.h - UCX: one worker, endpoints to peers, authenticated messages
 *
 * Runs on the loop's thread only (UCS_THREAD_MODE_SINGLE). UCX installs neither signal
 * handlers nor memory hooks in the host program (see src/boot/environ.h for how it is
 * configured without touching the program's environment). Endpoints use
 * UCP_ERR_HANDLING_MODE_PEER: a broken connection shows as peer_down.
 *
 * A frame is the message (net/msg.h) with a MAC tag; worker_impl.h has its layout. One
 * that cannot be verified is dropped and counted, without an answer.
 */
#ifndef DYAD_NET_WORKER_H
#define DYAD_NET_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/loop.h"
#include "net/msg.h"
#include "net/peer.h"

/* Largest payload of one message, either way. */
#define NET_WORKER_PAYLOAD_MAX (64u << 20)

struct net_worker;

/* Callbacks are made from the loop's progress, and from net_worker_set_peer() (peer_down,
 * peer_up) and net_worker_destroy() (net_send_fn); never from net_worker_send() or
 * net_worker_peer_down(). They may call any function here but net_worker_destroy(). */
struct net_worker_ops {
    /* A message from a verified peer, never HELLO. `payload` (net_msg_payload() > 0; else
     * NULL) has msg->length bytes, is malloc'ed and becomes the callee's, to be freed with
     * free(). msg's pointers live until return. */
    void (*receive)(void *arg, const struct net_msg *msg, void *payload,
                    size_t payload_len);
    /* The peer's address is not known and a message waits to be sent to it: fetch its
     * blob (PMIx) and call net_worker_set_peer(), or net_worker_peer_down(). Called once
     * until one of these. */
    void (*need_peer)(void *arg, uint32_t rank);
    /* The connection to the peer broke, it cannot be reached, or net_worker_peer_down() was
     * called. Called after every pending send to it was completed with an error. One
     * exception: a higher incarnation shows itself while the old one is still up; then
     * peer_down (ECONNRESET) and peer_up follow one another at once, and sends that are
     * pending at the old one fail soon after. The same where a peer says that it has taken
     * us for dead, so that nothing counts any more that we sent before. So peer_up and
     * peer_down of a rank always alternate (peer_down may come first, for one that was
     * never known). */
    void (*peer_down)(void *arg, uint32_t rank, int error);
    /* A HELLO or blob made the peer known, or a higher incarnation of it, or one that was
     * taken for dead has answered; `peer` lives until return. Its key is zero if only HELLO
     * was seen. */
    void (*peer_up)(void *arg, const struct net_peer *peer);
    /* A connection by which net_worker_probe() asked has failed. May be NULL. */
    void (*unanswered)(void *arg, uint32_t rank);
    /* A message came from a peer that is down: it lived when it sent it, and may not know
     * that it is taken for dead. Ask it (not at once: the end of a peer that leaves is
     * seen before its last messages are read). May be NULL. */
    void (*heard)(void *arg, uint32_t rank);
};

/* Completion of a send: status 0 (handed to the transport, buffer free again) or an errno
 * value. */
typedef void (*net_send_fn)(void *arg, int status);

struct net_worker_stats {
    uint64_t messages_received;
    uint64_t rejected;  /* frames dropped: not verified or malformed */
    uint64_t refused;   /* connections that did not prove to be of the session */
    uint32_t endpoints; /* open now */
};

/* Before net_worker_create(): the devices that UCX is to use, as UCX_NET_DEVICES names them, which they go before. NULL: as
 * that says, or all; but if that says nothing and `local`, all peers being in this network namespace, the loopback
 * device, and those of RDMA. Copied. */
void net_worker_use_devices(const char *chosen, bool local);

/* Start UCX on `loop`. `self` is filled in by the caller but for address; the worker sets
 * self->address and generates self->key (a promoted guest's is given). `nranks` bounds
 * valid ranks. NULL with errno and a log line. Ownership: `ops` static; the worker copies
 * *self. */
struct net_worker *net_worker_create(struct net_loop *loop, struct net_peer *self,
                                     uint32_t nranks, const struct net_worker_ops *ops,
                                     void *arg);
/* Flush (at most 2 s), close endpoints, free. Sends that wait for a peer's blob, or did not
 * get through in that time, complete with ECANCELED. No other callback. Not from a
 * callback. */
void net_worker_destroy(struct net_worker *worker, bool image_ends);

/* For an image that ends and whose peers do not need the messages under way: return at
 * once, without closing, flushing or freeing; the kernel closes the connections. */
void net_worker_abandon(struct net_worker *worker);

/* Send a message to a rank (or promoted guest) other than self, connecting first if need
 * be. msg is encoded at once. `payload` (payload_len == net_msg_payload(msg); 0: NULL
 * and 0) must stay valid until fn is called; fn may be NULL; fn is never called before this
 * returns. 0, or -1 and fn is not called: EHOSTUNREACH (the peer is known to be down),
 * ENOMEM, EMSGSIZE (payload; or a message beside one that UCX takes in no header), ENOBUFS
 * (4,096 messages wait for this peer's blob already), EINVAL (bad rank, message or payload length). source and source_incarnation are filled
 * in.
 *
 * Messages to one peer arrive in the order of their sending, but for those with a payload,
 * which may be overtaken. On a first contact HELLO goes out before anything else, so the
 * peer can answer and later send by itself without asking PMIx. A peer with another depth,
 * bins, replicas or protocol version is refused with a log line that names both values. */
int net_worker_send(struct net_worker *worker, uint32_t rank, struct net_msg *msg,
                    const void *payload, size_t payload_len, net_send_fn fn, void *arg);

/* Give a payload back in place of free(): the next one of about its size uses the same
 * pages, which triples the rate of large transfers. Optional; keeps at most 16 MiB.
 * Loop's thread only. */
void net_worker_recycle(struct net_worker *worker, void *payload, size_t payload_len);

/* The peer's blob was read. A promoted guest's comes without its key, which is derived from
 * its member's (EINVAL: not known). A higher incarnation replaces the old connection; a
 * lower one is ignored. 0, or -1 EINVAL (disagreeing depth, bins, replicas, or a second
 * process of one incarnation: logged), ENOMEM, or EHOSTUNREACH (it is down, and this is
 * the blob that it had then); then sends that wait for this blob fail as by
 * net_worker_peer_down(). */
int net_worker_set_peer(struct net_worker *worker, const struct net_peer *peer);
/* The peer will not come (never joined, or died): pending sends fail with EHOSTUNREACH,
 * and so do new ones until a HELLO or blob with a higher incarnation (or the first one at all) arrives, or a
 * HELLO that answers net_worker_probe(). */
void net_worker_peer_down(struct net_worker *worker, uint32_t rank, int error);
/* Ask a rank that is down whether it lives, on a new connection, which replaces one that
 * asks already. When it answers peer_up follows; at its end peer_down, if it did not know
 * that we took it for dead; if the connection fails ops->unanswered; while the rank is
 * silent nothing, so ask again after a while. 0, or -1: EINVAL the rank is not down, or
 * not known; ENOMEM; EHOSTUNREACH no connection can be made. */
int net_worker_probe(struct net_worker *worker, uint32_t rank);
/* The blob of a peer, even if it is down, or NULL. Valid until the loop runs again. */
const struct net_peer *net_worker_peer(struct net_worker *worker, uint32_t rank);

/* When the last message came from the peer (util_clock_now()); 0: never. */
uint64_t net_worker_heard_at(struct net_worker *worker, uint32_t rank);

/* When a connection to it was closed by who listens at its address, in place of a proof (net/door.h); 0: never. */
uint64_t net_worker_declined_at(struct net_worker *worker, uint32_t rank);

void net_worker_get_stats(struct net_worker *worker, struct net_worker_stats *stats);

#endif
