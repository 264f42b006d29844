/*
 * test_auth.c - HMAC-SHA-256 against published vectors, repeated use of one key, forgeries
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "../in_memory.h"
#include "net/auth.h"

/* RFC 4231; a shorter key is the same as one filled up with zeros (RFC 2104). */
static const struct {
    const char *key, *data;
    uint8_t fill_key, fill_data;
    size_t key_len, data_len;
    uint8_t tag[NET_AUTH_TAG_LEN];
} vectors[] = {
    {NULL,
     "Hi There",
     0x0b,
     0,
     20,
     8,
     {0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53, 0x5c, 0xa8, 0xaf, 0xce, 0xaf, 0x0b,
      0xf1, 0x2b}},
    {"Jefe",
     "what do ya want for nothing?",
     0,
     0,
     4,
     28,
     {0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e, 0x6a, 0x04, 0x24, 0x26, 0x08, 0x95,
      0x75, 0xc7}},
    {NULL,
     NULL,
     0xaa,
     0xdd,
     20,
     50,
     {0x77, 0x3e, 0xa9, 0x1e, 0x36, 0x80, 0x0e, 0x46, 0x85, 0x4d, 0xb8, 0xeb, 0xd0, 0x91,
      0x81, 0xa7}},
};

static void test_vectors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        uint8_t key[NET_PEER_KEY_LEN] = {0}, data[64], tag[NET_AUTH_TAG_LEN];
        if (vectors[i].key)
            memcpy(key, vectors[i].key, vectors[i].key_len);
        else
            memset(key, vectors[i].fill_key, vectors[i].key_len);
        if (vectors[i].data)
            memcpy(data, vectors[i].data, vectors[i].data_len);
        else
            memset(data, vectors[i].fill_data, vectors[i].data_len);

        struct net_auth *auth = net_auth_create(key);
        assert_non_null(auth);
        for (int again = 0; again < 3; again++) { /* a prepared key serves many messages */
            memset(tag, 0, sizeof(tag));
            assert_int_equal(net_auth_sign(auth, data, vectors[i].data_len, tag), 0);
            assert_memory_equal(tag, vectors[i].tag, sizeof(tag));
            assert_true(net_auth_verify(auth, data, vectors[i].data_len, tag));
        }
        net_auth_destroy(auth);
    }
}

static void test_forged(void **state)
{
    uint8_t key[NET_PEER_KEY_LEN], data[100] = "message", tag[NET_AUTH_TAG_LEN];

    (void)state;
    assert_int_equal(net_auth_random(key, sizeof(key)), 0);
    struct net_auth *auth = net_auth_create(key);
    assert_int_equal(net_auth_sign(auth, data, sizeof(data), tag), 0);
    for (size_t bit = 0; bit < 8 * sizeof(tag); bit++) {
        tag[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_false(net_auth_verify(auth, data, sizeof(data), tag));
        tag[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] ^= 1;
        assert_false(net_auth_verify(auth, data, sizeof(data), tag));
        data[i] ^= 1;
    }
    assert_false(net_auth_verify(auth, data, sizeof(data) - 1, tag));
    assert_true(net_auth_verify(auth, data, sizeof(data), tag));

    key[31] ^= 0x80;
    struct net_auth *other = net_auth_create(key);
    assert_false(net_auth_verify(other, data, sizeof(data), tag));
    net_auth_destroy(other);
    net_auth_destroy(auth);
    net_auth_destroy(NULL);
}

/* A payload's MAC depends on the key, the nonce and each byte, in any order of nonces. */
static void test_payload(void **state)
{
    static uint8_t data[70000];
    uint8_t key[NET_PEER_KEY_LEN], nonce[NET_AUTH_NONCE_LEN] = {3},
                                   other[NET_AUTH_NONCE_LEN] = {4}, tag[NET_AUTH_TAG_LEN],
                                   again[NET_AUTH_TAG_LEN], frame_tag[NET_AUTH_TAG_LEN];

    (void)state;
    assert_int_equal(net_auth_random(key, sizeof(key)), 0);
    assert_int_equal(net_auth_random(data, sizeof(data)), 0);
    struct net_auth *auth = net_auth_create(key);
    assert_int_equal(net_auth_sign(auth, data, 100, frame_tag), 0);
    for (size_t len = 1; len <= sizeof(data); len = len * 3 + 1) {
        assert_int_equal(net_auth_sign_payload(auth, nonce, data, len, tag), 0);
        assert_int_equal(net_auth_sign_payload(auth, other, data, len, again), 0);
        assert_memory_not_equal(tag, again, sizeof(tag));
        assert_true(net_auth_verify_payload(auth, other, data, len, again));
        assert_false(net_auth_verify_payload(auth, other, data, len, tag));
        assert_true(net_auth_verify_payload(auth, nonce, data, len, tag));
        assert_false(net_auth_verify_payload(auth, nonce, data, len - 1, tag));
        for (size_t i = 0; i < len; i += 1 + len / 50) {
            data[i] ^= 0x20;
            assert_false(net_auth_verify_payload(auth, nonce, data, len, tag));
            data[i] ^= 0x20;
        }
        for (size_t i = 0; i < 2; i++) { /* both halves of a nonce count */
            nonce[15 * i] ^= 1;
            assert_false(net_auth_verify_payload(auth, nonce, data, len, tag));
            nonce[15 * i] ^= 1;
        }
    }
    assert_true(net_auth_verify(auth, data, 100, frame_tag)); /* frames are as before */
    assert_int_equal(net_auth_sign_payload(auth, nonce, data, 40, tag), 0);
    net_auth_destroy(auth);
    key[0] ^= 1;
    auth = net_auth_create(key);
    assert_false(net_auth_verify_payload(auth, nonce, data, 40, tag));
    net_auth_destroy(auth);
}

static void test_random(void **state)
{
    uint8_t a[1024] = {0}, b[1024] = {0};
    unsigned zeros = 0;

    (void)state;
    assert_int_equal(net_auth_random(a, sizeof(a)), 0);
    assert_int_equal(net_auth_random(b, sizeof(b)), 0);
    assert_memory_not_equal(a, b, sizeof(a));
    for (size_t i = 0; i < sizeof(a); i++)
        zeros += a[i] == 0;
    assert_true(zeros < 40); /* all of it was filled: 4 are expected */
}

/* Each guest of each life of a member has a key of its own, that says nothing of others. */
static void test_derived(void **state)
{
    uint8_t member[NET_PEER_KEY_LEN] = {7}, key[4][NET_PEER_KEY_LEN],
            again[NET_PEER_KEY_LEN];

    (void)state;
    assert_int_equal(net_auth_derive(member, net_guest_id(1, 0), 1, key[0]), 0);
    assert_int_equal(net_auth_derive(member, net_guest_id(1, 1), 1, key[1]), 0);
    assert_int_equal(net_auth_derive(member, net_guest_id(1, 0), 2, key[2]), 0);
    assert_int_equal(net_auth_derive(member, net_guest_id(1, 0), 1, again), 0);
    member[31] = 1;
    assert_int_equal(net_auth_derive(member, net_guest_id(1, 0), 1, key[3]), 0);
    assert_memory_equal(key[0], again, sizeof(again));
    for (int i = 0; i < 4; i++) {
        assert_memory_not_equal(key[i], member, sizeof(member));
        for (int j = 0; j < i; j++)
            assert_memory_not_equal(key[i], key[j], sizeof(key[i]));
    }
}

static const uint8_t masked[NET_PEER_KEY_LEN] = "some bytes, not like any other..";

/* A member's key, and what is derived from it, is in no memory when it has been destroyed. */
static void test_wiped(void **state)
{
    uint8_t key[NET_PEER_KEY_LEN], derived[NET_PEER_KEY_LEN], tag[NET_AUTH_TAG_LEN];
    uint8_t masked_derived[NET_PEER_KEY_LEN];
    const uint8_t nonce[NET_AUTH_NONCE_LEN] = {1};
    struct net_auth *auth;

    (void)state;
    in_memory_unmask(key, masked, sizeof(key));
    assert_true(in_memory(masked, sizeof(masked)) > 0); /* it would be found */
    assert_non_null(auth = net_auth_create(key));
    assert_int_equal(net_auth_sign(auth, "text", 4, tag), 0);
    assert_int_equal(net_auth_sign_payload(auth, nonce, "text", 4, tag), 0);
    assert_int_equal(net_auth_derive(key, net_guest_id(3, 1), 1, derived), 0);
    in_memory_unmask(masked_derived, derived, sizeof(derived));
    explicit_bzero(key, sizeof(key));
    explicit_bzero(derived, sizeof(derived));
    assert_true(in_memory(masked, sizeof(masked)) >
                0); /* OpenSSL's, as long as it is used */
    net_auth_destroy(auth);
    assert_int_equal(in_memory(masked, sizeof(masked)), 0);
    assert_int_equal(in_memory(masked_derived, sizeof(masked_derived)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors), cmocka_unit_test(test_payload),
        cmocka_unit_test(test_forged),  cmocka_unit_test(test_random),
        cmocka_unit_test(test_derived), cmocka_unit_test(test_wiped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
