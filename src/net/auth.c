/*
 * auth.c - HMAC-SHA-256, and AES-256-GMAC, by OpenSSL's EVP_MAC
 *
 * The algorithm comes from a library context of our own: a program that uses the same
 * libcrypto keeps its providers, configuration and fetched algorithms to itself. It is made
 * once and kept as long as the process lives (the engine is never unloaded). A prepared key
 * is a context that each message starts again without giving the key again, which spares
 * two of four compressions.
 */
#include "net/auth.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "util/log.h"

_Static_assert(NET_AUTH_MAC_LEN == NET_PEER_KEY_LEN, "a derived key is one MAC");

struct net_auth {
    EVP_MAC_CTX *mac;
    EVP_MAC_CTX *payloads; /* GMAC */
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static OSSL_LIB_CTX *library;
static EVP_MAC *hmac, *gmac;

static void fetch(void)
{
    /* A member may join, and serves, while the program is in exit(): a clean-up that
     * libcrypto registers with atexit() would run beside us. A no-op if the program has
     * used libcrypto before; then its clean-up may have run by now, after which libcrypto
     * crashes where it should fail. */
    if (!OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL)) {
        log_info("the program has ended, and its OpenSSL with it, before it could join");
        return;
    }
    library = OSSL_LIB_CTX_new();
    if (library && (gmac = EVP_MAC_fetch(library, OSSL_MAC_NAME_GMAC, NULL)))
        hmac = EVP_MAC_fetch(library, OSSL_MAC_NAME_HMAC, NULL);
    if (!hmac)
        log_error(
            "OpenSSL has no HMAC or no GMAC: peers cannot be authenticated; check its "
            "installation");
}

int net_auth_random(void *buf, size_t len)
{
    uint8_t *at = buf;

    while (len > 0) {
        ssize_t n = getrandom(at, len, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

void net_auth_prepare(void)
{
    pthread_once(&once, fetch);
}

OSSL_LIB_CTX *net_auth_library(void)
{
    net_auth_prepare();
    return library;
}

void net_auth_destroy(struct net_auth *auth)
{
    if (!auth)
        return;
    EVP_MAC_CTX_free(auth->mac);
    EVP_MAC_CTX_free(auth->payloads);
    free(auth);
}

int net_auth_mac(struct net_auth *auth, const void *data, size_t len,
                 uint8_t mac[NET_AUTH_MAC_LEN])
{
    size_t mac_len = 0;

    if (!EVP_MAC_init(auth->mac, NULL, 0, NULL) || !EVP_MAC_update(auth->mac, data, len) ||
        !EVP_MAC_final(auth->mac, mac, &mac_len, NET_AUTH_MAC_LEN) ||
        mac_len != NET_AUTH_MAC_LEN) {
        errno = EIO;
        return -1;
    }
    return 0;
}

/* Its key is one MAC by the other. 0 or -1. */
static int prepare_payloads(struct net_auth *auth)
{
    static const char label[] = "dyad payload"; /* no frame begins like this */
    const OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_CIPHER, (char *)"AES-256-GCM", 0),
        OSSL_PARAM_construct_end(),
    };
    uint8_t key[NET_AUTH_MAC_LEN];
    int rc = -1;

    if (net_auth_mac(auth, label, sizeof(label), key) < 0)
        return -1;
    auth->payloads = EVP_MAC_CTX_new(gmac);
    if (auth->payloads && EVP_MAC_init(auth->payloads, key, sizeof(key), params))
        rc = 0;
    OPENSSL_cleanse(key, sizeof(key));
    return rc;
}

struct net_auth *net_auth_create(const uint8_t key[NET_PEER_KEY_LEN])
{
    net_auth_prepare();
    if (!hmac) {
        errno = ENOTSUP;
        return NULL;
    }

    struct net_auth *auth = calloc(1, sizeof(*auth));
    if (!auth)
        return NULL;
    auth->mac = EVP_MAC_CTX_new(hmac);
    if (!auth->mac)
        goto free_auth;

    const OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *)"SHA256", 0),
        OSSL_PARAM_construct_end(),
    };
    if (!EVP_MAC_init(auth->mac, key, NET_PEER_KEY_LEN, params) ||
        prepare_payloads(auth) < 0)
        goto free_auth;
    return auth;

free_auth:
    net_auth_destroy(auth);
    errno = ENOMEM;
    return NULL;
}

int net_auth_sign(struct net_auth *auth, const void *data, size_t len,
                  uint8_t tag[NET_AUTH_TAG_LEN])
{
    uint8_t mac[NET_AUTH_MAC_LEN];

    if (net_auth_mac(auth, data, len, mac) < 0)
        return -1;
    memcpy(tag, mac, NET_AUTH_TAG_LEN);
    return 0;
}

int net_auth_derive(const uint8_t member_key[NET_PEER_KEY_LEN], uint32_t id,
                    uint32_t incarnation, uint8_t key[NET_PEER_KEY_LEN])
{
    static const char label[] = "dyad promoted guest"; /* no frame begins like this */
    uint8_t text[sizeof(label) + 8];
    struct net_auth *auth = net_auth_create(member_key);
    int rc;

    if (!auth)
        return -1;
    memcpy(text, label, sizeof(label));
    for (size_t i = 0; i < 4; i++) {
        text[sizeof(label) + i] = (uint8_t)(id >> (8 * i));
        text[sizeof(label) + 4 + i] = (uint8_t)(incarnation >> (8 * i));
    }
    rc = net_auth_mac(auth, text, sizeof(text), key);
    net_auth_destroy(auth);
    return rc;
}

int net_auth_sign_payload(struct net_auth *auth, const uint8_t nonce[NET_AUTH_NONCE_LEN],
                          const void *data, size_t len, uint8_t tag[NET_AUTH_TAG_LEN])
{
    const OSSL_PARAM params[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_IV, (void *)(uintptr_t)nonce,
                                          NET_AUTH_NONCE_LEN),
        OSSL_PARAM_construct_end(),
    };
    EVP_MAC_CTX *mac = auth->payloads;
    size_t tag_len = 0;

    if (!EVP_MAC_init(mac, NULL, 0, params) || !EVP_MAC_update(mac, data, len) ||
        !EVP_MAC_final(mac, tag, &tag_len, NET_AUTH_TAG_LEN) ||
        tag_len != NET_AUTH_TAG_LEN) {
        errno = EIO;
        return -1;
    }
    return 0;
}

bool net_auth_verify_payload(struct net_auth *auth, const uint8_t nonce[NET_AUTH_NONCE_LEN],
                             const void *data, size_t len,
                             const uint8_t tag[NET_AUTH_TAG_LEN])
{
    uint8_t right[NET_AUTH_TAG_LEN];

    return net_auth_sign_payload(auth, nonce, data, len, right) == 0 &&
           CRYPTO_memcmp(right, tag, NET_AUTH_TAG_LEN) == 0;
}

bool net_auth_verify(struct net_auth *auth, const void *data, size_t len,
                     const uint8_t tag[NET_AUTH_TAG_LEN])
{
    uint8_t right[NET_AUTH_TAG_LEN];

    return net_auth_sign(auth, data, len, right) == 0 &&
           CRYPTO_memcmp(right, tag, NET_AUTH_TAG_LEN) == 0;
}
