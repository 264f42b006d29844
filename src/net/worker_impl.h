/*
 * net/worker_impl.h - private to worker.c, known_peers.c, endpoint.c, later_worker.c,
 * receive.c and reconnect.c
 *
 * worker.c: UCX itself, the turn of the loop, creation and destruction. known_peers.c:
 * who the peers are. endpoint.c: their connections, what is sent to them. receive.c:
 * frames that come in. reconnect.c: peers that were taken for dead and are not.
 * later_worker.c: UCX's workers for connections that follow others.
 *
 * Everything belongs to the loop's thread. UCX forbids progress inside its callbacks and
 * must not see an endpoint closed under its feet: net_worker_tidy().
 */
#ifndef DYAD_NET_WORKER_IMPL_H
#define DYAD_NET_WORKER_IMPL_H

#include <ucp/api/ucp.h>
#include <uthash.h>

#include "net/auth.h"
#include "net/door.h"
#include "net/worker.h"

/* A frame: prefix, encoded message, proof of the payload, tag, which covers all that. A payload follows as the active
 * message's data; its proof is a number and a MAC (net/auth.h), if the flags say that there is one. They say, too, whose
 * key it is. */
#define FRAME_VERSION 3
#define FRAME_PREFIX_LEN \
    12 /* version u8, flags u8, zero u16, message length u32, destination rank u32 */
#define FRAME_OVERHEAD      (FRAME_PREFIX_LEN + NET_AUTH_TAG_LEN)
#define FRAME_MESSAGE_MAX   (NET_MSG_HEADER_MAX + NET_MSG_BLOB_MAX)
#define FRAME_KEY_OF_SENDER 0x01u /* else the receiver's own key */
#define FRAME_PROOF         0x02u /* of the payload */
#define FRAME_PROOF_LEN     (8 + NET_AUTH_TAG_LEN)

#define WORKER_AM_ID  0
#define WORKER_QUEUED 4096 /* messages kept for one peer whose address is not known */

/* One message on its way out. UCX needs frame and payload until it says that it is done. */
struct send {
    struct send *prev, *next; /* in peer->queue, conn->inflight or worker->done */
    struct conn *conn;
    net_send_fn fn;
    void *arg;
    int status;
    const void *payload;
    size_t payload_len;
    size_t frame_len;
    uint8_t frame[];
};

/* One endpoint. Outlives its place in the peer until UCX has given every send back. */
struct conn {
    struct conn *prev, *next; /* worker->conns */
    struct net_worker *worker;
    struct peer *peer;
    ucp_ep_h ep;
    struct later_worker *later; /* whose worker it is of; NULL: the main one */
    struct send *inflight;
    void *flush; /* a flush that destroy waits for */
    bool failed; /* not the peer's any more, to be closed by tidy */
    bool closed;
    int error; /* why */
};

/* A further UCX worker. */
struct later_worker {
    struct later_worker *prev, *next; /* worker->later_workers, by number */
    ucp_worker_h ucp;
    int efd;
    struct net_watch *watch;
    uint64_t number; /* from 1 */
    unsigned conns;
    uint64_t left_at; /* its last connection went */
};

struct peer {
    UT_hash_handle hh;     /* of a promoted guest, in worker->guests by rank */
    uint32_t rank;         /* or the number of a promoted guest */
    struct net_peer *info; /* NULL: not known */
    struct net_auth *auth; /* its key, or NULL: not known */
    bool knows_ours;       /* it has signed with our key, so it can verify with it too */
    bool down;       /* until it answers (reconnect.c), or a higher incarnation comes */
    uint32_t losses; /* how often we have taken this incarnation for dead */
    uint32_t asks;   /* how often we have asked since whether it is there */
    uint32_t their_losses, their_asks; /* of us, as it said last */
    uint64_t later;                    /* the lowest that has made no connection to it */
    bool wanted;                       /* need_peer was or will be called */
    bool refused;                      /* a disagreement was logged */
    struct conn *conn;  /* NULL: none, or failed; of one that is down: it asks */
    unsigned closing;   /* conns that have failed and are not gone yet */
    struct send *queue; /* its address, or a key for it, is not known */
    unsigned queued;
    uint64_t heard_at;    /* something came from it */
    uint64_t declined_at; /* it, or another one at its address, did not let us in */
    /* What the user is to be told at the next tidy. */
    struct peer *todo_next;
    bool todo_listed, todo_need, todo_down, todo_unanswered;
    int down_error;
};

/* A payload that is being received by rendezvous. */
struct receive {
    struct receive *prev, *next; /* worker->receives */
    struct net_worker *worker;
    void *payload;
    size_t payload_len;
    bool proven, of_sender; /* it has a proof; whose key that is of */
    uint8_t proof[FRAME_PROOF_LEN];
    size_t message_len;
    uint8_t message[]; /* verified */
};

/* Payloads that were given back. */
#define WORKER_SPARES    16
#define WORKER_SPARE_MIN (64u << 10) /* smaller ones are as cheap from malloc */
#define WORKER_SPARE_MAX (16u << 20) /* bytes of all together */

struct net_worker {
    struct net_loop *loop;
    struct net_peer self;
    uint32_t nranks;
    const struct net_worker_ops *ops;
    void *arg;

    ucp_context_h context;
    ucp_worker_h ucp;                   /* the main one */
    struct later_worker *later_workers; /* and the others */
    uint64_t last_later;
    size_t header_max; /* what fits into an active message's header */
    int efd;
    struct net_watch *watch;
    struct net_auth *auth; /* our own key */
    uint64_t proofs;       /* number of the next proof of a payload */
    struct net_door *door;
    unsigned turns;

    struct peer **peers; /* [nranks], made when first named */
    struct peer *guests; /* made when one has proved itself, or its member names it */
    struct conn *conns;
    unsigned failed_conns; /* of these, those to be closed or waiting for their sends */
    struct receive *receives;
    struct {
        void *data;
        size_t len;
    } spares[WORKER_SPARES]; /* the first nspares */
    unsigned nspares;
    size_t spare_bytes;
    struct send *done; /* to be reported and freed, oldest first */
    struct peer *todo;
    bool destroying;

    struct net_worker_stats stats;
    uint64_t rejected_logged;    /* stats.rejected at the last line */
    uint64_t rejected_logged_at; /* its time */
    struct net_peer scratch_peer;
    uint8_t scratch[FRAME_MESSAGE_MAX > NET_PEER_BLOB_MAX ? FRAME_MESSAGE_MAX
                                                          : NET_PEER_BLOB_MAX];
};

/* known_peers.c */

/* NULL: ENOMEM, or EINVAL not a rank of another member, EHOSTUNREACH a promoted guest of
 * whom nothing is known. */
struct peer *net_worker_get_peer(struct net_worker *worker, uint32_t rank);
/* NULL: nothing is known of it. */
struct peer *net_worker_find_peer(struct net_worker *worker, uint32_t rank);
/* The key of a promoted guest, from its member's. 0, or -1: that is not known here. */
int net_worker_guest_key(struct net_worker *worker, uint32_t id, uint32_t incarnation,
                         uint8_t key[NET_PEER_KEY_LEN]);
/* The key of a promoted guest of which nothing else is known; to be destroyed. NULL: it is no guest, or its member is not
 * known. */
struct net_auth *net_worker_guest_auth(struct net_worker *worker, uint32_t id,
                                       uint32_t incarnation);
/* For worker->door. */
extern const struct net_door_ops net_worker_door_ops;
/* A HELLO (knows_ours: it was signed with our key) or a blob tells of a peer. 0 (also for
 * old news), or -1 with errno. */
int net_worker_learn(struct net_worker *worker, const struct net_peer *info,
                     bool knows_ours);
/* We have its key, or it has ours. */
bool net_worker_can_sign(const struct peer *peer);
/* For messages to people. `to`: of NET_WORKER_NAME_LEN bytes. */
#define NET_WORKER_NAME_LEN (NET_PEER_LAUNCH_MAX + 32)
const char *net_worker_name_of(const struct net_peer *info, char *to);
/* The last: no connection is left. */
void net_worker_free_peers(struct net_worker *worker);

/* endpoint.c */

/* Take the connection away from its peer, to be closed by tidy. */
void net_worker_conn_detach(struct conn *conn, int error);
/* The peer's connection, made if there is none, with HELLO on its way; `ask`: which asks
 * for an answer. NULL with errno. */
struct conn *net_worker_connect(struct net_worker *worker, struct peer *peer, bool ask);
/* It is dead as far as we can tell: pending sends will be completed, then peer_down is
 * reported. */
void net_worker_fail(struct net_worker *worker, struct peer *peer, int error);
/* Send now what waited for the peer to be known. */
void net_worker_flush_queue(struct net_worker *worker, struct peer *peer);
/* Close what has failed, complete what is done, tell what is to be told. Returns how
 * much. UCX's callbacks only move things between lists; this does the rest after
 * progress. So callbacks of the user run from net_worker progress (and from
 * net_worker_set_peer and net_worker_destroy as net/worker.h says), never from
 * net_worker_send. */
unsigned net_worker_tidy(struct net_worker *worker);
/* Every queued send completes with `error`. */
void net_worker_cancel_queued(struct net_worker *worker, int error);
/* Force-close all connections. Their sends come back in UCX's progress. */
void net_worker_close_all(struct net_worker *worker);
unsigned net_worker_run_done(struct net_worker *worker);
void net_worker_free_conns(struct net_worker *worker);
int net_worker_errno(ucs_status_t status);

/* later_worker.c */

/* *later is to make the next connection to the peer, and counts it in conns already;
 * NULL: the main worker. 0, or -1 with errno. */
int net_worker_later(struct net_worker *worker, struct peer *peer,
                     struct later_worker **later);
/* ucp_worker_progress() of all. */
unsigned net_worker_progress(struct net_worker *worker);
/* False: something came in. */
bool net_worker_arm(struct net_worker *worker);
/* The loop is not to be woken by them any more. */
void net_worker_later_sleep(struct net_worker *worker);
/* A connection of it is gone; NULL: of the main worker. */
void net_worker_later_left(struct later_worker *later);
/* Those that have had no connection for a while; or all. Not in a callback of UCX. */
void net_worker_later_free(struct net_worker *worker, bool all);

/* reconnect.c */

/* HELLO of the member that we know at this rank. */
void net_worker_heard(struct net_worker *worker, struct peer *peer,
                      const struct net_msg *hello);
/* Something else of a peer that is down: it lives, but may not know of that. */
void net_worker_heard_dead(struct net_worker *worker, struct peer *peer);

/* receive.c */

/* Of a payload with that number. */
void net_worker_nonce(uint32_t rank, uint32_t incarnation, const uint8_t number[8],
                      uint8_t nonce[NET_AUTH_NONCE_LEN]);

ucs_status_t net_worker_am(void *arg, const void *header, size_t header_len, void *data,
                           size_t len, const ucp_am_recv_param_t *param);
/* Those under way, and the spare payloads. */
void net_worker_free_receives(struct net_worker *worker);

#endif
