/*
 * net/auth.h - message authentication
 *
 * HMAC-SHA-256 (RFC 2104) by OpenSSL's EVP_MAC, truncated to 16 bytes, over the encoded
 * message. There is no session-wide secret, so no rank waits for a particular one to
 * join: each member has a key of its own that only the session can read (PMIx, or a 0600
 * file). A message between two members carries a MAC with the key of one of them, which
 * the other has read; one bit in the frame says whose key. So a notify to a waiter uses
 * the home's key, which the waiter read before it asked.
 *
 * Payloads have a MAC of their own, AES-256-GMAC (NIST SP 800-38D), which a core makes of 3 to 4 GB in a second (HMAC: 1 to 2).
 * Its key is derived from that of the frame; a nonce is made once: of the sender's rank, incarnation and a number.
 */
#ifndef DYAD_NET_AUTH_H
#define DYAD_NET_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/peer.h"

#define NET_AUTH_TAG_LEN   16
#define NET_AUTH_MAC_LEN   32 /* before it is truncated */
#define NET_AUTH_NONCE_LEN 16

/* Fill buf with len bytes of the kernel's randomness. 0 or -1 with errno. Thread-safe. */
int net_auth_random(void *buf, size_t len);

/* Derive the key of a promoted guest from its member's: a peer that has the member's key
 * can talk to the guest, and no key is sent over the network. 0 or -1 with errno.
 * Thread-safe. */
int net_auth_derive(const uint8_t member_key[NET_PEER_KEY_LEN], uint32_t id,
                    uint32_t incarnation, uint8_t key[NET_PEER_KEY_LEN]);

/* Load early what net_auth_create() needs: that fails once the program's exit() has shut
 * libcrypto down. Thread-safe. */
void net_auth_prepare(void);

/* OpenSSL's library context, the library's own. NULL: it cannot be had. Thread-safe. */
struct ossl_lib_ctx_st *net_auth_library(void);

struct net_auth; /* a key prepared for use; not thread-safe */

struct net_auth *net_auth_create(const uint8_t key[NET_PEER_KEY_LEN]);
void net_auth_destroy(struct net_auth *auth);

/* tag = MAC(data[len]). 0 or -1 with errno. */
int net_auth_sign(struct net_auth *auth, const void *data, size_t len,
                  uint8_t tag[NET_AUTH_TAG_LEN]);

/* The same, not truncated: a key derived from the text (one block of HKDF-Expand, RFC 5869). 0 or -1 with errno. */
int net_auth_mac(struct net_auth *auth, const void *data, size_t len,
                 uint8_t mac[NET_AUTH_MAC_LEN]);

/* True if tag is right; constant time in the tag. */
bool net_auth_verify(struct net_auth *auth, const void *data, size_t len,
                     const uint8_t tag[NET_AUTH_TAG_LEN]);

/* The same of a payload. One key and nonce are for one payload only. */
int net_auth_sign_payload(struct net_auth *auth, const uint8_t nonce[NET_AUTH_NONCE_LEN],
                          const void *data, size_t len, uint8_t tag[NET_AUTH_TAG_LEN]);
bool net_auth_verify_payload(struct net_auth *auth, const uint8_t nonce[NET_AUTH_NONCE_LEN],
                             const void *data, size_t len,
                             const uint8_t tag[NET_AUTH_TAG_LEN]);

#endif
