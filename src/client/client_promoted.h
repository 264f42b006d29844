/*
 * client/client_promoted.h - when this guest becomes a promoted guest, and when it ends
 *
 * Internal to libdyad.so.1. Thread-safe.
 */
#ifndef DYAD_CLIENT_CLIENT_PROMOTED_H
#define DYAD_CLIENT_CLIENT_PROMOTED_H

#include "client/client.h"

/* This process has got a file from its member. A guest that has got DYAD_PROMOTE files,
 * the last a second or more after the first, becomes a promoted guest, on another thread.
 * Keeps errno. */
void client_promoted_count(struct client *client);
/* The image ends: become a plain guest again, in bounded time, mostly a few milliseconds.
 */
void client_promoted_leave(void);
/* Call it in the child of a fork. */
void client_promoted_fork_child(void);
/* As client_member_table_wait(). False: this process is not becoming a promoted guest. */
bool client_promoted_table_wait(void);

#endif
