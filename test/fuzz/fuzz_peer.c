/*
 * fuzz_peer.c - what a member says of itself
 *
 * The input is a blob without its first byte, the version.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "net/peer.h"

static uint8_t version_of_blobs(void)
{
    static const struct net_peer none;
    uint8_t blob[NET_PEER_BLOB_MAX];

    FUZZ_CHECK(net_peer_encode(&none, 0, blob, sizeof(blob)) > 0);
    return blob[0];
}

#define IS_STRING(member) (memchr(member, '\0', sizeof(member)) != NULL)

static void check(const struct net_peer *peer, const uint8_t *blob, size_t len)
{
    static uint8_t again[NET_PEER_BLOB_MAX];
    static struct net_peer twice;
    bool with_key = blob[1] & 1;

    FUZZ_CHECK(IS_STRING(peer->launch) && IS_STRING(peer->node));
    FUZZ_CHECK(IS_STRING(peer->dmd_producer) && IS_STRING(peer->dmd_consumer));
    FUZZ_CHECK(!peer->dmd_producer[0] || peer->dmd_producer[0] == '/');
    FUZZ_CHECK(!peer->dmd_consumer[0] || peer->dmd_consumer[0] == '/');
    FUZZ_CHECK(peer->address_len <= sizeof(peer->address));
    FUZZ_CHECK(net_peer_encode(peer, with_key, again, sizeof(again)) == (int)len);
    FUZZ_CHECK(memcmp(again, blob, len) == 0);
    FUZZ_CHECK(net_peer_decode(&twice, again, len) == 0);
    FUZZ_CHECK(twice.rank == peer->rank && strcmp(twice.node, peer->node) == 0);
    FUZZ_CHECK(net_guest_rank(peer->rank) == peer->rank || net_is_guest(peer->rank));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static struct net_peer peer;
    uint8_t *blob = malloc(len + 1);

    blob[0] = version_of_blobs();
    if (len > 0)
        memcpy(blob + 1, data, len);
    if (net_peer_decode(&peer, blob, len + 1) == 0) {
        fuzz_taken++;
        check(&peer, blob, len + 1);
    }
    free(blob);
    return 0;
}

void fuzz_seeds(void)
{
    struct net_peer peer = {.rank = 2,
                            .incarnation = 1,
                            .pid = 4711,
                            .launch_rank = 2,
                            .depth = 2,
                            .bins = 256,
                            .replicas = 2,
                            .integrity = true,
                            .node = "n2/boot",
                            .dmd_producer = "/tmp/ssd",
                            .dmd_consumer = "/tmp/ssd",
                            .address = "address of UCX",
                            .address_len = 14};
    uint8_t blob[NET_PEER_BLOB_MAX];
    int len = net_peer_encode(&peer, 0, blob, sizeof(blob));

    fuzz_seed("hello", blob + 1, (size_t)len - 1);
    memset(peer.key, 7, sizeof(peer.key));
    memset(peer.storage_producer, 9, sizeof(peer.storage_producer));
    strcpy(peer.launch, "64a1");
    peer.serves = true;
    len = net_peer_encode(&peer, 1, blob, sizeof(blob));
    fuzz_seed("session", blob + 1, (size_t)len - 1);
    memset(&peer, 0, sizeof(peer));
    len = net_peer_encode(&peer, 0, blob, sizeof(blob));
    fuzz_seed("empty", blob + 1, (size_t)len - 1);
}
