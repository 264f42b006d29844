/*
 * client/client_promoted.h - this guest as a promoted one: when, and until when
 *
 * Internal to libdyad.so.1. Thread-safe.
 */
#ifndef DYAD_CLIENT_CLIENT_PROMOTED_H
#define DYAD_CLIENT_CLIENT_PROMOTED_H

#include "client/client.h"

/* This process has got a file by its member: the DYAD_PROMOTE-th one of a guest that has
 * been at it for a second makes it a promoted guest, beside the caller. Keeps errno. */
void client_promoted_count(struct client *client);
/* The image ends: be a plain guest again. Bounded, mostly a few milliseconds. */
void client_promoted_leave(void);
/* In the child of a fork. */
void client_promoted_fork_child(void);
/* As client_member_table_wait(). False: this process is not becoming a promoted guest. */
bool client_promoted_table_wait(void);

#endif
