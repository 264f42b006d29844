/*
 * engine/publish/pieces.h - the payload of a PIECES message
 *
 * Private to pieces_send.c and pieces_apply.c. For each range {offset, length, first, last}
 * (store/extent_list.h; by the sender's clock), 64 bits each, little-endian, and then `length`
 * bytes.
 */
#ifndef DYAD_ENGINE_PUBLISH_PIECES_H
#define DYAD_ENGINE_PUBLISH_PIECES_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

#include "store/extent_list.h"

#define PIECE_HEAD 32u

/* By how much two nodes' clocks, which something keeps in step, may come to differ more: 1 ns
 * for each so many ns. */
#define PIECE_DRIFT 500000

static inline void piece_put(void *to, const struct store_extent *extent)
{
    uint64_t head[4] = {htole64(extent->offset), htole64(extent->length),
                        htole64(extent->first), htole64(extent->last)};

    memcpy(to, head, sizeof(head));
}

static inline void piece_get(const void *from, struct store_extent *extent)
{
    uint64_t head[4];

    memcpy(head, from, sizeof(head));
    *extent = (struct store_extent){le64toh(head[0]), le64toh(head[1]), le64toh(head[2]),
                                    le64toh(head[3])};
}

#endif
