/*
 * client/client_write.h - files that this process has open for writing
 *
 * From the open of a description to its last close: the dirty mark, the file's name at the
 * end, and who publishes it. Implements the writing half of
 * client_ops.h, where the functions are described. Thread-safe.
 */
#ifndef DYAD_CLIENT_CLIENT_WRITE_H
#define DYAD_CLIENT_CLIENT_WRITE_H

#include "client/client_ops.h"

/* In a token beside the mark: it is of the producer's directory. */
#define TOKEN_PRODUCER ((engine_token)1 << 63)

int client_write_begin(enum engine_role role, const char *upath, int flags,
                       enum engine_write how, engine_token *token);
int client_write_opened(engine_token token, int fd, int flags);
void client_write_stored(engine_token token);
int client_write_show(engine_token token, int fd);
int client_write_lock(engine_token token, int fd, uint64_t offset, uint64_t length,
                      enum engine_lock type, unsigned flags);
engine_token client_write_inherited(enum engine_role role, int fd);
void client_write_closing(engine_token token, int fd, struct engine_closing *closing);
int client_write_closed(struct engine_closing *closing, int error, bool mapped);

#endif
