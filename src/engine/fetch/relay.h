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

#endif
