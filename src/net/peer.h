/*
 * net/peer.h - the peer blob, by which a member describes itself
 *
 * Put into PMIx or the session directory at join, and sent in HELLO (without the key).
 * Encoded little-endian, versioned, every field checked. Pure; thread-safe.
 */
#ifndef DYAD_NET_PEER_H
#define DYAD_NET_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <limits.h>

#include "util/entry.h"

#define NET_PEER_KEY_LEN     32
#define NET_PEER_ADDRESS_MAX 2048
#define NET_PEER_NODE_MAX    255
#define NET_PEER_LAUNCH_MAX  255
#define NET_PEER_BLOB_MAX    (2 * PATH_MAX + 1024 + NET_PEER_ADDRESS_MAX)

/* In place of a rank a promoted guest has a number made of its rank and a slot that the
 * rank's member gives. The incarnation rises when a slot is given again. */
#define NET_GUEST_BIT   0x80000000u
#define NET_GUEST_SLOTS 255u       /* of one rank; the last would touch DYAD_RANK_NONE */
#define NET_GUEST_RANKS (1u << 23) /* only ranks below have promoted guests */

static inline uint32_t net_guest_id(uint32_t rank, uint32_t slot)
{
    return NET_GUEST_BIT | slot << 23 | rank;
}

static inline bool net_is_guest(uint32_t id)
{
    return (id & NET_GUEST_BIT) && (id >> 23 & 0xff) < NET_GUEST_SLOTS;
}

/* The rank of a promoted guest; for a rank, itself. */
static inline uint32_t net_guest_rank(uint32_t id)
{
    return net_is_guest(id) ? id & (NET_GUEST_RANKS - 1) : id;
}

struct net_peer {
    uint32_t rank;        /* or the number of a promoted guest */
    uint32_t incarnation; /* raised by each member that follows another in the same rank */
    int32_t pid;
    /* In a session directory `rank` is a slot, which people do not know: these are the
     * name of the job and the rank in it, by the launcher. Else "" and `rank`. */
    char launch[NET_PEER_LAUNCH_MAX + 1];
    uint32_t launch_rank;
    uint32_t depth;    /* DYAD_KEY_DEPTH, must agree in the session */
    uint32_t bins;     /* DYAD_KEY_BINS, must agree */
    uint32_t replicas; /* DYAD_REPLICAS, must agree */
    uint8_t
        key[NET_PEER_KEY_LEN]; /* authenticates messages with this member; zero in HELLO */
    uint8_t storage_producer[DYAD_STORAGE_ID_LEN]; /* all zero: no such DMD */
    uint8_t storage_consumer[DYAD_STORAGE_ID_LEN];
    bool integrity; /* DYAD_INTEGRITY, must agree: payloads have a proof */
    bool encrypt;   /* DYAD_ENCRYPT, must agree: connections are encrypted */
    bool serves;    /* it runs no program, and stays (boot/identity.h) */
    char node[NET_PEER_NODE_MAX + 1]; /* DYAD_NODE or host name + boot id */
    char dmd_producer[PATH_MAX];      /* absolute, "" if none */
    char dmd_consumer[PATH_MAX];
    uint8_t address[NET_PEER_ADDRESS_MAX]; /* UCX worker address */
    size_t address_len;
};

static inline bool net_peer_has_storage(const struct net_peer *peer, const uint8_t *storage)
{
    return dyad_storage_equal(peer->storage_producer, storage) ||
           dyad_storage_equal(peer->storage_consumer, storage);
}

/* Encode; returns bytes or -1 with EMSGSIZE. `with_key` 0 leaves the key out. */
int net_peer_encode(const struct net_peer *peer, int with_key, void *buf, size_t size);

/* Decode; 0 or -1 with EPROTO / EPROTONOSUPPORT. */
int net_peer_decode(struct net_peer *peer, const void *buf, size_t len);

#endif
