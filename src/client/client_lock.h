/*
 * client/client_lock.h - locks of this process on files that several nodes write
 */
#ifndef DYAD_CLIENT_CLIENT_LOCK_H
#define DYAD_CLIENT_CLIENT_LOCK_H

#include "client/client.h"

/* As write_lock() in client_ops.h. `first`: the name by which fd was opened, or NULL. Thread-safe. */
int client_lock(enum engine_role role, int fd, const char *first, uint64_t offset,
                uint64_t length, enum engine_lock type, unsigned flags);
/* A description is about to be closed, by which all locks of this process on its file end. Either name may
 * be NULL: its present one, and the one by which it was opened. */
void client_lock_closing(enum engine_role role, store_mark_t mark, const char *upath,
                         const char *first);
/* This process may have locks of the program before it. */
void client_lock_inherited(void);

#endif
