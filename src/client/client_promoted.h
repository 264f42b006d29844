/*
 * client/client_promoted.h - this guest as a peer of its own: when, and until when
 *
 * Internal to libdyad.so.1. Thread-safe.
 */
#ifndef DYAD_CLIENT_CLIENT_PROMOTED_H
#define DYAD_CLIENT_CLIENT_PROMOTED_H

#include "client/client.h"

/* This process has got a file by its member: the DYAD_PROMOTE-th one of a guest that has
 * been at it for a second makes it a peer, beside the caller. Keeps errno. */
void client_peer_count(struct client *client);
/* The image ends: be a plain guest again. Bounded, mostly a few milliseconds. */
void client_peer_leave(void);
/* In the child of a fork. */
void client_peer_fork_child(void);
/* As client_member_table_wait(). False: this process is not becoming a peer. */
bool client_peer_table_wait(void);

#endif
