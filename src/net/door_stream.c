/*
 * door_stream.c - what UCX sends over a connection, encrypted (DYAD_ENCRYPT)
 *
 * Behind token and proof a connection carries records: length of the text u32, text, tag. Each direction has a key of its own,
 * that of the members expanded over the token's text (HKDF-Expand, RFC 5869). What makes each connection another there: a
 * number that its process has used for no other and that began at the time of day, and random bytes. So keys come twice only
 * if an incarnation does, at the same ns, from the same port, with the same randomness (a copy of the machine's memory); and
 * the listening end never uses one twice, for it takes no token twice.
 *
 * UCX waits for its socket by epoll, level-triggered, so two things hold. A record that the kernel has taken in part counts as
 * not taken, until it has: UCX comes with the same bytes again. And the last byte of a record stays in the kernel as long as
 * UCX has not had all of the text.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "net/cipher.h"
#include "net/door_impl.h"
#include "net/door_real.h"
#include "util/log.h"

#define HEAD_LEN 4
#define TAG_LEN  NET_CIPHER_TAG_LEN
#define TEXT_MAX DOOR_TEXT_OF_RECORD

_Static_assert(sizeof(((struct net_door *)0)->record) >= HEAD_LEN + TEXT_MAX + TAG_LEN,
               "a record does not fit");

struct door_stream {
    struct net_door *door;
    struct net_cipher *to, *from;
    bool is_broken;
    struct { /* what the kernel has not taken of a record */
        uint8_t *rest;
        size_t len, sent;
        size_t text; /* as UCX counts it */
    } out;
    struct { /* a record that comes in, or whose text UCX has not had as a whole */
        uint8_t head[HEAD_LEN];
        size_t head_got;
        uint8_t *body; /* text and tag; NULL: the head is not here */
        size_t text, got, given;
        bool is_open; /* decrypted in its place; the last byte is still in the kernel */
    } in;
};

static struct net_cipher *make_cipher(struct net_door *door,
                                      const struct net_door_token *token,
                                      const uint8_t text[DOOR_TEXT_LEN],
                                      const char direction[9], bool seals)
{
    uint8_t info[8 + DOOR_TEXT_LEN + 1], key[NET_AUTH_MAC_LEN];
    struct net_cipher *cipher = NULL;

    memcpy(info, direction, 8);
    memcpy(info + 8, text, DOOR_TEXT_LEN);
    info[8 + DOOR_TEXT_LEN] = 1; /* the number of the block: one is enough */
    if (door->ops->mac(door->arg, token, info, sizeof(info), key))
        cipher = net_cipher_create(key, seals);
    explicit_bzero(key, sizeof(key));
    return cipher;
}

struct door_stream *door_stream_create(struct net_door *door,
                                       const struct net_door_token *token,
                                       const uint8_t text[DOOR_TEXT_LEN], bool connects)
{
    static const char there[] = "dyadKEY>", back[] = "dyadKEY<";
    struct door_stream *stream = calloc(1, sizeof(*stream));

    if (!stream)
        return NULL;
    stream->door = door;
    stream->to = make_cipher(door, token, text, connects ? there : back, true);
    stream->from = make_cipher(door, token, text, connects ? back : there, false);
    if (stream->to && stream->from)
        return stream;
    door_stream_destroy(stream);
    errno = ENOMEM;
    return NULL;
}

void door_stream_destroy(struct door_stream *stream)
{
    if (!stream)
        return;
    net_cipher_destroy(stream->to);
    net_cipher_destroy(stream->from);
    free(stream->out.rest);
    if (stream->in.is_open)
        explicit_bzero(stream->in.body, stream->in.text);
    free(stream->in.body);
    free(stream);
}

/* Nothing that comes or goes after this makes sense. */
static ssize_t broken(struct door_stream *stream, int fd, const char *why)
{
    struct sockaddr_storage addr;
    socklen_t len = sizeof(addr);

    if (!stream->is_broken && getpeername(fd, (struct sockaddr *)&addr, &len) == 0)
        door_refuse(stream->door, &addr, why);
    stream->is_broken = true;
    shutdown(fd, SHUT_RDWR);
    errno = ECONNRESET;
    return -1;
}

/* --- out --- */

/* What is left of a record. The text's length, or -1: EAGAIN ... */
static ssize_t send_rest(struct door_stream *stream, int fd, int flags)
{
    while (stream->out.sent < stream->out.len) {
        ssize_t n = net_door_real()->send(fd, stream->out.rest + stream->out.sent,
                                          stream->out.len - stream->out.sent, flags);
        if (n < 0)
            return -1;
        stream->out.sent += (size_t)n;
    }
    free(stream->out.rest);
    stream->out.rest = NULL;
    return (ssize_t)stream->out.text;
}

static ssize_t send_new(struct door_stream *stream, int fd, const struct iovec *iov,
                        size_t text, int flags)
{
    uint8_t *record = stream->door->record;
    const size_t len = HEAD_LEN + text + TAG_LEN;
    ssize_t n;

    for (size_t i = 0; i < HEAD_LEN; i++)
        record[i] = (uint8_t)(text >> (8 * i));
    if (net_cipher_seal(stream->to, record, HEAD_LEN, iov, text, record + HEAD_LEN,
                        record + HEAD_LEN + text) < 0)
        return broken(stream, fd, "what was to be sent there cannot be encrypted");
    n = net_door_real()->send(fd, record, len, flags);
    if (n == (ssize_t)len)
        return (ssize_t)text;
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        return -1;
    stream->out.sent = 0;
    stream->out.text = text;
    stream->out.len = len - (n < 0 ? 0 : (size_t)n);
    stream->out.rest = malloc(stream->out.len);
    if (!stream->out.rest)
        return broken(stream, fd, "there is no memory for what is to be sent there");
    memcpy(stream->out.rest, record + len - stream->out.len, stream->out.len);
    errno = EAGAIN;
    return -1;
}

ssize_t door_stream_send(struct door_stream *stream, int fd, const struct iovec *iov,
                         size_t niov, int flags)
{
    size_t text = 0;

    for (size_t i = 0; i < niov; i++)
        text += iov[i].iov_len;
    if (stream->is_broken)
        return broken(stream, fd, NULL);
    if (text == 0)
        return 0;
    if (!stream->out.rest)
        return send_new(stream, fd, iov, text < TEXT_MAX ? text : TEXT_MAX, flags);
    if (text < stream->out.text)
        return broken(stream, fd, "UCX has taken back what was to be sent there");
    return send_rest(stream, fd, flags);
}

/* --- in --- */

/* Up to `want` bytes are to be here. 1, or 0: the other end has closed; -1: EAGAIN ... */
static int fill(int fd, uint8_t *to, size_t want, size_t *got, int flags)
{
    while (*got < want) {
        ssize_t n = net_door_real()->recv(fd, to + *got, want - *got, flags);
        if (n <= 0)
            return (int)n;
        *got += (size_t)n;
    }
    return 1;
}

/* All of the next record but its last byte is here. As fill(). */
static int fill_record(struct door_stream *stream, int fd, int flags)
{
    int rc = fill(fd, stream->in.head, HEAD_LEN, &stream->in.head_got, flags);

    if (rc <= 0)
        return rc;
    if (!stream->in.body) {
        stream->in.text = 0;
        for (size_t i = 0; i < HEAD_LEN; i++)
            stream->in.text |= (size_t)stream->in.head[i] << (8 * i);
        if (stream->in.text == 0 || stream->in.text > TEXT_MAX)
            return (int)broken(stream, fd, "its bytes were changed on their way");
        stream->in.got = stream->in.given = 0;
        stream->in.body = malloc(stream->in.text + TAG_LEN);
        if (!stream->in.body)
            return (int)broken(stream, fd, "there is no memory for what it sends");
    }
    return fill(fd, stream->in.body, stream->in.text + TAG_LEN - 1, &stream->in.got, flags);
}

static void next_record(struct door_stream *stream)
{
    free(stream->in.body);
    stream->in.body = NULL;
    stream->in.head_got = 0;
    stream->in.is_open = false;
}

/* Of the text of a record that is in its place. */
static ssize_t give(struct door_stream *stream, int fd, void *data, size_t len, bool peeks)
{
    size_t left = stream->in.text - stream->in.given;
    uint8_t last;

    if (len < left)
        left = len;
    memcpy(data, stream->in.body + stream->in.given, left);
    if (peeks)
        return (ssize_t)left;
    stream->in.given += left;
    if (stream->in.given < stream->in.text)
        return (ssize_t)left;
    if (net_door_real()->recv(fd, &last, 1, MSG_DONTWAIT) != 1)
        return broken(stream, fd, "it was seen to be there, and is not");
    explicit_bzero(stream->in.body, stream->in.text);
    next_record(stream);
    return (ssize_t)left;
}

ssize_t door_stream_recv(struct door_stream *stream, int fd, void *data, size_t len,
                         int flags)
{
    const bool peeks = flags & MSG_PEEK;
    bool whole; /* its last byte is taken at once, for `data` holds all of the text */
    int rc;

    flags &= ~MSG_PEEK;
    if (stream->is_broken)
        return broken(stream, fd, NULL);
    if (stream->in.is_open)
        return give(stream, fd, data, len, peeks);
    if ((rc = fill_record(stream, fd, flags)) <= 0)
        return rc;
    whole = len >= stream->in.text && !peeks;
    rc = fill(fd, stream->in.body, stream->in.text + TAG_LEN, &stream->in.got,
              flags | (whole ? 0 : MSG_PEEK));
    if (rc <= 0)
        return rc;
    if (net_cipher_open(stream->from, stream->in.head, HEAD_LEN, stream->in.body,
                        stream->in.text, stream->in.body + stream->in.text,
                        whole ? data : stream->in.body) < 0)
        return broken(stream, fd, "its bytes were changed on their way");
    if (!whole) {
        stream->in.is_open = true;
        return give(stream, fd, data, len, peeks);
    }
    next_record(stream);
    return (ssize_t)stream->in.text;
}
