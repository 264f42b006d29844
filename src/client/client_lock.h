/*
 * client/client_lock.h - locks of this process on files that several nodes write
 */
#ifndef DYAD_CLIENT_CLIENT_LOCK_H
#define DYAD_CLIENT_CLIENT_LOCK_H

#include "client/client.h"

/* See client_ops.h. Thread-safe. */
int client_write_lock(engine_token token, int fd, uint64_t offset, uint64_t length,
                      enum engine_lock type, unsigned flags);
/* A description of upath is about to be closed, by which all locks of this process on it end. */
void client_lock_closing(enum engine_role role, engine_token token, const char *upath);

#endif
