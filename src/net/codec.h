/*
 * net/codec.h - private to src/net: one cursor that either writes or reads
 *
 * A message is described once, as a walk over its fields; the cursor's direction makes the
 * walk an encoder or a decoder, so the two cannot disagree. Little-endian whatever the host
 * is; no alignment is assumed. After the first field that does not fit the cursor does
 * nothing any more (`failed`), so a walk needs no check after each field. A writer only
 * reads the fields. Pure.
 */
#ifndef DYAD_NET_CODEC_H
#define DYAD_NET_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct codec {
    uint8_t *at, *end;
    bool writing; /* a reader never writes through `at` */
    bool failed;
};

static inline struct codec codec_writer(void *buf, size_t size)
{
    return (struct codec){.at = buf, .end = (uint8_t *)buf + size, .writing = true};
}

static inline struct codec codec_reader(const void *buf, size_t len)
{
    return (struct codec){.at = (uint8_t *)buf, .end = (uint8_t *)buf + len};
}

/* The next len bytes of the buffer, or NULL when there are not so many left. */
static inline uint8_t *codec_take(struct codec *c, size_t len)
{
    if (c->failed || (size_t)(c->end - c->at) < len) {
        c->failed = true;
        return NULL;
    }
    uint8_t *at = c->at;
    c->at += len;
    return at;
}

static inline void codec_bytes(struct codec *c, void *bytes, size_t len)
{
    uint8_t *at = codec_take(c, len);
    if (!at || len == 0)
        return;
    if (c->writing)
        memcpy(at, bytes, len);
    else
        memcpy(bytes, at, len);
}

/* An unsigned integer of `width` bytes; the caller keeps the value within the width. */
static inline void codec_uint(struct codec *c, uint64_t *value, unsigned width)
{
    uint8_t *at = codec_take(c, width);
    if (!at)
        return;
    if (c->writing) {
        for (unsigned i = 0; i < width; i++)
            at[i] = (uint8_t)(*value >> (8 * i));
    } else {
        uint64_t v = 0;
        for (unsigned i = 0; i < width; i++)
            v |= (uint64_t)at[i] << (8 * i);
        *value = v;
    }
}

static inline void codec_u64(struct codec *c, uint64_t *value)
{
    codec_uint(c, value, 8);
}

static inline void codec_u32(struct codec *c, uint32_t *value)
{
    uint64_t v = *value;
    codec_uint(c, &v, 4);
    if (!c->writing)
        *value = (uint32_t)v;
}

static inline void codec_u16(struct codec *c, uint16_t *value)
{
    uint64_t v = *value;
    codec_uint(c, &v, 2);
    if (!c->writing)
        *value = (uint16_t)v;
}

static inline void codec_u8(struct codec *c, uint8_t *value)
{
    uint64_t v = *value;
    codec_uint(c, &v, 1);
    if (!c->writing)
        *value = (uint8_t)v;
}

static inline void codec_i32(struct codec *c, int32_t *value)
{
    uint32_t v = (uint32_t)*value;
    codec_u32(c, &v);
    if (!c->writing)
        *value = (int32_t)v;
}

static inline void codec_i64(struct codec *c, int64_t *value)
{
    uint64_t v = (uint64_t)*value;
    codec_u64(c, &v);
    if (!c->writing)
        *value = (int64_t)v;
}

/* A reader fails if a field has an invalid value; a writer's values were checked before.
 */
static inline void codec_check(struct codec *c, bool ok)
{
    if (!ok)
        c->failed = true;
}

#endif
