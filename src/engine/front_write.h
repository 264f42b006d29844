/*
 * engine/front_write.h - files that this process has open for writing
 *
 * From the open of a description to its last close: the dirty mark, whether the file was
 * written, its name at the end, and who publishes it. Implements the writing half of
 * engine_ops.h, where the functions are described. Thread-safe.
 */
#ifndef DYAD_ENGINE_FRONT_WRITE_H
#define DYAD_ENGINE_FRONT_WRITE_H

#include "engine/engine_ops.h"

int front_write_begin(enum engine_side side, const char *upath, int flags,
                      engine_token *token);
void front_write_opened(engine_token token, int fd, int flags);
engine_token front_write_inherited(enum engine_side side, int fd);
void front_write_closing(engine_token token, int fd, struct engine_closing *closing);
int front_write_closed(struct engine_closing *closing, int error, bool mapped);

#endif
