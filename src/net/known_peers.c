/*
 * known_peers.c - what is known of the other ranks, and of promoted guests
 *
 * A peer is up (its address and a key that both ends know are there), unknown (sends wait
 * in its queue and the user was asked for its blob), or down (sends are refused until it
 * answers a request of reconnect.c, or a higher incarnation shows itself). News of one
 * come with its HELLO or with a blob, in any order and more than once.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/worker_impl.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/wipe.h"

struct peer *net_worker_find_peer(struct net_worker *worker, uint32_t rank)
{
    struct peer *peer = NULL;

    if (rank < worker->nranks)
        return worker->peers[rank];
    if (net_is_guest(rank))
        HASH_FIND(hh, worker->guests, &rank, sizeof(rank), peer);
    return peer;
}

struct peer *net_worker_get_peer(struct net_worker *worker, uint32_t rank)
{
    if (net_is_guest(rank)) {
        struct peer *guest = net_worker_find_peer(worker, rank);
        if (!guest)
            errno = EHOSTUNREACH;
        return guest;
    }
    if (rank >= worker->nranks || rank == worker->self.rank) {
        errno = EINVAL;
        return NULL;
    }
    struct peer *peer = worker->peers[rank];
    if (!peer) {
        peer = calloc(1, sizeof(*peer));
        if (!peer)
            return NULL;
        peer->rank = rank;
        worker->peers[rank] = peer;
    }
    return peer;
}

const struct net_peer *net_worker_peer(struct net_worker *worker, uint32_t rank)
{
    struct peer *peer = net_worker_find_peer(worker, rank);

    return peer ? peer->info : NULL;
}

int net_worker_guest_key(struct net_worker *worker, uint32_t id, uint32_t incarnation,
                         uint8_t key[NET_PEER_KEY_LEN])
{
    uint32_t rank = net_guest_rank(id);
    const struct peer *member = rank < worker->nranks ? worker->peers[rank] : NULL;
    const uint8_t *member_key = rank == worker->self.rank ? worker->self.key
                                : member && member->auth  ? member->info->key
                                                          : NULL;

    if (!member_key) {
        errno = EINVAL;
        return -1;
    }
    return net_auth_derive(member_key, id, incarnation, key);
}

/* A guest that proved to be one of its rank, or that its member names. */
static struct peer *guest_add(struct net_worker *worker, uint32_t id)
{
    struct peer *peer = net_worker_find_peer(worker, id);

    if (peer)
        return peer;
    if (net_guest_rank(id) >= worker->nranks || id == worker->self.rank) {
        errno = EINVAL;
        return NULL;
    }
    if ((peer = calloc(1, sizeof(*peer)))) {
        peer->rank = id;
        HASH_ADD(hh, worker->guests, rank, sizeof(peer->rank), peer);
        if (!peer->hh.tbl) {
            free(peer);
            return NULL;
        }
    }
    return peer;
}

bool net_worker_can_sign(const struct peer *peer)
{
    return peer->info && (peer->auth || peer->knows_ours);
}

const char *net_worker_name_of(const struct net_peer *info, char *to)
{
    if (info->launch[0] && !net_is_guest(info->rank))
        snprintf(to, NET_WORKER_NAME_LEN, "rank %u of launch %s", info->launch_rank,
                 info->launch);
    else
        snprintf(to, NET_WORKER_NAME_LEN, "rank %u", info->rank);
    return to;
}

/* --- news --- */

static bool agrees(const struct net_worker *worker, struct peer *peer,
                   const struct net_peer *info)
{
    const struct {
        const char *name;
        uint32_t ours, theirs;
    } same[] = {
        {"DYAD_KEY_DEPTH", worker->self.depth, info->depth},
        {"DYAD_KEY_BINS", worker->self.bins, info->bins},
        {"DYAD_REPLICAS", worker->self.replicas, info->replicas},
        {"DYAD_ENCRYPT", worker->self.encrypt, info->encrypt},
        {"DYAD_INTEGRITY", worker->self.integrity, info->integrity},
    };

    char theirs[NET_WORKER_NAME_LEN], ours[NET_WORKER_NAME_LEN];

    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        if (same[i].ours == same[i].theirs)
            continue;
        if (!peer->refused)
            log_error(
                "%s on %s has %s=%u, %s here has %u: they cannot share files; set the same "
                "value for the whole session",
                net_worker_name_of(info, theirs), info->node, same[i].name, same[i].theirs,
                net_worker_name_of(&worker->self, ours), same[i].ours);
        peer->refused = true;
        return false;
    }
    return true;
}

static bool has_key(const struct net_peer *info)
{
    static const uint8_t none[NET_PEER_KEY_LEN];

    return memcmp(info->key, none, sizeof(none)) != 0;
}

/* The same member, heard of once more: what is new is its key, or that it has ours. */
static int learn_more(struct peer *peer, const struct net_peer *info, bool knows_ours)
{
    char name[NET_WORKER_NAME_LEN];

    if (peer->info->address_len != info->address_len ||
        memcmp(peer->info->address, info->address, info->address_len) != 0) {
        if (!peer->refused)
            log_error(
                "%s shows incarnation %u from two processes (pid %d and %d); the second is "
                "refused",
                net_worker_name_of(info, name), info->incarnation, (int)peer->info->pid,
                (int)info->pid);
        peer->refused = true;
        errno = EINVAL;
        return -1;
    }
    if (!peer->auth && has_key(info)) {
        peer->auth = net_auth_create(info->key);
        if (!peer->auth)
            return -1;
        memcpy(peer->info->key, info->key, sizeof(info->key));
    }
    peer->knows_ours = peer->knows_ours || knows_ours;
    return 0;
}

/* A member that was not known, or follows another in its rank. */
static int learn_new(struct net_worker *worker, struct peer *peer,
                     const struct net_peer *info, bool knows_ours)
{
    struct net_auth *auth = NULL;
    struct net_peer *copy = malloc(sizeof(*copy));

    if (!copy)
        return -1;
    *copy = *info;
    if (has_key(info)) {
        auth = net_auth_create(info->key);
        if (!auth) {
            util_wipe_free(copy, sizeof(*copy));
            return -1;
        }
    }

    /* peer_down for the incarnation before, if that was not called yet. */
    bool tell_down = peer->info && (!peer->down || peer->todo_down);
    int error = peer->down ? peer->down_error : ECONNRESET;
    if (peer->conn)
        net_worker_conn_detach(peer->conn, ECONNRESET);
    net_auth_destroy(peer->auth);
    util_wipe_free(peer->info, sizeof(*peer->info));
    peer->info = copy;
    peer->auth = auth;
    peer->knows_ours = knows_ours;
    peer->down = peer->todo_down = peer->todo_unanswered = peer->refused = false;
    peer->losses = peer->asks = peer->their_losses = peer->their_asks = 0;
    peer->later = 0;
    if (tell_down)
        worker->ops->peer_down(worker->arg, peer->rank, error);
    return 1;
}

static int learn(struct net_worker *worker, struct peer *peer, const struct net_peer *info,
                 bool knows_ours)
{
    int learnt;

    if (info->address_len == 0 || info->address_len > NET_PEER_ADDRESS_MAX) {
        errno = EINVAL;
        return -1;
    }
    if (peer->info && info->incarnation < peer->info->incarnation)
        return 0; /* old news */
    if (!agrees(worker, peer, info)) {
        errno = EINVAL;
        return -1;
    }
    if (peer->info && info->incarnation == peer->info->incarnation)
        learnt = learn_more(peer, info, knows_ours);
    else
        learnt = learn_new(worker, peer, info, knows_ours);
    if (learnt < 0)
        return -1;
    if (net_worker_can_sign(peer)) {
        peer->wanted = peer->todo_need = false;
        net_worker_flush_queue(worker, peer);
    }
    if (learnt > 0 && !peer->down)
        worker->ops->peer_up(worker->arg, peer->info);
    return 0;
}

int net_worker_learn(struct net_worker *worker, const struct net_peer *info,
                     bool knows_ours)
{
    bool guest = net_is_guest(info->rank);
    struct peer *peer =
        guest ? guest_add(worker, info->rank) : net_worker_get_peer(worker, info->rank);
    struct net_peer with_key;
    int rc;

    if (!peer)
        return -1;
    if (!guest || has_key(info))
        return learn(worker, peer, info, knows_ours);
    with_key = *info;
    net_worker_guest_key(worker, info->rank, info->incarnation, with_key.key);
    rc = learn(worker, peer, &with_key, knows_ours);
    explicit_bzero(&with_key, sizeof(with_key));
    return rc;
}

int net_worker_set_peer(struct net_worker *worker, const struct net_peer *info)
{
    struct peer *peer = net_is_guest(info->rank) ? guest_add(worker, info->rank)
                                                 : net_worker_get_peer(worker, info->rank);

    if (!peer)
        return -1;
    if (net_worker_learn(worker, info, false) == 0) {
        if (net_worker_can_sign(peer) && !peer->down)
            return 0;
        errno = peer->down ? EHOSTUNREACH : EINVAL; /* EINVAL: a blob without a key */
    }
    /* Sends that wait for this blob would wait for ever. */
    int saved = errno;
    if (!net_worker_can_sign(peer))
        net_worker_fail(worker, peer, EHOSTUNREACH);
    errno = saved;
    return -1;
}

/* --- the end --- */

static void peer_free(struct peer *peer)
{
    net_auth_destroy(peer->auth);
    util_wipe_free(peer->info, sizeof(*peer->info));
    free(peer);
}

void net_worker_free_peers(struct net_worker *worker)
{
    struct peer *guest, *tmp;

    for (uint32_t rank = 0; rank < worker->nranks; rank++) {
        if (worker->peers[rank])
            peer_free(worker->peers[rank]);
    }
    HASH_ITER(hh, worker->guests, guest, tmp)
    {
        HASH_DEL(worker->guests, guest);
        peer_free(guest);
    }
}

struct net_auth *net_worker_guest_auth(struct net_worker *worker, uint32_t id,
                                       uint32_t incarnation)
{
    uint8_t key[NET_PEER_KEY_LEN];
    struct net_auth *auth = NULL;

    if (net_is_guest(id) && net_worker_guest_key(worker, id, incarnation, key) == 0)
        auth = net_auth_create(key);
    explicit_bzero(key, sizeof(key));
    return auth;
}

/* --- keys and names of a door's tokens: those of frames --- */

/* Where UCX connects by itself to one that has connected to us, that one's key may not be known, nor it itself: but it knows
 * ours. */
static bool introduce(void *arg, struct net_door_token *token)
{
    struct net_worker *worker = arg;
    const struct peer *peer =
        token->to == DYAD_RANK_NONE ? NULL : net_worker_find_peer(worker, token->to);
    bool known = peer && peer->info && peer->info->incarnation >= token->to_incarnation;

    token->flags = known && peer->auth ? 0 : FRAME_KEY_OF_SENDER;
    token->from = worker->self.rank;
    token->from_incarnation = worker->self.incarnation;
    if (known)
        token->to_incarnation = peer->info->incarnation;
    return token->to != DYAD_RANK_NONE;
}

static bool admits(void *arg, const struct net_door_token *token)
{
    const struct net_worker *worker = arg;

    return !(token->flags & ~FRAME_KEY_OF_SENDER) && token->to == worker->self.rank &&
           token->to_incarnation == worker->self.incarnation &&
           token->from != worker->self.rank && net_guest_rank(token->from) < worker->nranks;
}

static bool door_mac(void *arg, const struct net_door_token *token, const void *text,
                     size_t len, uint8_t mac[NET_AUTH_MAC_LEN])
{
    struct net_worker *worker = arg;
    const bool ours = token->from == worker->self.rank;
    const bool of_sender = token->flags & FRAME_KEY_OF_SENDER;
    const struct peer *peer = net_worker_find_peer(worker, ours ? token->to : token->from);
    struct net_auth *auth = ours == of_sender ? worker->auth : peer ? peer->auth : NULL;
    struct net_auth *own = NULL; /* of a promoted guest that is new */
    bool done;

    if (!ours && of_sender && net_is_guest(token->from) &&
        !(peer && peer->info && peer->info->incarnation == token->from_incarnation))
        auth = own = net_worker_guest_auth(worker, token->from, token->from_incarnation);
    done = auth && net_auth_mac(auth, text, len, mac) == 0;
    net_auth_destroy(own);
    return done;
}

static void declined(void *arg, uint32_t rank)
{
    struct peer *peer = net_worker_find_peer(arg, rank);

    if (peer)
        peer->declined_at = util_clock_now();
}

const struct net_door_ops net_worker_door_ops = {
    .introduce = introduce,
    .mac = door_mac,
    .admits = admits,
    .declined = declined,
};

uint64_t net_worker_declined_at(struct net_worker *worker, uint32_t rank)
{
    const struct peer *peer = net_worker_find_peer(worker, rank);

    return peer ? peer->declined_at : 0;
}
