/*
 * engine/publish/pieces.h - the payload of a PIECES message
 *
 * Private to pieces_send.c and pieces_take.c. For each range {offset, length}, both 64 bits,
 * little-endian, and then `length` bytes; a length of 0 means that the file was cut, or
 * extended, to `offset` bytes.
 */
#ifndef DYAD_ENGINE_PUBLISH_PIECES_H
#define DYAD_ENGINE_PUBLISH_PIECES_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

#define PIECE_HEAD 16u

static inline void piece_put(void *to, uint64_t offset, uint64_t length)
{
    uint64_t head[2] = {htole64(offset), htole64(length)};

    memcpy(to, head, sizeof(head));
}

static inline void piece_get(const void *from, uint64_t *offset, uint64_t *length)
{
    uint64_t head[2];

    memcpy(head, from, sizeof(head));
    *offset = le64toh(head[0]);
    *length = le64toh(head[1]);
}

#endif
