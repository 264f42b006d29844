/*
 * cipher.c - AES-256-GCM by OpenSSL's EVP_CIPHER, in the library context of net/auth.h
 */
#include "net/cipher.h"

#include <errno.h>
#include <stdlib.h>

#include <openssl/evp.h>

#include "net/auth.h"

#define NONCE_LEN 12

struct net_cipher {
    EVP_CIPHER_CTX *context; /* with the key; each record gives it a nonce */
    uint64_t number;         /* of the next record */
};

struct net_cipher *net_cipher_create(const uint8_t key[NET_CIPHER_KEY_LEN], bool seals)
{
    struct net_cipher *cipher = calloc(1, sizeof(*cipher));
    EVP_CIPHER *gcm = NULL;

    if (!cipher)
        return NULL;
    if (!net_auth_library()) {
        errno = ENOTSUP;
        goto free_cipher;
    }
    gcm = EVP_CIPHER_fetch(net_auth_library(), "AES-256-GCM", NULL);
    cipher->context = EVP_CIPHER_CTX_new();
    if (!gcm || !cipher->context ||
        !EVP_CipherInit_ex2(cipher->context, gcm, key, NULL, seals, NULL)) {
        errno = ENOMEM;
        goto free_cipher;
    }
    EVP_CIPHER_free(gcm); /* the context has it, too */
    return cipher;

free_cipher:
    EVP_CIPHER_free(gcm);
    net_cipher_destroy(cipher);
    return NULL;
}

void net_cipher_destroy(struct net_cipher *cipher)
{
    const int saved = errno;

    if (!cipher)
        return;
    EVP_CIPHER_CTX_free(cipher->context);
    free(cipher);
    errno = saved;
}

/* Nonce and head of the next record. */
static bool begin(struct net_cipher *cipher, const void *head, size_t head_len)
{
    uint8_t nonce[NONCE_LEN] = {0};
    int n;

    for (size_t i = 0; i < sizeof(cipher->number); i++)
        nonce[NONCE_LEN - 1 - i] = (uint8_t)(cipher->number >> (8 * i));
    cipher->number++;
    return EVP_CipherInit_ex2(cipher->context, NULL, NULL, nonce, -1, NULL) &&
           EVP_CipherUpdate(cipher->context, NULL, &n, head, (int)head_len);
}

int net_cipher_seal(struct net_cipher *cipher, const void *head, size_t head_len,
                    const struct iovec *iov, size_t len, uint8_t *out,
                    uint8_t tag[NET_CIPHER_TAG_LEN])
{
    int n;

    if (!begin(cipher, head, head_len))
        goto error;
    for (; len > 0; iov++) {
        size_t part = iov->iov_len < len ? iov->iov_len : len;
        if (part == 0)
            continue;
        if (!EVP_CipherUpdate(cipher->context, out, &n, iov->iov_base, (int)part))
            goto error;
        out += part;
        len -= part;
    }
    if (EVP_CipherFinal_ex(cipher->context, out, &n) &&
        EVP_CIPHER_CTX_ctrl(cipher->context, EVP_CTRL_AEAD_GET_TAG, NET_CIPHER_TAG_LEN,
                            tag) == 1)
        return 0;
error:
    errno = EIO;
    return -1;
}

int net_cipher_open(struct net_cipher *cipher, const void *head, size_t head_len,
                    const uint8_t *in, size_t len, const uint8_t tag[NET_CIPHER_TAG_LEN],
                    void *out)
{
    uint8_t last[1];
    int n;

    if (begin(cipher, head, head_len) &&
        EVP_CipherUpdate(cipher->context, out, &n, in, (int)len) &&
        EVP_CIPHER_CTX_ctrl(cipher->context, EVP_CTRL_AEAD_SET_TAG, NET_CIPHER_TAG_LEN,
                            (void *)(uintptr_t)tag) == 1 &&
        EVP_CipherFinal_ex(cipher->context, last, &n) == 1)
        return 0;
    errno = EBADMSG;
    return -1;
}
