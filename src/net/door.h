/*
 * net/door.h - who connects to our UCX, and to whom it connects, proves first that it is of the session
 *
 * UCX's TCP takes a PUT from whoever connects. So its listening socket is kept from it (door_calls.c): the loop accepts,
 * and a connection is UCX's only when its first bytes, a token, have been verified. Who connects sends the token ahead of
 * what UCX sends, and gives UCX nothing of what comes before the other end has proved itself, too.
 *
 *   connecting end                          listening end
 *   token: who, to whom, a number, both
 *   ends' addresses, MAC             ---->  verified; a number counts once; else it is closed
 *   verified, else it is closed      <----  proof: MAC over the token by the same key
 *   UCX                              <--->  UCX, encrypted where that is asked for (door_stream.c)
 *
 * All functions but net_door_accept() are for the loop's thread, to which UCX's calls belong that are not accept().
 */
#ifndef DYAD_NET_DOOR_H
#define DYAD_NET_DOOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "net/auth.h"
#include "net/loop.h"

#define NET_DOOR_TOKEN_LEN (84 + NET_AUTH_TAG_LEN)

/* What a token says; the addresses as net_door's own check has it. */
struct net_door_token {
    uint8_t flags; /* as of a frame: whose key it is */
    bool encrypts; /* what follows is encrypted (the door's own) */
    uint32_t from, from_incarnation, to, to_incarnation;
    uint64_t number; /* of the process; each is used once (door_guests.c) */
    uint8_t random[8];
    uint8_t ends[2][20]; /* the connecting end's address, and the listening end's */
};

/* Keys and peers are the worker's. */
struct net_door_ops {
    /* A connection to token->to, at an address of its; or, where UCX connects by itself, to one from which it has heard, and
     * whose incarnation is in the token: fill in the rest of flags, ranks and incarnations. False: nobody is known. */
    bool (*introduce)(void *arg, struct net_door_token *token);
    /* MAC of text by the key that the token names: of `to` (which is us, or another), or of `from`. False: not known. */
    bool (*mac)(void *arg, const struct net_door_token *token, const void *text, size_t len,
                uint8_t mac[NET_AUTH_MAC_LEN]);
    /* The other end of a connection to that rank has closed it in place of a proof: somebody is there, who does not let us in. */
    void (*declined)(void *arg, uint32_t rank);
    /* True if the token is for this worker, by a rank that may connect. */
    bool (*admits)(void *arg, const struct net_door_token *token);
};

struct net_door;

/* From now on doors of this process are open: UCX has its sockets as without one. Before net_door_create(). */
void net_door_leave_open(void);

/* A door for all that UCX does in this thread until net_door_destroy(). NULL with errno. `ops` is static. */
struct net_door *net_door_create(struct net_loop *loop, const struct net_door_ops *ops,
                                 void *arg);
/* Connections are encrypted, and others refused. Before UCX has made one. 0, or -1 EPERM: doors of this process are open. */
int net_door_encrypt(struct net_door *door);
/* After UCX's workers. */
void net_door_destroy(struct net_door *door);
/* Who has come is let in, or not. The loop calls it; to be called too where the loop has no turn for long. */
void net_door_turn(struct net_door *door);
/* A descriptor that is readable when somebody has come; the door's. */
int net_door_fd(const struct net_door *door);
/* The loop does not call it any more, and may go. */
void net_door_sleep(struct net_door *door);
/* The same, and nobody is let in any more. */
void net_door_shut(struct net_door *door);
/* UCX is about to connect to that rank; DYAD_RANK_NONE: it is not, any more. */
void net_door_expect(struct net_door *door, uint32_t rank);
/* Connections that were refused until now, at either end. */
uint64_t net_door_refused(const struct net_door *door);
/* True if a TCP socket of this thread's table listens that is behind no door. */
bool net_door_is_passed(void);

/* UCX's calls, as the system's of these names. */
int net_door_listen(int fd, int backlog);
int net_door_accept(int fd, struct sockaddr *addr, socklen_t *len); /* any thread */
int net_door_connect(int fd, const struct sockaddr *addr, socklen_t len);
int net_door_getsockname(int fd, struct sockaddr *addr, socklen_t *len);
ssize_t net_door_send(int fd, const void *data, size_t len, int flags);
ssize_t net_door_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t net_door_recv(int fd, void *data, size_t len, int flags);
int net_door_close(int fd);

#endif
