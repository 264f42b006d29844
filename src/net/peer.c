/*
 * peer.c - one walk over the fields of a peer, as in msg.c
 *
 * Strings are a u16 length and the bytes, without NUL; a decoded one has none inside, so
 * what one member compares is what the other meant.
 */
#include "net/peer.h"

#include <errno.h>

#include "net/codec.h"

#define PEER_VERSION   2
#define PEER_HAS_KEY   0x01u
#define PEER_SERVES    0x02u
#define PEER_INTEGRITY 0x04u
#define PEER_ENCRYPT   0x08u

/* version, flags, seven integers, key, storage ids, four string lengths, strings, address
 */
_Static_assert(2 + 7 * 4 + NET_PEER_KEY_LEN + 2 * DYAD_STORAGE_ID_LEN + 4 * 2 +
                       NET_PEER_LAUNCH_MAX + NET_PEER_NODE_MAX + 2 * (PATH_MAX - 1) + 2 +
                       NET_PEER_ADDRESS_MAX <=
                   NET_PEER_BLOB_MAX,
               "NET_PEER_BLOB_MAX is too small");

static void walk_string(struct codec *c, char *string, size_t size)
{
    uint16_t len = c->writing ? (uint16_t)strnlen(string, size) : 0;

    codec_u16(c, &len);
    codec_check(c, len < size);
    if (c->failed)
        return;
    codec_bytes(c, string, len);
    if (!c->writing) {
        string[len] = '\0';
        codec_check(c, strlen(string) == len);
    }
}

static bool directory_valid(const char *path)
{
    return path[0] == '\0' || path[0] == '/';
}

static void walk(struct codec *c, struct net_peer *peer, bool with_key)
{
    uint8_t version = PEER_VERSION;
    uint8_t flags = (with_key ? PEER_HAS_KEY : 0) | (peer->serves ? PEER_SERVES : 0) |
                    (peer->integrity ? PEER_INTEGRITY : 0) |
                    (peer->encrypt ? PEER_ENCRYPT : 0);
    uint16_t address_len = (uint16_t)peer->address_len;

    codec_u8(c, &version);
    codec_u8(c, &flags);
    codec_check(
        c, (flags & ~(PEER_HAS_KEY | PEER_SERVES | PEER_INTEGRITY | PEER_ENCRYPT)) == 0);
    if (!c->writing) {
        peer->serves = flags & PEER_SERVES;
        peer->integrity = flags & PEER_INTEGRITY;
        peer->encrypt = flags & PEER_ENCRYPT;
    }
    codec_u32(c, &peer->rank);
    codec_u32(c, &peer->incarnation);
    codec_i32(c, &peer->pid);
    walk_string(c, peer->launch, sizeof(peer->launch));
    codec_u32(c, &peer->launch_rank);
    codec_u32(c, &peer->depth);
    codec_u32(c, &peer->bins);
    codec_u32(c, &peer->replicas);
    if (flags & PEER_HAS_KEY)
        codec_bytes(c, peer->key, sizeof(peer->key));
    codec_bytes(c, peer->storage_producer, sizeof(peer->storage_producer));
    codec_bytes(c, peer->storage_consumer, sizeof(peer->storage_consumer));
    walk_string(c, peer->node, sizeof(peer->node));
    walk_string(c, peer->dmd_producer, sizeof(peer->dmd_producer));
    walk_string(c, peer->dmd_consumer, sizeof(peer->dmd_consumer));
    codec_check(c,
                directory_valid(peer->dmd_producer) && directory_valid(peer->dmd_consumer));
    codec_u16(c, &address_len);
    codec_check(c, address_len <= NET_PEER_ADDRESS_MAX);
    if (c->failed)
        return;
    if (!c->writing)
        peer->address_len = address_len;
    codec_bytes(c, peer->address, address_len);
}

int net_peer_encode(const struct net_peer *peer, int with_key, void *buf, size_t size)
{
    struct codec c = codec_writer(buf, size);

    if (peer->address_len > NET_PEER_ADDRESS_MAX) {
        errno = EMSGSIZE;
        return -1;
    }
    walk(&c, (struct net_peer *)peer, with_key); /* a writer only reads it */
    if (c.failed) {
        errno = EMSGSIZE;
        return -1;
    }
    return (int)(c.at - (uint8_t *)buf);
}

int net_peer_decode(struct net_peer *peer, const void *buf, size_t len)
{
    memset(peer, 0, sizeof(*peer));
    if (len > 0 && *(const uint8_t *)buf != PEER_VERSION) {
        errno = EPROTONOSUPPORT;
        return -1;
    }

    struct codec c = codec_reader(buf, len);
    walk(&c, peer, false);
    if (c.failed || c.at != c.end) {
        memset(peer, 0, sizeof(*peer));
        errno = EPROTO;
        return -1;
    }
    return 0;
}
