/*
 * net/cipher.h - AES-256-GCM (NIST SP 800-38D) of one direction of a connection
 *
 * A key is for one cipher, whose records are counted: the number is the nonce, so none comes twice, and who takes a record
 * away, repeats it, or has two change places is found out. One end seals, the other one opens.
 */
#ifndef DYAD_NET_CIPHER_H
#define DYAD_NET_CIPHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define NET_CIPHER_KEY_LEN 32
#define NET_CIPHER_TAG_LEN 16

struct net_cipher; /* not thread-safe */

/* `seals`: it seals, else it opens. NULL with errno. */
struct net_cipher *net_cipher_create(const uint8_t key[NET_CIPHER_KEY_LEN], bool seals);
void net_cipher_destroy(struct net_cipher *cipher);

/* The next record: the first `len` bytes of iov (it has as many) go to `out`, encrypted; head[head_len] is covered by the
 * tag, too. 0, or -1 with errno. */
int net_cipher_seal(struct net_cipher *cipher, const void *head, size_t head_len,
                    const struct iovec *iov, size_t len, uint8_t *out,
                    uint8_t tag[NET_CIPHER_TAG_LEN]);
/* The next record back; `out` may be `in`. 0, or -1 EBADMSG: it is not what was sealed, and `out` is worth nothing. */
int net_cipher_open(struct net_cipher *cipher, const void *head, size_t head_len,
                    const uint8_t *in, size_t len, const uint8_t tag[NET_CIPHER_TAG_LEN],
                    void *out);

#endif
