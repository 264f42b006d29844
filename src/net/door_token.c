/*
 * door_token.c - what both ends of a connection say before UCX does
 */
#include <netinet/in.h>
#include <string.h>

#include "net/codec.h"
#include "net/door_impl.h"

#define VERSION 2

/* No frame begins like this (worker_impl.h). */
const char door_magic[8] = "dyadDOOR";
static const char proof_magic[8] = "dyadOPEN";

void door_put_end(uint8_t to[DOOR_END_LEN], const struct sockaddr *addr)
{
    memset(to, 0, DOOR_END_LEN);
    if (addr->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)addr;
        to[0] = 4;
        memcpy(to + 2, &in->sin_port, 2);
        memcpy(to + 4, &in->sin_addr, 4);
    } else if (addr->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const void *)addr;
        to[0] = 6;
        memcpy(to + 2, &in->sin6_port, 2);
        memcpy(to + 4, &in->sin6_addr, 16);
    }
}

static void walk_token(struct codec *c, struct net_door_token *token)
{
    char magic[sizeof(door_magic)];
    uint8_t version = VERSION;
    uint16_t encrypts = c->writing ? token->encrypts : 0;

    memcpy(magic, door_magic, sizeof(magic));
    codec_bytes(c, magic, sizeof(magic));
    codec_u8(c, &version);
    codec_u8(c, &token->flags);
    codec_u16(c, &encrypts);
    codec_check(c, memcmp(magic, door_magic, sizeof(magic)) == 0 && version == VERSION &&
                       encrypts <= 1);
    token->encrypts = encrypts;
    codec_u32(c, &token->from);
    codec_u32(c, &token->from_incarnation);
    codec_u32(c, &token->to);
    codec_u32(c, &token->to_incarnation);
    codec_u64(c, &token->number);
    codec_bytes(c, token->random, sizeof(token->random));
    codec_bytes(c, token->ends, sizeof(token->ends));
}

bool door_token_put(uint8_t text[DOOR_TEXT_LEN], const struct net_door_token *token)
{
    struct codec c = codec_writer(text, DOOR_TEXT_LEN);
    struct net_door_token copy = *token;

    walk_token(&c, &copy);
    return !c.failed;
}

bool door_token_get(const uint8_t text[DOOR_TEXT_LEN], struct net_door_token *token)
{
    struct codec c = codec_reader(text, DOOR_TEXT_LEN);

    walk_token(&c, token);
    return !c.failed;
}

bool door_sign(struct net_door *door, const struct net_door_token *token, const void *text,
               size_t len, uint8_t tag[NET_AUTH_TAG_LEN])
{
    uint8_t mac[NET_AUTH_MAC_LEN];

    if (!door->ops->mac(door->arg, token, text, len, mac))
        return false;
    memcpy(tag, mac, NET_AUTH_TAG_LEN);
    return true;
}

bool door_prove(struct net_door *door, const struct net_door_token *token,
                const uint8_t text[DOOR_TEXT_LEN], uint8_t proof[DOOR_PROOF_LEN])
{
    uint8_t proved[sizeof(proof_magic) + DOOR_TEXT_LEN];

    memcpy(proved, proof_magic, sizeof(proof_magic));
    memcpy(proved + sizeof(proof_magic), text, DOOR_TEXT_LEN);
    return door_sign(door, token, proved, sizeof(proved), proof);
}
