/*
 * engine/promoted/promoted_line.h - the line between a promoted guest and its member
 *
 * The rank's socket, kept open: frames as on any connection of a guest, any number of them
 * both ways, some with a descriptor. Loop's thread. Nothing here blocks.
 */
#ifndef DYAD_ENGINE_PROMOTED_PROMOTED_LINE_H
#define DYAD_ENGINE_PROMOTED_PROMOTED_LINE_H

#include "net/loop.h"
#include "net/msg.h"

struct peer_line;

struct peer_line_ops {
    /* A message; its pointers live until return. fd: the descriptor that came with it, the
     * callee's; else -1. May call peer_line_destroy(). */
    void (*receive)(void *arg, const struct net_msg *msg, int fd);
    /* The other end is gone, or sent what cannot be read: nothing more comes. The callee
     * destroys the line. */
    void (*broken)(void *arg);
};

/* Takes over fd, in every case. NULL with errno. */
struct peer_line *peer_line_create(struct net_loop *loop, int fd,
                                   const struct peer_line_ops *ops, void *arg);
/* Closes the socket. NULL is allowed. */
void peer_line_destroy(struct peer_line *line);
/* Queue a message; with fd >= 0 (which stays the caller's) a copy of it goes along. 0, or
 * -1 with errno: nothing was queued. A line that breaks meanwhile is told by broken(). */
int peer_line_send(struct peer_line *line, const struct net_msg *msg, int fd);

#endif
