/*
 * engine/fetch/relay.h - many readers of one large file: each sends it to two others
 */
#ifndef DYAD_ENGINE_FETCH_RELAY_H
#define DYAD_ENGINE_FETCH_RELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/core/member.h"
#include "util/entry.h"

/* A GET of `rank` with this id asks for a file of ours. True: it has been answered with a
 * REDIRECT to another reader of that version. Loop thread only. */
bool relay_redirect(struct member *member, uint32_t rank, uint64_t id,
                    const struct dyad_entry *entry);

/* True if readers may be asked for it, too. Any thread. */
bool relay_is_large(const struct member *member, const struct dyad_entry *entry);
/* A chunk has come that has that digest (util/digest.h), which the owner has made of it: who gets it from us is told so, and
 * sees whether it is still what the owner sent. Loop thread only. */
void relay_note(struct member *member, const struct dyad_entry *entry, uint64_t offset,
                uint64_t length, uint64_t digest);
/* What was noted of that chunk; 0: nothing. Loop thread only. */
uint64_t relay_digest(struct member *member, const struct dyad_entry *entry,
                      uint64_t offset, uint64_t length);

#endif
