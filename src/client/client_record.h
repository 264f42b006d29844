/*
 * client/client_record.h - the record of what this process writes
 *
 * Implements the functions of client_ops.h, but for the first. Thread-safe, async-signal-safe.
 */
#ifndef DYAD_CLIENT_CLIENT_RECORD_H
#define DYAD_CLIENT_CLIENT_RECORD_H

#include "client/client_ops.h"

/* The description is open, and its mark knows its file. `may`: what is written is to be
 * recorded, if all of it can be; else others are to know that something is not. `later`: the
 * open has emptied the file, and it is recorded if another node joins. `since`: it has found a version, of
 * which what is written are changes; `begun`: the record says of which one. */
void client_write_record_begin(engine_token token, bool may, bool later, bool since,
                               bool begun);
/* False: another file has taken the place of the one of which the record says with what its writers began. */
bool client_write_is_known(engine_token token, int fd);
bool client_write_recorded(engine_token token);
uint64_t client_write_record(engine_token token, uint64_t last, uint64_t offset,
                             uint64_t length);
void client_write_record_end(engine_token token, uint64_t number, uint64_t planned_end,
                             uint64_t end);
void client_write_unrecord(engine_token token);
bool client_write_joint(engine_token token);
bool client_write_shared(engine_token token);
bool client_write_held(engine_token token);
void client_write_await(engine_token token, int fd);

#endif
