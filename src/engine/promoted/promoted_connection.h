/*
 * engine/promoted/promoted_connection.h - the line between a promoted guest and its member
 *
 * The rank's socket, kept open: frames as on any connection of a guest, any number of them
 * both ways, some with a descriptor. Loop's thread. Nothing here blocks.
 */
#ifndef DYAD_ENGINE_PROMOTED_PROMOTED_CONNECTION_H
#define DYAD_ENGINE_PROMOTED_PROMOTED_CONNECTION_H

#include "net/loop.h"
#include "net/msg.h"

struct promoted_connection;

struct promoted_connection_ops {
    /* A message; its pointers live until return. fd: the descriptor that came with it, the
     * callee's; else -1. May call promoted_connection_destroy(). */
    void (*receive)(void *arg, const struct net_msg *msg, int fd);
    /* The other end is gone, or sent a message that cannot be read: no other follows. The
     * callee destroys the line. */
    void (*broken)(void *arg);
};

/* Takes over fd, in every case. NULL with errno. */
struct promoted_connection *promoted_connection_create(
    struct net_loop *loop, int fd, const struct promoted_connection_ops *ops, void *arg);
/* Closes the socket. NULL is allowed. */
void promoted_connection_destroy(struct promoted_connection *line);
/* Queue a message; with fd >= 0 (which stays the caller's) a copy of it goes along. 0, or
 * -1 with errno: nothing was queued. If the line breaks meanwhile, broken() is called. */
int promoted_connection_send(struct promoted_connection *line, const struct net_msg *msg,
                             int fd);

#endif
