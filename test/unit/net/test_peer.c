/*
 * test_peer.c - the peer blob: both forms, largest, cut short, with flipped bytes
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "net/peer.h"

static struct net_peer *make_peer(void)
{
    struct net_peer *peer = calloc(1, sizeof(*peer));
    assert_non_null(peer);
    peer->rank = 70000;
    peer->incarnation = 3;
    peer->pid = 4194303;
    strcpy(peer->launch, "slurm.pmix.7.0");
    peer->launch_rank = 70001;
    peer->depth = 2;
    peer->bins = 256;
    peer->replicas = 2;
    memset(peer->key, 0x11, sizeof(peer->key));
    memset(peer->storage_producer, 0x22, sizeof(peer->storage_producer));
    memset(peer->storage_consumer, 0x33, sizeof(peer->storage_consumer));
    peer->serves = true;
    strcpy(peer->node, "node-7");
    strcpy(peer->dmd_producer, "/tmp/a b");
    strcpy(peer->dmd_consumer, "/tmp/c");
    peer->address_len = 100;
    memset(peer->address, 0x44, peer->address_len);
    return peer;
}

static void test_round_trip(void **state)
{
    struct net_peer *peer = make_peer(), *got = calloc(1, sizeof(*got));
    uint8_t buf[NET_PEER_BLOB_MAX];

    (void)state;
    int len = net_peer_encode(peer, 1, buf, sizeof(buf));
    assert_true(len > 0 && len < 512);
    assert_int_equal(net_peer_decode(got, buf, (size_t)len), 0);
    assert_memory_equal(got, peer, sizeof(*peer));

    int shorter = net_peer_encode(peer, 0, buf, sizeof(buf));
    assert_int_equal(shorter, len - NET_PEER_KEY_LEN);
    for (int i = 0; i + 8 <= shorter; i++) /* the key is nowhere in it */
        assert_memory_not_equal(buf + i, peer->key, 8);
    assert_int_equal(net_peer_decode(got, buf, (size_t)shorter), 0);
    memset(peer->key, 0, sizeof(peer->key));
    assert_memory_equal(got, peer, sizeof(*peer));
    free(peer);
    free(got);
}

static void test_largest(void **state)
{
    struct net_peer *peer = make_peer(), *got = calloc(1, sizeof(*got));
    uint8_t buf[NET_PEER_BLOB_MAX];

    (void)state;
    memset(peer->node, 'n', NET_PEER_NODE_MAX);
    memset(peer->launch, 'l', NET_PEER_LAUNCH_MAX);
    memset(peer->dmd_producer, '/', PATH_MAX - 1);
    memset(peer->dmd_consumer, '/', PATH_MAX - 1);
    peer->address_len = NET_PEER_ADDRESS_MAX;
    memset(peer->address, 9, NET_PEER_ADDRESS_MAX);
    int len = net_peer_encode(peer, 1, buf, sizeof(buf));
    assert_true(len > 0);
    assert_int_equal(net_peer_decode(got, buf, (size_t)len), 0);
    assert_memory_equal(got, peer, sizeof(*peer));
    peer->address_len++;
    assert_int_equal(net_peer_encode(peer, 1, buf, sizeof(buf)), -1);
    assert_int_equal(errno, EMSGSIZE);
    free(peer);
    free(got);
}

static void test_hostile(void **state)
{
    struct net_peer *peer = make_peer(), *got = calloc(1, sizeof(*got));
    uint8_t buf[512];

    (void)state;
    int len = net_peer_encode(peer, 1, buf, sizeof(buf));
    for (int n = 0; n <= len + 1; n++) {
        uint8_t *exact = calloc(1, (size_t)n ? (size_t)n : 1);
        memcpy(exact, buf, (size_t)(n < len ? n : len));
        int rc = net_peer_decode(got, exact, (size_t)n);
        assert_int_equal(rc, n == len ? 0 : -1);
        if (n < len) {
            memset(exact, 0xee, (size_t)n);
            assert_int_equal(net_peer_encode(peer, 1, exact, (size_t)n), -1);
            assert_int_equal(errno, EMSGSIZE);
        }
        free(exact);
    }
    uint8_t *exact = malloc(len > 0 ? (size_t)len : 1);
    for (int i = 0; i < len; i++) {
        memcpy(exact, buf, (size_t)len);
        for (int value = 0; value < 256; value++) {
            exact[i] = (uint8_t)value;
            if (net_peer_decode(got, exact, (size_t)len) == 0) {
                assert_true(strlen(got->node) <= NET_PEER_NODE_MAX);
                assert_true(got->dmd_producer[0] == '/' || got->dmd_producer[0] == '\0');
                assert_true(got->address_len <= NET_PEER_ADDRESS_MAX);
            } else {
                assert_int_equal(errno, i == 0 ? EPROTONOSUPPORT : EPROTO);
            }
        }
    }
    free(exact);
    free(peer);
    free(got);
}

static void test_relative_directory(void **state)
{
    struct net_peer *peer = make_peer(), *got = calloc(1, sizeof(*got));
    uint8_t buf[512];

    (void)state;
    int len = net_peer_encode(peer, 1, buf, sizeof(buf));
    uint8_t *at = memmem(buf, (size_t)len, "/tmp/c", 6);
    assert_non_null(at);
    *at = 't';
    assert_int_equal(net_peer_decode(got, buf, (size_t)len), -1);
    *at = '\0';
    assert_int_equal(net_peer_decode(got, buf, (size_t)len), -1);
    assert_int_equal(errno, EPROTO);
    free(peer);
    free(got);
}

/* A peer that cannot be written to: an encoder that stores into it ends here. */
static void test_only_reads(void **state)
{
    static const struct net_peer peer = {.rank = 1, .node = "n", .integrity = true};
    struct net_peer *got = calloc(1, sizeof(*got));
    uint8_t buf[NET_PEER_BLOB_MAX];
    int len = net_peer_encode(&peer, 1, buf, sizeof(buf));

    (void)state;
    assert_int_equal(net_peer_decode(got, buf, (size_t)len), 0);
    assert_memory_equal(got, &peer, sizeof(peer));
    free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_largest),
        cmocka_unit_test(test_hostile),    cmocka_unit_test(test_relative_directory),
        cmocka_unit_test(test_only_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
