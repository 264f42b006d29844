/*
 * net/door_impl.h - private to door.c, door_guests.c, door_stream.c and door_token.c
 *
 * door.c: descriptors of UCX, and the connecting end. door_guests.c: the listening end. door_token.c: what is said.
 * door_stream.c: what follows, if it is encrypted. door_refused.c: who was refused.
 */
#ifndef DYAD_NET_DOOR_IMPL_H
#define DYAD_NET_DOOR_IMPL_H

#include <pthread.h>
#include <uthash.h>

#include "net/door.h"

#define DOOR_TEXT_LEN  (NET_DOOR_TOKEN_LEN - NET_AUTH_TAG_LEN)
#define DOOR_PROOF_LEN NET_AUTH_TAG_LEN
#define DOOR_END_LEN   20    /* an address */
#define DOOR_SIDES     65536 /* descriptors */
#define DOOR_WINDOW    1024  /* how many tokens of a process may overtake one */

#define DOOR_TEXT_OF_RECORD (64u << 10) /* UCX sends at most so much at once (worker.c) */

struct door_guest;
struct door_stream;
struct door_ready;

/* What door->epoll watches. */
struct door_source {
    bool listens; /* a listener, else a guest */
};

struct door_listener {
    struct door_source source;
    struct door_listener *prev, *next; /* utlist */
    struct net_door *door;
    int fd;   /* UCX's number: an eventfd, which counts those that are ready */
    int real; /* the socket */
    pthread_mutex_t lock;
    struct door_ready *ready; /* which UCX's own thread takes, under the lock */
};

struct door_caller { /* a rank, or promoted guest, that has connected to us */
    UT_hash_handle hh;
    uint32_t from, incarnation;
    uint64_t last; /* the highest number that was let in */
    /* Bit n % DOOR_WINDOW: so was n, which is above last - DOOR_WINDOW. */
    uint64_t seen[DOOR_WINDOW / 64];
};

struct door_peer {
    uint32_t rank, incarnation;
};

struct net_door {
    const struct net_door_ops *ops;
    void *arg;
    int epoll; /* listening sockets and guests: also looked at in a flood of messages, and at the end */
    struct net_watch *watch;
    struct door_listener *listeners;
    struct door_guest *guests; /* the oldest first */
    unsigned nguests, guests_max;
    bool paused;             /* the listening sockets are left alone for a moment */
    struct net_timer *timer; /* guests' time, and pauses */
    uint64_t due;            /* it is set for; 0: it is not */
    struct door_caller *callers;
    uint64_t number;        /* of the last token that we have made */
    uint32_t whom;          /* UCX is about to connect to, or NONE */
    struct door_peer heard; /* whom it means when it connects by itself; NONE: nobody */
    uint64_t refused, refused_logged, logged_at;
    bool encrypts;
    uint8_t record[DOOR_TEXT_OF_RECORD + 64]; /* the one that is just being sent */
};

/* --- door_token.c --- */

extern const char door_magic[8]; /* with which a token begins */

/* Family, port and address: the same bytes at both ends. */
void door_put_end(uint8_t to[DOOR_END_LEN], const struct sockaddr *addr);
/* The token's text, from or to `token`. False: it is none. */
bool door_token_put(uint8_t text[DOOR_TEXT_LEN], const struct net_door_token *token);
bool door_token_get(const uint8_t text[DOOR_TEXT_LEN], struct net_door_token *token);
/* The tag of that text. False: the key is not known. */
bool door_sign(struct net_door *door, const struct net_door_token *token, const void *text,
               size_t len, uint8_t tag[NET_AUTH_TAG_LEN]);
/* What the listening end answers to that text. False: the key is not known. */
bool door_prove(struct net_door *door, const struct net_door_token *token,
                const uint8_t text[DOOR_TEXT_LEN], uint8_t proof[DOOR_PROOF_LEN]);

/* --- door_refused.c --- */

/* Count a connection that was refused; a line at most every ten seconds. */
void door_refuse(struct net_door *door, const struct sockaddr_storage *addr,
                 const char *why);

/* --- door_stream.c --- */

/* Of the connection that begins with that token. NULL with errno. */
struct door_stream *door_stream_create(struct net_door *door,
                                       const struct net_door_token *token,
                                       const uint8_t text[DOOR_TEXT_LEN], bool connects);
void door_stream_destroy(struct door_stream *stream);
/* As sendmsg() and recv(). After EAGAIN the same bytes, or more of them, are to be sent. */
ssize_t door_stream_send(struct door_stream *stream, int fd, const struct iovec *iov,
                         size_t niov, int flags);
ssize_t door_stream_recv(struct door_stream *stream, int fd, void *data, size_t len,
                         int flags);

/* --- door_guests.c --- */

/* Take the listening socket fd from UCX, which has the number from now on for an event. NULL with errno; fd stays. */
struct door_listener *door_listener_create(struct net_door *door, int fd);
/* But for its number, which is UCX's to close. */
void door_listener_free(struct door_listener *listener);
/* One that was let in: its descriptor, and what encrypts it or NULL, the caller's. -1: EAGAIN ... Any thread. */
int door_listener_take(struct door_listener *listener, struct sockaddr *addr,
                       socklen_t *len, struct door_peer *peer, struct door_stream **stream);
/* How many there may be at once. */
unsigned door_guests_max(void);
/* True if a token that is right was not seen before: then it is now. */
bool door_is_new(struct net_door *door, const struct net_door_token *token);
/* The guests go. */
void door_guests_free(struct net_door *door);
/* Timer of the door. */
void door_on_time(void *arg);
/* True if the descriptor is a listening socket that UCX does not have. */
bool door_is_behind(int fd);

#endif
